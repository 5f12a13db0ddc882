//! A message that was taken is in the queue, in the log or on disk until it is ingested.

use std::fs::{self, File};

use capture::{AGENTS, Batch, Environment, KnownSource, Original, SinkError};
use event::{EventId, HookFact, Kind, Raw, SessionId, SignalKind};
use tempfile::TempDir;

use super::*;

const NOW: i64 = 1_800_000_000_000;

fn message(number: u8) -> HookMessage {
    let at = Time::from_millis(NOW);
    let name = HookMessage::name_for(at, [number; 4]);
    let fact = HookFact { kind: Kind::ApprovalRequested, data: Raw::default() };
    HookMessage {
        event: "PermissionRequest".to_owned(),
        facts: vec![fact],
        ..HookMessage::new(name, "claude", "s", at)
    }
}

/// A journal's folder whose spool cannot be written to, as on a full disk.
fn without_spool() -> TempDir {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("spool"), "no folder").unwrap();
    dir
}

/// A journal's folder with so many messages in its spool that it takes no more.
fn with_full_spool(messages: i64) -> TempDir {
    let dir = TempDir::new().unwrap();
    let undelivered = Undelivered::in_journal(dir.path());
    for number in 0..messages {
        let at = Time::from_millis(NOW - 10_000 + number);
        let name = HookMessage::name_for(at, [0; 4]);
        undelivered.store_message(&HookMessage { name, at, ..message(1) }).unwrap();
    }
    // The last one takes all the room there is, as its name says.
    let spool = dir.path().join("spool");
    let names = fs::read_dir(&spool).unwrap().flatten().map(|entry| entry.file_name());
    let last = names.filter_map(|name| name.into_string().ok()).max().unwrap();
    let (stem, _) = last.rsplit_once('-').unwrap();
    fs::rename(spool.join(&last), spool.join(format!("{stem}-{}.json", 1_u64 << 28))).unwrap();
    // The next one that asks counts anew.
    fs::remove_file(spool.join(".taken")).unwrap();
    dir
}

/// For a pass that finds no message.
struct NoMessage;

impl MessageHandler for NoMessage {
    fn record_facts(&mut self, message: &HookMessage) -> Result<SignalOutcome, CaptureError> {
        panic!("{message:?}")
    }

    fn apply_signal(
        &mut self,
        message: &HookMessage,
        _: bool,
    ) -> Result<SignalOutcome, CaptureError> {
        panic!("{message:?}")
    }

    fn failure_cause(&self, _: &CaptureError) -> FailureCause {
        FailureCause::Journal
    }
}

#[test]
fn unstored_messages_stay_in_the_log() {
    let dir = without_spool();
    let queue = HookQueue::open(dir.path()).unwrap();
    assert!(queue.push(message(1)));
    store_queue(&queue, dir.path());
    assert!(queue.push(message(2)));
    store_queue(&queue, dir.path());
    assert_eq!(queue.take_all(), [message(1), message(2)]);
    drop(queue);

    // The daemon is killed before it ingests them, and so is the next one.
    for _ in 0..2 {
        assert_eq!(HookQueue::open(dir.path()).unwrap().take_all(), [message(1), message(2)]);
    }

    let queue = HookQueue::open(dir.path()).unwrap();
    fs::remove_file(dir.path().join("spool")).unwrap();
    store_queue(&queue, dir.path());
    assert!(queue.push(message(3)));
    assert_eq!(queue.take_all(), [message(3)]);
    assert_eq!(fs::read_dir(dir.path().join("spool")).unwrap().count(), 3, "and `.taken`");
    assert_eq!(HookQueue::open(dir.path()).unwrap().take_all(), [message(3)]);
}

#[test]
fn half_a_line_is_cut_off() {
    let dir = TempDir::new().unwrap();
    let half = &message(1).encode()[..40];
    fs::write(dir.path().join("calls.0"), half).unwrap();
    let queue = HookQueue::open(dir.path()).unwrap();
    assert!(queue.push(message(2)));
    assert_eq!(HookQueue::open(dir.path()).unwrap().take_all(), [message(2)]);
}

/// Makes a file as long as its file system allows, so that nothing more is written to it. It takes
/// no room on the disk.
fn fill(file: &File) {
    let (mut fits, mut too_long) = (0, i64::MAX as u64);
    while file.set_len(too_long).is_err() && fits + 1 < too_long {
        let middle = fits + (too_long - fits) / 2;
        match file.set_len(middle) {
            Ok(()) => fits = middle,
            Err(_) => too_long = middle,
        }
    }
}

#[test]
fn unlogged_message_is_not_acknowledged() {
    let dir = TempDir::new().unwrap();
    let queue = HookQueue::open(dir.path()).unwrap();
    let log = File::options().write(true).open(dir.path().join("calls.0")).unwrap();
    fill(&log);
    assert!(!queue.push(message(1)), "it would not survive the daemon");
    log.set_len(0).unwrap();
    assert!(queue.push(message(2)));
    // The hook's own store has no room on a full disk either.
    assert_eq!(queue.take_all(), [message(1), message(2)]);
    assert_eq!(HookQueue::open(dir.path()).unwrap().take_all(), [message(2)]);
}

#[test]
fn queue_without_a_log_acknowledges_nothing() {
    let queue = HookQueue::default();
    assert!(!queue.push(message(1)));
    assert_eq!(queue.take_all(), [message(1)]);
}

#[test]
fn room_without_a_file_is_given_back() {
    let dir = TempDir::new().unwrap();
    let mut undelivered = Undelivered::in_journal(dir.path());
    undelivered.store_message(&message(1)).unwrap();
    let spool = dir.path().join("spool");
    let entries = fs::read_dir(&spool).unwrap().flatten();
    let files = entries.filter(|entry| entry.file_name() != ".taken");
    files.for_each(|entry| fs::remove_file(entry.path()).unwrap());
    let mut summary = UndeliveredSummary::default();
    undelivered.handle(Time::from_millis(NOW), &mut NoMessage, &mut summary).unwrap();
    assert_eq!(fs::metadata(spool.join(".taken")).unwrap().len(), 0);
}

#[test]
fn message_lies_in_one_place() {
    let dir = TempDir::new().unwrap();
    let queue = HookQueue::open(dir.path()).unwrap();
    let compaction = HookMessage { signal: Some(SignalKind::Compact), ..message(1) };
    let stop = HookMessage { signal: Some(SignalKind::Stop), facts: Vec::new(), ..message(2) };
    assert!(queue.push(compaction) && queue.push(stop));
    store_queue(&queue, dir.path());
    assert_eq!(fs::read_dir(dir.path().join("spool")).unwrap().count(), 2, "and `.taken`");
    assert_eq!(fs::read_dir(dir.path().join("signals")).unwrap().count(), 1);
    assert_eq!(HookQueue::open(dir.path()).unwrap().take_all(), []);
}

#[test]
fn clear_waits_while_the_spool_is_emptied() {
    let clock = || Time::from_millis(NOW);
    let journal = Journal::in_memory();
    // More than a pass handles, all of a session that is not known.
    let dir = with_full_spool(1_001);
    let undelivered = Undelivered::in_journal(dir.path());
    let queue = HookQueue::open(dir.path()).unwrap();
    let clear = HookMessage { signal: Some(SignalKind::Clear), ..message(2) };
    assert!(queue.push(clear.clone()));
    let mut ingest = HookIngest {
        queue: queue.clone(),
        undelivered,
        report: HookReport::in_journal(dir.path()),
        memory: HookMemory::default(),
    };
    let environment = capture::Environment::new(dir.path(), []);
    let ingester = Ingester::new(capture::AGENTS, &environment, &clock);
    let views = std::cell::RefCell::default();
    let gate = crate::admission::Gate::new(crate::policy::RecordingPolicy::default());
    let mut recorder = crate::recorder::Recorder::new(&journal, gate, &views);
    let mut summary = IngestSummary::default();
    ingest.run_pass(&ingester, &mut recorder, &mut summary, clock()).unwrap();
    assert_eq!(queue.take_all(), [clear], "it is whole");
    assert_eq!(ingest.report.failures(), []);
}

#[test]
fn full_spool_leaves_the_queue_whole() {
    let dir = with_full_spool(1);
    let queue = HookQueue::open(dir.path()).unwrap();
    let clear = HookMessage { signal: Some(SignalKind::Clear), ..message(2) };
    let other = message(3);
    assert!(queue.push(clear.clone()) && queue.push(other.clone()));
    store_queue(&queue, dir.path());
    drop(queue);
    // The next daemon has them, with their facts.
    assert_eq!(HookQueue::open(dir.path()).unwrap().take_all(), [clear, other]);
    assert_eq!(HookReport::in_journal(dir.path()).failures(), []);
    assert!(!dir.path().join("signals").exists(), "each in one place");
}

/// A journal that refuses the events of one session.
#[derive(Default)]
struct RefusingSink {
    positions: BTreeMap<String, String>,
    recorded: Vec<String>,
}

const REFUSED: &str = "claude:refused";

impl Sink for RefusingSink {
    fn show_sources(&self, show: &mut dyn FnMut(KnownSource<'_>)) -> Result<(), SinkError> {
        self.positions.iter().for_each(|(key, checkpoint)| show(KnownSource { key, checkpoint }));
        Ok(())
    }

    fn source(&self, key: &str) -> Result<Option<String>, SinkError> {
        Ok(self.positions.get(key).cloned())
    }

    fn keep_original(&mut self, _: Original<'_>) -> Result<(), SinkError> {
        Ok(())
    }

    fn put_batch(&mut self, batch: Batch) -> Result<(), SinkError> {
        for draft in &batch.drafts {
            if draft.session_id.as_str() == REFUSED {
                let error = AppendError::SessionExists(draft.session_id.clone());
                return Err(SinkError(Box::new(error)));
            }
            self.recorded.push(format!("{} {}", draft.session_id, draft.kind));
        }
        self.positions.insert(batch.source, batch.to);
        Ok(())
    }

    fn settle(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    fn find_event(&self, _: EventId) -> Result<Option<(SessionId, u64)>, SinkError> {
        Ok(None)
    }

    fn find_events(&self, _: &SessionId, ids: &[EventId]) -> Result<Vec<Option<u64>>, SinkError> {
        Ok(vec![None; ids.len()])
    }
}

#[test]
fn refused_transcript_holds_up_no_other() {
    let dir = TempDir::new().unwrap();
    let transcripts = dir.path().join(".claude/projects/-home-dev-app");
    fs::create_dir_all(&transcripts).unwrap();
    let environment = Environment::new(dir.path(), []);
    let queue = HookQueue::open(dir.path()).unwrap();
    for (number, session) in (1..).zip(["other", "refused", "third"]) {
        let path = transcripts.join(format!("{session}.jsonl"));
        let line = format!(
            r#"{{"type":"user","uuid":"u","sessionId":"{session}","timestamp":"2027-01-15T08:00:00Z","message":{{"role":"user","content":"go"}}}}"#
        );
        fs::write(&path, line + "\n").unwrap();
        let session = session.to_owned();
        let transcript = Some(path.clone());
        assert!(queue.push(HookMessage { session, transcript, facts: vec![], ..message(number) }));
    }
    let mut ingest = HookIngest {
        queue,
        undelivered: Undelivered::in_journal(dir.path()),
        report: HookReport::in_journal(dir.path()),
        memory: HookMemory::default(),
    };
    let (mut sink, mut summary) = (RefusingSink::default(), IngestSummary::default());
    let clock = || Time::from_millis(NOW);
    let ingester = Ingester::new(AGENTS, &environment, &clock);
    ingest.run_pass(&ingester, &mut sink, &mut summary, clock()).unwrap();
    let prompts: Vec<_> =
        sink.recorded.iter().filter(|event| event.ends_with("user.prompt")).collect();
    assert_eq!(prompts, ["claude:other user.prompt", "claude:third user.prompt"]);
    let warned: Vec<_> = summary.warnings.iter().filter_map(|it| it.path.as_deref()).collect();
    assert_eq!(warned, [transcripts.join("refused.jsonl")]);
}
