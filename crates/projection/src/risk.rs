//! How much may depend on an answer: for order and alarms, never for allowing anything.
//!
//! A command is looked at word by word, in all its parts; whatever is not known changes something.

use event::Raw;
use serde::{Deserialize, Serialize};

use crate::tool::{Deed, ToolUse};

/// What a call might do, the worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Something is gone afterwards.
    Destructive,
    /// Somebody else sees it: pushed, published, deployed.
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

    /// The worst that a call might do.
    pub fn of(tool: &str, input: &Raw) -> Risk {
        let by_name = match SECRET_NAMES.iter().any(|name| input.get().contains(name)) {
            true => Risk::Secrets,
            false => Risk::Read,
        };
        let by_deed = match ToolUse::of(tool, input).deed {
            Deed::Read | Deed::Search | Deed::Visit | Deed::WebSearch => Risk::Read,
            Deed::Delete => Risk::Destructive,
            Deed::Run => command(input).map_or(Risk::Write, |command| of_command(&command)),
            Deed::Edit | Deed::Create | Deed::Delegate | Deed::Other => Risk::Write,
        };
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

/// The worst that a part of a command might do.
fn of_command(command: &str) -> Risk {
    let parts = command.split(['\n', ';', '|', '&', '(', ')', '`', '$']);
    let risks = parts.filter_map(|part| {
        let words: Vec<&str> = part.split_whitespace().collect();
        // What comes after a word such as `sudo` or `env A=b` is a command, too.
        let begins: Vec<Risk> =
            (0..words.len()).filter_map(|place| of_words(&words[place..])).collect();
        let first = of_words(&words).or((!words.is_empty()).then_some(Risk::Write))?;
        let is_written = part.contains('>').then_some(Risk::Write);
        let worse = begins.into_iter().filter(|risk| *risk != Risk::Read).chain(is_written).min();
        Some(worse.map_or(first, |worse| worse.min(first)))
    });
    risks.min().unwrap_or(Risk::Write)
}

fn of_words(words: &[&str]) -> Option<Risk> {
    let name = words.first()?.rsplit('/').next()?;
    let fits = |(_, beginning): &&(Risk, &[&str])| {
        beginning[0] == name
            && words.get(..beginning.len()).is_some_and(|begin| begin[1..] == beginning[1..])
    };
    BEGINNINGS.iter().find(fits).map(|(risk, _)| *risk)
}

/// The whole command of a call, as one text.
fn command(input: &Raw) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Words {
        One(String),
        Many(Vec<String>),
    }
    let members = input.members()?;
    let (_, value) =
        members.into_iter().find(|(name, _)| matches!(name.as_str(), "command" | "cmd"))?;
    match value.read().ok()? {
        Words::One(text) => Some(text),
        Words::Many(words) => Some(words.join(" ")),
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
        ] {
            let input = Raw::of(&serde_json::json!({ "command": command })).unwrap();
            assert_eq!(Risk::of("Bash", &input), risk, "{command}");
        }
        let input = Raw::parse(r#"{"file_path":"a.rs","content":""}"#).unwrap();
        assert_eq!(Risk::of("Write", &input), Risk::Write);
        assert_eq!(Risk::of("Read", &input), Risk::Read);
    }
}
