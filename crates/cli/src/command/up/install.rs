//! What the system needs to start the daemon when its user logs in: a systemd unit, or a launchd
//! agent on macOS. The file is written and nothing is run: that is for its user to decide.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{Done, Global};
use crate::error::CliError;
use crate::output::Output;
use crate::world;

/// How launchd calls it.
const LABEL: &str = "org.hansard.up";

/// What was done, and what is left to do.
#[derive(Serialize)]
struct Installed {
    path: PathBuf,
    /// Whether the file was written or removed; if not, it was so already.
    changed: bool,
    /// What to type next.
    command: String,
}

pub(in crate::command) fn install(global: &Global, output: &mut Output) -> Result<Done, CliError> {
    let program = std::env::current_exe()?;
    let journal = match &global.journal {
        Some(journal) => Some(std::path::absolute(journal)?),
        None => None,
    };
    let manager = Manager::of_this_system()?;
    let text = manager.text(&program, journal.as_deref());
    let path = manager.path;
    let changed = fs::read_to_string(&path).ok().as_deref() != Some(&text);
    if changed {
        write(&path, &text).map_err(|error| failed("write", &path, &error))?;
    }
    let command = match manager.kind {
        Kind::Systemd => "systemctl --user daemon-reload && systemctl --user enable --now hansard",
        Kind::Launchd => "launchctl load -w",
    };
    let command = manager.kind.complete(command, &path);
    let words = if changed { "wrote" } else { "nothing to do: there is" };
    tell(output, words, Installed { path, changed, command })
}

pub(super) fn uninstall(output: &mut Output) -> Result<Done, CliError> {
    let manager = Manager::of_this_system()?;
    let path = manager.path;
    let changed = match fs::remove_file(&path) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(failed("remove", &path, &error)),
    };
    let command = match manager.kind {
        Kind::Systemd => "systemctl --user disable --now hansard; systemctl --user daemon-reload",
        Kind::Launchd => "launchctl remove org.hansard.up",
    };
    let words = if changed { "removed" } else { "nothing to do: there is no" };
    tell(output, words, Installed { path, changed, command: command.to_owned() })
}

fn tell(output: &mut Output, words: &str, done: Installed) -> Result<Done, CliError> {
    if output.json() {
        output.json_line(&done)?;
    } else {
        output.line(format!("{words} {}", done.path.display()))?;
        output.line(format!("next: {}", done.command))?;
    }
    output.flush()?;
    Ok(Done::Yes)
}

/// Who starts programs here.
struct Manager {
    kind: Kind,
    path: PathBuf,
}

#[derive(Clone, Copy)]
enum Kind {
    Systemd,
    Launchd,
}

impl Manager {
    fn of_this_system() -> Result<Manager, CliError> {
        if cfg!(target_os = "macos") {
            let path = world::home()?.join("Library/LaunchAgents").join(format!("{LABEL}.plist"));
            return Ok(Manager { kind: Kind::Launchd, path });
        }
        let path = world::config_home()?.join("systemd/user/hansard.service");
        Ok(Manager { kind: Kind::Systemd, path })
    }

    fn text(&self, program: &Path, journal: Option<&Path>) -> String {
        match self.kind {
            Kind::Systemd => unit(program, journal),
            Kind::Launchd => plist(program, journal),
        }
    }
}

impl Kind {
    fn complete(self, command: &str, path: &Path) -> String {
        match self {
            Kind::Systemd => command.to_owned(),
            Kind::Launchd => format!("{command} '{}'", path.display()),
        }
    }
}

fn unit(program: &Path, journal: Option<&Path>) -> String {
    let words = words(program, journal);
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
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

/// A word of a command as systemd reads it.
fn quoted(word: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in word.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '%' | '$' => quoted.extend([letter, letter]),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

fn plist(program: &Path, journal: Option<&Path>) -> String {
    let words = words(program, journal);
    let words: String =
        words.iter().map(|word| format!("    <string>{}</string>\n", escaped(word))).collect();
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

fn escaped(word: &str) -> String {
    word.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The command that starts the daemon.
fn words(program: &Path, journal: Option<&Path>) -> Vec<String> {
    let mut words = vec![program.display().to_string()];
    if let Some(journal) = journal {
        words.extend(["--journal".to_owned(), journal.display().to_string()]);
    }
    words.push("up".to_owned());
    words
}

/// Writes beside and renames, so that nobody reads half of it.
fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let beside = path.with_extension("tmp");
    fs::write(&beside, text)?;
    fs::rename(&beside, path)
}

fn failed(what: &str, path: &Path, error: &io::Error) -> CliError {
    CliError::new("io", format!("cannot {what} `{}`: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_each_system_reads_them() {
        let program = Path::new("/opt/a b/han\"sard");
        let journal = Some(Path::new("/home/dev/50% <&>$x"));
        let unit = unit(program, journal);
        let line = r#"ExecStart="/opt/a b/han\"sard" "--journal" "/home/dev/50%% <&>$$x" "up""#;
        assert!(unit.lines().any(|found| found == line), "{unit}");
        let plist = plist(program, journal);
        assert!(plist.contains("<string>/home/dev/50% &lt;&amp;&gt;$x</string>"), "{plist}");
    }
}
