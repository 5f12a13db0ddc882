//! Links the program for a fast start, because an agent waits for `hansard hook`.
//!
//! Only on Linux with glibc, and not for static builds. `docs/decisions/linking-for-a-fast-start.md`
//! has the reasons and the costs.

use std::path::PathBuf;
use std::process::Command;

/// A position-independent program starts by relocating every address in its tables. There are tens
/// of thousands here, in pages that a hook call would not touch otherwise. Stack, heap and libraries
/// are still at random addresses.
const FIXED_ADDRESS: &str = "-no-pie";

/// The unwinder for panics. Linked statically, it is one library less to find and load.
const UNWINDER: &str = "gcc_eh";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
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
