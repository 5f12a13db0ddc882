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

/// Threads that this file names and the page does not.
fn unlisted_threads(architecture: &str, file: &File) -> Vec<Finding> {
    let text = file.text.as_str();
    let mut named: Vec<(usize, String)> = Vec::new();
    for (at, call) in text.match_indices(".thread_name(\"") {
        named.push((at, literal(&text[at + call.len() - 1..]).to_owned()));
    }
    for (at, builder) in text.match_indices("Builder::new()") {
        let Some(name) = text[at + builder.len()..].trim_start().strip_prefix(".name(") else {
            continue;
        };
        named.extend(thread_names(text, name).into_iter().map(|name| (at, name)));
    }
    let unlisted =
        named.into_iter().filter(|(_, name)| !architecture.contains(&format!("`{name}`")));
    unlisted
        .map(|(at, name)| {
            let why = format!("`ARCHITECTURE.md` does not list the thread `{name}`");
            Finding::at(&file.path, text[..at].matches('\n').count() + 1, why)
        })
        .collect()
}

/// The names that this argument of `Builder::name` stands for. The part of a name that is known at
/// run time only is written in capitals on the page: `wait-{pid}` is `wait-PID`.
fn thread_names(text: &str, argument: &str) -> Vec<String> {
    if let Some(format) = argument.strip_prefix("format!(") {
        let parts = literal(format).split('{').map(|part| match part.split_once('}') {
            Some((variable, rest)) => variable.to_uppercase() + rest,
            None => part.to_owned(),
        });
        return vec![parts.collect()];
    }
    if argument.starts_with('"') {
        return vec![literal(argument).to_owned()];
    }
    let variable = argument.split(['.', ')']).next().unwrap_or_default();
    let declared = text.split_once(&format!("const {variable}: &str = "));
    match declared {
        Some((_, value)) => vec![literal(value).to_owned()],
        // A function that is given the name. It is called `spawn` wherever we have one.
        None => text.split("spawn(").skip(1).map(literal).map(str::to_owned).collect::<Vec<_>>(),
    }
    .into_iter()
    .filter(|name| !name.is_empty())
    .collect()
}

/// The text between quotes with which this begins; empty if it does not.
fn literal(text: &str) -> &str {
    let quoted = text.strip_prefix('"').and_then(|text| text.split_once('"'));
    quoted.map_or("", |(literal, _)| literal)
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
    let find = |text: &str| {
        let findings = unlisted_threads("| `bus` |", &File::new("crates/a/src/lib.rs", text));
        lines(&findings)
    };
    let text =
        "Builder::new().name(\"bus\".to_owned());\nBuilder::new().name(\"sweep\".to_owned());";
    assert_eq!(find(text), [2]);
    assert_eq!(find("Builder::new()\n    .name(format!(\"wait-{pid}\"))\n"), [1]);
    assert!(find("const NAME: &str = \"bus\";\nBuilder::new().name(NAME.to_owned())").is_empty());
    assert_eq!(find("const NAME: &str = \"busy\";\nBuilder::new().name(NAME.to_owned())"), [2]);
    assert_eq!(
        find(
            "fn spawn(name: &str) {\nBuilder::new().name(name.to_owned())\n}\nspawn(\"tokens\", run);"
        ),
        [2]
    );
    assert_eq!(find("runtime\n.thread_name(\"answering\")"), [2]);
}
