//! What things are not called.

use std::path::Path;

use crate::code::bare;
use crate::finding::{Finding, assert_none, lines};
use crate::tree::{File, files, rust_files};

/// Names that exclude nothing: code without a place of its own ends up there.
const REFUSED: &[&str] =
    &["common", "core", "helper", "helpers", "manager", "misc", "util", "utils"];

fn path_names(path: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for part in path.split('/') {
        // The name without its ending; `.editorconfig` is all name.
        let name = Path::new(part).file_stem().and_then(|stem| stem.to_str()).unwrap_or(part);
        if let Some(why) = refusal(name) {
            findings.push(Finding::about(path, why));
        }
    }
    findings
}

fn module_names(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(bare(&file.text).lines()) {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        if words.any(|word| word == "mod")
            && let Some(why) = words.find(|word| !word.is_empty()).and_then(refusal)
        {
            findings.push(Finding::at(&file.path, number, why));
        }
    }
    findings
}

fn refusal(name: &str) -> Option<String> {
    let word = name.split(['_', '-']).find(|word| REFUSED.contains(word))?;
    Some(format!("`{word}` says nothing: name it after what it does"))
}

#[test]
fn every_path_says_what_it_is_about() {
    assert_none(&files().iter().flat_map(|file| path_names(&file.path)).collect::<Vec<_>>());
}

#[test]
fn every_module_says_what_it_is_about() {
    assert_none(&rust_files().iter().flat_map(module_names).collect::<Vec<_>>());
}

#[test]
fn an_empty_name_in_a_path_is_found() {
    for path in ["crates/event/src/utils.rs", "crates/core/src/lib.rs", "a/session_manager.rs"] {
        assert_eq!(path_names(path).len(), 1, "{path}");
    }
    for path in ["crates/event/src/score.rs", "docs/utility.md", ".editorconfig"] {
        assert_eq!(path_names(path), [], "{path}");
    }
}

#[test]
fn an_empty_module_name_is_found() {
    let text = "pub mod helpers;\nmod read; // no helpers\nmod test_util {\n}\nuse core::fmt;\n";
    assert_eq!(lines(&module_names(&File::new("a.rs", text))), [1, 3]);
}
