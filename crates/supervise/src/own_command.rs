//! What a request on the bus may ask of our own program.
//!
//! Every command stands in [`OWN_COMMANDS`] with the options that a request may use. A command or an
//! option that is not listed is refused: one that runs programs, types, decides, deletes, writes
//! files of the user's choice or prints a secret acts for a person. A test of the command line
//! compares the table with the commands that there are.
//!
//! Not here: other programs (`program`), and what a command does.

/// Options of every command, and whether a value follows.
pub const GLOBAL_OPTIONS: &[(&str, bool)] = &[
    ("--journal", true),
    ("--json", false),
    ("--quiet", false),
    ("-q", false),
    ("--no-color", false),
    ("--utc", false),
    ("--verbose", false),
    ("-v", false),
];

/// One of our own commands, as a request on the bus may use it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnCommand {
    /// The command and its subcommand, such as `hooks status`.
    pub path: &'static str,
    pub access: BusAccess,
}

/// Whether a request on the bus may run a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BusAccess {
    /// With these options and no others. `personal` are the options that act for a person; they are
    /// listed so that no option is forgotten.
    Open { options: &'static [&'static str], personal: &'static [&'static str] },
    /// It acts for a person.
    Personal,
}

const fn open(path: &'static str, options: &'static [&'static str]) -> OwnCommand {
    OwnCommand { path, access: BusAccess::Open { options, personal: &[] } }
}

const fn open_except(
    path: &'static str,
    options: &'static [&'static str],
    personal: &'static [&'static str],
) -> OwnCommand {
    OwnCommand { path, access: BusAccess::Open { options, personal } }
}

const fn personal(path: &'static str) -> OwnCommand {
    OwnCommand { path, access: BusAccess::Personal }
}

/// All commands, in the order of the help.
pub const OWN_COMMANDS: &[OwnCommand] = &[
    personal("up"),
    personal("down"),
    // It prints a login code, and output goes onto the bus.
    personal("web"),
    open("reload", &["--socket"]),
    open("ingest", &["--once", "--reparse", "--home"]),
    open("status", &["--watch", "--all"]),
    personal("top"),
    open("statusline", &[]),
    open("explain", &[]),
    open("approvals", &[]),
    personal("rules"),
    personal("rules add"),
    open("rules list", &[]),
    personal("rules remove"),
    open("rules test", &["--agent", "--tool", "--cwd"]),
    personal("rules import"),
    open("rules export", &[]),
    open("rules replay", &["--since"]),
    personal("seen"),
    open("sessions", &["--provider", "--project", "--since", "--until", "--limit", "--after"]),
    open(
        "show",
        &["--events", "--effective", "--digest", "--until", "--after", "--limit", "--follow"],
    ),
    open(
        "search",
        &[
            "--session",
            "--project",
            "--provider",
            "--kind",
            "--tool",
            "--since",
            "--until",
            "--substring",
            "--order",
            "--limit",
            "--after",
        ],
    ),
    open("usage", &["--provider", "--project", "--since", "--until"]),
    personal("prices"),
    open("prices list", &["--all"]),
    personal("prices update"),
    open("digest", &["--project"]),
    open(
        "dream",
        &[
            "--day",
            "--segment",
            "--stream",
            "--flush",
            "--segments",
            "--activity",
            "--facet",
            "--socket",
        ],
    ),
    open("transcribe", &[]),
    open("describe", &[]),
    open_except("resume", &[], &["--run"]),
    open("fork", &["--at", "--id", "--label", "--reason"]),
    open("lineage", &[]),
    open("replay", &["--until"]),
    open_except(
        "export",
        &["--format", "--handoff", "--tree", "--no-thinking", "--redact"],
        &["--output", "-o"],
    ),
    open("import", &["--sample", "--store"]),
    personal("delete"),
    personal("hooks"),
    personal("hooks install"),
    personal("hooks uninstall"),
    open("hooks status", &["--project"]),
    // It runs the commands that stand in the settings of agents.
    personal("hooks test"),
    // A call of a hook speaks for an agent.
    personal("hook"),
    // A task that prints the bus would print its own output again and again.
    personal("bus"),
    personal("bus listen"),
    open("bus send", &["--socket"]),
    personal("bus serve"),
    open("bus stats", &["--socket", "--watch"]),
    personal("task"),
    personal("task run"),
    personal("task list"),
    personal("task cancel"),
    personal("service"),
    open("service list", &["--socket"]),
    open("service restart", &["--socket"]),
    personal("service install"),
    // A task that follows its own log would never end.
    open_except("logs", &["--socket", "--day"], &["--follow", "-f"]),
    open(
        "notify",
        &[
            "--socket",
            "--title",
            "--icon",
            "--action",
            "--facet",
            "--app",
            "--badge",
            "--dismiss-after",
            "--sticky",
        ],
    ),
    open("navigate", &["--socket", "--facet"]),
    // A repair decides what is given up.
    open_except("doctor", &[], &["--repair"]),
    open("completions", &[]),
    // It writes files into any folder.
    personal("man"),
];

/// The arguments of our own program, as far as the supervisor reads them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OwnArguments<'a> {
    /// No command: the program prints its help or version.
    None,
    /// A command, and the words behind it.
    Command { word: &'a str, rest: &'a [String] },
    /// The command is behind an option that we do not know.
    Hidden,
}

impl<'a> OwnArguments<'a> {
    /// Reads the words behind the name of the program.
    pub(crate) fn parse(args: &'a [String]) -> OwnArguments<'a> {
        let mut at = 0;
        while let Some(arg) = args.get(at) {
            if !arg.starts_with('-') {
                return OwnArguments::Command { word: arg, rest: &args[at + 1..] };
            }
            let (option, has_value_inside) = split_option(arg);
            match GLOBAL_OPTIONS.iter().find(|(known, _)| *known == option) {
                // The value of an option is not the command, even if it looks like one.
                Some((_, true)) if !has_value_inside => at += 1,
                Some(_) => {}
                // These end the program before any command runs.
                None if is_help(option) => return OwnArguments::None,
                None => return OwnArguments::Hidden,
            }
            at += 1;
        }
        OwnArguments::None
    }

    /// Says why a request on the bus may not run this, if so.
    pub(crate) fn refusal(self) -> Option<String> {
        let (word, rest) = match self {
            OwnArguments::None => return None,
            OwnArguments::Hidden => {
                return Some("an option before the command is not known".to_owned());
            }
            OwnArguments::Command { word, rest } => (word, rest),
        };
        let needs = format!(
            "needs {{ program = \"hansard\", args = [\"{word}\"] }} in `allow` of services.toml"
        );
        // The subcommand is the next word. An option in between could hide it.
        let path = rest.first().map(|next| format!("{word} {next}"));
        let nested = OWN_COMMANDS.iter().find(|command| Some(command.path) == path.as_deref());
        let own = nested.or_else(|| OWN_COMMANDS.iter().find(|command| command.path == word));
        let Some(OwnCommand { path, access }) = own else {
            return Some(format!("`hansard {word}` {needs}"));
        };
        let BusAccess::Open { options, .. } = access else {
            return Some(format!("`hansard {path}` {needs}"));
        };
        let given = rest.iter().map(String::as_str).take_while(|word| *word != "--");
        let mut given = given.filter(|word| word.starts_with('-') && *word != "-");
        let refused = given.find(|word| {
            let (option, _) = split_option(word);
            let is_global = GLOBAL_OPTIONS.iter().any(|(known, _)| *known == option);
            !is_global && !is_help(option) && !options.contains(&option)
        })?;
        Some(format!("`{refused}` of `hansard {path}` {needs}"))
    }
}

/// Returns the name of an option, and whether its value is part of the word.
fn split_option(word: &str) -> (&str, bool) {
    match word.split_once('=') {
        Some((option, _)) => (option, true),
        None => (word, false),
    }
}

fn is_help(option: &str) -> bool {
    matches!(option, "--help" | "-h" | "--version" | "-V")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(line: &str) -> Option<String> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        OwnArguments::parse(&args).refusal()
    }

    #[test]
    fn open_commands_are_not_refused() {
        for line in [
            "",
            "--version",
            "doctor",
            "doctor --json",
            "ingest --once",
            "ingest --reparse codex --journal run",
            "--journal=delete -q dream --day 20250213 --segment=120000_300",
            "hooks status",
            "export 0193 --format=text",
            "export --help",
            "search -- --output -o",
            "import -",
            "resume 0193",
        ] {
            assert_eq!(refusal(line), None, "{line}");
        }
    }

    #[test]
    fn personal_acts_are_refused() {
        for line in [
            "delete 0193 --yes",
            "--json delete 0193",
            "hooks install",
            "hooks --project install",
            "hooks",
            "service install",
            "service --socket x install",
            "web",
            "web --renew",
            "resume 0193 --run",
            "resume --run 0193",
            "export 0193 -o /tmp/x",
            "export 0193 -o/tmp/x",
            "export 0193 -vo /tmp/x",
            "export 0193 --output=/tmp/x",
            "export 0193 --output /tmp/x",
            "doctor --repair",
            "logs --follow",
            "logs -f",
            "bus",
            "bus --tract x",
            "bus listen",
            "callosum listen",
            "up",
            "run -- sh",
            "send x",
            "unheard-of",
        ] {
            let refused = refusal(line).unwrap_or_else(|| panic!("`{line}` may run"));
            assert!(refused.contains("services.toml"), "{line}: {refused}");
        }
    }
}
