//! A source that is read while it grows tells what it tells when it is read whole.

use std::fs;
use std::path::{Path, PathBuf};

use capture::Agent;
use tempfile::TempDir;

use crate::memory::Memory;
use crate::scenario::{fixtures, read, stamp, told};

/// Reads a recording in growing prefixes, cut at every `step` bytes.
#[track_caller]
pub(crate) fn check_growth(agent: &dyn Agent, scenario: &str, step: usize) {
    let home = fixtures().join(agent.provider()).join(scenario).join("home");
    let mut whole = Memory::default();
    read(agent, &home, &mut whole);
    let mut files = Vec::new();
    list(&home, &home, &mut files);
    let dir = TempDir::new().unwrap();
    let mut sink = Memory::default();
    for (path, bytes) in &files {
        let target = dir.path().join(path);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        let cuts = (step..bytes.len()).step_by(step).chain([bytes.len()]);
        for cut in cuts {
            fs::write(&target, &bytes[..cut]).unwrap();
            // What is not finished yet is still being written.
            stamp(&target);
            read(agent, dir.path(), &mut sink);
        }
    }
    assert_eq!(told(&sink), told(&whole), "{scenario}");
}

fn list(home: &Path, folder: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            list(home, &path, files);
        } else {
            let name = path.strip_prefix(home).unwrap().to_owned();
            files.push((name, fs::read(&path).unwrap()));
        }
    }
}
