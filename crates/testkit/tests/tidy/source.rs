//! What a Rust file looks like, and what it keeps out of.

use crate::code::{bare, lines_with};
use crate::finding::{Finding, assert_none, lines};
use crate::tree::{File, rust_files};

/// Lines of one file. Half of it is the time to ask which second thing the file has started to
/// do; at this length the answer is due.
const LINES_MAX: usize = 800;

/// Words that do not occur in some places.
struct Absent {
    /// Beginnings of paths in which the words may not stand.
    places: &'static [&'static str],
    /// Beginnings of paths inside those in which they may.
    except: &'static [&'static str],
    words: &'static [&'static str],
    why: &'static str,
}

const ABSENT: &[Absent] = &[
    Absent {
        places: &["crates/event/src/"],
        except: &[],
        words: &["fs::", "net::", "env::", "process::", "thread::", "SystemTime", "Instant"],
        why: "`event` has no IO and no clock",
    },
    Absent {
        places: &["crates/search/src/"],
        except: &[],
        words: &["fs::", "net::", "env::", "process::", "thread::", "SystemTime", "Instant"],
        why: "`search` has no IO and no clock: its store is handed in",
    },
    Absent {
        places: &["crates/session/src/"],
        except: &[],
        words: &["SystemTime::now", "Instant::now"],
        why: "a session is told the time, so that a test can fix it",
    },
    Absent {
        places: &["crates/journal/src/", "crates/session/src/"],
        except: &[],
        words: &["env::var", "env::home_dir"],
        why: "the environment is read once, by the program, and handed in",
    },
    Absent {
        places: &[
            "crates/event/src/",
            "crates/journal/src/",
            "crates/session/src/",
            "crates/cli/src/",
        ],
        except: &["crates/cli/src/output"],
        words: &["stdout()", "stderr()", "print!", "println!", "eprint!", "eprintln!"],
        why: "all printing goes through `cli::output`",
    },
];

fn header(file: &File) -> Vec<Finding> {
    if file.text.starts_with("//! ") {
        return Vec::new();
    }
    let why = "it does not begin with `//!` and what it promises";
    vec![Finding::at(&file.path, 1, why)]
}

fn length(file: &File) -> Vec<Finding> {
    let count = file.text.lines().count();
    if count <= LINES_MAX {
        return Vec::new();
    }
    let why = format!("it has {count} lines, at most {LINES_MAX}: a second file wants to begin");
    vec![Finding::at(&file.path, LINES_MAX + 1, why)]
}

fn absent(file: &File) -> Vec<Finding> {
    let begins = |places: &[&str]| places.iter().any(|place| file.path.starts_with(place));
    let rules = ABSENT.iter().filter(|rule| begins(rule.places) && !begins(rule.except));
    let bare = bare(&file.text);
    let mut findings = Vec::new();
    for rule in rules {
        for word in rule.words {
            for line in lines_with(&bare, word) {
                let why = format!("`{word}` does not belong here: {}", rule.why);
                findings.push(Finding::at(&file.path, line, why));
            }
        }
    }
    findings
}

#[test]
fn every_file_says_what_it_is() {
    assert_none(&rust_files().iter().flat_map(header).collect::<Vec<_>>());
}

#[test]
fn no_file_is_too_long() {
    assert_none(&rust_files().iter().flat_map(length).collect::<Vec<_>>());
}

#[test]
fn the_outside_world_stays_where_it_belongs() {
    assert_none(&rust_files().iter().flat_map(absent).collect::<Vec<_>>());
}

#[test]
fn a_missing_header_is_found() {
    assert_eq!(header(&File::new("a.rs", "//! Something.\n")), []);
    assert_eq!(header(&File::new("a.rs", "use std::fmt;\n")).len(), 1);
    assert_eq!(header(&File::new("a.rs", "// Something.\n")).len(), 1);
    assert_eq!(header(&File::new("a.rs", "")).len(), 1);
}

#[test]
fn one_line_too_many_is_found() {
    assert_eq!(length(&File::new("a.rs", &"\n".repeat(LINES_MAX))), []);
    assert_eq!(lines(&length(&File::new("a.rs", &"\n".repeat(LINES_MAX + 1)))), [LINES_MAX + 1]);
}

#[track_caller]
fn check_absent(path: &str, text: &str, expected: &[usize]) {
    assert_eq!(lines(&absent(&File::new(path, text))), expected, "{path}");
}

#[test]
fn a_clock_in_the_wrong_crate_is_found() {
    let text = "// SystemTime::now\nlet now = SystemTime::now();\n";
    check_absent("crates/event/src/time.rs", text, &[2]);
    check_absent("crates/session/src/fork.rs", text, &[2]);
    check_absent("crates/cli/src/main.rs", text, &[]);
    check_absent("crates/session/tests/it/main.rs", text, &[]);
}

#[test]
fn printing_outside_output_is_found() {
    let text = "writeln!(io::stdout(), \"a\");\nCommand::new(\"b\").stdout(Stdio::piped());\n";
    check_absent("crates/cli/src/command/show.rs", text, &[1]);
    check_absent("crates/cli/src/output.rs", text, &[]);
    check_absent("crates/cli/src/output/table.rs", text, &[]);
    check_absent("crates/bench/src/main.rs", text, &[]);
}
