//! What the command line says of itself.

use std::fs;
use std::process::{Command, Stdio};

use crate::empty;

#[test]
fn bash_completes_commands_and_options() {
    let world = empty();
    let script = world.run(&["completions", "bash"]);
    assert_eq!(script.code, Some(0), "{script}");
    let ask =
        r#"COMP_WORDS=(hansard sta) COMP_CWORD=1; _hansard hansard sta; echo "${COMPREPLY[*]}""#;
    let bash = Command::new("bash")
        .args(["--norc", "-c", &format!("{}\n{ask}", script.stdout)])
        .stderr(Stdio::inherit())
        .output()
        .expect("bash is here");
    let answer = String::from_utf8_lossy(&bash.stdout);
    assert_eq!(answer.trim(), "status statusline");
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        let script = world.run(&["completions", shell]);
        assert!(script.code == Some(0) && script.stdout.contains("statusline"), "{shell}");
    }
}

#[test]
fn every_command_has_a_man_page() {
    let world = empty();
    let folder = world.home().join("man1");
    let said = world.run(&["man", folder.to_str().unwrap()]);
    assert_eq!(said.code, Some(0), "{said}");
    let page = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    assert!(page("hansard.1").contains("hansard\\-search(1)"), "it leads to the others");
    assert!(page("hansard-bus-listen.1").contains("hansard bus listen"));
    // What only programs call has none.
    assert!(!folder.join("hansard-dream.1").exists());
    let count = fs::read_dir(&folder).unwrap().count();
    assert!(said.stdout.starts_with(&format!("{count} pages")), "{said}");
}

#[test]
fn version_names_the_commit() {
    let said = empty().run(&["--version"]);
    assert_eq!(said.code, Some(0), "{said}");
    let expected = format!("hansard {}", env!("CARGO_PKG_VERSION"));
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    // A source archive has no commit to name.
    let git = Command::new("git").args(["-C", root, "log", "-1", "--format=%H"]).output();
    let head =
        git.ok().filter(|git| git.status.success() && fs::exists(format!("{root}/.git")).unwrap());
    let Some(head) = head else {
        assert_eq!(said.stdout.trim(), expected);
        return;
    };
    let commit =
        said.stdout.trim().strip_prefix(&format!("{expected} (")).expect("it has a commit");
    let (short, day) = commit.strip_suffix(')').and_then(|it| it.split_once(' ')).unwrap();
    assert!(
        short.len() >= 7 && String::from_utf8(head.stdout).unwrap().starts_with(short),
        "{said}"
    );
    assert_eq!(day.len(), "2026-11-18".len(), "{said}");
}
