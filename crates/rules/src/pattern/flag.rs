//! Flags of commands: `-rf` is a set of letters, `--force` a name.
//!
//! A restricting rule finds a flag in every spelling: in another order, in pieces, with
//! its long name, cut short, with a value attached. An allow rule takes it only as
//! it is written.

use crate::expand::Arg;
use crate::unwrap::program_name;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Flag {
    /// With its dashes.
    pub text: String,
}

/// Programs, their subcommands (none is any), and the spellings of each flag. Only flags that people
/// write into rules are here.
const SPELLINGS: &[(&str, &str, &[&str])] = &[
    ("rm cp", "", &["-r -R --recursive", "-f --force"]),
    ("mv ln", "", &["-f --force"]),
    ("chmod chown chgrp", "", &["-R --recursive"]),
    ("git", "push", &["-f --force", "-d --delete"]),
    ("git", "commit", &["-n --no-verify", "-a --all"]),
    ("git", "branch tag", &["-d --delete", "-f --force"]),
    ("git", "checkout switch clean worktree", &["-f --force"]),
    ("docker podman", "rm rmi prune", &["-f --force", "-a --all"]),
    ("kubectl", "", &["-f --filename", "-A --all-namespaces", "-n --namespace"]),
    ("npm", "", &["-g --global", "-f --force"]),
    ("apt apt-get", "", &["-y --yes --assume-yes"]),
    (
        "curl",
        "",
        &["-k --insecure", "-o --output", "-X --request", "-d --data", "-T --upload-file"],
    ),
    ("wget", "", &["-O --output-document"]),
    ("sed", "", &["-i --in-place"]),
    ("rsync", "", &["-r --recursive"]),
];

/// A flag that stands for two others.
const COMBINED: &[(&str, &str, [&str; 2])] = &[("git", "-D", ["--delete", "--force"])];

impl Flag {
    /// Whether a word behind it can be its value: not behind several letters in one.
    pub(crate) fn can_have_value(&self) -> bool {
        self.letters().is_none_or(|letters| letters.len() == 1)
    }

    /// The letters, if it is a set of letters: `-rf`. A long name behind one dash repeats letters,
    /// or is not made of letters only.
    fn letters(&self) -> Option<Vec<char>> {
        letters(&self.text)
    }

    /// Whether the flag is among the arguments, in any spelling.
    pub(crate) fn is_among(&self, args: &[Arg]) -> bool {
        if args.iter().any(|arg| has_name(&arg.text, &self.text)) {
            return true;
        }
        if let Some(letters) = self.letters() {
            return letters.iter().all(|letter| has_letter(args, *letter));
        }
        let spellings = spellings(args, &self.text);
        spellings.iter().any(|spelling| match letters_of_one(spelling) {
            Some(letter) => in_cluster(args, letter),
            None => args.iter().any(|arg| has_name(&arg.text, spelling)),
        })
    }

    /// Whether an argument is made of this flag only, as it is written. `letters` are those of all
    /// flags of the pattern.
    pub(crate) fn is_only(&self, arg: &Arg, letters_of_all: &[char]) -> bool {
        if !arg.is_literal() {
            return false;
        }
        match (letters(&arg.text), self.letters()) {
            (Some(there), Some(_)) => there.iter().all(|c| letters_of_all.contains(c)),
            _ => arg.text == self.text,
        }
    }

    /// Whether the flag stands among arguments that hold no other flags than allowed ones.
    pub(crate) fn is_exactly_among(&self, args: &[Arg], letters_of_all: &[char]) -> bool {
        match self.letters() {
            Some(wanted) => wanted.iter().all(|letter| {
                let has =
                    |arg: &Arg| letters(&arg.text).is_some_and(|there| there.contains(letter));
                args.iter().any(|arg| self.is_only(arg, letters_of_all) && has(arg))
            }),
            None => args.iter().any(|arg| arg.is_literal() && arg.text == self.text),
        }
    }

    pub(crate) fn all_letters(flags: &[Flag]) -> Vec<char> {
        flags.iter().filter_map(Flag::letters).flatten().collect()
    }
}

fn letters(text: &str) -> Option<Vec<char>> {
    let inside = text.strip_prefix('-')?;
    let letters: Vec<char> = inside.chars().collect();
    let is_set = !letters.is_empty()
        && letters.iter().all(char::is_ascii_alphanumeric)
        && (1..letters.len()).all(|at| !letters[..at].contains(&letters[at]));
    is_set.then_some(letters)
}

fn letters_of_one(text: &str) -> Option<char> {
    let mut inside = text.strip_prefix('-')?.chars();
    let letter = inside.next().filter(|c| *c != '-')?;
    inside.next().is_none().then_some(letter)
}

/// Whether an argument is the flag: exactly, with a value attached, cut short, with one dash or
/// two.
fn has_name(arg: &str, flag: &str) -> bool {
    if arg == flag {
        return true;
    }
    let (Some(arg), Some(flag)) = (long_name(arg), long_name(flag)) else { return false };
    // Programs take a beginning of a long name, if no other flag begins so.
    !arg.is_empty() && flag.starts_with(arg)
}

fn long_name(text: &str) -> Option<&str> {
    let name = match text.strip_prefix("--") {
        Some(name) => name,
        // `-auto-approve` of Go programs.
        None => text.strip_prefix('-').filter(|name| name.len() > 4 || name.contains('-'))?,
    };
    name.split('=').next()
}

/// A letter in a cluster, or one of the long names that mean the same.
fn has_letter(args: &[Arg], letter: char) -> bool {
    let flag = format!("-{letter}");
    in_cluster(args, letter)
        || spellings(args, &flag).iter().any(|spelling| match letters_of_one(spelling) {
            Some(letter) => in_cluster(args, letter),
            None => args.iter().any(|arg| has_name(&arg.text, spelling)),
        })
        || COMBINED.iter().any(|(program, combined, parts)| {
            let is_program = program_of(args).is_some_and(|name| name == *program);
            let is_there = |part: &str| (Flag { text: part.to_owned() }).is_among(args);
            is_program && *combined == flag && parts.iter().all(|part| is_there(part))
        })
}

fn in_cluster(args: &[Arg], letter: char) -> bool {
    args.iter().any(|arg| {
        let inside = arg.text.strip_prefix('-').filter(|inside| !inside.starts_with('-'));
        inside.is_some_and(|inside| {
            // `-n5`, `-C/folder`: letters up to what is no letter.
            inside.chars().take_while(char::is_ascii_alphanumeric).any(|c| c == letter)
        })
    })
}

fn program_of(args: &[Arg]) -> Option<String> {
    Some(program_name(&args.first()?.text))
}

/// The other spellings of a flag of the command that the arguments are.
fn spellings(args: &[Arg], flag: &str) -> Vec<&'static str> {
    let Some(program) = program_of(args) else { return Vec::new() };
    let is_named =
        |names: &str, word: &str| names.split(' ').any(|name| name.eq_ignore_ascii_case(word));
    let rows = SPELLINGS.iter().filter(|(programs, subcommands, _)| {
        is_named(programs, &program)
            && (subcommands.is_empty() || args.iter().any(|arg| is_named(subcommands, &arg.text)))
    });
    let groups = rows.flat_map(|(_, _, groups)| *groups);
    let groups = groups.filter(|group| group.split(' ').any(|spelling| spelling == flag));
    groups.flat_map(|group| group.split(' ')).filter(|spelling| *spelling != flag).collect()
}
