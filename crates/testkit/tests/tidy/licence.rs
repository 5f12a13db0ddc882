//! Under which terms a package may come.

use std::fs;
use std::iter::Peekable;
use std::vec::IntoIter;

use crate::finding::{Finding, assert_none};
use crate::manifest::{Package, packages};
use crate::tree::root;

/// Terms that ask for no more than a notice. A new one is a decision, not a formality.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    // Of data: the list of those whom browsers trust to vouch for a host.
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

fn licences(packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        match &package.licence {
            None => findings.push(Finding::about(&package.name, "it names no licence")),
            Some(licence) if !is_allowed(licence) => {
                let why = format!("its licence `{licence}` is not on the list");
                findings.push(Finding::about(&package.name, why));
            }
            Some(_) => {}
        }
    }
    findings
}

/// Whether a licence expression leaves a choice that is on the list.
fn is_allowed(expression: &str) -> bool {
    // Old packages write a slash for a choice.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<String> = spaced.split_whitespace().map(str::to_owned).collect();
    let mut words = words.into_iter().peekable();
    let allowed = choice(&mut words);
    allowed && words.next().is_none()
}

type Words = Peekable<IntoIter<String>>;

fn choice(words: &mut Words) -> bool {
    let mut allowed = all_of(words);
    while words.next_if(|word| word == "OR").is_some() {
        allowed |= all_of(words);
    }
    allowed
}

fn all_of(words: &mut Words) -> bool {
    let mut allowed = one(words);
    while words.next_if(|word| word == "AND").is_some() {
        allowed &= one(words);
    }
    allowed
}

fn one(words: &mut Words) -> bool {
    let Some(word) = words.next() else { return false };
    if word == "(" {
        let allowed = choice(words);
        return words.next().is_some_and(|word| word == ")") && allowed;
    }
    let licence = match words.next_if(|word| word == "WITH") {
        Some(_) => format!("{word} WITH {}", words.next().unwrap_or_default()),
        None => word,
    };
    ALLOWED.contains(&licence.as_str())
}

#[test]
fn every_licence_is_on_the_list() {
    let packages = packages();
    assert!(packages.len() > 10, "only {} packages were found", packages.len());
    assert_none(&licences(&packages));
}

#[test]
fn cargo_deny_has_the_same_list() {
    let text = fs::read_to_string(root().join("deny.toml")).expect("there is a `deny.toml`");
    let list = text.lines().skip_while(|line| *line != "allow = [").skip(1);
    let list = list.take_while(|line| *line != "]");
    let licences: Vec<&str> =
        list.map(|line| line.trim().trim_end_matches(',').trim_matches('"')).collect();
    assert_eq!(licences, ALLOWED);
}

#[test]
fn a_choice_needs_one_and_a_sum_needs_all() {
    for allowed in [
        "MIT",
        "MIT/Apache-2.0",
        "MIT OR GPL-3.0-only",
        "GPL-3.0-only OR MIT",
        "(MIT OR GPL-2.0-only) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception OR MIT",
    ] {
        assert!(is_allowed(allowed), "{allowed}");
    }
    for refused in [
        "",
        "GPL-3.0-only",
        "MIT AND GPL-3.0-only",
        "GPL-3.0-only AND (MIT OR ISC)",
        "GPL-3.0-only WITH Classpath-exception-2.0",
        "(MIT",
        "MIT ISC",
    ] {
        assert!(!is_allowed(refused), "{refused}");
    }
}

#[test]
fn a_package_without_a_licence_is_found() {
    let package = |licence: Option<&str>| Package {
        name: "a".to_owned(),
        licence: licence.map(str::to_owned),
    };
    assert_eq!(licences(&[package(Some("MIT"))]), []);
    assert_eq!(licences(&[package(None), package(Some("SSPL-1.0"))]).len(), 2);
}
