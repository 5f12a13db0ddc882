//! A task that prints, one write for each line, against the same program through a pipe into a file.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use testkit::World;

use crate::Outcome;
use crate::meter::median_time;
use crate::report::{Bar, Quantity, Report, Row};
use crate::stage::Stage;

use super::delay_added;
use super::others::probe_delays;

const SHELL: &str = "/bin/sh";

/// Messages of others while nothing prints.
const PROBES: usize = 1_000;

/// What the supervisor may add.
const AGAINST_PIPE: Bar = Bar::AtMost { must: 2.0, aim: 1.2 };

pub(super) fn measure(is_quick: bool, stage: &mut Stage, report: &mut Report) -> Outcome<()> {
    let lines = if is_quick { 100_000 } else { 1_000_000 };
    stage.announce(&format!("a task prints {lines} lines"))?;
    let script = format!("i=0; while [ $i -lt {lines} ]; do echo \"line $i\"; i=$((i+1)); done");
    let world = World::new(std::env::current_exe()?.with_file_name("hansard"));
    let journal = world.home().join(".local/share/hansard");
    fs::create_dir_all(&journal)?;
    // The daemon trusts the list of allowed programs only if no other user can write it.
    fs::set_permissions(&journal, Permissions::from_mode(0o700))?;
    let services = journal.join("services.toml");
    fs::write(&services, format!("allow = [\"{SHELL}\"]\n"))?;
    fs::set_permissions(&services, Permissions::from_mode(0o600))?;
    let mut daemon = world.start(&["--json", "up"]);
    daemon.line().ok_or("the daemon does not come up")?;
    let (mut ours, mut piped) = (Vec::new(), Vec::new());
    // In turn, so that a bad minute hurts both sides.
    for _ in 0..stage.scale.rounds {
        ours.push(time_as_task(&script, &world)?);
        piped.push(through_pipe(&script, &world)?);
    }
    let log = fs::read_to_string(journal.join("health/sh.log"))?;
    // A supervisor that drops lines would be fast.
    if log.lines().count() != lines {
        return Err("lines are missing in the log".into());
    }
    // In a separate run, because the probe itself takes time from the server.
    let socket = journal.join("health/callosum.sock");
    let alone = probe_delays(&socket, 0, |number| number < PROBES)?;
    let with = std::thread::scope(|scope| {
        let task = scope.spawn(|| time_as_task(&script, &world).map_err(|error| error.to_string()));
        let with = probe_delays(&socket, 0, |_| !task.is_finished());
        task.join().map_err(|_| "the task has panicked")??;
        with
    })?;
    delay_added(&format!("a task that prints {lines} lines"), with.excess_over(alone), report);
    daemon.terminate();
    let (ours, piped) = (Quantity::Time(median_time(ours)), Quantity::Time(median_time(piped)));
    let measure = format!("bus: a task prints {lines} lines, floor a pipe into a file");
    report.add_row(Row::against_floor(measure, ours, piped).with_bar(AGAINST_PIPE));
    Ok(())
}

fn time_as_task(script: &str, world: &World) -> Outcome<Duration> {
    let began = Instant::now();
    let said = world.run(&["task", "run", "--wait", "--", SHELL, "-c", script]);
    match said.code {
        Some(0) => Ok(began.elapsed()),
        _ => Err(format!("the task has failed: {said}").into()),
    }
}

fn through_pipe(script: &str, world: &World) -> Outcome<Duration> {
    let began = Instant::now();
    let mut printing = Command::new(SHELL);
    let mut printing = printing.args(["-c", script]).stdout(Stdio::piped()).spawn()?;
    let pipe = printing.stdout.take().ok_or("there is no pipe")?;
    let file = File::create(world.home().join("printed"))?;
    // A pipe and a reader, as the supervisor has them. Printing straight into a file has neither.
    let copied = Command::new("cat").stdin(pipe).stdout(file).status()?;
    let ended = printing.wait()?;
    if !copied.success() || !ended.success() {
        return Err("the program has failed".into());
    }
    Ok(began.elapsed())
}
