//! How the program is linked: an agent waits for `hansard hook`, which does little more than start.
//!
//! Both only on Linux with its usual C library; elsewhere, and where all of it is in the program,
//! the compiler knows what a program begins with.

use std::path::PathBuf;
use std::process::Command;

/// A program that may be loaded anywhere begins by correcting every address in its tables: tens of
/// thousands here, in pages that would not be touched otherwise, for a call that needs a handful of
/// them. So this one has its place. Stack, heap and libraries still have none.
const AT_ITS_PLACE: &str = "-no-pie";

/// What panics need. As a part of the program it is one library less to find and load.
const UNWINDER: &str = "gcc_eh";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_static = told("CARGO_CFG_TARGET_FEATURE").split(',').any(|it| it == "crt-static");
    let is_gnu = told("CARGO_CFG_TARGET_OS") == "linux" && told("CARGO_CFG_TARGET_ENV") == "gnu";
    if !is_gnu || is_static {
        return;
    }
    println!("cargo::rustc-link-arg-bins={AT_ITS_PLACE}");
    if let Some(folder) = folder_of(&format!("lib{UNWINDER}.a")) {
        println!("cargo::rustc-link-search=native={}", folder.display());
        println!("cargo::rustc-link-lib=static:-bundle={UNWINDER}");
    }
}

/// Where the C compiler has a library; `None` if it has none, or not for the machine built for.
fn folder_of(library: &str) -> Option<PathBuf> {
    if told("HOST") != told("TARGET") {
        return None;
    }
    let asked = Command::new("cc").arg(format!("-print-file-name={library}")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(asked.stdout).ok()?.trim());
    // What it does not have it calls by its name alone.
    path.is_absolute().then(|| path.parent().map(PathBuf::from))?
}

fn told(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}
