//! Text committed by mistake: notes to oneself, paths of one machine, and marks of a merge.

use crate::finding::{Finding, assert_none, lines};
use crate::tree::{File, files};

/// Notes that promise something for later. In two halves, so that this file has none of them.
const MARKERS: &[&str] =
    &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK")];

/// The first folders of paths that exist on one machine only.
const PRIVATE_FOLDERS: &[&str] = &["root", "work", "Users"];

/// The only user name in our examples.
const EXAMPLE_USER: &str = "dev";

fn markers(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(file.text.lines()) {
        let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        for word in words.filter(|word| MARKERS.contains(word)) {
            let why = format!("`{word}` is a plan: do it, or leave it out");
            findings.push(Finding::at(&file.path, number, why));
        }
    }
    findings
}

/// The marks that git leaves where two changes meet. In two halves, as above.
const MERGE_MARKS: &[&str] = &[concat!("<<<<", "<<< "), concat!(">>>>", ">>> ")];

fn merge_marks(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(file.text.lines()) {
        if MERGE_MARKS.iter().any(|mark| line.starts_with(mark)) {
            let why = "a mark of a merge: decide which of the two texts holds";
            findings.push(Finding::at(&file.path, number, why));
        }
    }
    findings
}

/// What agents wrote, as they wrote it. Codex names its agents as a tree with a root.
const RECORDINGS: &str = "crates/capture/tests/fixtures/codex/";

fn machine_paths(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_recording = file.path.starts_with(RECORDINGS);
    for (number, line) in (1..).zip(file.text.lines()) {
        for (at, _) in line.match_indices('/') {
            let is_absolute = !line[..at].ends_with(is_path_character);
            let is_agent = is_recording && line[at + 1..].starts_with("root/");
            if is_absolute && !is_agent && is_private(&line[at + 1..]) {
                let why = "a path of one machine: examples live in the home of `dev`";
                findings.push(Finding::at(&file.path, number, why));
            }
        }
    }
    findings
}

/// Returns whether a path, without its first slash, leads into a private folder.
fn is_private(path: &str) -> bool {
    let mut parts = path.split('/');
    let (Some(first), Some(second)) = (parts.next(), parts.next()) else { return false };
    let name_len = second.find(|c| !is_path_character(c)).unwrap_or(second.len());
    let second = &second[..name_len];
    let is_home = first == "home" && !second.is_empty() && second != EXAMPLE_USER;
    is_home || PRIVATE_FOLDERS.contains(&first)
}

/// What can stand before a slash inside a path or an address.
fn is_path_character(c: char) -> bool {
    c.is_alphanumeric() || "._-~*}>/:".contains(c)
}

#[test]
fn nothing_is_put_off() {
    assert_none(&files().iter().flat_map(markers).collect::<Vec<_>>());
}

#[test]
fn no_merge_is_left_undecided() {
    let marked = |text: &str| merge_marks(&File { path: "a.md".to_owned(), text: text.to_owned() });
    assert_eq!(marked("a\n=======\nb\n").len(), 0);
    assert_eq!(marked(&format!("a\n{}HEAD\nb\n{}main\n", MERGE_MARKS[0], MERGE_MARKS[1])).len(), 2);
    assert_none(&files().iter().flat_map(merge_marks).collect::<Vec<_>>());
}

#[test]
fn no_path_is_of_one_machine() {
    assert_none(&files().iter().flat_map(machine_paths).collect::<Vec<_>>());
}

#[test]
fn a_marker_is_found_as_a_word() {
    let text = format!("a\n// {}: b\nc{}d\n", MARKERS[0], MARKERS[2]);
    assert_eq!(lines(&markers(&File::new("a.rs", &text))), [2]);
}

#[track_caller]
fn check(folders: &[&str], is_found: bool) {
    let text = format!("open(\"/{}\")", folders.join("/"));
    assert_eq!(machine_paths(&File::new("a.rs", &text)).len(), usize::from(is_found), "{text}");
}

#[test]
fn a_private_folder_is_found() {
    check(&["root", ".cargo"], true);
    check(&["work", "a"], true);
    check(&["Users", "anna", "a"], true);
    check(&["home", "anna", "a"], true);
    check(&["home", "anna"], true);
}

#[test]
fn an_example_is_no_private_folder() {
    check(&["home", "dev", "project"], false);
    check(&["home", "dev"], false);
    check(&["etc", "root"], false);
    check(&["tmp", "home", "anna"], false);
    let relative = format!("src/{0}/a and https://example.org/{0}/a", "work");
    assert_eq!(machine_paths(&File::new("a.md", &relative)), []);
}
