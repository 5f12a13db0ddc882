//! Bytes as a rule and a command.

use event::{Raw, Time};
use rules::{Action, CommandWords, CompiledRules, Rule, RuleSet, Severity};

/// Reads the first line as a rule and the rest as a command, and judges.
pub(super) fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (line, command) = text.split_once('\n').unwrap_or(("warn shell: a", &text));
    if let Ok(rule) = line.parse::<Rule>() {
        assert_eq!(rule.to_string().parse::<Rule>(), Ok(rule), "of {line:?}");
    }
    CommandWords::split(command);
    let with_block = judge(&format!("block shell: *\n{line}"), command);
    let alone = judge(line, command);
    // A rule for every command stops each that has a part; no other rule weakens it.
    assert!(with_block == Some(Severity::Block) || with_block == alone, "of {text:?}");
}

fn judge(rules: &str, command: &str) -> Option<Severity> {
    let (rules, _) = RuleSet::parse(rules);
    let input = Raw::from_value(&[("command", command)].into_iter().collect::<Members<'_>>());
    let action = Action {
        agent: "claude",
        session: "s1",
        project: None,
        project_root: Some("/home/dev/project"),
        cwd: Some("/home/dev/project"),
        home: Some("/home/dev"),
        tool: "Bash",
        server: None,
        input: &input.expect("a text can be written as JSON"),
    };
    CompiledRules::compile(&rules, 0).judge(&action, Time::EPOCH).decision
}

type Members<'m> = std::collections::BTreeMap<&'m str, &'m str>;
