//! Generated transcripts of two agents, in the folders where the agents write them, with a
//! manifest of what a reader has to find.
//!
//! `transcripts/gen.py` writes them; the same size and seed give the same bytes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tempfile::TempDir;

/// A tree of transcripts. Dropping it removes the folder.
pub struct Transcripts {
    dir: TempDir,
}

/// The least age of the files. Capture takes a line that is unfinished for so long as final.
const AGE: Duration = Duration::from_secs(24 * 60 * 60);

impl Transcripts {
    /// Generates about `size` (as in `5mb`); `claude_share` of it (as in `0.6`) is Claude Code's, the
    /// rest Codex's.
    pub fn make(size: &str, seed: u32, claude_share: &str) -> Transcripts {
        let dir = tempfile::Builder::new().prefix("hansard-transcripts").tempdir();
        let transcripts = Transcripts { dir: dir.expect("a folder for the test") };
        let seed = seed.to_string();
        transcripts.generator(&[
            "make",
            "--size",
            size,
            "--seed",
            &seed,
            "--claude-share",
            claude_share,
        ]);
        // Fresh files would make capture wait for the end of their last lines.
        transcripts.age();
        transcripts
    }

    /// Appends lines to a finished session of one agent and returns their totals.
    pub fn append(&self, agent: &str, lines: u32) -> Value {
        let lines = lines.to_string();
        let told = self.generator(&["append", "--agent", agent, "--lines", &lines]);
        self.age();
        serde_json::from_slice(&told).expect("the generator tells JSON")
    }

    /// The folder with `claude` and `codex`, each as its agent keeps it.
    pub fn root(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    /// The totals of the whole tree.
    pub fn manifest(&self) -> Value {
        let text = fs::read_to_string(self.root().join("manifest.json"));
        serde_json::from_str(&text.expect("there is a manifest")).expect("it is JSON")
    }

    /// The totals of each session.
    pub fn sessions(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.root().join("sessions.jsonl"));
        let text = text.expect("there is a list");
        text.lines().map(|line| serde_json::from_str(line).expect("each is JSON")).collect()
    }

    /// Sets the time of every newer file back to a day ago.
    pub fn age(&self) {
        set_back_time(&self.root(), SystemTime::now() - AGE);
    }

    fn generator(&self, arguments: &[&str]) -> Vec<u8> {
        let generator = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts/gen.py");
        let mut command = Command::new("python3");
        command.arg(generator).args(arguments).arg("--out").arg(self.root());
        let made = command.output().expect("python3 runs the generator");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        made.stdout
    }
}

fn set_back_time(path: &Path, latest: SystemTime) {
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("the folder can be listed") {
            set_back_time(&entry.expect("the folder can be listed").path(), latest);
        }
        return;
    }
    let file = File::options().append(true).open(path).expect("the file can be opened");
    let changed = file.metadata().and_then(|metadata| metadata.modified());
    // Only newer ones: setting a time is a change that capture would notice in all the others.
    if changed.expect("the file has a time") > latest {
        file.set_modified(latest).expect("the file takes a time");
    }
}
