//! The terminal an agent runs in: found by its process, and gone to where tmux holds it.

use std::path::PathBuf;
use std::process::Command;

/// Goes to the terminal of a process; what to say of it.
pub(super) fn go_to(pid: Option<u32>) -> String {
    let Some(pid) = pid else { return "no process of it is known".to_owned() };
    let Some(terminal) = terminal_of(pid) else {
        return format!("process {pid} has no terminal");
    };
    let Some(pane) = pane_of(&terminal.display().to_string()) else {
        return format!("it runs on {} (pid {pid}), which is no pane of tmux", terminal.display());
    };
    if std::env::var_os("TMUX").is_none() {
        return format!("tmux attach -t {pane}");
    }
    match tmux(&["switch-client", "-t", &pane]) {
        Some(_) => format!("gone to {pane}"),
        None => format!("tmux does not go to {pane}"),
    }
}

/// The terminal on one of the first three descriptors of a process.
fn terminal_of(pid: u32) -> Option<PathBuf> {
    let of = |number: u32| std::fs::read_link(format!("/proc/{pid}/fd/{number}")).ok();
    let is_terminal = |path: &PathBuf| {
        path.starts_with("/dev/pts") || path.to_string_lossy().starts_with("/dev/tty")
    };
    (0..3).filter_map(of).find(is_terminal)
}

fn pane_of(terminal: &str) -> Option<String> {
    let panes = tmux(&[
        "list-panes",
        "-a",
        "-F",
        "#{pane_tty} #{session_name}:#{window_index}.#{pane_index}",
    ])?;
    let mut panes = panes.lines().filter_map(|line| line.split_once(' '));
    panes.find(|(tty, _)| *tty == terminal).map(|(_, pane)| pane.to_owned())
}

/// What tmux answers, if it is there and does what it is told.
fn tmux(words: &[&str]) -> Option<String> {
    let answer = Command::new("tmux").args(words).output().ok()?;
    answer.status.success().then(|| String::from_utf8_lossy(&answer.stdout).into_owned())
}
