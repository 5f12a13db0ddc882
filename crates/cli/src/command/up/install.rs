//! Writes what starts the daemon at login: a systemd unit, or a launchd agent on macOS. It only
//! writes the file; enabling it is left to the user.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::CliOutput;
use crate::world;

/// The name for launchd.
const LABEL: &str = "org.hansard.up";

/// What was done, and what is left to do.
#[derive(Serialize)]
struct InstallReport {
    path: PathBuf,
    /// Whether the file was written or removed by this call.
    changed: bool,
    /// The command to run next.
    command: String,
}

pub(in crate::command) fn install_unit(global: &Global, output: &mut CliOutput) -> CommandResult {
    // systemd and launchd need an absolute path.
    let program = std::env::current_exe()?;
    let journal = match &global.journal {
        // The service runs in another folder.
        Some(journal) => Some(std::path::absolute(journal)?),
        None => None,
    };
    let manager = ServiceManager::of_this_system()?;
    let text = manager.unit_text(&program, journal.as_deref());
    let path = manager.path;
    // Unchanged files keep their time, and the user need not reload.
    let changed = fs::read_to_string(&path).ok().as_deref() != Some(&text);
    if changed {
        write_file(&path, &text).map_err(|error| io_error("write", &path, &error))?;
    }
    let command = match manager.kind {
        ManagerKind::Systemd => {
            "systemctl --user daemon-reload && systemctl --user enable --now hansard"
        }
        ManagerKind::Launchd => "launchctl load -w",
    };
    let command = manager.kind.complete(command, &path);
    let words = if changed { "wrote" } else { "already there:" };
    print_report(output, words, InstallReport { path, changed, command })
}

pub(super) fn uninstall(output: &mut CliOutput) -> CommandResult {
    let manager = ServiceManager::of_this_system()?;
    let path = manager.path;
    // Only the file goes: the printed command stops the service.
    let changed = match fs::remove_file(&path) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(io_error("remove", &path, &error)),
    };
    let command = match manager.kind {
        ManagerKind::Systemd => {
            "systemctl --user disable --now hansard; systemctl --user daemon-reload"
        }
        ManagerKind::Launchd => "launchctl remove org.hansard.up",
    };
    let words = if changed { "removed" } else { "nothing to remove:" };
    print_report(output, words, InstallReport { path, changed, command: command.to_owned() })
}

fn print_report(output: &mut CliOutput, words: &str, done: InstallReport) -> CommandResult {
    if output.json() {
        output.json_line(&done)?;
    } else {
        output.line(format!("{words} {}", done.path.display()))?;
        output.line(format!("next: {}", done.command))?;
    }
    output.flush()?;
    Ok(Completion::Success)
}

/// The service manager of this system.
struct ServiceManager {
    kind: ManagerKind,
    path: PathBuf,
}

#[derive(Clone, Copy)]
enum ManagerKind {
    Systemd,
    Launchd,
}

impl ServiceManager {
    fn of_this_system() -> Result<ServiceManager, CliError> {
        if cfg!(target_os = "macos") {
            // By convention the file is named after the label.
            let path =
                world::home_folder()?.join("Library/LaunchAgents").join(format!("{LABEL}.plist"));
            return Ok(ServiceManager { kind: ManagerKind::Launchd, path });
        }
        let path = world::config_home()?.join("systemd/user/hansard.service");
        Ok(ServiceManager { kind: ManagerKind::Systemd, path })
    }

    fn unit_text(&self, program: &Path, journal: Option<&Path>) -> String {
        match self.kind {
            ManagerKind::Systemd => systemd_unit(program, journal),
            ManagerKind::Launchd => launchd_plist(program, journal),
        }
    }
}

impl ManagerKind {
    fn complete(self, command: &str, path: &Path) -> String {
        match self {
            ManagerKind::Systemd => command.to_owned(),
            ManagerKind::Launchd => format!("{command} '{}'", path.display()),
        }
    }
}

fn systemd_unit(program: &Path, journal: Option<&Path>) -> String {
    let words = start_command(program, journal);
    let words: Vec<String> = words.iter().map(|word| quote_systemd(word)).collect();
    // `mixed` signals the daemon alone at first, since it stops its own tasks.
    format!(
        "[Unit]\n\
         Description=Hansard, the record of AI coding sessions\n\
         \n\
         [Service]\n\
         ExecStart={}\n\
         ExecReload=/bin/kill -HUP $MAINPID\n\
         KillMode=mixed\n\
         TimeoutStopSec=95\n\
         Restart=on-failure\n\
         RestartSec=5\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n",
        words.join(" ")
    )
}

/// Quotes a word for systemd.
fn quote_systemd(word: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in word.chars() {
        match letter {
            // Inside quotes systemd reads backslashes as escapes.
            '"' | '\\' => quoted.extend(['\\', letter]),
            // `%` begins a specifier and `$` a variable, also inside quotes.
            '%' | '$' => quoted.extend([letter, letter]),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

fn launchd_plist(program: &Path, journal: Option<&Path>) -> String {
    let words = start_command(program, journal);
    let words: String =
        words.iter().map(|word| format!("    <string>{}</string>\n", escape_xml(word))).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \
         \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
         <plist version=\"1.0\">\n\
         <dict>\n  \
         <key>Label</key>\n  \
         <string>{LABEL}</string>\n  \
         <key>ProgramArguments</key>\n  \
         <array>\n{words}  </array>\n  \
         <key>RunAtLoad</key>\n  \
         <true/>\n  \
         <key>KeepAlive</key>\n  \
         <dict>\n    <key>SuccessfulExit</key>\n    <false/>\n  </dict>\n\
         </dict>\n\
         </plist>\n"
    )
}

fn escape_xml(word: &str) -> String {
    word.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Returns the command that starts the daemon.
fn start_command(program: &Path, journal: Option<&Path>) -> Vec<String> {
    let mut words = vec![program.display().to_string()];
    if let Some(journal) = journal {
        words.extend(["--journal".to_owned(), journal.display().to_string()]);
    }
    words.push("up".to_owned());
    words
}

/// Writes a temporary file and renames it, so that a reader never sees half of it.
fn write_file(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    // In the same folder: a rename works only inside one file system.
    let beside = path.with_extension("tmp");
    fs::write(&beside, text)?;
    fs::rename(&beside, path)
}

fn io_error(what: &str, path: &Path, error: &io::Error) -> CliError {
    CliError::new("io", format!("cannot {what} `{}`: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_each_manager() {
        let program = Path::new("/opt/a b/han\"sard");
        let journal = Some(Path::new("/home/dev/50% <&>$x"));
        let unit = systemd_unit(program, journal);
        let line = r#"ExecStart="/opt/a b/han\"sard" "--journal" "/home/dev/50%% <&>$$x" "up""#;
        assert!(unit.lines().any(|found| found == line), "{unit}");
        let plist = launchd_plist(program, journal);
        assert!(plist.contains("<string>/home/dev/50% &lt;&amp;&gt;$x</string>"), "{plist}");
    }
}
