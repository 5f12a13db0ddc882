//! Tests that had to be fixed, and kinds of faults.

use projection::Quality;
use serde_json::json;

use crate::given::Log;

fn folded(log: &Log) -> Quality {
    let mut quality = Quality::default();
    log.events.iter().for_each(|event| quality.apply(event));
    quality
}

#[test]
fn tests_that_pass_after_they_failed_are_a_loop() {
    let mut log = Log::started();
    let test = json!({"command": "cargo test -p app"});
    for failures in [0, 1, 3, 0] {
        for _ in 0..failures {
            let call = log.call("Bash", test.clone());
            log.fail(&call, "test result: FAILED");
        }
        let call = log.call("Bash", test.clone());
        log.result(&call, "ok");
    }
    let call = log.call("Bash", json!({"command": "ls"}));
    log.fail(&call, "no such file");
    let call = log.call("Bash", json!({"command": "ls"}));
    log.result(&call, "ok");
    assert_eq!(folded(&log).loops().len(), 2);
}

#[test]
fn a_fault_has_the_kind_its_words_say() {
    let mut log = Log::started();
    for output in [
        "bash: foo: command not found",
        "error[E0308]: mismatched types",
        "curl: (7) Failed to connect: Connection refused",
        "rm: cannot remove 'x': Permission denied",
        "something else",
    ] {
        let call = log.call("Bash", json!({"command": "make"}));
        log.fail(&call, output);
    }
    let call = log.call("Bash", json!({"command": "cargo test"}));
    log.fail(&call, "it went wrong");
    log.add("error", json!({"message": "429 Too Many Requests"}));
    log.add("error", json!({"message": "the model gave up"}));
    let quality = folded(&log);
    let kinds: Vec<&str> = quality.faults().map(|fault| fault.kind).collect();
    assert_eq!(
        kinds,
        [
            "missing dependency",
            "compile",
            "network",
            "permission",
            "other",
            "test",
            "rate limit",
            "provider"
        ]
    );
}

#[test]
fn what_is_held_of_a_session_is_bounded() {
    let mut log = Log::started();
    for _ in 0..2_000 {
        let call = log.call("Bash", json!({"command": "false"}));
        log.fail(&call, "exit code 1");
        log.call("Bash", json!({"command": "nobody answers"}));
    }
    let quality = folded(&log);
    assert_eq!(quality.faults().count(), 512);
    assert_eq!(quality.faults().last().unwrap().seq, log.events.len() as u64 - 1);
}
