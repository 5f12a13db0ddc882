//! The files git knows, or would add.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A text file of the repository.
pub(crate) struct File {
    /// From the root of the repository, with slashes.
    pub path: String,
    pub text: String,
}

impl File {
    pub(crate) fn new(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }
}

pub(crate) fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("the crate lies two folders deep").to_owned()
}

/// Every text file, new ones included: a rule should speak up before the commit, not after it.
pub(crate) fn files() -> Vec<File> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git can be started");
    assert!(listed.status.success(), "git lists the files: {listed:?}");
    let paths = String::from_utf8(listed.stdout).expect("paths are UTF-8");
    let mut files = Vec::new();
    for path in paths.split_terminator('\0') {
        // What was deleted but not yet committed is listed too.
        let Ok(bytes) = fs::read(root().join(path)) else { continue };
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(File { path: path.to_owned(), text });
        }
    }
    assert!(files.len() > 20, "only {} files were found", files.len());
    files
}

/// The Rust files among them.
pub(crate) fn rust_files() -> Vec<File> {
    files().into_iter().filter(|file| file.path.ends_with(".rs")).collect()
}

#[test]
fn the_tree_has_this_file() {
    assert!(rust_files().iter().any(|file| file.path.ends_with("tests/tidy/tree.rs")));
}
