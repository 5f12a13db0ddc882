//! A source that is read while it grows tells what it tells when it is read whole.

use std::fs;

use capture::Agent;
use tempfile::TempDir;

use crate::memory::Memory;
use crate::scenario::{files, fixtures, read, stamp, told};

/// Reads a recording in growing prefixes, cut at every `step` bytes.
#[track_caller]
pub(crate) fn check_growth(agent: &dyn Agent, scenario: &str, step: usize) {
    let home = fixtures().join(agent.provider()).join(scenario).join("home");
    let mut whole = Memory::default();
    read(agent, &home, &mut whole);
    let dir = TempDir::new().unwrap();
    let mut sink = Memory::default();
    for (path, bytes) in files(&home) {
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
