//! What is remembered of hooks that called: when each agent did last, and what went wrong.
//!
//! Hooks write here themselves, so that it is known without a daemon, too.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use event::Time;
use serde::{Deserialize, Serialize};

use wire::health_dir;

/// Bytes of failures that are kept. With more the older half goes.
const BYTES_MAX: u64 = 256 * 1024;

/// The memory of hooks beside a journal.
#[derive(Debug)]
pub struct HookReport {
    folder: PathBuf,
}

/// A call that came to nothing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HookFailure {
    pub at: Time,
    pub agent: String,
    pub event: String,
    pub problem: String,
}

impl HookReport {
    pub fn of(journal: &Path) -> HookReport {
        HookReport { folder: health_dir(journal).join("hooks") }
    }

    /// A hook of this agent has called. Where that cannot be noted, nobody is told.
    pub fn called(&self, agent: &str, now: Time) {
        let Some(path) = self.place(agent) else { return };
        let noted = File::options().append(true).open(&path).or_else(|_| {
            self.make()?;
            OpenOptions::new().append(true).create(true).mode(0o600).open(&path)
        });
        let millis = u64::try_from(now.nanos() / 1_000_000).unwrap_or(0);
        let at = UNIX_EPOCH + Duration::from_millis(millis);
        let _ = noted.and_then(|file| file.set_modified(at));
    }

    /// A call came to nothing.
    pub fn failed(&self, agent: &str, event: &str, problem: &str, now: Time) {
        let short = |text: &str| text.chars().take(64).collect();
        let (agent, event, problem) = (short(agent), short(event), problem.to_owned());
        let failure = HookFailure { at: now, agent, event, problem };
        let Ok(mut line) = serde_json::to_vec(&failure) else { return };
        line.push(b'\n');
        let path = self.failures_path();
        if fs::metadata(&path).is_ok_and(|found| found.len() >= BYTES_MAX / 2) {
            let _ = fs::rename(&path, path.with_extension("older"));
        }
        let _ = self.make().and_then(|()| {
            let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
            file.write_all(&line)
        });
    }

    /// When a hook of this agent called last.
    pub fn last_call(&self, agent: &str) -> Option<Time> {
        let modified = fs::metadata(self.place(agent)?).ok()?.modified().ok()?;
        let since = modified.duration_since(UNIX_EPOCH).ok()?;
        Some(Time::from_millis(i64::try_from(since.as_millis()).ok()?))
    }

    /// The failures that are remembered, oldest first.
    pub fn failures(&self) -> Vec<HookFailure> {
        let path = self.failures_path();
        let texts = [path.with_extension("older"), path].map(fs::read_to_string);
        let texts = texts.into_iter().flatten();
        let lines = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
        lines.filter_map(|line| serde_json::from_str(&line).ok()).collect()
    }

    /// Where it is noted that an agent's hooks called; `None` for what is no agent.
    fn place(&self, agent: &str) -> Option<PathBuf> {
        let is_agent = capture::AGENTS.iter().any(|known| known.provider() == agent);
        is_agent.then(|| self.folder.join(agent))
    }

    fn failures_path(&self) -> PathBuf {
        self.folder.join("failures.jsonl")
    }

    fn make(&self) -> std::io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)
    }
}
