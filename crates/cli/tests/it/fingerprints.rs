//! Fingerprints of everything the program says about the recordings and about a generated tree.
//!
//! The real program ingests each source once. The test then hashes every event, JSON answer and
//! document, one row per source and command, and compares the rows with the tables in
//! `fingerprints/`. A change that is meant to keep the behaviour keeps every row.
//!
//! `UPDATE_EXPECT=1` writes the tables anew. `HANSARD_TEST_OUTPUTS=DIR` writes every hashed output
//! below that folder, to compare two versions with `diff -r`. `HANSARD_TEST_CORPUS=200` adds the
//! large tree.
//!
//! Not here: `status`, `explain`, `approvals` and `statusline`, because they depend on the clock and
//! on the processes of this machine; errors, warnings and tables for people, whose words may change.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;
use sha2::{Digest, Sha256};
use testkit::{Transcripts, World, tables};

use crate::ingest::reading;
use crate::{empty, json};

/// Commands that are asked about each session; its id is the last argument.
const PER_SESSION: &[(&str, &[&str])] = &[
    ("events", &["--json", "show", "--events"]),
    ("show", &["--json", "show"]),
    ("effective", &["--json", "show", "--effective"]),
    ("epochs", &["--json", "show", "--digest"]),
    ("lineage", &["--json", "lineage"]),
    ("replay", &["--json", "replay"]),
    ("resume", &["--json", "resume"]),
    ("bundle", &["export"]),
    ("bundle-tree", &["export", "--tree"]),
    ("bundle-redacted", &["export", "--redact"]),
    ("jsonl", &["export", "--format", "jsonl"]),
    ("markdown", &["export", "--format", "markdown"]),
    ("html", &["export", "--format", "html"]),
    ("text", &["export", "--format", "text"]),
    ("handoff", &["export", "--handoff"]),
];

/// Commands that are asked about the whole journal.
const PER_JOURNAL: &[(&str, &[&str])] = &[
    ("sessions", &["--json", "sessions"]),
    ("sessions-page", &["--json", "sessions", "--limit", "2"]),
    ("usage-daily", &["--json", "usage", "daily"]),
    ("usage-weekly", &["--json", "usage", "weekly"]),
    ("usage-monthly", &["--json", "usage", "monthly"]),
    ("usage-session", &["--json", "usage", "session"]),
    ("usage-model", &["--json", "usage", "model"]),
    ("usage-agent", &["--json", "usage", "agent"]),
    ("usage-project", &["--json", "usage", "project"]),
    ("search-word", &["--json", "search", "the"]),
    ("search-words", &["--json", "search", "lines", "notes", "--order", "newest"]),
    ("search-phrase", &["--json", "search", "\"in the\"", "--order", "oldest"]),
    ("search-substring", &["--json", "search", "not", "--substring", "--limit", "100"]),
    ("search-kind", &["--json", "search", "needleprompt", "--kind", "user.prompt"]),
    ("search-script", &["--json", "search", "針検索"]),
];

/// Agents with recordings; each has a test and a table of its own, so that they run side by side.
const RECORDED: &[&str] = &["claude", "codex", "copilot", "gemini", "opencode", "pi", "qwen"];

/// When all recorded files were last written, in seconds since 1970: 2026-11-16 12:00 UTC, behind
/// everything in them. The status of an ending and some inferred times come from it.
const WRITTEN_AT: u64 = 1_794_830_400;

/// The latest days that `digest` is asked about.
const DAYS_MAX: usize = 5;

/// Bytes of SHA-256 that are kept: enough to notice every change, short enough to read.
const FINGERPRINT_LEN: usize = 16;

/// The fingerprint of each output, by `source command`.
type Fingerprints = BTreeMap<String, String>;

#[test]
fn claude_recordings_are_unchanged() {
    check_recordings("claude");
}

#[test]
fn codex_recordings_are_unchanged() {
    check_recordings("codex");
}

#[test]
fn copilot_recordings_are_unchanged() {
    check_recordings("copilot");
}

#[test]
fn gemini_recordings_are_unchanged() {
    check_recordings("gemini");
}

#[test]
fn opencode_recordings_are_unchanged() {
    check_recordings("opencode");
}

#[test]
fn pi_recordings_are_unchanged() {
    check_recordings("pi");
}

#[test]
fn qwen_recordings_are_unchanged() {
    check_recordings("qwen");
}

#[test]
fn every_recorded_agent_is_fingerprinted() {
    assert_eq!(folders(&fixtures()), RECORDED);
}

#[test]
fn small_tree_is_unchanged() {
    check_tree("tree-6mb", "6mb");
}

#[test]
fn large_tree_is_unchanged() {
    if std::env::var("HANSARD_TEST_CORPUS").as_deref() == Ok("200") {
        check_tree("tree-200mb", "200mb");
    } else {
        println!("not checked: HANSARD_TEST_CORPUS=200 asks for it");
    }
}

#[test]
fn only_what_varies_is_normalised() {
    let names = HashMap::from([("0123456789abcdef".to_owned(), "<a.jsonl>".to_owned())]);
    let event = r#"{"observed_at":"2026-11-16T12:00:00Z","text":"\"observed_at\":\"x\"","metadata":{"record":"0123456789abcdef/0/1+2"}}"#;
    let expected = r#"{"observed_at":"-","text":"\"observed_at\":\"x\"","metadata":{"record":"<a.jsonl>/0/1+2"}}"#;
    assert_eq!(normalise(event, &names), expected);
    assert_eq!(normalise("no event", &names), "no event");
}

fn check_recordings(agent: &str) {
    let mut fingerprints = Fingerprints::new();
    for scenario in folders(&fixtures().join(agent)) {
        let recorded = fixtures().join(agent).join(&scenario).join("home");
        let world = empty();
        copy_files(&recorded, world.home());
        tables::build_databases(&recorded, world.home());
        let written_at = UNIX_EPOCH + Duration::from_secs(WRITTEN_AT);
        for path in files_below(world.home()) {
            let file = File::options().append(true).open(path).unwrap();
            file.set_modified(written_at).unwrap();
        }
        let source = format!("{agent}/{scenario}");
        Source { name: &source, world: &world, root: world.home() }.add_to(&mut fingerprints);
    }
    compare(agent, &fingerprints);
}

fn check_tree(name: &str, size: &str) {
    // The generator gives its files times of their own, the same for the same seed.
    let transcripts = Transcripts::make(size, 41, "0.6");
    let world = reading(&transcripts);
    let mut fingerprints = Fingerprints::new();
    Source { name, world: &world, root: &transcripts.root() }.add_to(&mut fingerprints);
    compare(name, &fingerprints);
}

/// One home, or one tree of transcripts, and the world that reads it.
struct Source<'a> {
    name: &'a str,
    world: &'a World,
    /// The folder that holds the transcripts.
    root: &'a Path,
}

impl Source<'_> {
    /// Ingests everything and adds the fingerprint of each command's output.
    fn add_to(&self, fingerprints: &mut Fingerprints) {
        let mut report = json(&self.world.run(&["--json", "ingest", "--once"])).remove(0);
        // How long it took is never the same twice.
        for duration in ["elapsed_ms", "cpu_ms"] {
            report.as_object_mut().unwrap().remove(duration).unwrap();
        }
        // The words of a warning are for people; its kind, path and count are compared.
        for warning in report["warnings"].as_array_mut().unwrap() {
            warning.as_object_mut().unwrap().remove("message").unwrap();
        }
        let report = self.without_root(&report.to_string());
        self.keep("ingest", "report", &report);
        fingerprints.insert(self.row("ingest"), fingerprint(&report));

        let sessions = json(&self.world.run(&["--json", "sessions"]));
        let ids: Vec<&str> =
            sessions.iter().map(|session| session["id"].as_str().unwrap()).collect();
        let names = self.source_names(&sessions);
        for (command, arguments) in PER_JOURNAL {
            let output = self.output(command, arguments, &names);
            fingerprints.insert(self.row(command), fingerprint(&output));
        }
        let days: String = self
            .days()
            .iter()
            .map(|day| self.output("digest", &["--json", "digest", day], &names))
            .collect();
        fingerprints.insert(self.row("digest"), fingerprint(&days));
        for (command, arguments) in PER_SESSION {
            let outputs = in_parallel(&ids, |id| {
                let arguments = [*arguments, &[*id]].concat();
                fingerprint(&self.output(command, &arguments, &names))
            });
            fingerprints.insert(self.row(command), fingerprint(&outputs.concat()));
        }
    }

    fn row(&self, command: &str) -> String {
        format!("{} {command}", self.name)
    }

    /// The normalised output of one run, with the words of the command and its exit code.
    fn output(&self, command: &str, arguments: &[&str], names: &HashMap<String, String>) -> String {
        let said = self.world.run(arguments);
        let stdout = self.without_root(&normalise(&said.stdout, names));
        // The code is part of the contract; the words on stderr are not.
        let output = format!("$ {}\n{stdout}exit {:?}\n", arguments.join(" "), said.code);
        self.keep(command, arguments.last().unwrap(), &output);
        output
    }

    /// The root is a folder of this run.
    fn without_root(&self, output: &str) -> String {
        output.replace(self.root.to_str().unwrap(), "<root>")
    }

    /// Writes an output below the folder that `HANSARD_TEST_OUTPUTS` names, if it is set.
    fn keep(&self, command: &str, about: &str, output: &str) {
        let Some(folder) = std::env::var_os("HANSARD_TEST_OUTPUTS") else { return };
        let folder = Path::new(&folder).join(self.name).join(command);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{}.txt", about.replace(['/', ':'], "_"))), output).unwrap();
    }

    /// The latest days with any use.
    fn days(&self) -> Vec<String> {
        let usage = json(&self.world.run(&["--json", "usage", "daily"])).remove(0);
        let rows = usage["rows"].as_array().unwrap().iter();
        // Use that the agent does not tell by requests has no day.
        let mut days: Vec<String> =
            rows.filter_map(|row| row["key"].as_str().map(str::to_owned)).collect();
        days.sort();
        days.dedup();
        days.split_off(days.len().saturating_sub(DAYS_MAX))
    }

    /// The name under which capture knows each file, and the file's path below the root.
    ///
    /// The name is a hash over an absolute path, which has the folder of this run in it. It is
    /// computed here once more rather than cut out, because it is stored: it must not change.
    fn source_names(&self, sessions: &[Value]) -> HashMap<String, String> {
        let mut names = HashMap::new();
        for path in files_below(self.root) {
            let mut paths = vec![path.clone()];
            // Each session in a database is a source of its own.
            if path.extension().is_some_and(|extension| extension == "db") {
                let ids = sessions.iter().map(|session| &session["provider_session_id"]);
                paths.extend(ids.map(|id| path.join(id.as_str().unwrap())));
            }
            for path in paths {
                let shown = path.strip_prefix(self.root).unwrap().display();
                for agent in RECORDED {
                    let mut hash = Sha256::new();
                    hash.update(agent.as_bytes());
                    hash.update([0]);
                    hash.update(path.as_os_str().as_encoded_bytes());
                    names.insert(hex(&hash.finalize()[..8]), format!("<{agent} {shown}>"));
                }
            }
        }
        names
    }
}

/// Replaces what differs from run to run although nothing has changed.
fn normalise(output: &str, names: &HashMap<String, String>) -> String {
    // `observed_at` is when this run read the record.
    let output = replace_values(output, r#""observed_at":""#, |_| "-".to_owned());
    replace_values(&output, r#""record":""#, |name| {
        names.get(name).cloned().unwrap_or_else(|| name.to_owned())
    })
}

/// Replaces the value behind each `key`, up to the next quote or slash.
///
/// Inside of texts the quotes of the key are escaped, so that only real fields match.
fn replace_values(text: &str, key: &str, replacement: impl Fn(&str) -> String) -> String {
    let mut parts = text.split(key);
    let mut replaced = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (value, rest) = part.split_at(part.find(['"', '/']).unwrap_or(part.len()));
        replaced.push_str(key);
        replaced.push_str(&replacement(value));
        replaced.push_str(rest);
    }
    replaced
}

/// Compares with the committed table, or writes it anew.
#[track_caller]
fn compare(table: &str, fingerprints: &Fingerprints) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = path.join("tests/it/fingerprints").join(format!("{table}.txt"));
    let rows: Vec<String> =
        fingerprints.iter().map(|(row, fingerprint)| format!("{row} {fingerprint}\n")).collect();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, rows.concat()).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let row_of = |line: &str| line.rsplit_once(' ').map(|(row, _)| row.to_owned());
    let before: BTreeMap<_, _> = committed.lines().map(|line| (row_of(line), line)).collect();
    let after: BTreeMap<_, _> = rows.iter().map(|line| (row_of(line), line.trim_end())).collect();
    let mut changes: Vec<String> = Vec::new();
    for row in before.keys().chain(after.keys().filter(|row| !before.contains_key(*row))) {
        let what = match (before.get(row), after.get(row)) {
            (Some(before), Some(after)) if before == after => continue,
            (Some(_), Some(_)) => "changed",
            (Some(_), None) => "is gone",
            (None, _) => "is new",
        };
        changes.push(format!("{} {what}", row.as_deref().unwrap_or("an unreadable line")));
    }
    assert!(
        changes.is_empty(),
        "{}\n\n\
         To see what changed, run this test with HANSARD_TEST_OUTPUTS=/tmp/after, and in a worktree \
         of a commit where it passes with HANSARD_TEST_OUTPUTS=/tmp/before; then \
         `diff -r /tmp/before /tmp/after`.\n\
         If the change is meant, UPDATE_EXPECT=1 writes {} anew; say in the commit why.",
        changes.join("\n"),
        path.display()
    );
}

/// Calls `work` for each item on all processors; the results are in the order of the items.
fn in_parallel<T: Sync>(items: &[T], work: impl Fn(&T) -> String + Sync) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(vec![String::new(); items.len()]);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { return };
                    let result = work(item);
                    results.lock().unwrap()[index] = result;
                }
            });
        }
    });
    results.into_inner().unwrap()
}

fn fingerprint(output: &str) -> String {
    hex(&Sha256::digest(output.as_bytes())[..FINGERPRINT_LEN])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../capture/tests/fixtures")
}

/// The names of the folders in a folder, sorted.
fn folders(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let folders = entries.filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> =
        folders.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Copies a recorded home, without the rows from which databases are made.
fn copy_files(recorded: &Path, home: &Path) {
    // Sorted: a file system tells when each file began, and a fork must not begin before its parent
    // in one run and after it in the next.
    for path in files_below(recorded) {
        let copy = home.join(path.strip_prefix(recorded).unwrap());
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        if !path.to_str().unwrap().ends_with(".rows.jsonl") {
            fs::copy(path, copy).unwrap();
        }
    }
}

/// Every file below a folder, sorted by path.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}
