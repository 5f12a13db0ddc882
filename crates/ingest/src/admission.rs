//! Which sessions are recorded: all but those that the user switched off or deleted.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use capture::Admission;
use event::SessionId;
use journal::Journal;

use crate::policy::{RecordingPolicy, strictest};
use crate::project::Projects;

/// A file that switches off what is worked on in its folder and below. If it says `status`, that
/// is still recorded.
const MARKER: &str = ".hansardignore";

/// Bytes of a marker that are looked at.
const MARKER_BYTES_MAX: u64 = 1_024;

/// Folders that are gone up through.
const LEVELS_MAX: usize = 64;

/// Answers that are remembered; beyond it all are forgotten and found again.
const KNOWN_MAX: usize = 100_000;

/// Decides for each session once, as long as it stays in its folder.
pub(crate) struct Gate {
    policy: RecordingPolicy,
    known: HashMap<SessionId, (Option<String>, Admission)>,
}

impl Gate {
    pub(crate) fn new(policy: RecordingPolicy) -> Gate {
        Gate { policy, known: HashMap::new() }
    }

    /// Whether what is read is kept as it was written.
    pub(crate) fn keeps_originals(&self) -> bool {
        self.policy.originals.keep
    }

    pub(crate) fn admits(
        &mut self,
        journal: &Journal,
        projects: &mut Projects,
        session: &SessionId,
        cwd: Option<&str>,
    ) -> Admission {
        // Asked for every record of a session; the answer depends on the session and its folder.
        if let Some((known_cwd, admission)) = self.known.get(session)
            && known_cwd.as_deref() == cwd
        {
            return *admission;
        }
        let admission = self.decide_session(journal, projects, session, cwd);
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(session.clone(), (cwd.map(str::to_owned), admission));
        admission
    }

    /// Decides anew for every session.
    pub(crate) fn forget_all(&mut self) {
        self.known.clear();
    }

    fn decide_session(
        &self,
        journal: &Journal,
        projects: &mut Projects,
        session: &SessionId,
        cwd: Option<&str>,
    ) -> Admission {
        // A session that cannot be looked up is not recorded: it may be a deleted one.
        if !matches!(journal.deleted_at(session), Ok(None)) {
            return Admission::Nothing;
        }
        let project = cwd.and_then(|cwd| projects.find_project(cwd));
        let ruled = self.policy.capture.admits(session.as_str(), cwd, project.as_deref());
        // A marker on a network drive is not looked for: a drive that hangs would hang capture.
        let marked = cwd.filter(|cwd| projects.may_look(cwd)).map_or(Admission::All, find_marker);
        strictest([ruled, marked].into_iter())
    }
}

/// What a marker in a folder or above says.
fn find_marker(cwd: &str) -> Admission {
    let markers = Path::new(cwd).ancestors().take(LEVELS_MAX).filter_map(|folder| {
        let marker = folder.join(MARKER);
        // Anything but a plain file, such as a pipe, could block the read.
        if !marker.metadata().ok()?.is_file() {
            return None;
        }
        let mut text = String::new();
        // An unreadable marker switches recording off, too: its author meant to exclude the folder.
        let read = File::open(&marker)
            .and_then(|marker| marker.take(MARKER_BYTES_MAX).read_to_string(&mut text));
        let says_status = read.is_ok() && text.trim() == "status";
        Some(if says_status { Admission::Status } else { Admission::Nothing })
    });
    strictest(markers)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs;

    use capture::{AGENTS, Environment, Ingester};
    use event::Time;
    use journal::{Options, Selection};
    use tempfile::TempDir;

    use super::*;
    use crate::recorder::Recorder;

    /// A machine with one transcript, and a journal with rules.
    struct Machine {
        dir: TempDir,
        journal: Journal,
        rules: &'static str,
    }

    impl Machine {
        fn new(rules: &'static str) -> Machine {
            let dir = TempDir::new().unwrap();
            fs::create_dir_all(dir.path().join(".claude/projects/-home-dev-app")).unwrap();
            let journal = dir.path().join("journal");
            let journal = Journal::open_or_create(&journal, &Options::default()).unwrap();
            Machine { dir, journal, rules }
        }

        /// Lets the agent write so much of its transcript, and reads it.
        fn read(&self, lines: &[String]) {
            let file = self.dir.path().join(".claude/projects/-home-dev-app/s1.jsonl");
            fs::write(file, lines.concat()).unwrap();
            let policy = toml::from_str(self.rules).unwrap();
            let policy = RecordingPolicy { capture: policy, ..RecordingPolicy::default() };
            let views = RefCell::default();
            let mut recorder = Recorder::new(&self.journal, Gate::new(policy), &views);
            let environment = Environment::new(self.dir.path(), []);
            let clock = || Time::from_millis(1_800_000_000_000);
            let ingester = Ingester::new(AGENTS, &environment, &clock);
            ingester.ingest_all(&mut recorder, &mut |_| {}).unwrap();
        }

        /// The prompts that are recorded, and whether the originals are kept.
        fn recorded(&self) -> (Vec<String>, bool) {
            let session = SessionId::new("claude:s1").unwrap();
            let events = self.journal.events(&session, Selection::all());
            let events = events.map(|events| events.map(Result::unwrap).collect::<Vec<_>>());
            let events = events.unwrap_or_default().into_iter();
            let prompts = events.filter_map(|event| event.text.clone()).collect();
            (prompts, !self.journal.originals().sources().unwrap().is_empty())
        }
    }

    fn prompt(number: u32, text: &str, folder: Option<&str>) -> String {
        let cwd = folder.map(|folder| format!(r#""cwd":"{folder}","#)).unwrap_or_default();
        format!(
            r#"{{"type":"user","sessionId":"s1","uuid":"u{number}",{cwd}"timestamp":"2026-01-01T00:00:0{number}.000Z","message":{{"role":"user","content":"{text}"}}}}"#
        ) + "\n"
    }

    fn lines(folder: &str) -> [String; 3] {
        [prompt(1, "One.", None), prompt(2, "Two.", None), prompt(3, "Three.", Some(folder))]
    }

    #[test]
    fn records_before_the_folder_are_held_back() {
        for rules in [
            r#"off = [{ path = "**/private" }]"#,
            r#"off = [{ project = "/home/dev/private" }]"#,
            r#"off = [{ path = "**/private" }, { path = "**/other", keep = "status" }]"#,
        ] {
            let machine = Machine::new(rules);
            let lines = lines("/home/dev/private");
            for count in 1..=3 {
                machine.read(&lines[..count]);
                assert_eq!(machine.recorded(), (Vec::new(), false), "{rules} {count}");
            }
        }
    }

    #[test]
    fn records_before_another_folder_are_recorded() {
        let machine = Machine::new(r#"off = [{ path = "**/private" }]"#);
        let lines = lines("/home/dev/app");
        machine.read(&lines[..2]);
        assert_eq!(machine.recorded(), (Vec::new(), false));
        machine.read(&lines);
        let told = ["One.", "Two.", "Three."].map(str::to_owned).to_vec();
        assert_eq!(machine.recorded(), (told, true));
    }

    #[test]
    fn rule_of_another_agent_holds_nothing_back() {
        let machine = Machine::new(r#"off = [{ agent = "codex", path = "**/private" }]"#);
        machine.read(&lines("/home/dev/app")[..1]);
        assert_eq!(machine.recorded(), (vec!["One.".to_owned()], true));
    }
}
