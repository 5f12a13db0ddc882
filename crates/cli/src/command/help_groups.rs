//! The commands by what they are for, in the help text of the program.

use clap::Command;

/// The headings, and the commands below each. Every command that the help shows is in one of them.
const GROUPS: &[(&str, &[&str])] = &[
    ("Start and stop", &["up", "down", "reload", "web"]),
    ("See what agents are doing", &["status", "top", "statusline", "explain", "approvals", "seen"]),
    ("Decide in advance", &["rules"]),
    ("Look into the record", &["sessions", "show", "search", "usage", "prices", "digest"]),
    ("Work with sessions", &["resume", "fork", "lineage", "replay", "export", "import", "delete"]),
    ("Messages, tasks and services", &["bus", "task", "service", "logs", "notify", "navigate"]),
    ("Set up and maintain", &["hooks", "hook", "ingest", "doctor", "completions", "man", "help"]),
];

/// Columns of a command's name.
const NAME_COLUMNS: usize = 13;

/// Gives the program a help text that lists its commands in groups.
pub(super) fn group_commands(mut command: Command) -> Command {
    // Adds the command `help`.
    command.build();
    let mut command =
        command.mut_subcommand("help", |help| help.about("Print the help of a command"));
    command.build();
    let styles = command.get_styles().clone();
    let (head, name) = (styles.get_header(), styles.get_literal());
    let mut listed = String::new();
    for (heading, names) in GROUPS {
        listed.push_str(&format!("{head}{heading}:{head:#}\n"));
        for below in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = below.get_about().map(ToString::to_string).unwrap_or_default();
            let word = below.get_name();
            listed.push_str(&format!("  {name}{word:<NAME_COLUMNS$}{name:#}{about}\n"));
        }
        listed.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{listed}{head}Options:{head:#}\n\
         {{options}}\n\n`hansard help COMMAND` shows the options of a command.\n"
    );
    command.help_template(template)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::super::Hansard;
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let mut command = Hansard::command();
        command.build();
        let shown = command.get_subcommands().filter(|below| !below.is_hide_set());
        let shown: BTreeSet<&str> = shown.map(Command::get_name).collect();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        assert_eq!(grouped.iter().copied().collect::<BTreeSet<_>>(), shown);
        assert_eq!(grouped.len(), shown.len(), "a command is in two groups");
    }

    #[test]
    fn every_help_text_fits_a_terminal() {
        fn check(command: &mut Command) {
            let (short, long) = (command.render_help(), command.render_long_help());
            for line in short.to_string().lines().chain(long.to_string().lines()) {
                let is_list = line.contains("[possible values: ") || line.contains("[default: ");
                // Usage and lists of values cannot be broken.
                let max = if line.starts_with("Usage: ") || is_list { 200 } else { 100 };
                assert!(line.chars().count() <= max, "{}: {line}", command.get_name());
            }
            command.get_subcommands_mut().for_each(check);
        }
        let mut command = group_commands(Hansard::command());
        check(&mut command);
        for below in command.get_subcommands() {
            let about = below.get_about().map(ToString::to_string).unwrap_or_default();
            let columns = 2 + NAME_COLUMNS + about.chars().count();
            assert!(columns <= 80, "{}: {about}", below.get_name());
        }
    }
}
