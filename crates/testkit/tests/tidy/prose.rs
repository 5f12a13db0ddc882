//! Documents that lead somewhere.

use std::fs;
use std::path::Path;

use crate::finding::{Finding, assert_none, lines};
use crate::manifest::members;
use crate::tree::{File, files, root, rust_files};

/// The heading under which a change a user notices is written down.
const UNRELEASED: &str = "## Unreleased";

/// The link targets of a document outside code blocks, with their lines.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    let mut in_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            links.extend(targets.map(|target| (number, target)));
        }
    }
    links
}

fn broken_links(document: &File, exists: impl Fn(&Path) -> bool) -> Vec<Finding> {
    let folder = Path::new(&document.path).parent().expect("a file lies in a folder");
    let mut findings = Vec::new();
    for (line, target) in links(&document.text) {
        let path = target.split('#').next().unwrap_or_default();
        let is_outside = target.contains("://") || target.starts_with("mailto:");
        if !is_outside && !path.is_empty() && !exists(&folder.join(path)) {
            let why = format!("the link to `{target}` leads nowhere");
            findings.push(Finding::at(&document.path, line, why));
        }
    }
    findings
}

fn changelog(text: &str) -> Vec<Finding> {
    let first = text.lines().find(|line| line.starts_with("## "));
    if first == Some(UNRELEASED) {
        return Vec::new();
    }
    let why = format!("its first section is not `{UNRELEASED}`: the next change has no place");
    vec![Finding::about("CHANGELOG.md", why)]
}

fn untold_crates(architecture: &str, crates: &[String]) -> Vec<Finding> {
    let untold = crates.iter().filter(|name| !architecture.contains(&format!("`crates/{name}`")));
    untold
        .map(|name| {
            Finding::about("ARCHITECTURE.md", format!("it says nothing of `crates/{name}`"))
        })
        .collect()
}

/// Threads that the program names in this file and the page does not. Names that are put together
/// at run time are not found.
fn unlisted_threads(architecture: &str, file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(file.text.lines()) {
        let rest = line.split_once(".name(\"").map_or("", |(_, rest)| rest);
        if let Some((name, _)) = rest.split_once("\".to_owned())")
            && !architecture.contains(&format!("`{name}`"))
        {
            let why = format!("`ARCHITECTURE.md` does not list the thread `{name}`");
            findings.push(Finding::at(&file.path, number, why));
        }
    }
    findings
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn every_link_leads_somewhere() {
    let documents = files().into_iter().filter(|file| file.path.ends_with(".md"));
    let exists = |path: &Path| root().join(path).exists();
    let findings: Vec<Finding> =
        documents.flat_map(|document| broken_links(&document, exists)).collect();
    assert_none(&findings);
}

#[test]
fn the_changelog_awaits_the_next_change() {
    assert_none(&changelog(&read("CHANGELOG.md")));
}

#[test]
fn the_architecture_tells_of_every_crate() {
    let crates: Vec<String> = members().into_iter().map(|member| member.name).collect();
    assert_none(&untold_crates(&read("ARCHITECTURE.md"), &crates));
}

#[test]
fn the_architecture_lists_every_thread() {
    let architecture = read("ARCHITECTURE.md");
    let is_program = |file: &File| file.path.contains("/src/");
    let sources = rust_files().into_iter().filter(is_program);
    let findings: Vec<Finding> =
        sources.flat_map(|file| unlisted_threads(&architecture, &file)).collect();
    assert_none(&findings);
}

#[test]
fn a_broken_link_is_found() {
    let text = "[a](here.md) [b](../gone.md#part)\n[c](https://example.org/d) [e](#f)\n\
                ```\n[g](code.md)\n```\n[h](gone.md)\n";
    let exists = |path: &Path| path == Path::new("docs/here.md");
    let findings = broken_links(&File::new("docs/a.md", text), exists);
    assert_eq!(lines(&findings), [1, 6]);
}

#[test]
fn a_changelog_without_a_place_for_news_is_found() {
    assert_eq!(changelog("# Changes\n\n## Unreleased\n\n## 0.1.0\n"), []);
    assert_eq!(changelog("# Changes\n\n## 0.1.0\n\n## Unreleased\n").len(), 1);
    assert_eq!(changelog("").len(), 1);
}

#[test]
fn an_untold_crate_is_found() {
    let crates = ["event".to_owned(), "shed".to_owned()];
    assert_eq!(untold_crates("`crates/event` has the words.", &crates).len(), 1);
}

#[test]
fn an_unlisted_thread_is_found() {
    let text =
        "let thread = Builder::new().name(\"bus\".to_owned());\n    .name(\"sweep\".to_owned())\n";
    let file = File::new("crates/a/src/lib.rs", text);
    assert_eq!(lines(&unlisted_threads("| `bus` |", &file)), [2]);
}
