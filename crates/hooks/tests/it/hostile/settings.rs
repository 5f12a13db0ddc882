//! Arbitrary bytes as the settings of an agent.

use std::path::{Path, PathBuf};

use capture::Environment;
use event::Time;
use hooks::{HookChange, HookInstall, HookInstallError};

/// Agents by what their settings may hold: plain JSON, and JSON with comments.
const AGENTS: [&str; 2] = ["claude", "gemini"];

/// Installs our entries into a file with these bytes, and removes them. A file that is refused stays
/// as it is; any other comes back to the last byte.
pub(super) fn check(bytes: &[u8]) {
    // Entries of ours that are there already are removed too, and then the file does not come back.
    if bytes.windows(7).any(|part| part == b"hansard") {
        return;
    }
    AGENTS.iter().for_each(|agent| check_agent(agent, bytes));
}

fn check_agent(agent: &str, bytes: &[u8]) {
    let home = tempfile::TempDir::new().expect("a folder can be made");
    let path = home.path().join(format!(".{agent}/settings.json"));
    std::fs::create_dir(path.parent().expect("it has a folder")).expect("a folder can be made");
    std::fs::write(&path, bytes).expect("a file can be written");
    let read = || std::fs::read(&path).expect("the file is there");
    let environment = Environment::new(home.path(), []);
    let hooks = |secs| hooks_at(&environment, home.path(), secs);
    if install(&hooks(1), agent).is_err() {
        assert_eq!(read(), bytes, "{agent}");
        return;
    }
    let installed = read();
    let shown = String::from_utf8_lossy(&installed);
    let again = install(&hooks(2), agent).expect("our own entries are read");
    assert!(!again.is_changed, "{agent}: {shown}");
    assert_eq!(read(), installed, "{agent}");
    let removed = hooks(3).uninstall(agent, false).expect("our own entries are read");
    assert!(removed.is_changed, "{agent}: {shown}");
    assert_eq!(read(), bytes, "{agent}: {shown}");
}

fn hooks_at<'a>(environment: &'a Environment, journal: &'a Path, secs: i64) -> HookInstall<'a> {
    let now = Time::from_millis(1_800_000_000_000 + secs * 1_000);
    let (command, project) = ("hansard".to_owned(), None::<PathBuf>);
    HookInstall { environment, journal, command, project, now }
}

fn install(hooks: &HookInstall<'_>, agent: &str) -> Result<HookChange, HookInstallError> {
    hooks.install(agent, false)
}
