//! The terminal of an agent: found by its process, and switched to if it is a tmux pane.

use std::path::PathBuf;
use std::process::Command;

/// Switches to the terminal of a process; returns a note for the user.
pub(super) fn switch_to_terminal(pid: Option<u32>) -> String {
    let Some(pid) = pid else { return "its process is unknown".to_owned() };
    let Some(terminal) = terminal_of(pid) else {
        return format!("process {pid} has no terminal");
    };
    let Some(pane) = find_pane(&terminal.display().to_string()) else {
        return format!("it runs on {} (pid {pid}), which is not a tmux pane", terminal.display());
    };
    // Outside tmux there is no client to switch, so the user gets the command.
    if std::env::var_os("TMUX").is_none() {
        return format!("tmux attach -t {pane}");
    }
    match run_tmux(&["switch-client", "-t", &pane]) {
        Some(_) => format!("switched to {pane}"),
        None => format!("tmux cannot switch to {pane}"),
    }
}

/// Returns the terminal on one of the first three descriptors of a process.
fn terminal_of(pid: u32) -> Option<PathBuf> {
    let of = |number: u32| std::fs::read_link(format!("/proc/{pid}/fd/{number}")).ok();
    let is_terminal = |path: &PathBuf| {
        path.starts_with("/dev/pts") || path.to_string_lossy().starts_with("/dev/tty")
    };
    // Any of the three may be redirected.
    (0..3).filter_map(of).find(is_terminal)
}

fn find_pane(terminal: &str) -> Option<String> {
    let panes = run_tmux(&[
        "list-panes",
        "-a",
        "-F",
        "#{pane_tty} #{session_name}:#{window_index}.#{pane_index}",
    ])?;
    let mut panes = panes.lines().filter_map(|line| line.split_once(' '));
    // A name of a session may hold blanks, so only the first one splits.
    panes.find(|(tty, _)| *tty == terminal).map(|(_, pane)| pane.to_owned())
}

/// Runs tmux; returns its output if it succeeded.
fn run_tmux(words: &[&str]) -> Option<String> {
    let answer = Command::new("tmux").args(words).output().ok()?;
    answer.status.success().then(|| String::from_utf8_lossy(&answer.stdout).into_owned())
}
