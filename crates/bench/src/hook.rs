//! `hansard hook`: what an agent waits for when it calls one, beside a program that does nothing.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::World;

use crate::Outcome;
use crate::meter::{Cost, pause, race_rounds, time_work};
use crate::report::{Bar, Quantity, Report, Row};
use crate::scribe::{Scribe, Words};
use crate::stage::Stage;

/// Calls in one round.
const CALLS: usize = 20;

/// Agents that call at once, and how often each does in a second.
const AGENTS: usize = 20;
const CALLS_PER_SECOND: u32 = 50;

/// The system counts in ticks; below this much the last of them would decide.
const CPU_MIN: Duration = Duration::from_millis(50);

/// The program that does nothing.
const NOTHING: &str = "/bin/true";

/// How many times as long as nothing a call may take.
const RATIO: f64 = 3.0;

/// How long a call may take while many agents call, for all but one of a hundred.
const LATE: Duration = Duration::from_millis(50);

pub(crate) fn measure(stage: &mut Stage, report: &mut Report) -> Outcome<()> {
    let program = std::env::current_exe()?.with_file_name("hansard");
    if !program.exists() {
        return Err(format!("`{}` is to be built first", program.display()).into());
    }
    let world = World::new(&program);
    let mut scribe = Scribe::new(world.home(), 0)?;
    scribe.write_next(&Words::new(), event::Time::from_millis(1_800_000_000_000))?;
    let made = world.run(&["ingest", "--once"]);
    if made.code != Some(0) {
        return Err(format!("no journal: {made}").into());
    }
    let rounds = stage.scale.rounds * 5;
    for event in ["PreToolUse", "PermissionRequest", "Stop"] {
        measure_one(&world, event, rounds, "no daemon", report)?;
    }
    let mut daemon = world.start(&["--json", "up"]);
    // The first line comes when the daemon is ready.
    daemon.line().ok_or("the daemon does not start")?;
    for event in ["PreToolUse", "PermissionRequest", "Stop"] {
        measure_one(&world, event, rounds, "a daemon", report)?;
    }
    stage.announce("many agents call")?;
    let span = Duration::from_secs(if stage.scale.rounds <= 2 { 3 } else { 20 });
    measure_many(&world, span, report)?;
    daemon.terminate();
    Ok(())
}

/// One call after another.
fn measure_one(
    world: &World,
    event: &str,
    rounds: u32,
    beside: &str,
    report: &mut Report,
) -> Outcome<()> {
    // On a busy machine a longer program waits for its turn: what both computed says more.
    let (mut cpu, mut cpu_floor) = (Duration::ZERO, Duration::ZERO);
    let raced = race_rounds(
        rounds,
        || time_calls(&|| world.command(&["hook", "claude", event]), &mut cpu),
        || time_calls(&|| Command::new(NOTHING), &mut cpu_floor),
    )?;
    let row = raced
        .into_row(format!("hook {event}, {beside}; floor {NOTHING}"), CALLS)
        .with_bar(Bar::at_most(RATIO));
    let is_known = cpu_floor >= CPU_MIN;
    let cpu_ratio = is_known.then(|| cpu.as_secs_f64() / cpu_floor.as_secs_f64());
    report.add_row(Row { cpu_ratio, ..row });
    Ok(())
}

/// Some calls in a row; the time all of them were on a processor is added to `cpu`.
fn time_calls(command: &dyn Fn() -> Command, cpu: &mut Duration) -> Outcome<Cost> {
    let before = children_cpu();
    let (cost, ()) = time_work(|| {
        for _ in 0..CALLS {
            time_call(command())?;
        }
        Ok(())
    })?;
    *cpu += children_cpu().zip(before).map_or(Duration::ZERO, |(after, before)| after - before);
    Ok(cost)
}

/// How long programs that were run and have ended were on a processor, where the system tells.
fn children_cpu() -> Option<Duration> {
    /// `/proc` counts in hundredths of a second on every kernel.
    const TICK: Duration = Duration::from_millis(10);
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The program's name may contain spaces and parentheses, so fields count from the last `)`.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = |place: usize| fields.split_whitespace().nth(place)?.parse::<u32>().ok();
    // `cutime` and `cstime`, fields 16 and 17 of the line. The first behind the name is field 3.
    Some(TICK * (ticks(13)? + ticks(14)?))
}

/// Many agents at once, each at its pace: all but one of a hundred calls.
fn measure_many(world: &World, span: Duration, report: &mut Report) -> Outcome<()> {
    let ours = slowest_call(span, || world.command(&["hook", "claude", "PreToolUse"]))?;
    let floor = slowest_call(span, || Command::new(NOTHING))?;
    let about = format!("hook, {AGENTS} agents, {CALLS_PER_SECOND}/s each: p99");
    let row = |floor: &str, time| {
        let measure = format!("{about}; floor {floor}");
        Row::against_floor(measure, Quantity::Time(ours), Quantity::Time(time))
    };
    report.add_row(row("the limit", LATE).with_bar(Bar::at_most(1.0)));
    report.add_row(row(&format!("{NOTHING}, in turn"), floor));
    Ok(())
}

fn slowest_call(span: Duration, command: impl Fn() -> Command + Sync) -> Outcome<Duration> {
    let mut times = Vec::new();
    std::thread::scope(|scope| {
        let agents: Vec<_> =
            (0..AGENTS).map(|_| scope.spawn(|| run_agent(span, &command))).collect();
        for agent in agents {
            let called = agent.join().map_err(|_| "an agent failed")?;
            times.extend(called.map_err(|error| error.to_string())?);
        }
        Ok::<(), String>(())
    })?;
    times.sort_unstable();
    Ok(times.get(times.len() * 99 / 100).copied().unwrap_or_default())
}

/// Calls at a fixed pace. A late call delays the next ones: the agent does not catch up.
fn run_agent(
    span: Duration,
    command: &(impl Fn() -> Command + Sync),
) -> Result<Vec<Duration>, std::io::Error> {
    let begun = Instant::now();
    let mut times = Vec::new();
    while begun.elapsed() < span {
        let took = time_call(command())?;
        times.push(took);
        pause((Duration::from_secs(1) / CALLS_PER_SECOND).saturating_sub(took));
    }
    Ok(times)
}

/// Runs a program as an agent runs a hook.
fn time_call(mut command: Command) -> Result<Duration, std::io::Error> {
    let begun = Instant::now();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    let stdin = child.stdin.take();
    let payload = json!({"session_id": "s1", "cwd": "/home/dev/app", "tool_name": "Bash",
        "transcript_path": Path::new("/home/dev/.claude/projects/app/s1.jsonl"),
        "tool_input": {"command": "npm test"}, "tool_use_id": "t1"});
    // One that does not read to the end is free to.
    let _ = stdin.map(|mut stdin| stdin.write_all(payload.to_string().as_bytes()));
    child.wait()?;
    Ok(begun.elapsed())
}
