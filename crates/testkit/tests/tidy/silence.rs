//! Where a lint may be turned off.
//!
//! Clippy sees a bare `unwrap`, a print or a sleep better than a search for words does. What it
//! cannot see is that an exception is made in the wrong place.

use std::fs;

use crate::code::bare;
use crate::finding::{Finding, assert_none, lines};
use crate::manifest::members;
use crate::tree::{File, root, rust_files};

/// Lints that hold everywhere but in the places named, and why.
const HOLDS: &[(&str, &[&str], &str)] = &[
    ("clippy::dbg_macro", &[], "what helped to find a fault goes when the fault is found"),
    (
        "clippy::disallowed_methods",
        // A lock that another process holds can only be asked for again.
        &["crates/journal/src"],
        "`clippy.toml` says for each of them what to use instead",
    ),
    ("clippy::exit", &[], "`main` returns an exit code, so that everything is closed before"),
    ("clippy::print_stderr", &["crates/cli/src/output"], "all printing goes through `cli::output`"),
    ("clippy::print_stdout", &["crates/cli/src/output"], "all printing goes through `cli::output`"),
    ("clippy::todo", &[], "what is committed is done"),
    ("clippy::unimplemented", &[], "what is committed is done"),
    (
        "clippy::unwrap_used",
        // A test that cannot go on stops where it is.
        &[
            "crates/event/tests",
            "crates/journal/tests",
            "crates/session/tests",
            "crates/capture/tests",
            "crates/projection/tests",
            "crates/redact/tests",
            "crates/rules/tests",
            "crates/model/tests",
            "crates/bus/tests",
            "crates/supervise/tests",
            "crates/serve/tests",
            "crates/host/tests",
            "crates/hooks/tests",
            "crates/segments/tests",
            "crates/search/tests",
            "crates/ingest/tests",
            "crates/views/tests",
            "crates/daemon/tests",
            "crates/cli/tests",
            "crates/testkit/tests",
        ],
        "`expect` says what makes failure impossible",
    ),
    ("unsafe_code", &[], "no crate here needs it"),
];

fn silenced(file: &File) -> Vec<Finding> {
    let bare = bare(&file.text);
    let mut findings = Vec::new();
    for attribute in ["#[expect(", "#![expect(", "#[allow(", "#![allow("] {
        for (at, _) in bare.match_indices(attribute) {
            let silenced = bare[at..].split(']').next().unwrap_or_default();
            for (lint, places, why) in HOLDS {
                let is_place = places.iter().any(|place| file.path.starts_with(place));
                if silenced.contains(lint) && !is_place {
                    let line = 1 + bare[..at].matches('\n').count();
                    let why = format!("`{lint}` is turned off: {why}");
                    findings.push(Finding::at(&file.path, line, why));
                }
            }
        }
    }
    findings
}

/// A crate without this section has none of the lints.
fn takes_the_lints(manifest: &File) -> Vec<Finding> {
    let mut sections = manifest.text.split("\n[lints]\n").skip(1);
    match sections.next() {
        Some(section) if section.starts_with("workspace = true\n") => Vec::new(),
        _ => vec![Finding::about(&manifest.path, "it does not take the workspace's lints")],
    }
}

#[test]
fn lints_are_turned_off_only_where_they_may_be() {
    let findings: Vec<Finding> = rust_files().iter().flat_map(silenced).collect();
    assert_none(&findings);
}

#[test]
fn every_crate_takes_the_lints() {
    let manifest = |name: &str| {
        let path = format!("crates/{name}/Cargo.toml");
        let text = fs::read_to_string(root().join(&path)).expect("a crate has a manifest");
        File { path, text }
    };
    let manifests = members().into_iter().map(|member| manifest(&member.name));
    let findings: Vec<Finding> =
        manifests.flat_map(|manifest| takes_the_lints(&manifest)).collect();
    assert_none(&findings);
}

#[test]
fn an_exception_in_the_wrong_place_is_found() {
    let print =
        "fn a() {}\n\n#[expect(\n    clippy::print_stdout,\n    reason = \"b\"\n)]\nfn c() {}";
    assert_eq!(silenced(&File::new("crates/cli/src/output.rs", print)), []);
    assert_eq!(lines(&silenced(&File::new("crates/cli/src/main.rs", print))), [3]);
    let harmless = "// #[expect(unsafe_code)]\n#[expect(clippy::too_many_lines, reason = \"b\")]";
    assert_eq!(silenced(&File::new("crates/event/src/id.rs", harmless)), []);
    let whole = "#![allow(clippy::unwrap_used)]";
    assert_eq!(lines(&silenced(&File::new("crates/event/src/id.rs", whole))), [1]);
}

#[test]
fn a_crate_without_the_lints_is_found() {
    let manifest = |text: &str| takes_the_lints(&File::new("crates/a/Cargo.toml", text)).len();
    assert_eq!(manifest("[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n"), 0);
    assert_eq!(manifest("[package]\nname = \"a\"\n"), 1);
    assert_eq!(manifest("[package]\n\n[lints]\n\n[dependencies]\n"), 1);
}
