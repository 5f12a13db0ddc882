//! What cargo knows of packages.

use std::env;
use std::process::Command;

use serde_json::Value;

use crate::tree::root;

/// A crate of this workspace.
pub(crate) struct Member {
    /// The name of its folder in `crates`.
    pub name: String,
    pub dependencies: Vec<Dependency>,
}

pub(crate) struct Dependency {
    /// The folder for one of ours, the package name for one from outside.
    pub name: String,
    pub ours: bool,
    pub for_tests: bool,
}

/// A package that is built into the program or its tests on this machine.
pub(crate) struct Package {
    pub name: String,
    pub licence: Option<String>,
}

pub(crate) fn members() -> Vec<Member> {
    let metadata = metadata(&["--no-deps"]);
    list(&metadata["packages"]).iter().map(member).collect()
}

pub(crate) fn packages() -> Vec<Package> {
    let host = host();
    let metadata = metadata(&["--filter-platform", &host]);
    // The list of packages holds all platforms' if they happen to be here; the graph does not.
    let nodes = list(&metadata["resolve"]["nodes"]);
    let used: Vec<&str> = nodes.iter().filter_map(|node| node["id"].as_str()).collect();
    let packages = list(&metadata["packages"]).iter();
    packages
        .filter(|package| package["id"].as_str().is_some_and(|id| used.contains(&id)))
        .map(|package| Package {
            name: text(&package["name"]),
            licence: package["license"].as_str().map(str::to_owned),
        })
        .collect()
}

fn member(package: &Value) -> Member {
    let dependencies = list(&package["dependencies"]).iter();
    Member {
        name: folder(&text(&package["name"])),
        dependencies: dependencies
            .map(|dependency| Dependency {
                name: folder(&text(&dependency["name"])),
                ours: dependency["path"].is_string(),
                for_tests: dependency["kind"] == "dev",
            })
            .collect(),
    }
}

/// Our packages are called after their folders.
fn folder(package: &str) -> String {
    package.strip_prefix("hansard-").unwrap_or(package).to_owned()
}

fn metadata(arguments: &[&str]) -> Value {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--locked", "--format-version", "1"])
        .args(arguments)
        .current_dir(root())
        .output()
        .expect("cargo can be started");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo describes the workspace: {complaint}");
    serde_json::from_slice(&output.stdout).expect("cargo writes JSON")
}

fn host() -> String {
    let rustc = Command::new("rustc").arg("-vV").output().expect("rustc can be started");
    let about = String::from_utf8(rustc.stdout).expect("rustc writes UTF-8");
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    host.expect("rustc names its host").to_owned()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("cargo describes a list here")
}

fn text(value: &Value) -> String {
    value.as_str().expect("cargo describes a text here").to_owned()
}
