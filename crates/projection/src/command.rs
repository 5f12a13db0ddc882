//! What a command line runs, as far as its words tell.

use crate::excerpt;

/// Words in front of a command that only say how it runs.
const FRONT: &[&str] =
    &["sudo", "time", "timeout", "nohup", "env", "exec", "command", "nice", "xvfb-run", "doas"];

/// What separates commands on one line.
const SEPARATORS: &[&str] = &["&&", "||", ";", "|"];

/// The program a line runs. Going to a folder first and setting variables is not it.
pub(crate) fn program_of_line(line: &str) -> &str {
    let words = command_words(line);
    let name = words.first().copied().unwrap_or(line.trim());
    // `(make` and `"./run"`: the sign of a subshell and quotes are no part of the name.
    let name = name.trim_start_matches('(').trim_matches(['"', '\'']);
    name.rsplit('/').find(|part| !part.is_empty()).unwrap_or(name)
}

/// The words of the first command of a line that is more than `cd` or a variable, up to the next
/// command.
pub(crate) fn command_words(line: &str) -> Vec<&str> {
    let mut rest = line.trim();
    loop {
        let (command, next) = first_command(rest);
        let words = without_front(command.split_whitespace().collect());
        // Agents begin most commands with `cd`, which says nothing about the work.
        let is_way = matches!(words.first(), None | Some(&("cd" | "set" | "export" | "source")));
        match next {
            Some(next) if is_way => rest = next,
            _ => return words,
        }
    }
}

/// The first command of a line, and what follows its separator.
fn first_command(line: &str) -> (&str, Option<&str>) {
    // A separator inside quotes is text: `git commit -m "a; b"`.
    let mut quote = None;
    for (place, c) in line.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if matches!(c, '"' | '\'') => quote = Some(c),
            None => {
                let found =
                    SEPARATORS.iter().find(|separator| line[place..].starts_with(**separator));
                if let Some(separator) = found {
                    return (&line[..place], Some(line[place + separator.len()..].trim()));
                }
            }
        }
    }
    (line, None)
}

fn without_front(mut words: Vec<&str>) -> Vec<&str> {
    // At least one word stays: `env` alone is the program itself.
    while words.len() > 1 {
        let is_variable = words[0].split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        });
        let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        if is_variable {
            words.remove(0);
        } else if FRONT.contains(&words[0]) {
            words.remove(0);
            // `timeout 60` and `nice -n` have a number or options before the command.
            while words.len() > 1 && is_number(words[0]) {
                words.remove(0);
            }
        } else {
            break;
        }
    }
    words
}

/// The tests a line runs, in short, if it does.
pub(crate) fn tests_of_line(line: &str) -> Option<String> {
    let words = command_words(line);
    let program = program_of_line(line);
    // `cargo +nightly --quiet test`: neither a toolchain nor an option is what cargo does.
    let mut arguments = words.iter().skip(1).filter(|word| !word.starts_with(['-', '+']));
    let first = arguments.next().copied().unwrap_or_default();
    let second = arguments.next().copied().unwrap_or_default();
    let is_test = match program {
        "cargo" => matches!(first, "test" | "t" | "nextest"),
        "npm" | "pnpm" | "yarn" | "bun" => {
            first == "test" || first == "run" && second.starts_with("test")
        }
        "go" | "dotnet" | "deno" | "mvn" | "gradle" | "gradlew" | "swift" | "mix" | "rake"
        | "make" | "just" | "task" => matches!(first, "test" | "tests" | "check"),
        "python" | "python3" | "uv" | "poetry" | "npx" => {
            words.iter().any(|word| matches!(*word, "pytest" | "unittest" | "jest" | "vitest"))
        }
        "pytest" | "py.test" | "jest" | "vitest" | "mocha" | "rspec" | "phpunit" | "ctest"
        | "tox" | "nox" | "test.sh" => true,
        _ => false,
    };
    let shown = if matches!(first, "run" | "nextest") {
        format!("{first} {second}")
    } else {
        first.to_owned()
    };
    is_test.then(|| format!("{program} {shown}").trim_end().to_owned())
}

/// Whether a line looks at changes, as `git diff` does.
pub(crate) fn is_review(line: &str) -> bool {
    let words = command_words(line);
    let mut arguments = words.iter().skip(1).filter(|word| !word.starts_with('-'));
    let first = arguments.next().copied().unwrap_or_default();
    let second = arguments.next().copied().unwrap_or_default();
    match program_of_line(line) {
        "git" => matches!(first, "diff" | "show" | "log" | "blame"),
        "gh" => first == "pr" && matches!(second, "view" | "diff" | "checks" | "review"),
        _ => false,
    }
}

/// What a script tells git and its hosts to make: commits, branches, pull requests.
pub(crate) fn git_things(script: &str) -> Vec<String> {
    let mut things = Vec::new();
    for (place, _) in script.match_indices("git commit") {
        things.extend(
            commit_subject(&script[place..]).map(|subject| format!("Committed: {subject}")),
        );
    }
    for words in ["git checkout -b ", "git switch -c ", "git branch -m "] {
        let names = script
            .match_indices(words)
            .filter_map(|(place, _)| script[place + words.len()..].split_whitespace().next());
        things
            .extend(names.map(|name| format!("On branch {}", name.trim_matches(['"', '\'', ';']))));
    }
    for words in ["gh pr merge ", "gh pr view ", "gh pr checkout "] {
        let numbers = script.match_indices(words).filter_map(|(place, _)| {
            script[place + words.len()..].split_whitespace().next()?.parse::<u64>().ok()
        });
        things.extend(numbers.map(|number| format!("Pull request #{number}")));
    }
    things
}

/// The first line of the message a commit is given on the command line.
fn commit_subject(commit: &str) -> Option<String> {
    let message = behind_message_flag(commit)?;
    // A message without quotes is mostly a variable: its text is not known here.
    let quote = message.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let message = &message[quote.len_utf8()..];
    let message = match message.strip_prefix("$(cat <<") {
        // The message stands between the lines of a here-document.
        Some(document) => document.split_once('\n')?.1,
        None => message.split(quote).next()?,
    };
    let subject = excerpt::first_line(message, SUBJECT_CHARS_MAX);
    (!subject.is_empty()).then_some(subject)
}

/// What follows `-m`, `-am` or `--message`.
fn behind_message_flag(commit: &str) -> Option<&str> {
    commit.match_indices(" -").find_map(|(place, _)| {
        let flag = &commit[place + 1..];
        let len = flag.find([' ', '=', '"', '\'']).unwrap_or(flag.len());
        let (flag, rest) = flag.split_at(len);
        let is_short = !flag.starts_with("--") && flag.ends_with('m');
        (is_short || flag == "--message").then(|| rest.trim_start_matches([' ', '=']))
    })
}

/// Characters of a commit's subject.
const SUBJECT_CHARS_MAX: usize = 150;
