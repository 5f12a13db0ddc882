//! The report about hooks: when each agent's hooks called last, and which calls failed.
//!
//! Hooks write it themselves, so that it is complete without a daemon, too.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use event::Time;
use serde::{Deserialize, Serialize};

use wire::health_dir;

/// The most bytes of failures, in two files. When one is full, the older one is dropped.
const BYTES_MAX: u64 = 256 * 1024;

/// The report beside a journal, in `health/hooks/`.
#[derive(Debug)]
pub struct HookReport {
    folder: PathBuf,
}

/// A call that could not be delivered or kept.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HookFailure {
    pub at: Time,
    pub agent: String,
    pub event: String,
    pub problem: String,
}

impl HookReport {
    pub fn in_journal(journal: &Path) -> HookReport {
        HookReport { folder: health_dir(journal).join("hooks") }
    }

    /// Notes that a hook of this agent called. An error is ignored: the agent must not see it.
    pub fn note_call(&self, agent: &str, now: Time) {
        let Some(path) = self.call_path(agent) else { return };
        // The file nearly always exists; the folder is created only when that turns out wrong.
        let opened = File::options().append(true).open(&path).or_else(|_| {
            self.create_folder()?;
            OpenOptions::new().append(true).create(true).mode(0o600).open(&path)
        });
        // The time of the file is the note: that costs no bytes however often hooks call.
        let millis = u64::try_from(now.nanos() / 1_000_000).unwrap_or(0);
        let at = UNIX_EPOCH + Duration::from_millis(millis);
        let _ = opened.and_then(|file| file.set_modified(at));
    }

    /// Notes a failed call. An error is ignored, as above.
    pub fn note_failure(&self, agent: &str, event: &str, problem: &str, now: Time) {
        // Both come from the command line and may be of any length.
        let short = |text: &str| text.chars().take(64).collect();
        let (agent, event, problem) = (short(agent), short(event), problem.to_owned());
        let failure = HookFailure { at: now, agent, event, problem };
        let Ok(mut line) = serde_json::to_vec(&failure) else { return };
        line.push(b'\n');
        let path = self.failures_path();
        // Two halves of the limit: the older half is dropped at once, without reading it.
        if fs::metadata(&path).is_ok_and(|found| found.len() >= BYTES_MAX / 2) {
            let _ = fs::rename(&path, path.with_extension("older"));
        }
        let _ = self.create_folder().and_then(|()| {
            let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
            file.write_all(&line)
        });
    }

    /// When a hook of this agent called last.
    pub fn last_call(&self, agent: &str) -> Option<Time> {
        let modified = fs::metadata(self.call_path(agent)?).ok()?.modified().ok()?;
        let since = modified.duration_since(UNIX_EPOCH).ok()?;
        Some(Time::from_millis(i64::try_from(since.as_millis()).ok()?))
    }

    /// The latest failures, oldest first.
    pub fn failures(&self) -> Vec<HookFailure> {
        let path = self.failures_path();
        // The older file first, so that the failures are in order of time.
        let texts = [path.with_extension("older"), path].map(fs::read_to_string);
        let texts = texts.into_iter().flatten();
        let lines = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
        // A line torn by a crash is skipped.
        lines.filter_map(|line| serde_json::from_str(&line).ok()).collect()
    }

    /// The file that has the time of the last call; `None` for an unknown agent: its name must not
    /// become part of a path.
    fn call_path(&self, agent: &str) -> Option<PathBuf> {
        let is_agent = capture::AGENTS.iter().any(|known| known.provider() == agent);
        is_agent.then(|| self.folder.join(agent))
    }

    fn failures_path(&self) -> PathBuf {
        self.folder.join("failures.jsonl")
    }

    fn create_folder(&self) -> std::io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)
    }
}
