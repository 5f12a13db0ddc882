//! What `./live crowd` would report: its comparison is given a wrong status, a flicker and a session
//! of another user.
// Tells the lints that all of this is a test, where a panic is an answer.
#![cfg(test)]

use std::path::Path;
use std::process::Command;

#[test]
fn crowd_reports_what_is_wrong() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new("python3");
    command.arg("-B").arg(root.join("tests/live/crowd.py")).arg(root.join("live"));
    let output = command.output().expect("`python3` starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
