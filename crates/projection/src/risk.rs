//! How much may depend on an answer: for order and alarms, never for allowing anything.
//!
//! A command is read word by word, in all its parts and in the scripts it hands to a shell. An
//! unknown command counts as one that changes files.

use event::{Deed, Raw};
use serde::{Deserialize, Serialize};

use crate::tool::ToolUse;

/// What a call might do, the worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Data or work is lost.
    Destructive,
    /// Others see it: pushed, published, deployed.
    Outward,
    Privilege,
    Secrets,
    Install,
    Write,
    Read,
}

impl Risk {
    pub fn as_str(self) -> &'static str {
        match self {
            Risk::Destructive => "destructive",
            Risk::Outward => "outward",
            Risk::Privilege => "privilege",
            Risk::Secrets => "secrets",
            Risk::Install => "install",
            Risk::Write => "write",
            Risk::Read => "read",
        }
    }

    /// Whether what is done cannot be taken back, is seen by others, or opens doors.
    pub(crate) fn is_grave(self) -> bool {
        self <= Risk::Secrets
    }

    /// The worst that a call might do.
    pub fn from_call(tool: &str, input: &Raw) -> Risk {
        // The raw JSON is searched: a secret's name may stand in any field of any tool.
        let by_name = match SECRET_NAMES.iter().any(|name| input.get().contains(name)) {
            true => Risk::Secrets,
            false => Risk::Read,
        };
        let by_deed = match ToolUse::from_call(tool, input).deed {
            Deed::Read | Deed::Search | Deed::Visit | Deed::WebSearch => Risk::Read,
            Deed::Delete => Risk::Destructive,
            Deed::Run => command_text(input).map_or(Risk::Write, |command| of_command(&command, 0)),
            Deed::Edit | Deed::Create | Deed::Delegate | Deed::Other => Risk::Write,
        };
        // `Risk` has the worst first, so the smaller one is the worse.
        by_name.min(by_deed)
    }
}

/// Names of things that open doors.
const SECRET_NAMES: &[&str] = &[
    ".env",
    ".ssh/",
    "id_rsa",
    "id_ed25519",
    ".netrc",
    ".aws/",
    ".gnupg",
    "credentials",
    "secret",
];

/// How parts of commands begin that are worse than a change, word by word.
const BEGINNINGS: &[(Risk, &[&str])] = &[
    (Risk::Destructive, &["rm"]),
    (Risk::Destructive, &["rmdir"]),
    (Risk::Destructive, &["shred"]),
    (Risk::Destructive, &["dd"]),
    (Risk::Destructive, &["mkfs"]),
    (Risk::Destructive, &["truncate"]),
    (Risk::Destructive, &["kill"]),
    (Risk::Destructive, &["pkill"]),
    (Risk::Destructive, &["git", "reset"]),
    (Risk::Destructive, &["git", "clean"]),
    (Risk::Destructive, &["git", "checkout"]),
    (Risk::Destructive, &["git", "restore"]),
    (Risk::Destructive, &["git", "stash"]),
    (Risk::Destructive, &["git", "branch", "-D"]),
    (Risk::Outward, &["git", "push"]),
    (Risk::Outward, &["gh"]),
    (Risk::Outward, &["npm", "publish"]),
    (Risk::Outward, &["cargo", "publish"]),
    (Risk::Outward, &["twine"]),
    (Risk::Outward, &["docker", "push"]),
    (Risk::Outward, &["kubectl"]),
    (Risk::Outward, &["terraform"]),
    (Risk::Outward, &["ssh"]),
    (Risk::Outward, &["scp"]),
    (Risk::Outward, &["rsync"]),
    (Risk::Outward, &["curl"]),
    (Risk::Outward, &["wget"]),
    (Risk::Privilege, &["sudo"]),
    (Risk::Privilege, &["doas"]),
    (Risk::Privilege, &["su"]),
    (Risk::Privilege, &["chmod"]),
    (Risk::Privilege, &["chown"]),
    (Risk::Install, &["npm", "install"]),
    (Risk::Install, &["npm", "i"]),
    (Risk::Install, &["npm", "ci"]),
    (Risk::Install, &["npx"]),
    (Risk::Install, &["pnpm", "add"]),
    (Risk::Install, &["yarn", "add"]),
    (Risk::Install, &["pip", "install"]),
    (Risk::Install, &["pip3", "install"]),
    (Risk::Install, &["uv", "add"]),
    (Risk::Install, &["cargo", "install"]),
    (Risk::Install, &["go", "install"]),
    (Risk::Install, &["brew", "install"]),
    (Risk::Install, &["apt", "install"]),
    (Risk::Install, &["apt-get", "install"]),
    (Risk::Read, &["ls"]),
    (Risk::Read, &["cat"]),
    (Risk::Read, &["head"]),
    (Risk::Read, &["tail"]),
    (Risk::Read, &["wc"]),
    (Risk::Read, &["grep"]),
    (Risk::Read, &["rg"]),
    (Risk::Read, &["pwd"]),
    (Risk::Read, &["echo"]),
    (Risk::Read, &["git", "status"]),
    (Risk::Read, &["git", "diff"]),
    (Risk::Read, &["git", "log"]),
    (Risk::Read, &["git", "show"]),
];

/// Programs that take a command as one word, after an option such as `-c` or `-lc`.
const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "fish", "su"];

/// Options of git that come before what it does, and have a word of their own behind them.
const GIT_OPTIONS: &[&str] = &["-C", "-c", "--git-dir", "--work-tree", "--namespace"];

/// How deep commands within commands are read. A deeper one counts as a change.
const DEPTH_MAX: usize = 4;

/// A command between two separators.
#[derive(Default)]
struct CommandPart {
    /// Its words without their quotes.
    words: Vec<String>,
    is_written: bool,
    /// Quoted words with a substitution that a shell would run.
    scripts: Vec<String>,
}

/// The worst that a part of a command might do.
fn of_command(command: &str, depth: usize) -> Risk {
    let risks = split_command(command).into_iter().filter_map(|part| risk_of_part(&part, depth));
    risks.min().unwrap_or(Risk::Write)
}

fn risk_of_part(part: &CommandPart, depth: usize) -> Option<Risk> {
    let words: Vec<&str> = part.words.iter().map(String::as_str).collect();
    // What comes after a word such as `sudo` or `env A=b` is a command, too.
    let begins = (0..words.len()).filter_map(|place| of_words(&words[place..]));
    let first = of_words(&words).or((!words.is_empty()).then_some(Risk::Write))?;
    let scripts = part.scripts.iter().map(String::as_str).chain(shell_script(&words));
    // Bounded: `sh -c "sh -c …"` can be nested as deep as a hostile text likes.
    let within = scripts.map(|script| match depth < DEPTH_MAX {
        true => of_command(script, depth + 1),
        false => Risk::Write,
    });
    let is_written = part.is_written.then_some(Risk::Write);
    // A word such as `cat` in the middle of a command makes it no safer, so reading does not count
    // there.
    let worse = begins.chain(within).filter(|risk| *risk != Risk::Read).chain(is_written).min();
    Some(worse.map_or(first, |worse| worse.min(first)))
}

/// What a shell is told to run.
fn shell_script<'w>(words: &[&'w str]) -> Option<&'w str> {
    let shell = words.iter().position(|word| SHELLS.contains(&program_name(word)))?;
    let is_option =
        |word: &&str| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c');
    // `-lc` and `-ec` bring a script, too, but `--rc` does not.
    let option = words[shell..].iter().position(is_option)?;
    words.get(shell + option + 1).copied()
}

/// The words of a command that is a single one, without their quotes.
pub(crate) fn simple_words(command: &str) -> Option<Vec<String>> {
    let [part] = <[CommandPart; 1]>::try_from(split_command(command)).ok()?;
    Some(part.words).filter(|words| !words.is_empty())
}

/// The words of each part of a command, and whether the part writes to a file by `>`.
pub(crate) fn command_parts(command: &str) -> Vec<(Vec<String>, bool)> {
    split_command(command).into_iter().map(|part| (part.words, part.is_written)).collect()
}

/// The parts of a command, read as a shell would, or nearly: a quote without its end is a letter.
fn split_command(command: &str) -> Vec<CommandPart> {
    let mut parts = vec![CommandPart::default()];
    // `None` between words and `Some("")` inside an empty one: `''` is a word.
    let mut word: Option<String> = None;
    let mut rest = command;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        let part = parts.last_mut().expect("there is always one");
        match letter {
            '\'' | '"' if let Some((inside, behind)) = read_quoted(rest, letter) => {
                // A shell runs substitutions inside double quotes, and none inside single ones.
                if letter == '"' && (inside.contains("$(") || inside.contains('`')) {
                    part.scripts.push(inside.clone());
                }
                word.get_or_insert_default().push_str(&inside);
                rest = behind;
            }
            '\\' => {
                let next = rest.chars().next();
                rest = &rest[next.map_or(0, char::len_utf8)..];
                // An escaped line end is none.
                word.get_or_insert_default().extend(next.filter(|next| *next != '\n'));
            }
            // `$` and backticks begin a part, so the command in `$(…)` is read as one of its own.
            '\n' | ';' | '|' | '&' | '(' | ')' | '`' | '$' => {
                part.words.extend(word.take());
                parts.push(CommandPart::default());
            }
            letter if letter.is_whitespace() => part.words.extend(word.take()),
            letter => {
                part.is_written |= letter == '>';
                word.get_or_insert_default().push(letter);
            }
        }
    }
    parts.last_mut().expect("there is always one").words.extend(word);
    parts
}

/// What stands before the closing quote, and what behind it.
fn read_quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut inside = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            letter if letter == quote => return Some((inside, &text[at + 1..])),
            '\\' if quote == '"' => inside.extend(letters.next().map(|(_, next)| next)),
            letter => inside.push(letter),
        }
    }
    None
}

fn of_words(words: &[&str]) -> Option<Risk> {
    let name = program_name(words.first()?);
    let mut words = &words[1..];
    // `git -C d push` is a push: options and their words stand before what git does.
    while name == "git" && words.first().is_some_and(|word| word.starts_with('-')) {
        let count = if GIT_OPTIONS.contains(&words[0]) { 2 } else { 1 };
        words = words.get(count..).unwrap_or_default();
    }
    let fits = |(_, beginning): &&(Risk, &[&str])| {
        beginning[0] == name && words.starts_with(&beginning[1..])
    };
    BEGINNINGS.iter().find(fits).map(|(risk, _)| *risk)
}

/// A program without its folder.
pub(crate) fn program_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// The whole command of a call, as one text.
fn command_text(input: &Raw) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum CommandWords {
        One(String),
        Many(Vec<String>),
    }
    let members = input.members()?;
    let (_, value) =
        members.into_iter().find(|(name, _)| matches!(name.as_str(), "command" | "cmd"))?;
    match value.read().ok()? {
        CommandWords::One(text) => Some(text),
        CommandWords::Many(words) => Some(words.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_part_counts() {
        for (command, risk) in [
            ("ls -la | wc -l", Risk::Read),
            ("npm test", Risk::Write),
            ("echo hi > file", Risk::Write),
            ("cd x && rm -rf target", Risk::Destructive),
            ("sudo rm x", Risk::Destructive),
            ("sudo true", Risk::Privilege),
            ("/usr/bin/git push origin main", Risk::Outward),
            ("A=1 npm install left-pad", Risk::Install),
            ("cat ~/.ssh/config", Risk::Secrets),
            ("true\ngit reset --hard", Risk::Destructive),
            ("echo $(curl -s x)", Risk::Outward),
            ("", Risk::Write),
            (r#"bash -c "rm -rf x""#, Risk::Destructive),
            ("sh -lc 'cd x && git push'", Risk::Outward),
            (r#"/bin/sh -c "bash -c 'rm x'""#, Risk::Destructive),
            ("sudo -u dev rm x", Risk::Destructive),
            ("git -C d push", Risk::Outward),
            ("git -c a=b --no-pager --git-dir=x reset --hard", Risk::Destructive),
            ("git -C d status", Risk::Read),
            ("'rm' x", Risk::Destructive),
            (r"\rm x", Risk::Destructive),
            (r#"echo "$(rm x)""#, Risk::Destructive),
            (r#"echo "it's" && rm x"#, Risk::Destructive),
            ("echo don't; rm x", Risk::Destructive),
            ("git commit -m 'rm is gone; curl x'", Risk::Write),
            (r#"rg "a|b > c" src"#, Risk::Read),
        ] {
            let input = Raw::from_value(&serde_json::json!({ "command": command })).unwrap();
            assert_eq!(Risk::from_call("Bash", &input), risk, "{command}");
        }
        let input = Raw::parse(r#"{"file_path":"a.rs","content":""}"#).unwrap();
        assert_eq!(Risk::from_call("Write", &input), Risk::Write);
        assert_eq!(Risk::from_call("Read", &input), Risk::Read);
    }
}
