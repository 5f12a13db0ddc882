//! Every command that prints ends quietly if its reader has seen enough, as in `… | head -1`.

use std::collections::BTreeSet;
use std::process::Stdio;

use crate::up::up;
use crate::{empty, sample};

/// What each command prints without a daemon.
const COMMANDS: &[&[&str]] = &[
    &["status", "--all"],
    &["statusline"],
    &["explain", "01KJPX"],
    &["approvals"],
    &["rules", "add", "block shell: rm -rf *"],
    &["rules", "list"],
    &["rules", "test", "--", "rm -rf x"],
    &["rules", "replay", "block shell: git *", "--since", "2026-01-01"],
    &["rules", "export"],
    &["seen", "01KJPX"],
    &["sessions"],
    &["show", "01KJPX"],
    &["show", "01KJPX", "--events"],
    &["show", "01KJPX", "--effective"],
    &["show", "01KJPX", "--digest"],
    &["search", "the"],
    &["usage", "daily"],
    &["prices", "list", "--all"],
    &["digest", "2026-03-02"],
    &["fork", "01KJPX"],
    &["lineage", "01KJPX"],
    &["replay", "01KJPX"],
    &["export", "01KJPX"],
    &["export", "01KJPX", "--format", "markdown"],
    &["import", "--sample"],
    &["delete", "01KJPX"],
    &["hooks", "status"],
    &["ingest", "--once"],
    &["doctor"],
    &["completions", "bash"],
    &["man", "pages"],
    &["help"],
    &["help", "show"],
];

/// What each command prints beside a daemon.
const WITH_DAEMON: &[&[&str]] = &[
    &["web"],
    &["reload"],
    &["bus", "stats"],
    &["task", "list"],
    &["task", "run", "--", "hansard", "sessions"],
    &["service", "list"],
    &["logs"],
    &["notify", "done"],
    &["navigate", "/"],
];

/// Commands that print no result, run until they are stopped, need a terminal or an agent's command.
const NOT_ASKED: &[&str] = &["up", "down", "top", "hook", "resume"];

#[test]
fn closed_pipe_is_a_quiet_end() {
    let world = sample();
    let check = |words: &[&str]| {
        for format in [&[][..], &["--json"]] {
            let arguments = [format, words].concat();
            let mut command = world.command(&arguments);
            let (reader, writer) = std::io::pipe().unwrap();
            // The reading end is closed: the first byte breaks the pipe.
            drop(reader);
            command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
            let output = command.output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(!stderr.contains("panicked"), "{arguments:?}: {stderr}");
            assert!(!stderr.contains("roken pipe"), "{arguments:?}: {stderr}");
            // 101 is a panic, and no code is a signal.
            assert!(output.status.code().is_some_and(|code| code <= 3), "{arguments:?}: {stderr}");
        }
    };
    COMMANDS.iter().for_each(|words| check(words));
    let daemon = up(&world);
    WITH_DAEMON.iter().for_each(|words| check(words));
    assert_eq!(daemon.terminate().code, Some(0));
}

#[test]
fn every_command_is_asked() {
    let asked = COMMANDS.iter().chain(WITH_DAEMON).map(|words| words[0]);
    let known = asked.chain(NOT_ASKED.iter().copied()).map(str::to_owned);
    assert_eq!(commands(), known.collect());
}

/// The commands that the help text lists.
pub(crate) fn commands() -> BTreeSet<String> {
    let help = empty().run(&["help"]).stdout;
    let words = help.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let words = words.filter(|word| word.starts_with(|letter: char| letter.is_ascii_lowercase()));
    words.map(str::to_owned).collect()
}
