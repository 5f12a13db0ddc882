//! Words as bash and dash split them.
//!
//! Commands without expansions are generated, and one shell process splits a batch of them. Every
//! run tries some hundred; `HANSARD_TEST_COMMANDS=100000` tries as many. A shell that is not
//! installed is left out, and the test says so.

use std::env;
use std::io::Write;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use rules::CommandWords;

/// Commands that one shell splits.
const BATCH: usize = 1_000;

/// What ends a word and a command in the answer of a shell. Neither is in a generated word.
const WORD_END: u8 = 0x01;
const COMMAND_END: u8 = 0x02;

/// How the words of a shell are read: a program that prints its arguments. It is a function, so
/// that a shell starts no process for it.
const PRINT: &str = "w() { printf '%s\\1' \"$@\"; printf '\\2'; }\nset -f\n";

/// Characters with a meaning to a shell, and some that do not.
fn character() -> impl Strategy<Value = char> {
    prop::sample::select(
        "abz09_-+=.,:/@%^~#!*?[]{}é本\"'\\$`;&|<>() \t\n".chars().collect::<Vec<_>>(),
    )
}

/// A piece of a word in one kind of quotes, or in none.
fn piece(is_bash: bool) -> impl Strategy<Value = String> {
    // A comma may make braces of `a{` and `a}`, which dash does not have.
    let plain = if is_bash { "[abz09_+.,:/@%^é本-]{1,4}" } else { "[abz09_+.:/@%^é本-]{1,4}" };
    let escaped = character().prop_filter("a line end is none", |c| *c != '\n');
    let escaped = escaped.prop_map(|c| format!("\\{c}"));
    let single = prop::collection::vec(character(), 0..5).prop_map(|inside| {
        let inside: String = inside.into_iter().filter(|c| *c != '\'').collect();
        format!("'{inside}'")
    });
    let double = prop::collection::vec(character(), 0..5).prop_map(|inside| {
        let inside = inside.into_iter().map(|c| match c {
            '"' | '$' | '`' | '\\' => format!("\\{c}"),
            c => c.to_string(),
        });
        format!("\"{}\"", inside.collect::<String>())
    });
    let backslash_in_quotes = "[abz]{0,2}"
        .prop_map(|text| format!("\"\\{text}\""))
        .prop_filter("it would escape the quote", |text| text.len() > 3);
    let continued = Just("\\\n".to_owned());
    let ansi = "[abz']{0,3}".prop_map(move |text| match is_bash {
        true => format!("$'{}\\x41\\n\\101'", text.replace('\'', "\\'")),
        false => text.replace('\'', ""),
    });
    let odd = prop::sample::select(vec!["a#", "a=", "a{", "a}", "a!", "a]", "a=b", "a#b"]);
    let odd = odd.prop_map(str::to_owned);
    prop_oneof![plain, escaped, single, double, backslash_in_quotes, continued, ansi, odd]
}

fn word(is_bash: bool) -> impl Strategy<Value = String> {
    prop::collection::vec(piece(is_bash), 1..4).prop_map(|pieces| pieces.concat())
}

/// What stands between two words. A dollar on its own is a word.
fn gap() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![" ", "  ", "\t", " \\\n", "\\\n ", " $ "])
}

fn separator() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        ";",
        "\n",
        " ; ",
        " && ",
        "&&",
        " || w no; ",
        "\n\n",
        " # a 'comment\n",
        ";\n# more\n",
        " 2>/dev/null; ",
        " </dev/null\n",
        "; { w in a group; }; ",
        "; (w in parentheses); ",
        "; if w a; then w b; fi; ",
        "; for x in a b; do w c; done; ",
        "; ! w d; ",
        "; w <<EOF\ntext 'of\na here-document\nEOF\n",
        "; case a in (a|b) w e;; esac\n",
    ])
}

/// Some commands `w …`, joined by what separates commands.
fn commands(is_bash: bool) -> impl Strategy<Value = String> {
    let command = prop::collection::vec((gap(), word(is_bash)), 0..4).prop_map(|words| {
        let words = words.into_iter().map(|(gap, word)| format!("{gap}{word}"));
        format!("w{}", words.collect::<String>())
    });
    prop::collection::vec((command, separator()), 1..4).prop_map(|commands| {
        let commands = commands.into_iter().map(|(command, separator)| command + separator);
        commands.collect::<String>()
    })
}

fn count() -> usize {
    env::var("HANSARD_TEST_COMMANDS").ok().and_then(|text| text.parse().ok()).unwrap_or(500)
}

/// What the commands `w` of each text print in a shell.
fn split_by_shell(shell: &str, texts: &[String]) -> Option<Vec<Vec<Vec<String>>>> {
    let mut child = Command::new(shell)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .arg("-s")
        .spawn()
        .ok()?;
    let mut script = PRINT.to_owned();
    for text in texts {
        script.push_str(text);
        // The end of one text.
        script.push_str("\nprintf '\\3'\n");
    }
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(script.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.is_empty(), "{shell} says: {complaint}");
    let mut answers: Vec<_> = output.stdout.split(|byte| *byte == 0x03).map(read_answer).collect();
    // Behind the last mark is nothing.
    answers.pop();
    Some(answers)
}

fn read_answer(answer: &[u8]) -> Vec<Vec<String>> {
    let mut commands: Vec<&[u8]> = answer.split(|byte| *byte == COMMAND_END).collect();
    commands.pop();
    let words = |command: &[u8]| {
        let mut words: Vec<&[u8]> = command.split(|byte| *byte == WORD_END).collect();
        words.pop();
        // `printf` of no arguments prints one end.
        words.into_iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    };
    commands.into_iter().map(words).collect()
}

/// The words of the commands `w` in a text, as we split it.
fn split_by_us(text: &str) -> Vec<Vec<String>> {
    let split = CommandWords::split(text);
    assert_eq!(split.doubts, Vec::<String>::new(), "of {text:?}");
    let ours = split.commands.into_iter().filter(|words| words[0] == "w");
    ours.map(|words| match words.len() {
        1 => vec![String::new()],
        _ => words[1..].to_vec(),
    })
    .collect()
}

/// Commands of which a shell runs only one branch, or one twice, are compared as sets.
fn sorted(mut commands: Vec<Vec<String>>) -> Vec<Vec<String>> {
    commands.sort();
    commands.dedup();
    commands
}

/// Compares as many texts as asked for, and says how it went.
fn check(shell: &str) -> String {
    let mut runner = TestRunner::default();
    let strategy = commands(shell == "bash");
    let mut left = count();
    let mut checked = 0;
    while left > 0 {
        let texts: Vec<String> = (0..left.min(BATCH))
            .map(|_| strategy.new_tree(&mut runner).unwrap().current())
            .collect();
        left -= texts.len();
        let Some(answers) = split_by_shell(shell, &texts) else {
            return format!("{shell} is not installed: left out");
        };
        assert_eq!(answers.len(), texts.len());
        for (text, answer) in texts.iter().zip(answers) {
            let theirs = sorted(answer);
            let ours = sorted(split_by_us(text));
            // What stands behind `||` is read and not run.
            let is_skipped = |words: &&Vec<String>| *words == &["no"];
            let ours: Vec<_> = ours.iter().filter(|words| !is_skipped(words)).collect();
            assert_eq!(ours, theirs.iter().collect::<Vec<_>>(), "{shell} of {text:?}");
            checked += 1;
        }
    }
    format!("{checked} texts are split as by {shell}")
}

#[test]
fn words_are_those_of_bash() {
    println!("{}", check("bash"));
}

#[test]
fn words_are_those_of_dash() {
    println!("{}", check("dash"));
}
