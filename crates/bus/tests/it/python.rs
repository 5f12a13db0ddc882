//! Python: a client written from the public description alone, and the one we ship.

use std::path::Path;
use std::process::Command;

use crate::hall::Hall;

/// Runs a script against a server.
#[track_caller]
fn run(script: &str, hall: &Hall) {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = crate_folder.join("tests/python").join(script);
    let clients = crate_folder.join("../../clients/python");
    let mut command = Command::new("python3");
    command.arg("-B").arg(script).arg(hall.path()).arg(clients);
    let output = command.output().expect("`python3` starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.trim_end() == "ok", "{said}{complaints}");
}

#[test]
fn a_client_from_the_public_description_works() {
    run("plain.py", &Hall::open());
}

#[test]
fn the_shipped_python_client_keeps_its_promises() {
    run("shipped.py", &Hall::open());
}
