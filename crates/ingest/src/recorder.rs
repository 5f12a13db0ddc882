//! The journal as capture sees it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use capture::{
    Admission, Batch, KnownSource, Original, OriginalChunk, Sink, SinkError, StoredOriginal,
    UnknownRecord,
};
use event::payload::Unknown;
use event::{EventId, Kind, Raw, SessionId, Time};
use journal::{Journal, OriginalPart, PendingAppend, ReadError, Selection, SourceMove, StoredPart};

use crate::admission::Gate;
use crate::project::Projects;
use crate::view_saver::RecordedViews;

/// Bytes and batches on their way to the disk. With more, the oldest is waited for, so that reading
/// is never far ahead of recording.
const WAITING_BYTES_MAX: usize = 4 * 1024 * 1024;
const WAITING_MAX: usize = 4_096;

/// Batches are gathered up to so many bytes before they are handed over. Many sources with a line
/// each would be as many waits for the disk otherwise; gathered, they are one or two. Each wait
/// also writes the upper pages of every index once more.
const GATHERED_BYTES_MAX: usize = 2 * 1024 * 1024;
const GATHERED_MAX: usize = 256;

/// How long news is gathered: many sources may have news at once, and the first of them does not
/// wait for the last.
const GATHERED_FOR: Duration = Duration::from_millis(10);

/// Records batches in the journal.
pub(crate) struct Recorder<'a> {
    journal: &'a Journal,
    gathered: Vec<(journal::Batch, usize)>,
    gathered_bytes: usize,
    /// When the first of it came.
    gathered_since: Instant,
    /// Whether the batches are news, which a user may be waiting for.
    is_news: bool,
    /// What was handed over, and its bytes.
    waiting: VecDeque<(PendingAppend, usize)>,
    waiting_bytes: usize,
    /// For each of what waits and what is gathered, in this order: its source, and how far that is
    /// read with it.
    read_to: VecDeque<(String, String)>,
    /// Views of the recorded events, which the caller saves.
    views: &'a RefCell<RecordedViews>,
    projects: Projects,
    gate: Gate,
    /// Deletions of sessions that were followed.
    deletions: u64,
    /// The times of the oldest and the newest of what was put.
    pub span: Option<(Time, Time)>,
    /// Events that were new.
    pub recorded: u64,
    /// Sessions that were told of, and whether they were known before.
    pub sessions: BTreeMap<SessionId, bool>,
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(
        journal: &'a Journal,
        gate: Gate,
        views: &'a RefCell<RecordedViews>,
    ) -> Recorder<'a> {
        Recorder {
            journal,
            gathered: Vec::new(),
            gathered_bytes: 0,
            gathered_since: Instant::now(),
            is_news: false,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            read_to: VecDeque::new(),
            views,
            projects: Projects::new(),
            gate,
            deletions: 0,
            span: None,
            recorded: 0,
            sessions: BTreeMap::new(),
        }
    }

    /// The same for what is news: it is not gathered for long.
    pub(crate) fn for_news(self) -> Recorder<'a> {
        Recorder { is_news: true, ..self }
    }

    /// Hands over what was gathered.
    fn hand_over(&mut self) -> Result<(), SinkError> {
        self.gathered_bytes = 0;
        for (batch, bytes) in std::mem::take(&mut self.gathered) {
            self.waiting.push_back((self.journal.submit(batch).map_err(sink_error)?, bytes));
            self.waiting_bytes += bytes;
        }
        // What is recorded is not held longer than it has to be.
        while self.waiting_bytes > WAITING_BYTES_MAX
            || self.waiting.len() > WAITING_MAX
            // A ticket that is answered costs no wait.
            || self.waiting.front().is_some_and(|(ticket, _)| ticket.is_answered())
        {
            self.wait_for_oldest()?;
        }
        // News does not wait for search.
        if !self.is_news && self.journal.is_index_behind() {
            // What cannot be indexed now is indexed by the next search: the log is what counts.
            let _ = self.journal.index();
        }
        Ok(())
    }

    /// Follows deletions by other processes. A session may be deleted while it is read: it is no
    /// longer admitted, and the originals that were stored meanwhile are removed.
    fn follow_deletions(&mut self) -> Result<(), SinkError> {
        let deletions = self.journal.deletions().map_err(sink_error)?;
        // The own count starts at 0, so the first settle of a pass finishes a deletion that was
        // interrupted.
        if deletions != self.deletions {
            self.gate.forget_all();
            remove_originals(self.journal).map_err(sink_error)?;
            self.deletions = deletions;
        }
        Ok(())
    }

    /// Hands over what was gathered and waits for all of it.
    fn record_all(&mut self) -> Result<(), SinkError> {
        self.hand_over()?;
        while !self.waiting.is_empty() {
            self.wait_for_oldest()?;
        }
        Ok(())
    }

    /// Returns to the committed positions after an error: a refused message of a hook does not end
    /// the pass, and the next batch of its source goes on from what the journal has.
    fn forget_uncommitted(&mut self) {
        self.gathered.clear();
        self.gathered_bytes = 0;
        while !self.waiting.is_empty() {
            // The first error is reported already. Other sources may have been recorded.
            let _ = self.wait_for_oldest();
        }
        self.read_to.clear();
    }

    fn wait_for_oldest(&mut self) -> Result<(), SinkError> {
        if let Some((ticket, bytes)) = self.waiting.pop_front() {
            self.waiting_bytes -= bytes;
            // `read_to` lists what waits and then what is gathered, so its front is this batch:
            //     waiting:  a b c      gathered:  d e
            //     read_to:  a b c d e
            self.read_to.pop_front();
            // Without the events that the journal had already: a file read again brings the same
            // ids.
            let news = ticket.wait_for_new().map_err(sink_error)?;
            self.recorded += news.len() as u64;
            let mut views = self.views.borrow_mut();
            news.iter().for_each(|(seq, draft)| views.apply(self.journal, *seq, draft));
            // A view that cannot be saved now is folded again by its next reader.
            let _ = views.save_excess(self.journal);
        }
        Ok(())
    }
}

impl Sink for Recorder<'_> {
    fn show_sources(&self, show: &mut dyn FnMut(KnownSource<'_>)) -> Result<(), SinkError> {
        // Batches on their way count as read, or their lines would be read a second time. The last
        // entry of a source wins.
        let mut ahead: HashMap<&str, &str> =
            self.read_to.iter().map(|(key, to)| (key.as_str(), to.as_str())).collect();
        let mut show_recorded = |key: &str, recorded: &str| {
            show(KnownSource { key, checkpoint: ahead.remove(key).unwrap_or(recorded) });
        };
        self.journal.each_source(&mut show_recorded).map_err(sink_error)?;
        // The sources without any committed batch so far.
        ahead
            .into_iter()
            .for_each(|(key, position)| show(KnownSource { key, checkpoint: position }));
        Ok(())
    }

    fn source(&self, key: &str) -> Result<Option<String>, SinkError> {
        // From the end: the last batch of a source has its farthest position.
        match self.read_to.iter().rfind(|(source, _)| source == key) {
            Some((_, to)) => Ok(Some(to.clone())),
            None => self.journal.source_position(key).map_err(sink_error),
        }
    }

    fn admits(&mut self, session: &SessionId, cwd: Option<&str>) -> Admission {
        let Recorder { journal, gate, projects, .. } = self;
        gate.admits(journal, projects, session, cwd)
    }

    fn keep_original(&mut self, original: Original<'_>) -> Result<(), SinkError> {
        // The user may turn originals off; the events are recorded all the same.
        if !self.gate.keeps_originals() {
            return Ok(());
        }
        let Original { source, generation, offset, bytes, label, begin, note } = original;
        let part = OriginalPart { offset, bytes, label, begin, note };
        self.journal.originals().append(source, generation, part).map_err(sink_error)
    }

    fn original(&self, source: &str, generation: u32) -> Result<Option<StoredOriginal>, SinkError> {
        let parts = self.journal.originals().parts(source, generation).map_err(sink_error)?;
        let mut chunks = parts
            .map(|StoredPart { offset, bytes, begin, note, .. }| OriginalChunk {
                offset,
                bytes,
                begin,
                note,
            })
            .peekable();
        let is_there = chunks.peek().is_some();
        Ok(is_there.then(|| Box::new(chunks) as StoredOriginal))
    }

    fn originals(&self) -> Result<BTreeSet<(String, u32)>, SinkError> {
        self.journal.originals().sources().map_err(sink_error)
    }

    fn original_label(&self, source: &str, generation: u32) -> Result<String, SinkError> {
        self.journal.originals().label(source, generation).map_err(sink_error)
    }

    fn id_at(&self, session: &SessionId, seq: u64) -> Result<Option<EventId>, SinkError> {
        let selection = Selection { from_seq: seq, to_seq: seq, ..Selection::all() };
        match self.journal.events(session, selection) {
            // A parent that was never recorded, or nothing that is shown of it.
            Err(ReadError::SessionNotFound(_)) => Ok(None),
            events => {
                let event = events.map_err(sink_error)?.next().transpose().map_err(sink_error)?;
                Ok(event.filter(|event| event.seq == seq).map(|event| event.id))
            }
        }
    }

    fn unknown_in(&self, session: &SessionId) -> Result<Vec<UnknownRecord>, SinkError> {
        let of_kind = Selection::all().of_kinds([Kind::Unknown]);
        let events = match self.journal.events(session, of_kind) {
            Err(journal::ReadError::SessionNotFound(_)) => return Ok(Vec::new()),
            events => events.map_err(sink_error)?,
        };
        let mut unknown = Vec::new();
        for event in events {
            let event = event.map_err(sink_error)?;
            let record = event.metadata.get("record").and_then(Raw::text);
            let told = event.readable::<Unknown>().and_then(|unknown| unknown.record_type);
            // What has no type was torn, which a parser cannot mend.
            if let Some((record, record_type)) = record.zip(told) {
                unknown.push(UnknownRecord { record, id: event.id, record_type });
            }
        }
        Ok(unknown)
    }

    fn put_batch(&mut self, batch: Batch) -> Result<(), SinkError> {
        let Batch { source: source_id, from, to, mut drafts } = batch;
        for draft in &mut drafts {
            self.projects.add_project(draft);
            // Agents may write events out of order, so both ends are compared.
            let (oldest, newest) = self.span.unwrap_or((draft.created_at, draft.created_at));
            self.span = Some((oldest.min(draft.created_at), newest.max(draft.created_at)));
            if !self.sessions.contains_key(&draft.session_id) {
                // Asked before the batch is committed: afterwards every session is known.
                let is_known = self.journal.exists(&draft.session_id).map_err(sink_error)?;
                self.sessions.insert(draft.session_id.clone(), is_known);
            }
        }
        let bytes = drafts.iter().map(|draft| draft.data.get().len()).sum::<usize>() + 2 * to.len();
        self.read_to.push_back((source_id.clone(), to.clone()));
        let read = SourceMove { source_id, from, to };
        let batch = journal::Batch::observed().with_all(drafts).from_source(read);
        if self.gathered.is_empty() {
            self.gathered_since = Instant::now();
        }
        self.gathered.push((batch, bytes));
        self.gathered_bytes += bytes;
        // A limit on batches too: many small ones cost a wait each.
        let is_much =
            self.gathered_bytes >= GATHERED_BYTES_MAX || self.gathered.len() >= GATHERED_MAX;
        // Checked only when a batch comes. The last one is handed over by `settle`.
        let is_late = self.is_news && self.gathered_since.elapsed() >= GATHERED_FOR;
        match is_much || is_late {
            true => self.hand_over().inspect_err(|_| self.forget_uncommitted()),
            false => Ok(()),
        }
    }

    fn settle(&mut self) -> Result<(), SinkError> {
        self.record_all().inspect_err(|_| self.forget_uncommitted())?;
        // After the last commit: what was recorded of a session deleted meanwhile is seen here.
        self.follow_deletions()
    }

    fn find_event(&self, id: EventId) -> Result<Option<(SessionId, u64)>, SinkError> {
        self.journal.locate(id).map_err(sink_error)
    }

    fn find_events(
        &self,
        session: &SessionId,
        ids: &[EventId],
    ) -> Result<Vec<Option<u64>>, SinkError> {
        match self.journal.find_facts(session, ids) {
            // A parent that was never recorded has no facts.
            Err(journal::ReadError::SessionNotFound(_)) => Ok(vec![None; ids.len()]),
            found => found.map_err(sink_error),
        }
    }
}

fn sink_error(error: impl std::error::Error + Send + Sync + 'static) -> SinkError {
    SinkError(Box::new(error))
}

/// Removes the originals that belong to deleted sessions only.
pub fn remove_originals(journal: &Journal) -> Result<(), ReadError> {
    for (source, told) in capture::sessions_by_source(&journal.sources()?) {
        // A source may hold several sessions, as a file with subagents does.
        let (mut is_left, mut is_deleted) = (false, false);
        for session in &told {
            is_left |= journal.exists(session)?;
            is_deleted |= journal.deleted_at(session)?.is_some();
        }
        // A source without any known session stays: its sessions may not be recorded yet.
        if is_deleted && !is_left {
            journal.originals().remove(&source)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::{Path, PathBuf};
    use std::time::SystemTime;

    use capture::{AGENTS, Environment, Ingester};
    use event::Draft;
    use journal::Options;
    use tempfile::TempDir;

    use super::*;
    use crate::policy::RecordingPolicy;

    #[test]
    fn what_was_not_understood_can_be_asked_for_and_told_without_moving_on() {
        let dir = TempDir::new().expect("a folder can be made");
        let file = dir.path().join(".claude/projects/-home-dev-app/s1.jsonl");
        std::fs::create_dir_all(file.parent().expect("it has a folder")).expect("it can be made");
        let line = "{\"type\":\"from-the-future\",\"sessionId\":\"s1\"}\n";
        std::fs::write(&file, line).expect("it can be written");
        let journal = Journal::open_or_create(&dir.path().join("journal"), &Options::default());
        let journal = journal.expect("it can be made");
        let views = RefCell::default();
        let mut recorder = Recorder::new(&journal, Gate::new(RecordingPolicy::default()), &views);
        let environment = Environment::new(dir.path(), []);
        let clock = || Time::from_millis(1_800_000_000_000);
        let ingester = Ingester::new(AGENTS, &environment, &clock);
        ingester.ingest_all(&mut recorder, &mut |_| {}).expect("it is read");

        let session = SessionId::new("claude:s1").expect("a plain id");
        let unknown = recorder.unknown_in(&session).expect("it can be asked");
        assert_eq!(unknown[0].record_type, "from-the-future");
        let (key, position) = journal.sources().expect("it can be asked").remove(0);
        let name = key.trim_start_matches("claude:");
        let kept = recorder.original(name, 0).expect("it can be asked").expect("it was kept");
        let kept: Vec<_> = kept.map(|chunk| (chunk.offset, chunk.bytes)).collect();
        assert_eq!(kept, [(0, line.as_bytes().to_vec())]);

        let id = EventId::derived(clock(), "claude", "s1", b"told now");
        let data = Raw::parse("{\"text\":\"told now\"}").expect("it is JSON");
        let draft = Draft::with_data(id, session.clone(), clock(), Kind::Note, data);
        let (from, to) = (Some(position.clone()), position);
        let batch = Batch { source: key, from, to, drafts: vec![draft] };
        recorder.put_batch(batch).expect("it is taken");
        recorder.settle().expect("it is recorded");
        assert!(recorder.find_event(id).expect("it can be asked").is_some());
    }

    #[test]
    fn how_far_a_source_was_read_is_told_as_it_was_put_last() {
        let dir = TempDir::new().expect("a folder can be made");
        let journal = Journal::open_or_create(&dir.path().join("journal"), &Options::default());
        let journal = journal.expect("it can be made");
        let views = RefCell::default();
        let mut recorder = Recorder::new(&journal, Gate::new(RecordingPolicy::default()), &views);
        let read = |recorder: &mut Recorder<'_>, name: &str, from: Option<&str>, to: &str| {
            let (from, to) = (from.map(str::to_owned), to.to_owned());
            let batch = Batch { source: name.to_owned(), from, to, drafts: Vec::new() };
            recorder.put_batch(batch).expect("it is taken");
        };
        let all = |recorder: &Recorder<'_>| {
            let mut all = Vec::new();
            let show = &mut |known: KnownSource<'_>| {
                all.push((known.key.to_owned(), known.checkpoint.to_owned()));
            };
            recorder.show_sources(show).expect("it can be asked");
            all.sort();
            let one = |key: &str| recorder.source(key).expect("it can be asked");
            assert!(all.iter().all(|(key, position)| one(key).as_ref() == Some(position)));
            all.into_iter().map(|(key, position)| key + position.as_str()).collect::<Vec<_>>()
        };
        read(&mut recorder, "a", None, "1");
        recorder.settle().expect("it is recorded");
        assert_eq!(all(&recorder), ["a1"]);
        read(&mut recorder, "b", None, "1");
        read(&mut recorder, "a", Some("1"), "2");
        read(&mut recorder, "a", Some("2"), "3");
        assert_eq!(all(&recorder), ["a3", "b1"]);
        recorder.hand_over().expect("it is taken");
        assert_eq!(all(&recorder), ["a3", "b1"]);
        recorder.settle().expect("it is recorded");
        assert_eq!((all(&recorder), recorder.waiting.len()), (vec!["a3".into(), "b1".into()], 0));
    }

    #[test]
    fn refused_batch_leaves_the_committed_position() {
        let dir = TempDir::new().expect("a folder can be made");
        let journal = Journal::open_or_create(&dir.path().join("journal"), &Options::default());
        let journal = journal.expect("it can be made");
        let views = RefCell::default();
        let mut recorder = Recorder::new(&journal, Gate::new(RecordingPolicy::default()), &views);
        let batch = |source: &str, from: Option<&str>, to: &str, drafts: Vec<Draft>| Batch {
            source: source.to_owned(),
            from: from.map(str::to_owned),
            to: to.to_owned(),
            drafts,
        };
        recorder.put_batch(batch("a", None, "1", Vec::new())).expect("it is taken");
        recorder.settle().expect("it is recorded");

        // The journal refuses an event before it is queued, and a moved source when it is committed.
        let session = SessionId::new("claude:s1").expect("a plain id");
        let at = Time::from_millis(NOW);
        let data = Raw::parse("{\"text\":\"told\"}").expect("it is JSON");
        let id = EventId::derived(at, "claude", "s1", b"0");
        let draft = Draft::with_data(id, session, at, Kind::Note, data);
        let live = Draft { kind: Kind::AssistantDelta, ..draft.clone() };
        let unfit = [("b", "1", vec![live]), ("c", "9", Vec::new())];
        for (other, from, drafts) in unfit {
            let refused = batch("a", Some(from), "2", drafts);
            recorder.put_batch(batch(other, None, "1", Vec::new())).expect("it is taken");
            recorder.put_batch(refused).expect("it is taken");
            recorder.put_batch(batch("a", Some("2"), "3", Vec::new())).expect("it is taken");
            recorder.settle().expect_err("one of them is refused");
            let position = |key: &str| recorder.source(key).expect("it can be asked");
            assert_eq!(position("a").as_deref(), Some("1"));
            assert_eq!(position(other).as_deref(), Some("1"), "it was handed over before");
        }
        recorder.put_batch(batch("a", Some("1"), "2", vec![draft])).expect("it is taken");
        recorder.settle().expect("it is recorded");
        assert_eq!(recorder.recorded, 1);
    }

    fn thread(name: u32) -> String {
        format!("00000000-0000-0000-0000-00000000000{name}")
    }

    fn session(name: u32) -> SessionId {
        SessionId::new(format!("codex:{}", thread(name))).expect("an id")
    }

    /// A rollout of Codex that was written down in this hour, with a turn for each prompt.
    fn write_rollout(
        folder: &Path,
        name: u32,
        hour: u32,
        parent: Option<u32>,
        prompts: &str,
    ) -> File {
        let line = |kind: &str, payload: &str| {
            let at = format!("2026-11-15T1{hour}:00:00.000Z");
            format!(r#"{{"timestamp":"{at}","type":"{kind}","payload":{payload}}}"#) + "\n"
        };
        let from = parent.map(|parent| format!(r#","forked_from_id":"{}""#, thread(parent)));
        let from = from.unwrap_or_default();
        let mut text = line("session_meta", &format!(r#"{{"id":"{}"{from}}}"#, thread(name)));
        for prompt in prompts.chars() {
            let turn = format!(r#"{{"type":"task_started","turn_id":"turn {prompt}"}}"#);
            let said = format!(r#"{{"type":"message","role":"user","content":"{prompt}"}}"#);
            text += &(line("event_msg", &turn) + &line("response_item", &said));
        }
        let path = folder.join(format!("rollout-2026-11-15T10-00-00-{}.jsonl", thread(name)));
        std::fs::write(&path, text).expect("it is written");
        File::options().append(true).open(path).expect("it is there")
    }

    const NOW: i64 = 1_800_000_000_000;

    /// A home with Codex in it, and a journal that it is read into.
    struct Rollouts {
        home: TempDir,
        folder: PathBuf,
        journal: Journal,
    }

    impl Rollouts {
        fn new() -> Rollouts {
            let home = TempDir::new().expect("a folder can be made");
            let folder = home.path().join(".codex/sessions/2026/11/15");
            std::fs::create_dir_all(&folder).expect("it can be made");
            let journal =
                Journal::open_or_create(&home.path().join("journal"), &Options::default());
            Rollouts { folder, journal: journal.expect("it can be made"), home }
        }

        /// Reads all there is, at a time.
        fn read_all_at(&self, millis: i64) {
            let views = RefCell::default();
            let mut recorder =
                Recorder::new(&self.journal, Gate::new(RecordingPolicy::default()), &views);
            let environment = Environment::new(self.home.path(), []);
            let clock = || Time::from_millis(millis);
            let ingester = Ingester::new(AGENTS, &environment, &clock);
            ingester.ingest_all(&mut recorder, &mut |_| {}).expect("it is read");
        }
    }

    /// What was asked in a session, and before it in those it goes on with.
    fn asked_in(journal: &Journal, session: &SessionId) -> String {
        let events = journal.events(session, Selection::all().of_kinds([Kind::UserPrompt]));
        let events = events.expect("it is there").map(|event| event.expect("it can be read"));
        events.filter_map(|event| event.text.clone()).collect()
    }

    #[test]
    fn forks_of_a_gone_parent_that_are_read_together_are_told_once() {
        let rollouts = Rollouts::new();
        for (name, said) in [(2, "abc"), (3, "abd"), (4, "abe")] {
            write_rollout(&rollouts.folder, name, name, Some(1), said);
        }
        rollouts.read_all_at(NOW);
        let said: String = (2..5).map(|name| asked_in(&rollouts.journal, &session(name))).collect();
        let mut said: Vec<char> = said.chars().collect();
        said.sort_unstable();
        assert_eq!(said, ['a', 'b', 'c', 'd', 'e']);
    }

    #[test]
    fn a_fork_of_one_that_is_silent_or_gone_shows_the_whole_talk() {
        for (hours, is_there) in [([0, 0, 0], false), ([0, 0, 0], true), ([0, 1, 2], true)] {
            let rollouts = Rollouts::new();
            let Rollouts { folder, journal, .. } = &rollouts;
            let is_new = |file: File| {
                let since = Duration::from_millis(NOW as u64);
                file.set_modified(SystemTime::UNIX_EPOCH + since).expect("it is ours");
            };
            write_rollout(folder, 1, hours[0], None, "ab");
            rollouts.read_all_at(NOW);
            if is_there {
                is_new(write_rollout(folder, 2, hours[1], Some(1), "ab"));
                rollouts.read_all_at(NOW);
            }
            is_new(write_rollout(folder, 3, hours[2], Some(2), "abc"));
            for later in [0, 60 * 60 * 1_000] {
                rollouts.read_all_at(NOW + later);
                assert_eq!(asked_in(journal, &session(3)), "abc", "{hours:?} {is_there}");
                let own = journal.stat(&session(3)).expect("it is there").events;
                assert_eq!(own, 3, "a start and a turn: {hours:?} {is_there}");
            }
        }
    }

    #[test]
    fn forks_under_other_times_are_linked_and_told_once_in_any_order() {
        for order in [[1, 2, 3], [2, 1, 3], [2, 3, 1], [3, 2, 1]] {
            let rollouts = Rollouts::new();
            let Rollouts { folder, journal, .. } = &rollouts;
            for name in order {
                let prompts = ["ab", "abc", "abcd"][name as usize - 1];
                let parent = Some(name - 1).filter(|parent| *parent > 0);
                write_rollout(folder, name, name, parent, prompts);
                rollouts.read_all_at(NOW);
            }
            let way = journal.lineage(&session(3)).expect("it can be followed");
            let way: Vec<SessionId> = way.into_iter().map(|step| step.session_id).collect();
            assert_eq!(way, [1, 2, 3].map(session), "{order:?}");
            let events = (1..4).map(|name| journal.stat(&session(name)).expect("it is there"));
            let events: u64 = events.map(|info| info.events).sum();
            // A start each, a note for those that another told first, and four turns with a prompt.
            let notes = order.windows(2).filter(|pair| pair[0] > pair[1]).count() as u64;
            assert_eq!(events, 3 + notes + 8, "{order:?}");
        }
    }

    #[test]
    fn news_is_handed_over_soon_and_history_in_large_pieces() {
        let dir = TempDir::new().expect("a folder can be made");
        let journal = Journal::open_or_create(&dir.path().join("journal"), &Options::default());
        let journal = journal.expect("it can be made");
        let views = RefCell::default();
        let gathered_after = |mut recorder: Recorder<'_>| {
            for number in 0..2 {
                let at = Time::from_millis(1_800_000_000_000 + number);
                let session = SessionId::new(format!("claude:s{number}")).expect("a plain id");
                let id = EventId::derived(at, "claude", session.as_str(), b"0");
                let data = Raw::parse("{\"text\":\"told\"}").expect("it is JSON");
                let draft = Draft::with_data(id, session.clone(), at, Kind::Note, data);
                let to = "0".to_owned();
                let batch =
                    Batch { source: session.to_string(), from: None, to, drafts: vec![draft] };
                recorder.put_batch(batch).expect("it is taken");
                while recorder.gathered_since.elapsed() < GATHERED_FOR {}
            }
            recorder.gathered.len()
        };
        let recorder = || Recorder::new(&journal, Gate::new(RecordingPolicy::default()), &views);
        assert_eq!(gathered_after(recorder().for_news()), 0);
        assert_eq!(gathered_after(recorder()), 2);
    }
}
