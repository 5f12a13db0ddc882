//! Idle and stuck clients: wake-ups and memory of the server.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::driver::{MESSAGE, Speech, deliver_all};
use super::{Kind, MEMORY_MAX, Served};
use crate::Outcome;
use crate::meter::pause;
use crate::report::{Bar, Quantity, Report, Row};
use crate::stage::Stage;

const CLIENTS: usize = 100;
const STUCK: usize = 20;

/// Bytes that the tape holds for stuck clients.
const TAPE_MAX: u64 = 16 << 20;

/// How long an idle server is looked at.
const IDLE: Duration = Duration::from_secs(5);

/// Time in which a server that has just got its clients comes to rest.
const SETTLED: Duration = Duration::from_millis(500);

pub(super) fn measure(deliveries: usize, stage: &mut Stage, report: &mut Report) -> Outcome<()> {
    stage.announce("idle clients")?;
    let server = Served::start(Kind::Ours, CLIENTS)?;
    let connect = |count: usize| -> Outcome<Vec<UnixStream>> {
        (0..count).map(|_| Ok(UnixStream::connect(&server.socket)?)).collect()
    };
    let idle = connect(CLIENTS)?;
    // Accepting the clients wakes the server; those wake-ups are not what is measured.
    pause(SETTLED);
    let before = server.wake_ups();
    pause(IDLE);
    let woken = (server.wake_ups() - before) as f64;
    let measure = "bus: wake-ups in 5 s with 100 idle clients, floor one";
    let row = Row::against_floor(measure, Quantity::Count(woken), Quantity::Count(1.0));
    report.add_row(row.with_bar(Bar::at_most(1.0)));
    drop(idle);

    stage.announce("stuck clients")?;
    let stuck = connect(STUCK)?;
    let readers = CLIENTS - STUCK;
    // The stuck clients stay connected while the others are served.
    let took = deliver_all(&server.socket, Speech::Lines(MESSAGE), readers, deliveries / readers)?;
    let held = Quantity::Bytes(server.memory_held(&took.streams));
    let measure = "bus: memory with 100 clients, 20 of them stuck, floor the limit and the tape";
    let row = Row::against_floor(measure, held, Quantity::Bytes(MEMORY_MAX + TAPE_MAX));
    report.add_row(row.with_bar(Bar::at_most(1.0)));
    drop(stuck);
    Ok(())
}
