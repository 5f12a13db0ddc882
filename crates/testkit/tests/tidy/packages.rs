//! What may stand in the lock file.

use std::fs;

use crate::finding::{Finding, assert_none};
use crate::tree::root;

/// Packages in the lock file, ours included. Each one costs build time and has to be trusted, so
/// the number is raised on purpose, in the commit that needs it, and lowered when one goes.
const PACKAGES_MAX: usize = 301;

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The crate that brings SQLite. From this version on it brings at least 3.51.3: earlier ones can
/// corrupt a database whose write-ahead log two connections reset at once.
const SQLITE: (&str, (u64, u64)) = ("libsqlite3-sys", (0, 37));

/// A package as the lock file has it; the source is absent for one of ours.
struct Locked {
    name: String,
    version: String,
    source: Option<String>,
}

fn budget(packages: &[Locked], packages_max: usize) -> Vec<Finding> {
    let count = packages.len();
    let why = format!("{count} packages, at most {packages_max}: leave one out or raise the limit");
    if count > packages_max { vec![Finding::about("Cargo.lock", why)] } else { Vec::new() }
}

fn sources(packages: &[Locked]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        if let Some(source) = &package.source
            && source != REGISTRY
        {
            let why = format!("`{}` comes from {source}, not from the registry", package.name);
            findings.push(Finding::about("Cargo.lock", why));
        }
    }
    findings
}

fn sqlite(packages: &[Locked]) -> Vec<Finding> {
    let (name, at_least) = SQLITE;
    let mut findings = Vec::new();
    for package in packages {
        // Any other binding brings a second SQLite, with settings and faults of its own.
        let is_second = package.name.contains("sql") && package.name.ends_with("-sys");
        if package.name == name && minor_version(&package.version) < at_least {
            let why = format!("`{name}` {} has a SQLite that can corrupt", package.version);
            findings.push(Finding::about("Cargo.lock", why));
        } else if package.name != name && is_second {
            let why = format!("`{}` brings a second SQLite", package.name);
            findings.push(Finding::about("Cargo.lock", why));
        }
    }
    if packages.iter().filter(|package| package.name == name).count() != 1 {
        findings.push(Finding::about("Cargo.lock", format!("`{name}` is not there exactly once")));
    }
    findings
}

fn locked() -> Vec<Locked> {
    let lock = fs::read_to_string(root().join("Cargo.lock")).expect("there is a lock file");
    parse(&lock)
}

fn parse(lock: &str) -> Vec<Locked> {
    let field = |block: &str, name: &str| {
        let start = format!("{name} = \"");
        let line = block.lines().find_map(|line| line.strip_prefix(start.as_str()))?;
        line.strip_suffix('"').map(str::to_owned)
    };
    let blocks = lock.split("[[package]]").skip(1);
    blocks
        .map(|block| Locked {
            name: field(block, "name").expect("a package has a name"),
            version: field(block, "version").expect("a package has a version"),
            source: field(block, "source"),
        })
        .collect()
}

fn minor_version(version: &str) -> (u64, u64) {
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[test]
fn the_lock_file_keeps_its_budget() {
    assert_none(&budget(&locked(), PACKAGES_MAX));
}

#[test]
fn every_package_comes_from_the_registry() {
    assert_none(&sources(&locked()));
}

#[test]
fn there_is_one_sound_sqlite() {
    assert_none(&sqlite(&locked()));
}

fn package(name: &str, version: &str) -> Locked {
    let source = Some(REGISTRY.to_owned());
    Locked { name: name.to_owned(), version: version.to_owned(), source }
}

#[test]
fn one_package_too_many_is_found() {
    let packages = [package("a", "1.0.0"), package("b", "1.0.0")];
    assert_eq!(budget(&packages, 2), []);
    assert_eq!(budget(&packages, 1).len(), 1);
}

#[test]
fn a_package_from_elsewhere_is_found() {
    let ours = Locked { source: None, ..package("hansard-event", "0.1.0") };
    let git = Some("git+https://example.org/a".to_owned());
    let foreign = Locked { source: git, ..package("a", "1.0.0") };
    assert_eq!(sources(&[ours, package("b", "1.0.0")]), []);
    assert_eq!(sources(&[foreign]).len(), 1);
}

#[test]
fn a_second_an_old_and_no_sqlite_are_found() {
    let sound = || package("libsqlite3-sys", "0.39.1");
    assert_eq!(sqlite(&[sound(), package("sqlite-wasm-rs", "0.6.2")]), []);
    assert_eq!(sqlite(&[sound(), sound()]).len(), 1);
    assert_eq!(sqlite(&[sound(), package("libsql-sys", "0.10.0")]).len(), 1);
    assert_eq!(sqlite(&[package("libsqlite3-sys", "0.36.9")]).len(), 1);
    assert_eq!(sqlite(&[]).len(), 1);
}

#[test]
fn a_lock_file_is_read() {
    let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.2.3\"\nsource = \"x\"\n\n\
                [[package]]\nname = \"b\"\nversion = \"0.1.0\"\ndependencies = [\n \"a\",\n]\n";
    let read: Vec<_> = parse(lock).into_iter().map(|p| (p.name, p.version, p.source)).collect();
    let (a, b) = ("a".to_owned(), "b".to_owned());
    let expected = [(a, "1.2.3".to_owned(), Some("x".to_owned())), (b, "0.1.0".to_owned(), None)];
    assert_eq!(read, expected);
}
