//! Notifications about sessions that need the user, as configured.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::World;

#[cfg(target_os = "linux")]
use crate::desktop::Desktop;
use crate::status::{register, session};
use crate::up::up;
use crate::{empty, import};

const ON_THE_DESKTOP: &str = r#"
[notifications]
desktop = true
[[notifications.rule]]
when = "needs_you"
seconds = 0
"#;

/// Where programs of the system are.
#[cfg(target_os = "linux")]
const PROGRAMS: &str = "/usr/local/bin:/usr/bin:/bin";

/// How long a word is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A world with a session that waits for approval, and these settings.
fn waiting(world: World, settings: &str) -> World {
    waiting_for("npm test", world, settings)
}

fn waiting_for(command: &str, world: World, settings: &str) -> World {
    let call = json!({"call_id": "c1", "tool": "Bash", "input": {"command": command}});
    import(&world, &session("11112222", &[("tool.call", call)]));
    register(&world, "11112222", "waiting");
    let journal = world.home().join(".local/share/hansard");
    fs::write(journal.join("config.toml"), settings).unwrap();
    world
}

/// What a file holds as soon as it holds a line.
#[track_caller]
fn line_of(path: &Path) -> String {
    let began = Instant::now();
    loop {
        match fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text,
            _ => assert!(began.elapsed() < PATIENCE, "nobody was told"),
        }
    }
}

#[test]
fn notify_command_runs_once_without_secrets() {
    let world = empty();
    let told = world.home().join("told");
    let settings = format!(
        r#"
        [notifications]
        command = ["/bin/sh", "-c", "echo \"$0 | $1 | $2\" >>{}", "{{title}}", "{{message}}", "{{session}}"]
        [[notifications.rule]]
        when = "needs_you"
        seconds = 1
        "#,
        told.display()
    );
    let world = waiting(world, &settings);
    let daemon = up(&world);
    let line = line_of(&told);
    assert!(line.starts_with("Needs you: Build it with [redacted:"), "{line}");
    assert!(line.contains("waits for approval"), "{line}");
    assert!(line.ends_with(" | claude:11112222\n"), "{line}");
    assert_eq!(daemon.terminate().code, Some(0));
    assert_eq!(fs::read_to_string(&told).unwrap().lines().count(), 1, "it is told once");
}

#[cfg(target_os = "linux")]
#[test]
fn desktop_program_shows_notifications() {
    let folder = tempfile::tempdir().unwrap();
    let told = folder.path().join("told");
    let program = folder.path().join("notify-send");
    let script = format!("#!/bin/sh\nprintf '%s|' \"$@\" >{0}\necho >>{0}\n", told.display());
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let world = waiting(empty().with("PATH", folder.path()), ON_THE_DESKTOP);
    let daemon = up(&world);
    let words = line_of(&told);
    assert!(words.starts_with("--app-name=hansard|--|Needs you: "), "{words}");
    assert_eq!(daemon.terminate().code, Some(0));
}

#[cfg(target_os = "linux")]
#[test]
fn desktop_shows_text_without_markup() {
    let Some(mut desktop) = Desktop::open() else {
        eprintln!("NOT CHECKED: there is no dbus-daemon here; `./test` brings it");
        return;
    };
    if !std::env::split_paths(&PROGRAMS).any(|folder| folder.join("notify-send").exists()) {
        eprintln!("NOT CHECKED: there is no notify-send here; `./test` brings it");
        return;
    }
    let world = empty().with("DBUS_SESSION_BUS_ADDRESS", desktop.address()).with("PATH", PROGRAMS);
    let command = r#"echo '<a href="https://evil.example">ok</a>' \074b\x3e && \n --"#;
    let world = waiting_for(command, world, ON_THE_DESKTOP);
    let daemon = up(&world);
    let shown = desktop.shown();
    assert_eq!(shown.app, "hansard");
    let title = "Needs you: Build it with [redacted:aws_access_key_id:";
    assert!(shown.title.starts_with(title), "{shown:?}");
    let read = shown.body.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    assert_eq!(read, format!("waits for approval, probably to run {command}"));
    assert!(!shown.body.contains(['<', '>']), "{shown:?}");
    assert_eq!(daemon.terminate().code, Some(0));
}
