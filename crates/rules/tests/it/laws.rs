//! What holds for all rules and all inputs.

use event::Raw;
use proptest::prelude::*;
use rules::{CommandWords, CompiledRules, Rule, RuleSet, Severity};
use serde_json::json;

use crate::given::{action, now};

/// Commands made of pieces that rules know, in ways that shells know.
fn command() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "rm",
        "-rf",
        "git",
        "push",
        "--force",
        "ls",
        "x",
        "sudo",
        "-u",
        "dev",
        "env",
        "A=1",
        "sh",
        "-c",
        "'rm x'",
        "\"$X\"",
        "$X",
        "X=rm",
        "$(",
        ")",
        "`",
        ";",
        "&&",
        "|",
        "(",
        "{",
        "}",
        "<",
        ">",
        "/dev/null",
        "2>&1",
        "<<EOF",
        "\nEOF\n",
        "\n",
        "xargs",
        "find",
        "-exec",
        "\\;",
        "if",
        "then",
        "fi",
        "*",
        "{a,b}",
        "'",
        "\"",
        "echo",
        "target",
        "timeout",
        "5",
        "cargo test",
    ]);
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.join(" "))
}

fn pattern() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "rm",
        "rm -rf *",
        "git push",
        "git push --force",
        "ls *",
        "cargo test *",
        "*",
        "echo *",
        "sudo *",
        "rm x",
        "X=* rm",
        "find -exec *",
        "sh *",
        "xargs *",
        "git *",
        "timeout 5 *",
    ])
}

fn severity() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["block", "ask", "warn", "allow"])
}

fn rule() -> impl Strategy<Value = String> {
    let tags = prop::sample::select(vec![
        "",
        " — why",
        " @except:\"rm -rf target\"",
        " @agent:claude",
        " @agent:codex",
        " @until:2020-01-01",
        " - a - b @project:org/repo",
    ]);
    (severity(), pattern(), tags)
        .prop_map(|(severity, pattern, tags)| format!("{severity} shell: {pattern}{tags}"))
}

fn decide(rules: &[String], command: &str) -> Option<Severity> {
    let (rules, errors) = RuleSet::parse(&rules.join("\n"));
    assert_eq!(errors, []);
    let input = Raw::from_value(&json!({ "command": command })).unwrap();
    CompiledRules::compile(&rules, 0).judge(&action("Bash", &input), now()).decision
}

/// None is weaker than an allow: without a rule the agent asks, but a rule that stops is stronger
/// than both.
fn strength(decision: Option<Severity>) -> u8 {
    match decision {
        Some(Severity::Block) => 3,
        Some(Severity::Ask) => 2,
        Some(Severity::Warn) => 1,
        Some(Severity::Allow) | None => 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..Default::default() })]

    #[test]
    fn one_more_rule_never_weakens(
        rules in prop::collection::vec(rule(), 0..6),
        more in rule(),
        command in command(),
    ) {
        let before = decide(&rules, &command);
        let mut with_more = rules;
        with_more.push(more.clone());
        let after = decide(&with_more, &command);
        prop_assert!(strength(after) >= strength(before), "{more} made {after:?} of {before:?}");
        if more.starts_with("allow") && strength(before) > 0 {
            prop_assert_eq!(after, before);
        }
    }

    #[test]
    fn order_decides_nothing(mut rules in prop::collection::vec(rule(), 0..6), command in command()) {
        let forwards = decide(&rules, &command);
        rules.reverse();
        prop_assert_eq!(decide(&rules, &command), forwards);
    }

    #[test]
    fn text_of_a_rule_is_the_rule(line in rule()) {
        let rule: Rule = line.parse().unwrap();
        prop_assert_eq!(rule.to_string().parse::<Rule>(), Ok(rule));
    }

    #[test]
    fn any_line_is_a_rule_or_an_error(
        line in "[ -~—–]{0,60}",
        begin in "(block|ask|warn|allow|) ?(shell|edit|mcp|web|any|task): ",
        tags in "( @(dry|except:\"[a-z* ]{1,8}\"|agent:[a-z,]{1,5}|until:2026-01-01|[a-z]{1,8})){0,3}",
    ) {
        let line = format!("{begin}{line}{tags}");
        if let Ok(rule) = line.parse::<Rule>() {
            let text = rule.to_string();
            prop_assert_eq!(text.parse::<Rule>(), Ok(rule), "of {}", text);
        }
    }

    #[test]
    fn quotes_change_no_word(words in prop::collection::vec("[a-zA-Z0-9_./:@%+-]{1,8}", 1..6), how in any::<[u8; 6]>()) {
        let quoted: Vec<String> = words.iter().zip(how).map(|(word, how)| quote(word, how)).collect();
        let plain = decide_words(&words);
        prop_assert_eq!(decide_words(&quoted), plain);
        let split = CommandWords::split(&quoted.join(" "));
        prop_assert_eq!(split.doubts, Vec::<String>::new());
        prop_assert_eq!(split.commands, vec![words]);
    }

    #[test]
    fn damaged_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut file = b"HANSRULE\x01\0\0\0".to_vec();
        file.extend(bytes);
        prop_assert!(CompiledRules::from_bytes(file).is_err());
    }
}

fn decide_words(words: &[String]) -> Option<Severity> {
    decide(&["block shell: a* -b".to_owned(), "ask shell: b".to_owned()], &words.join(" "))
}

fn quote(word: &str, how: u8) -> String {
    match how % 5 {
        0 => word.to_owned(),
        1 => format!("'{word}'"),
        2 => format!("\"{word}\""),
        3 => word.chars().map(|c| format!("\\{c}")).collect(),
        _ => {
            let (first, rest) = word.split_at(1);
            format!("{first}''\"{rest}\"")
        }
    }
}

/// Input that nests or repeats without end comes back all the same.
#[test]
fn hostile_nesting_has_an_answer() {
    let many = 20_000;
    let mut inputs: Vec<String> = [
        "(",
        "$(",
        "`",
        "{ ",
        "if ",
        "${x:-",
        "$((",
        "((",
        "\"$(",
        "<(",
        "case x in ",
        "[[ ",
        "<<E$[\t\t",
        "f() ",
        "while ",
        "$[",
        "{a,b}",
        "X=$X$X;",
        "sh -c '",
        "eval ",
        "xargs ",
        "a|",
        "<<A ",
        "\\",
        "$'",
        "!",
        "function f ",
        "a <<<",
    ]
    .iter()
    .map(|piece| piece.repeat(many / piece.len()))
    .collect();
    inputs.push(format!("X=a;{} echo $X", "X=$X$X;".repeat(100)));
    inputs.push(format!("{}{}", "sudo ".repeat(2_000), "rm"));
    inputs.push(format!("( {} ) <<< {}", "a;".repeat(5_000), "b".repeat(100_000)));
    inputs.push(format!("echo '{}' | {} rm", "a\n".repeat(200), "xargs -I% ".repeat(12)));
    for input in inputs {
        let beginning: String = input.chars().take(20).collect();
        let decision =
            decide(&["block shell: nothing".to_owned(), "allow shell: *".to_owned()], &input);
        assert!(decision != Some(Severity::Block), "{beginning}");
    }
}
