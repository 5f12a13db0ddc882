//! Which program a command means, whether the bus may run it, and the name of its task.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::own_command::OwnArguments;
use crate::services_file::Allow;

/// The word for our own program in commands.
const OWN: &str = "hansard";

/// The name of a task if its command does not tell one.
const UNKNOWN: &str = "unknown";

/// The program behind the first word of a command.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Program {
    /// The running executable; `PATH` is not searched.
    Own,
    /// Exactly this file.
    File(PathBuf),
    /// What `PATH` finds.
    Word(String),
}

/// A command with its program and task name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ResolvedCommand {
    pub program: Program,
    /// The name of the task.
    pub name: String,
}

/// Resolves a command of `supervisor.request` if it is allowed. `own` is the file of our program,
/// with links resolved. The error names the setting that would allow the command.
pub(crate) fn resolve_allowed(
    allow: &[Allow],
    own: &Path,
    cmd: &[String],
) -> Result<ResolvedCommand, String> {
    let Some((word, args)) = cmd.split_first() else {
        return Err("the command is empty".to_owned());
    };
    let entry = allow.iter().find(|entry| entry.program == *word && args.starts_with(&entry.args));
    if is_own(own, word) {
        let own = OwnArguments::parse(args);
        // An entry for `hansard` without arguments does not open these: the user has to name each.
        let opens = allow.iter().any(|entry| {
            entry.program == OWN && !entry.args.is_empty() && args.starts_with(&entry.args)
        });
        if let Some(refusal) = own.refusal().filter(|_| !opens) {
            return Err(refusal);
        }
        return Ok(ResolvedCommand { program: Program::Own, name: own_name(own) });
    }
    let Some(entry) = entry else {
        return Err(format!("`{word}` is not in `allow` of services.toml"));
    };
    let program = if Path::new(word).is_absolute() {
        Program::File(PathBuf::from(word))
    } else if !word.contains('/') {
        Program::Word(word.clone())
    } else {
        // A relative path would depend on the folder that the daemon was started in.
        return Err(format!("`{word}` is neither a word nor an absolute path"));
    };
    let name = if entry.has_subcommands {
        args.first().cloned().unwrap_or_else(|| UNKNOWN.to_owned())
    } else {
        base_name(word)
    };
    Ok(ResolvedCommand { program, name })
}

/// Resolves a trusted command: one from the user's own file or from the daemon.
pub(crate) fn resolve_trusted(allow: &[Allow], own: &Path, cmd: &[String]) -> ResolvedCommand {
    let word = cmd.first().map(String::as_str).unwrap_or_default();
    if is_own(own, word) {
        return ResolvedCommand {
            program: Program::Own,
            name: own_name(OwnArguments::parse(&cmd[1..])),
        };
    }
    // A listed program keeps the task name that the list gives it.
    resolve_allowed(allow, own, cmd).unwrap_or_else(|_| ResolvedCommand {
        program: if word.contains('/') {
            Program::File(PathBuf::from(word))
        } else {
            Program::Word(word.to_owned())
        },
        name: base_name(word),
    })
}

/// Returns whether a word means our own program: its name, its file, or a link to it. In all three
/// cases our own file is what runs.
fn is_own(own: &Path, word: &str) -> bool {
    word == OWN || is_plain(word) && (own.as_os_str() == word || leads_to(own, Path::new(word)))
}

/// Returns whether an absolute path has no `.`, `..` or empty parts.
fn is_plain(word: &str) -> bool {
    let names = word.strip_prefix('/').map(|names| names.split('/'));
    names.is_some_and(|mut names| names.all(|name| !matches!(name, "" | "." | "..")))
}

fn leads_to(own: &Path, link: &Path) -> bool {
    link.canonicalize().is_ok_and(|file| file == own)
}

fn own_name(own: OwnArguments<'_>) -> String {
    match own {
        OwnArguments::Command { word, .. } => word.to_owned(),
        OwnArguments::None | OwnArguments::Hidden => UNKNOWN.to_owned(),
    }
}

fn base_name(word: &str) -> String {
    let name = Path::new(word).file_name().map(|name| name.to_string_lossy().into_owned());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| UNKNOWN.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allow(program: &str, args: &[&str], has_subcommands: bool) -> Allow {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        Allow { program: program.to_owned(), args, has_subcommands }
    }

    fn judged(line: &str) -> Result<ResolvedCommand, String> {
        let list = [
            allow("rsync", &[], false),
            allow("/opt/tools/report", &[], false),
            allow("git", &["fetch"], false),
            allow("notes", &[], true),
        ];
        let cmd: Vec<String> = line.split(' ').map(str::to_owned).collect();
        resolve_allowed(&list, Path::new("/usr/bin/hansard"), &cmd)
    }

    #[track_caller]
    fn check(line: &str, program: Program, name: &str) {
        assert_eq!(judged(line), Ok(ResolvedCommand { program, name: name.to_owned() }), "{line}");
    }

    #[test]
    fn own_program_is_the_running_file() {
        check("hansard doctor", Program::Own, "doctor");
        check("/usr/bin/hansard ingest --once", Program::Own, "ingest");
        check("hansard --journal /home/dev/run -q --json dream", Program::Own, "dream");
        check("hansard --journal=run doctor", Program::Own, "doctor");
        check("hansard --version", Program::Own, "unknown");
        check("hansard", Program::Own, "unknown");
    }

    #[test]
    fn link_to_own_program_counts_as_own() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        let (own, link, other) = (folder.join("own"), folder.join("link"), folder.join("other"));
        std::fs::write(&own, "").unwrap();
        std::fs::write(&other, "").unwrap();
        std::os::unix::fs::symlink(&own, &link).unwrap();
        let judged =
            |program: String, word: &str| resolve_allowed(&[], &own, &[program, word.to_owned()]);
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        assert_eq!(judged(text(&link), "doctor").unwrap().program, Program::Own);
        assert!(judged(text(&link), "run").is_err(), "what acts for a person stays refused");
        assert!(judged(text(&other), "doctor").is_err());
        for detour in [format!("{}/./link", text(&folder)), format!("{}//own", text(&folder))] {
            assert!(judged(detour, "doctor").is_err());
        }
    }

    #[test]
    fn personal_commands_need_an_entry() {
        for sub in ["run", "up", "delete"] {
            let refused = judged(&format!("hansard {sub} -- sh")).unwrap_err();
            assert!(refused.contains("services.toml"), "{refused}");
            assert!(judged(&format!("hansard --journal x --json {sub}")).is_err());
            assert!(judged(&format!("/usr/bin/hansard --journal=x {sub}")).is_err());
        }
        // Nothing that could hide a subcommand.
        assert!(judged("hansard --unheard-of run").is_err());
        assert!(judged("hansard -- run").is_err());
        assert!(judged("hansard -qv run").is_err());
        let open = [allow("hansard", &["run"], false)];
        let cmd = ["hansard", "run", "--", "make"].map(str::to_owned);
        assert_eq!(
            resolve_allowed(&open, Path::new("/usr/bin/hansard"), &cmd).unwrap().name,
            "run"
        );
        let cmd = ["hansard", "up"].map(str::to_owned);
        assert!(resolve_allowed(&open, Path::new("/usr/bin/hansard"), &cmd).is_err());
    }

    #[test]
    fn allow_list_matches_exactly() {
        check("rsync -a x y", Program::Word("rsync".to_owned()), "rsync");
        check("/opt/tools/report x", Program::File("/opt/tools/report".into()), "report");
        check("git fetch --all", Program::Word("git".to_owned()), "git");
        check("notes index --all", Program::Word("notes".to_owned()), "index");
        check("notes", Program::Word("notes".to_owned()), "unknown");
        for line in [
            "make x",
            "",
            "/usr/bin/rsync",
            "./rsync",
            "bin/rsync",
            "Rsync",
            "rsync/",
            "/opt/../opt/tools/report",
            "/opt//tools/report",
            "/opt/tools/report/",
            "opt/tools/report",
            "report",
            "git",
            "git push",
            "git fetch2",
            "git  fetch",
            "/usr/bin/../bin/hansard doctor",
            "./hansard doctor",
            "/home/dev/hansard doctor",
            "sh -c hansard",
        ] {
            let refused = judged(line).unwrap_err();
            assert!(refused.contains("services.toml"), "{line}: {refused}");
        }
    }

    #[test]
    fn commands_of_the_file_are_trusted() {
        let own = Path::new("/usr/bin/hansard");
        let cmd = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(resolve_trusted(&[], own, &cmd("hansard run -- x")).program, Program::Own);
        let judged = resolve_trusted(&[], own, &cmd("/opt/tools/report x"));
        assert_eq!(judged.program, Program::File("/opt/tools/report".into()));
        assert_eq!(judged.name, "report");
        let listed = [allow("notes", &[], true)];
        assert_eq!(resolve_trusted(&listed, own, &cmd("notes watch -v")).name, "watch");
    }
}
