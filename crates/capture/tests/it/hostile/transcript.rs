//! Bytes as a transcript of any agent.

use std::fs;
use std::path::{Path, PathBuf};

use capture::{AGENTS, Agent, Batch, Environment, KnownSource, Original, Pump, Sink, SinkError};
use event::{Draft, EventId, Raw, SessionId, Time};

/// Where each agent would have written it. Databases are left to those who know their forms.
const PLACES: &[(&str, &str)] = &[
    ("claude", ".claude/projects/p/5f0b1d7e-0000-4000-8000-000000000000.jsonl"),
    (
        "codex",
        ".codex/sessions/2026/01/01/rollout-2026-01-01T00-00-00-5f0b1d7e-0000-7000-8000-000000000000.jsonl",
    ),
    ("gemini", ".gemini/tmp/p/chats/session-2026-01-01T00-00-5f0b1d7e.jsonl"),
    ("qwen", ".qwen/projects/p/chats/5f0b1d7e-0000-4000-8000-000000000000.jsonl"),
];

/// Bytes of what a parser may keep for later.
const STATE_BYTES_MAX: usize = 4 * 1024;

/// Reads the bytes whole, and in two pieces. The first two say as which agent's, and where the
/// pieces meet.
pub(super) fn check(bytes: &[u8]) {
    let [which, cut, text @ ..] = bytes else { return };
    let (provider, place) = PLACES[*which as usize % PLACES.len()];
    let agent = *AGENTS.iter().find(|agent| agent.provider() == provider).expect("it is ours");
    let cut = text.len() * *cut as usize / 255;
    let whole = read(agent, place, &[text]);
    let pieces = read(agent, place, &[&text[..cut], text]);
    assert_eq!(facts(&whole.drafts), facts(&pieces.drafts));
    assert_eq!(whole.kept, pieces.kept, "what was read is kept");
    for draft in &whole.drafts {
        let (again, _) = Draft::decode(&draft.encode()).expect("what is told can be written");
        assert_eq!(again.data, draft.data);
    }
}

/// What is told of a file that has these bytes, one after the other.
fn read(agent: &dyn Agent, place: &str, stages: &[&[u8]]) -> Taken {
    let home = Home::new();
    let path = home.0.join(place);
    fs::create_dir_all(path.parent().expect("it has a folder")).expect("a folder can be made");
    let environment = Environment::new(&home.0, []);
    // Before everything: whatever was written was written just now.
    let clock = || Time::EPOCH;
    let mut taken = Taken::default();
    for stage in stages {
        fs::write(&path, stage).expect("a file can be written");
        Pump::new(&[agent], &environment, &clock)
            .once(&mut taken, &mut |_| {})
            .expect("nothing ends a pass but its sink");
    }
    taken
}

fn facts(drafts: &[Draft]) -> Vec<(&SessionId, EventId, &str)> {
    drafts.iter().map(|draft| (&draft.session_id, draft.id, draft.data.get())).collect()
}

/// A folder that is gone with its owner.
struct Home(PathBuf);

impl Home {
    fn new() -> Home {
        let thread = format!("{:?}", std::thread::current().id());
        let name = format!("hansard-hostile-{}-{thread}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        Home(path)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(Path::new(&self.0));
    }
}

/// Takes everything and knows nothing again.
#[derive(Default)]
struct Taken {
    drafts: Vec<Draft>,
    kept: Vec<u8>,
    position: Option<(String, String)>,
}

impl Sink for Taken {
    fn sources(&self) -> Result<Vec<KnownSource>, SinkError> {
        let known = self.position.iter().cloned();
        Ok(known.map(|(key, position)| KnownSource { key, position }).collect())
    }

    fn source(&self, key: &str) -> Result<Option<String>, SinkError> {
        let known = self.position.as_ref().filter(|(known, _)| known == key);
        Ok(known.map(|(_, position)| position.clone()))
    }

    fn keep(&mut self, original: Original<'_>) -> Result<(), SinkError> {
        self.kept.truncate(original.offset as usize);
        self.kept.extend(original.bytes);
        Ok(())
    }

    fn put(&mut self, batch: Batch) -> Result<(), SinkError> {
        let position = Raw::parse(&*batch.to).expect("a position is JSON");
        let members = position.members().expect("a position is an object");
        let state = members.iter().find(|(name, _)| name == "state");
        let state = state.and_then(|(_, state)| state.text()).unwrap_or_default();
        assert!(state.len() <= STATE_BYTES_MAX, "{} bytes: {state}", state.len());
        self.drafts.extend(batch.drafts);
        self.position = Some((batch.source, batch.to));
        Ok(())
    }

    fn settle(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    fn find(&self, _id: EventId) -> Result<Option<(SessionId, u64)>, SinkError> {
        Ok(None)
    }

    fn find_in(
        &self,
        _session: &SessionId,
        ids: &[EventId],
    ) -> Result<Vec<Option<u64>>, SinkError> {
        Ok(vec![None; ids.len()])
    }
}
