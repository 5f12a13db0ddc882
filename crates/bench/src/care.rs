//! What a journal costs when nothing happens, when it is open, and after a crash.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use event::SessionId;
use session::Session;
use testkit::corpus::Corpus;

use crate::Outcome;
use crate::host::make_host;
use crate::load::{self, index_all};
use crate::meter::{Cost, race_rounds, time_work};
use crate::report::{Bar, Growth, Quantity, Report, Row};
use crate::stage::{self, Stage};
use crate::view::compacted;

pub(crate) fn measure(stage: &mut Stage, report: &mut Report) -> Outcome<()> {
    measure_at_rest(stage, report)?;
    in_memory(stage, report)?;
    after_a_crash(stage, report)
}

/// An open journal without any request.
fn measure_at_rest(stage: &mut Stage, report: &mut Report) -> Outcome<()> {
    let seconds = if stage.scale.rounds > 2 { 10 } else { 2 };
    let scratch = stage.make_scratch()?;
    load::append_batches(&scratch.journal, &Corpus::new(61).events(100).collect::<Vec<_>>(), 10)?;
    // The indexer works after the append returns; it has to be at rest, too.
    index_all(&scratch.journal)?;
    let Some(before) = Activity::now() else { return Ok(()) };
    // The channel gets no message: this only waits, and wakes no thread of the journal.
    let (_kept, nothing) = mpsc::sync_channel::<()>(0);
    let _ = nothing.recv_timeout(Duration::from_secs(seconds));
    let Some(after) = Activity::now() else { return Ok(()) };
    let none = Bar::at_most(0.0);
    for (what, count) in [
        ("wake-ups of the journal's threads", after.wakeups - before.wakeups),
        ("bytes written", after.written - before.written),
    ] {
        let row =
            Row::alone(format!("idle for {seconds} s: {what}"), Quantity::Count(count as f64));
        report.add_row(Row { ratio: Some(count as f64), ..row }.with_bar(none));
    }
    Ok(())
}

/// What this process has done so far, where the system tells.
struct Activity {
    /// Times a thread of the journal was woken.
    wakeups: u64,
    written: u64,
}

impl Activity {
    fn now() -> Option<Activity> {
        let mut wakeups = 0;
        for task in fs::read_dir("/proc/self/task").ok()? {
            let path = task.ok()?.path();
            let name = fs::read_to_string(path.join("comm")).ok()?;
            // The threads of the bench itself wake as well.
            if name.starts_with("journal") {
                wakeups += read_field(&path.join("status"), "voluntary_ctxt_switches:")?;
            }
        }
        Some(Activity { wakeups, written: read_field(Path::new("/proc/self/io"), "write_bytes:")? })
    }
}

/// The number behind a name in one of the system's lists.
pub(crate) fn read_field(file: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Memory of a process that holds one session with equal views, logs of any length.
fn in_memory(stage: &mut Stage, report: &mut Report) -> Outcome<()> {
    let longest = stage.scale.session_events;
    let mut points = Vec::new();
    for events in [longest / 100, longest / 10, longest] {
        let dir = stage.fresh_path();
        let journal = stage::open_journal(&dir)?;
        let session_id = compacted(&journal, events)?;
        black_box(Session::open(&make_host(&journal), session_id.clone())?.effective()?);
        // Closed before the other process opens it, so that it starts from what is on the disk.
        drop(journal);
        let program = std::env::current_exe()?;
        let mut command = Command::new(program);
        command.arg("--hold").arg(&dir).arg(session_id.as_str());
        let output = command.output()?;
        let Ok(bytes) = String::from_utf8(output.stdout)?.trim().parse() else {
            return Ok(());
        };
        points.push((events as u64, Quantity::Bytes(bytes)));
        fs::remove_dir_all(dir)?;
    }
    let measure = "memory of an open session of equal view, by events in it".to_owned();
    report.add_growth(Growth { measure, points, bar: Some(Bar::AtMost { must: 1.5, aim: 1.1 }) });
    Ok(())
}

/// Opens a session and says how much memory of its own this process has then.
pub(crate) fn hold_session(dir: &Path, session_id: &str) -> Outcome<u64> {
    let session =
        Session::open(&make_host(&stage::open_journal(dir)?), SessionId::new(session_id)?)?;
    black_box(session.effective()?);
    let kib =
        // Without pages of files: the system drops those when it needs memory.
        read_field(Path::new("/proc/self/status"), "RssAnon:").ok_or("the system does not tell")?;
    // The session must live until the memory was read.
    black_box(&session);
    Ok(kib * 1024)
}

/// A copy of a journal in the middle of its work is what a crash leaves behind.
fn after_a_crash(stage: &mut Stage, report: &mut Report) -> Outcome<()> {
    let scratch = stage.make_scratch()?;
    load::append_batches(
        &scratch.journal,
        &Corpus::new(62).events(stage.scale.batched).collect::<Vec<_>>(),
        100,
    )?;
    // A copy for each round, because opening cleans up and a second opening would be a clean one.
    let copies: Vec<_> = (0..stage.scale.rounds).map(|_| stage.fresh_path()).collect();
    let clean = stage.fresh_path();
    for copy in copies.iter().chain([&clean]) {
        copy_folder(scratch.dir(), copy)?;
    }
    // The first opening copies the log into the database and leaves a clean journal.
    open_once(&clean)?;
    let mut crashed = copies.iter();
    let race = race_rounds(
        stage.scale.rounds,
        || open_once(crashed.next().expect("a copy for every round")),
        || open_once(&clean),
    )?;
    report.add_row(race.into_row("open with a full write-ahead log, against a clean open", 1));
    Ok(())
}

/// Opens a journal, reads its newest position, and closes it.
fn open_once(dir: &Path) -> Outcome<Cost> {
    let (cost, journal) = time_work(|| {
        let journal = stage::open_journal(dir)?;
        black_box(journal.tail()?);
        Ok(journal)
    })?;
    drop(journal);
    Ok(cost)
}

fn copy_folder(from: &Path, to: &Path) -> Outcome<()> {
    fs::create_dir(to)?;
    // A journal refuses a folder that other users can read.
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.metadata()?.is_dir() {
            copy_folder(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}
