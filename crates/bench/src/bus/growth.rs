//! What a delivery costs the server with ever more clients, and a byte in ever longer messages.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::driver::{MESSAGE, Speech};
use super::{BusRun, Kind, median_run, run};
use crate::Outcome;
use crate::report::{Bar, Growth, Quantity, Report};
use crate::stage::Stage;

const CLIENTS: [usize; 3] = [10, 100, 1_000];
const LENGTHS: [usize; 3] = [MESSAGE, 16 << 10, 1 << 20];

/// Flat, as far as a machine that others use too can show it.
const FLAT: Bar = Bar::AtMost { must: 1.5, aim: 1.1 };

/// Descriptors for the clients, which are all ours.
const DESCRIPTORS: u64 = 4_096;

pub(super) fn measure(deliveries: usize, stage: &mut Stage, report: &mut Report) -> Outcome<()> {
    raise_descriptors();
    let mut points = Vec::new();
    for clients in CLIENTS {
        stage.announce(&format!("{clients} clients"))?;
        let run = typical_run(stage, Speech::Lines(MESSAGE), clients, deliveries / clients)?;
        points.push((clients as u64, per_message(run.cpu_pace)));
    }
    let measure = "bus: the server's CPU time for each delivery, by clients".to_owned();
    report.add_growth(Growth { measure, points, bar: Some(FLAT) });
    let mut points = Vec::new();
    for len in LENGTHS {
        stage.announce(&format!("messages of {len} bytes"))?;
        let clients = CLIENTS[0];
        // As many bytes, however they are cut.
        let messages = (deliveries * MESSAGE / clients / len).max(8);
        let run = typical_run(stage, Speech::Lines(len), clients, messages)?;
        points.push((len as u64, per_message(run.cpu_pace * len as f64 / 1e6)));
    }
    let measure = "bus: the server's CPU time for each megabyte, by length of message".to_owned();
    report.add_growth(Growth { measure, points, bar: Some(FLAT) });
    Ok(())
}

fn typical_run(stage: &Stage, speech: Speech, clients: usize, messages: usize) -> Outcome<BusRun> {
    let runs = (0..stage.scale.rounds).map(|_| run(Kind::Ours, speech, clients, messages));
    let runs = runs.collect::<Outcome<Vec<BusRun>>>()?;
    median_run(&runs).ok_or_else(|| "there was no round".into())
}

fn per_message(per_second: f64) -> Quantity {
    Quantity::Time(Duration::from_secs_f64(1.0 / per_second))
}

fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(DESCRIPTORS, |maximum| maximum.min(DESCRIPTORS));
    if limit.current.is_some_and(|current| current < wanted) {
        // Without them the largest number of clients fails, and says so.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit });
    }
}
