//! Which crate may use which.
//!
//! Data flows one way, and so do the arrows. A new one is a decision about the architecture: it
//! changes this table and `ARCHITECTURE.md` in the same commit.

use crate::finding::{Finding, assert_none};
use crate::manifest::{Dependency, Member, members};

/// Every crate, in flow order, and the crates it may use.
const MAY_USE: &[(&str, &[&str])] = &[
    ("event", &[]),
    ("search", &[]),
    ("journal", &["event", "search"]),
    ("session", &["event", "journal"]),
    ("capture", &["event"]),
    ("projection", &["event"]),
    ("redact", &[]),
    ("rules", &["event"]),
    ("model", &["event", "projection", "redact"]),
    ("views", &["event", "journal", "projection", "redact"]),
    ("host", &["event", "capture", "projection"]),
    ("bus", &[]),
    ("supervise", &["event", "bus"]),
    ("wire", &["event"]),
    ("hooks", &["event", "capture", "host", "rules", "wire"]),
    (
        "ingest",
        &["event", "journal", "capture", "projection", "views", "host", "bus", "wire", "hooks"],
    ),
    (
        "segments",
        &["event", "journal", "projection", "views", "redact", "bus", "supervise", "wire"],
    ),
    ("serve", &["event", "journal", "capture", "bus", "wire"]),
    (
        "daemon",
        &[
            "event",
            "journal",
            "session",
            "capture",
            "projection",
            "redact",
            "model",
            "views",
            "host",
            "rules",
            "bus",
            "supervise",
            "wire",
            "hooks",
            "ingest",
            "segments",
            "serve",
        ],
    ),
    (
        "cli",
        &[
            "event",
            "journal",
            "session",
            "capture",
            "projection",
            "redact",
            "views",
            "host",
            "rules",
            "bus",
            "supervise",
            "wire",
            "hooks",
            "ingest",
            "segments",
            "daemon",
        ],
    ),
    ("testkit", &["event", "journal", "session"]),
    ("bench", &["event", "journal", "session", "bus", "testkit"]),
];

/// What every crate's tests may use beside that.
const TESTS_MAY_USE: &str = "testkit";

/// Packages from outside that only some crates may use, and why.
const KEPT_IN: &[(&str, &[&str], &str)] = &[
    (
        "rusqlite",
        &["journal", "capture", "testkit", "bench"],
        "only `journal` knows our database; `capture` reads those of agents, `testkit` may damage \
         one, `bench` may race against one",
    ),
    ("ureq", &["model"], "nothing else here asks other machines for anything"),
];

fn arrows(members: &[Member]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in members {
        let path = format!("crates/{}/Cargo.toml", member.name);
        let Some((_, may_use)) = MAY_USE.iter().find(|(name, _)| *name == member.name) else {
            findings.push(Finding::about(path, "the crate has no row in the table of arrows"));
            continue;
        };
        for dependency in &member.dependencies {
            if let Some(why) = refusal(member, dependency, may_use) {
                findings.push(Finding::about(&path, why));
            }
        }
    }
    for (name, _) in MAY_USE {
        if !members.iter().any(|member| member.name == *name) {
            findings.push(Finding::about(*name, "the table of arrows names a crate that is gone"));
        }
    }
    findings
}

fn refusal(member: &Member, dependency: &Dependency, may_use: &[&str]) -> Option<String> {
    let name = dependency.name.as_str();
    if dependency.ours {
        let in_tests = dependency.for_tests && name == TESTS_MAY_USE;
        let allowed = may_use.contains(&name) || in_tests;
        return (!allowed).then(|| format!("`{}` may not use `{name}`", member.name));
    }
    let (_, crates, why) = KEPT_IN.iter().find(|(package, _, _)| *package == name)?;
    let allowed = crates.contains(&member.name.as_str());
    (!allowed).then(|| format!("`{}` may not use `{name}`: {why}", member.name))
}

#[test]
fn every_arrow_is_in_the_table() {
    assert_none(&arrows(&members()));
}

#[track_caller]
fn check(member: &str, dependency: Dependency, is_allowed: bool) {
    let member = Member { name: member.to_owned(), dependencies: vec![dependency] };
    let findings = arrows(&[member]);
    let refused = findings.iter().any(|finding| finding.why.contains("may not use"));
    assert_eq!(refused, !is_allowed, "{findings:?}");
}

fn ours(name: &str) -> Dependency {
    Dependency { name: name.to_owned(), ours: true, for_tests: false }
}

#[test]
fn an_arrow_against_the_flow_is_found() {
    check("journal", ours("event"), true);
    check("event", ours("journal"), false);
    check("journal", ours("session"), false);
}

#[test]
fn only_tests_use_the_testkit() {
    check("journal", ours("testkit"), false);
    check("journal", Dependency { for_tests: true, ..ours("testkit") }, true);
    check("journal", Dependency { for_tests: true, ..ours("session") }, false);
}

#[test]
fn the_database_stays_in_the_journal() {
    let rusqlite = || Dependency { ours: false, ..ours("rusqlite") };
    check("journal", rusqlite(), true);
    check("session", rusqlite(), false);
    check("cli", Dependency { for_tests: true, ..rusqlite() }, false);
}

#[test]
fn a_crate_outside_the_table_is_found() {
    let findings = arrows(&[Member { name: "shed".to_owned(), dependencies: Vec::new() }]);
    assert!(findings.iter().any(|finding| finding.path == "crates/shed/Cargo.toml"));
    // All the rows are without their crate here.
    assert_eq!(findings.len(), 1 + MAY_USE.len());
}
