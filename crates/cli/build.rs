//! Names the commit in `hansard --version`, and links the program for a fast start, because an
//! agent waits for `hansard hook`.
//!
//! The linking is only for Linux with glibc, and not for static builds.
//! `docs/decisions/linking-for-a-fast-start.md` has the reasons and the costs.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A position-independent program starts by relocating every address in its tables. There are tens
/// of thousands here, in pages that a hook call would not touch otherwise. Stack, heap and libraries
/// are still at random addresses.
const FIXED_ADDRESS: &str = "-no-pie";

/// The unwinder for panics. Linked statically, it is one library less to find and load.
const UNWINDER: &str = "gcc_eh";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("../..");
    let version = variable("CARGO_PKG_VERSION");
    let version = match commit(&root) {
        Some(commit) => format!("{version} ({commit})"),
        None => version,
    };
    println!("cargo::rustc-env=HANSARD_VERSION={version}");
    link_for_fast_start();
}

/// Returns the commit that is built and its day, such as `abc1234 2026-11-18`; `None` without git,
/// or without a repository, as in a source archive.
fn commit(root: &Path) -> Option<String> {
    // Sources that were unpacked inside another repository are no commit of that one.
    if !root.join(".git").exists() {
        return None;
    }
    // The reflog grows with each commit, checkout and reset, and changes with nothing else: a file
    // below `refs` may be packed away, and its absence would run this script in every build.
    for name in ["HEAD", "logs/HEAD"] {
        let path = root.join(git(root, &["rev-parse", "--git-path", name])?);
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    git(root, &["log", "-1", "--abbrev=7", "--date=format-local:%Y-%m-%d", "--format=%h %cd"])
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    // The day is the same wherever the commit is built.
    let mut git = Command::new("git");
    let output = git.arg("-C").arg(root).args(arguments).env("TZ", "UTC").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

fn link_for_fast_start() {
    let is_static = variable("CARGO_CFG_TARGET_FEATURE").split(',').any(|it| it == "crt-static");
    let is_gnu =
        variable("CARGO_CFG_TARGET_OS") == "linux" && variable("CARGO_CFG_TARGET_ENV") == "gnu";
    if !is_gnu || is_static {
        return;
    }
    println!("cargo::rustc-link-arg-bins={FIXED_ADDRESS}");
    if let Some(folder) = library_folder(&format!("lib{UNWINDER}.a")) {
        println!("cargo::rustc-link-search=native={}", folder.display());
        println!("cargo::rustc-link-lib=static:-bundle={UNWINDER}");
    }
}

/// Returns the folder of a library of the C compiler; `None` if it has none, or when
/// cross-compiling.
fn library_folder(library: &str) -> Option<PathBuf> {
    if variable("HOST") != variable("TARGET") {
        return None;
    }
    let asked = Command::new("cc").arg(format!("-print-file-name={library}")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(asked.stdout).ok()?.trim());
    // For a library that it does not have, `cc` prints the bare name.
    path.is_absolute().then(|| path.parent().map(PathBuf::from))?
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}
