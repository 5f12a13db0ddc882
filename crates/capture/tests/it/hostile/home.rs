//! A home that is read, and a sink that takes what is told of it.

use std::fs;
use std::path::{Path, PathBuf};

use capture::{Agent, Batch, Environment, Ingester, KnownSource, Original, Sink, SinkError};
use event::{Draft, EventId, Raw, SessionId, Time};

/// Bytes of what a parser may keep for later.
const STATE_BYTES_MAX: usize = 4 * 1024;

/// Before everything: whatever was written was written just now.
pub(super) const AT_ONCE: Time = Time::EPOCH;

/// Long after everything: no agent will write any more.
pub(super) fn much_later() -> Time {
    Time::from_millis(10_000_000_000_000)
}

/// A folder that is gone with its owner.
pub(super) struct Home(PathBuf);

impl Home {
    pub(super) fn new() -> Home {
        let thread = format!("{:?}", std::thread::current().id());
        let name = format!("hansard-hostile-{}-{thread}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        Home(path)
    }

    /// Where a file lies; its folder is there.
    pub(super) fn path(&self, place: &str) -> PathBuf {
        let path = self.0.join(place);
        fs::create_dir_all(path.parent().expect("it has a folder")).expect("a folder can be made");
        path
    }

    pub(super) fn write(&self, place: &str, bytes: &[u8]) {
        fs::write(self.path(place), bytes).expect("a file can be written");
    }

    pub(super) fn read(&self, agent: &dyn Agent, now: Time, taken: &mut Taken) {
        let environment = Environment::new(Path::new(&self.0), []);
        Ingester::new(&[agent], &environment, &|| now)
            .ingest_all(taken, &mut |_| {})
            .expect("nothing ends a pass but its sink");
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Takes everything and knows nothing again.
#[derive(Default)]
pub(super) struct Taken {
    pub drafts: Vec<Draft>,
    pub kept: Vec<u8>,
    /// How far sources were read.
    pub positions: Vec<(String, String)>,
}

impl Taken {
    /// What was told, where and by which id.
    pub(super) fn facts(&self) -> Vec<(&SessionId, EventId, &str)> {
        let drafts = self.drafts.iter();
        drafts.map(|draft| (&draft.session_id, draft.id, draft.data.get())).collect()
    }

    /// Whatever is told can be written and read.
    pub(super) fn check_drafts(&self) {
        for draft in &self.drafts {
            let (again, _) = Draft::decode(&draft.encode()).expect("what is told can be written");
            assert_eq!(again.data, draft.data);
        }
    }

    /// Nothing a parser keeps grows with its source.
    pub(super) fn check_states(&self) {
        for (_, position) in &self.positions {
            let position = Raw::parse(&**position).expect("a position is JSON");
            let members = position.members().expect("a position is an object");
            let state = members.iter().find(|(name, _)| name == "state");
            let state = state.and_then(|(_, state)| state.text()).unwrap_or_default();
            assert!(state.len() <= STATE_BYTES_MAX, "{} bytes: {state}", state.len());
        }
    }
}

impl Sink for Taken {
    fn show_sources(&self, show: &mut dyn FnMut(KnownSource<'_>)) -> Result<(), SinkError> {
        self.positions
            .iter()
            .for_each(|(key, position)| show(KnownSource { key, checkpoint: position }));
        Ok(())
    }

    fn source(&self, key: &str) -> Result<Option<String>, SinkError> {
        let known = self.positions.iter().find(|(known, _)| known == key);
        Ok(known.map(|(_, position)| position.clone()))
    }

    fn keep_original(&mut self, original: Original<'_>) -> Result<(), SinkError> {
        self.kept.truncate(original.offset as usize);
        self.kept.extend(original.bytes);
        Ok(())
    }

    fn put_batch(&mut self, batch: Batch) -> Result<(), SinkError> {
        let known = self.source(&batch.source)?;
        assert_eq!(known, batch.from, "who moves a source knows where it was");
        // A reader that goes on after a parser has failed has found events all the same.
        let has_failed = |draft: &Draft| draft.data.get().contains("the parser failed");
        assert_eq!(batch.drafts.iter().find(|draft| has_failed(draft)), None);
        self.drafts.extend(batch.drafts);
        self.positions.retain(|(key, _)| *key != batch.source);
        self.positions.push((batch.source, batch.to));
        Ok(())
    }

    fn settle(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    fn find_event(&self, _id: EventId) -> Result<Option<(SessionId, u64)>, SinkError> {
        Ok(None)
    }

    fn find_events(
        &self,
        _session: &SessionId,
        ids: &[EventId],
    ) -> Result<Vec<Option<u64>>, SinkError> {
        Ok(vec![None; ids.len()])
    }
}
