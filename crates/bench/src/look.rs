//! What a look at the record costs, by how much is recorded: sessions that are opened, and commands
//! that run without a daemon.

use std::fs;
use std::hint::black_box;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use event::payload::ChildRequested;
use event::{Draft, SessionId};
use journal::{Batch, Journal};
use session::{ForkOptions, Session, fork};
use testkit::World;
use testkit::corpus::Corpus;

use crate::Outcome;
use crate::care::read_field;
use crate::host::make_host;
use crate::load::{self, index_all};
use crate::meter::{Cost, best_of, time_work};
use crate::report::{Bar, Growth, Quantity, Report};
use crate::stage::{self, Stage, disk_bytes};

const FLAT: Bar = Bar::AtMost { must: 1.5, aim: 1.1 };

/// Opening folds the events since the last save: between none and some 300, at any length.
const FEW_FOLDED: Bar = Bar::AtMost { must: 4.0, aim: 1.5 };

/// Events between two refreshes of a handle that follows a session.
const REFRESH_EVENTS: usize = 50;

const CHILDREN: usize = 3;

pub(crate) fn measure(stage: &mut Stage, report: &mut Report) -> Outcome<()> {
    open_sessions(stage, report)?;
    let program = std::env::current_exe()?.with_file_name("hansard");
    if !program.exists() {
        return Err(format!("`{}` is to be built first", program.display()).into());
    }
    let world = World::new(&program);
    look_at_one(stage, &world, report)?;
    look_for_nothing(stage, &world, report)?;
    record_brief_sessions(stage, &program, report)
}

/// One growth for each of several measures that are taken at the same sizes.
struct Ladder<const N: usize> {
    measures: [(&'static str, Option<Bar>); N],
    points: [Vec<(u64, Quantity)>; N],
}

impl<const N: usize> Ladder<N> {
    fn new(measures: [(&'static str, Option<Bar>); N]) -> Ladder<N> {
        Ladder { measures, points: std::array::from_fn(|_| Vec::new()) }
    }

    fn add(&mut self, size: usize, values: [Quantity; N]) {
        for (points, value) in self.points.iter_mut().zip(values) {
            points.push((size as u64, value));
        }
    }

    fn report(self, report: &mut Report) {
        for ((measure, bar), points) in self.measures.into_iter().zip(self.points) {
            report.add_growth(Growth { measure: measure.to_owned(), points, bar });
        }
    }
}

/// A session whose saved state is as old as it gets, a fork of it, and its children.
fn open_sessions(stage: &mut Stage, report: &mut Report) -> Outcome<()> {
    let mut ladder = Ladder::new([
        ("open a session with its oldest saved state, by events in it", Some(FEW_FOLDED)),
        ("first open of a fork, by events it inherits", Some(FEW_FOLDED)),
        ("list the children of a session, by events in it", Some(FLAT)),
    ]);
    let longest = stage.scale.session_events;
    let rounds = stage.scale.rounds * 2;
    for events in [longest / 100, longest / 10, longest] {
        stage.announce(&format!("opening sessions of {events} events"))?;
        let scratch = stage.make_scratch()?;
        let session_id = make_followed(&scratch.journal, events)?;
        let opened = best_of(rounds, || {
            // A journal opened again, so that nothing of the session is in memory.
            open_session(&stage::open_journal(scratch.dir())?, &session_id)
        })?;
        let host = make_host(&scratch.journal);
        let mut forks = 0..;
        let forked = best_of(rounds, || {
            let name = SessionId::new(format!("fork {}", forks.next().unwrap_or(0)))?;
            fork(&host, &session_id, name.clone(), ForkOptions::default())?;
            open_session(&stage::open_journal(scratch.dir())?, &name)
        })?;
        index_all(&scratch.journal)?;
        let session = Session::open(&host, session_id.clone())?;
        let listed = best_of(rounds, || {
            let (cost, children) = time_work(|| Ok(session.children()?))?;
            match children.len() == CHILDREN {
                true => Ok(cost),
                false => Err(format!("{} children", children.len()).into()),
            }
        })?;
        ladder.add(events, [opened, forked, listed].map(|cost| cost.per_item(1)));
    }
    ladder.report(report);
    Ok(())
}

fn open_session(journal: &Journal, id: &SessionId) -> Outcome<Cost> {
    let host = make_host(journal);
    let (cost, session) = time_work(|| Ok(Session::open(&host, id.clone())?))?;
    black_box(session.seq());
    Ok(cost)
}

/// A session with children that a handle has followed while its last eighth was recorded.
fn make_followed(journal: &Journal, events: usize) -> Outcome<SessionId> {
    let mut corpus = Corpus::one_session(71).peekable();
    let id = corpus.peek().expect("a corpus does not end").session_id.clone();
    load::fill_journal(journal, &mut corpus, events, |_| Ok(()))?;
    let host = make_host(journal);
    for number in 0..CHILDREN {
        let asked = ChildRequested {
            child_id: format!("c{number}"),
            child_session_id: format!("child {number}"),
            task: "look".to_owned(),
            agent_id: "a".to_owned(),
            metadata: None,
            mode: None,
            parent_event_id: None,
            context: None,
            shared_prefix_key: None,
        };
        let at = host.now();
        let draft = Draft::new(host.new_event_id(at), id.clone(), at, &asked)?;
        journal.append(Batch::observed().with(draft))?;
    }
    let session = Session::open(&host, id.clone())?;
    for _ in 0..events / 8 / REFRESH_EVENTS {
        load::fill_journal(journal, &mut corpus, REFRESH_EVENTS, |_| Ok(()))?;
        session.refresh()?;
    }
    Ok(id)
}

/// Commands that look at one session, the second time.
fn look_at_one(stage: &mut Stage, world: &World, report: &mut Report) -> Outcome<()> {
    let mut ladder = Ladder::new([
        ("`status --all` the second time, by events in the session", Some(FLAT)),
        // It prints all of them.
        ("`show --json`, by events in the session", None),
        ("`show --json`: peak memory, by events in the session", Some(FLAT)),
        ("`show --effective --json`, by events in the session", None),
        ("`show --effective --json`: peak memory, by events in the session", Some(FLAT)),
    ]);
    let longest = stage.scale.session_events;
    for events in [longest / 100, longest / 10, longest] {
        stage.announce(&format!("looking at a session of {events} events"))?;
        let scratch = stage.make_scratch()?;
        let session_id = make_followed(&scratch.journal, events)?;
        let dir = scratch.dir().to_string_lossy().into_owned();
        let status = ["--journal", &dir, "status", "--all", "--json"];
        run_command(world, &status)?;
        let (status, _) = best_run(stage, world, &status)?;
        let show = ["--journal", &dir, "show", "--json", session_id.as_str()];
        let (show, memory) = best_run(stage, world, &show)?;
        let effective = ["--journal", &dir, "show", "--effective", "--json", session_id.as_str()];
        let (effective, effective_memory) = best_run(stage, world, &effective)?;
        ladder.add(
            events,
            [
                status.per_item(1),
                show.per_item(1),
                Quantity::Bytes(memory),
                effective.per_item(1),
                Quantity::Bytes(effective_memory),
            ],
        );
    }
    ladder.report(report);
    Ok(())
}

/// A list of which no session is part. The catalogue is read through for it.
fn look_for_nothing(stage: &mut Stage, world: &World, report: &mut Report) -> Outcome<()> {
    let mut ladder =
        Ladder::new([("`sessions` of a project that matches nothing, by sessions", None)]);
    let most = stage.scale.sessions / 10;
    for sessions in [most / 100, most / 10, most] {
        stage.announce(&format!("listing {sessions} sessions"))?;
        let scratch = stage.make_scratch()?;
        let events = sessions * Corpus::BRIEF_EVENTS;
        load::fill_journal(&scratch.journal, &mut Corpus::brief_sessions(72), events, |_| Ok(()))?;
        let dir = scratch.dir().to_string_lossy().into_owned();
        let list = ["--journal", &dir, "sessions", "--project", "no such project"];
        let (list, _) = best_run(stage, world, &list)?;
        ladder.add(sessions, [list.per_item(1)]);
    }
    ladder.report(report);
    Ok(())
}

/// Sessions of one prompt and one answer, as an agent writes them.
fn record_brief_sessions(stage: &mut Stage, program: &Path, report: &mut Report) -> Outcome<()> {
    let mut ladder = Ladder::new([("bytes on disk per brief session, by sessions", Some(FLAT))]);
    let most = stage.scale.sessions / 10;
    for sessions in [most / 100, most / 10, most] {
        stage.announce(&format!("recording {sessions} brief sessions"))?;
        let world = World::new(program);
        let folder = world.home().join(".claude/projects/-home-dev-project");
        fs::create_dir_all(&folder)?;
        for number in 0..sessions {
            let id = format!("00000000-0000-4000-8000-{number:012x}");
            let said = |kind: &str, uuid: u32, content: serde_json::Value| {
                serde_json::json!({
                    "type": kind, "uuid": format!("{uuid:08x}-0000-4000-8000-{number:012x}"),
                    "sessionId": id, "cwd": "/home/dev/project", "version": "2.1.0",
                    "timestamp": "2026-03-02T09:14:03.118Z",
                    "message": {"role": kind, "content": content},
                })
            };
            let prompt = said("user", 1, "Why is the total a cent short?".into());
            let answer = serde_json::json!([{"type": "text", "text": "Each item is rounded."}]);
            let answer = said("assistant", 2, answer);
            fs::write(folder.join(format!("{id}.jsonl")), format!("{prompt}\n{answer}\n"))?;
        }
        run_command(&world, &["ingest", "--once"])?;
        let bytes = disk_bytes(&world.home().join(".local/share/hansard"), &|_| true)?;
        ladder.add(sessions, [Quantity::Bytes(bytes / sessions.max(1) as u64)]);
    }
    ladder.report(report);
    Ok(())
}

/// The best time of a command, and its peak memory.
fn best_run(stage: &Stage, world: &World, arguments: &[&str]) -> Outcome<(Cost, u64)> {
    let mut memory = 0;
    let cost = best_of(stage.scale.rounds, || {
        let (cost, peak) = time_work(|| run_command(world, arguments))?;
        memory = peak;
        Ok(cost)
    })?;
    Ok((cost, memory))
}

/// Runs a command to its end and returns its peak memory while it printed; 0 where the system does
/// not tell.
fn run_command(world: &World, arguments: &[&str]) -> Outcome<u64> {
    let mut child = world.command(arguments).stdout(Stdio::piped()).spawn()?;
    let status = Path::new("/proc").join(child.id().to_string()).join("status");
    let mut stdout = child.stdout.take().ok_or("no stdout")?;
    let mut piece = vec![0; 64 * 1024];
    let mut peak = 0;
    // Asked after each piece: a process that has ended has no memory.
    while stdout.read(&mut piece)? > 0 {
        peak = read_field(&status, "VmHWM:").unwrap_or(peak);
    }
    match child.wait()?.success() {
        true => Ok(peak * 1024),
        false => Err(format!("`hansard {}` failed", arguments.join(" ")).into()),
    }
}
