//! A disk that is full stops recording and nothing else, and room is all that is needed to go on.
//!
//! The disk is a real one, small and in memory, that only the script sees; where a process may not
//! mount anything this says so and shows nothing.

use std::process::{Command, Output};

use testkit::World;

use crate::empty;
use crate::follow::prompt;

/// Everything happens in one shell, because other processes do not see the mount. `$1` is the disk, `$2` the
/// program, `$3` a line of a transcript.
const SCRIPT: &str = r#"
    set -e
    mount -t tmpfs -o size=6m,mode=700 tmpfs "$1"
    export HANSARD_JOURNAL="$1/journal"
    disk() { "$2" bus listen --tract supervisor --event status --count 1; }
    transcript="$HOME/.claude/projects/-home-dev-app/s0.jsonl"
    mkdir -p "${transcript%/*}"
    "$2" up --detach >&2
    "$2" bus listen --tract cortex --from 0 --count 1 >/dev/null &
    echo "$3" >> "$transcript"
    wait $!
    dd if=/dev/zero of="$1/ballast" bs=64k count=1000 2>/dev/null || true
    head -c 3000000 /dev/zero | tr '\0' 'x' > "$HOME/long"
    echo "$3" | sed "s/question 0/$(head -c 100000 "$HOME/long")/; s/s0-0/s0-1/" >> "$transcript"
    until disk "$@" | grep -v '"disk":"ok"'; do :; done
    "$2" bus send still here
    "$2" status 2>&1 | grep 'nothing is being recorded' >&2
    "$2" doctor | grep 'BAD daemon' >&2
    rm "$1/ballast"
    until disk "$@" | grep '"disk":"ok"'; do :; done
    "$2" doctor | grep 'ok  daemon' >&2
    "$2" bus listen --tract cortex --event start --from 0 --count 2 >/dev/null
    "$2" down >&2
    "$2" --json show claude:s0 --events | grep -c '"kind":"user.prompt"'
"#;

/// Runs a script in a world in which it can mount a disk: `$1` is a folder for it, `$2` the program,
/// `$3` the argument. `None` where nothing can be mounted.
pub(crate) fn run_with_disk(world: &World, script: &str, argument: &str) -> Option<Output> {
    let disk = world.home().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let shell = |script: &str| {
        let mut unshare = Command::new("unshare");
        unshare.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]);
        unshare.arg(&disk).arg(env!("CARGO_BIN_EXE_hansard")).arg(argument).env_clear();
        unshare.env("HOME", world.home()).env("PATH", std::env::var_os("PATH").unwrap());
        unshare.output()
    };
    let tried = shell("mount -t tmpfs tmpfs \"$1\"");
    tried.is_ok_and(|tried| tried.status.success()).then(|| shell(script).unwrap())
}

#[test]
fn recording_resumes_after_a_full_disk() {
    let world = empty();
    let Some(said) = run_with_disk(&world, SCRIPT, prompt("s0", 0).trim()) else {
        println!("SKIPPED: no disk can be mounted here");
        return;
    };
    let stdout = String::from_utf8_lossy(&said.stdout);
    let stderr = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{stdout}\n{stderr}");
    assert!(stdout.lines().next().unwrap().contains("full"), "{stdout}");
    assert_eq!(stdout.lines().last(), Some("2"), "{stdout}");
}
