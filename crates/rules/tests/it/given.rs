//! Actions and rules in few words.

use event::{Raw, Time};
use rules::{Action, CompiledRules, RuleSet, Severity, Verdict};

pub(crate) const HOME: &str = "/home/dev";
pub(crate) const PROJECT: &str = "/home/dev/project";

/// Compiles rules that are all well-formed.
#[track_caller]
pub(crate) fn compiled(text: &str) -> CompiledRules {
    let (rules, errors) = RuleSet::parse(text);
    assert_eq!(errors, [], "in {text}");
    CompiledRules::compile(&rules, 0)
}

pub(crate) fn action<'a>(tool: &'a str, input: &'a Raw) -> Action<'a> {
    Action {
        agent: "claude",
        session: "s1",
        project: Some("org/repo"),
        project_root: Some(PROJECT),
        cwd: Some(PROJECT),
        home: Some(HOME),
        tool,
        server: None,
        input,
    }
}

pub(crate) fn now() -> Time {
    "2026-11-18T12:00:00Z".parse().unwrap()
}

#[track_caller]
pub(crate) fn judge_call(rules: &str, tool: &str, input: serde_json::Value) -> Verdict {
    let input = Raw::from_value(&input).unwrap();
    compiled(rules).judge(&action(tool, &input), now())
}

#[track_caller]
pub(crate) fn judge_command(rules: &str, command: &str) -> Verdict {
    judge_call(rules, "Bash", serde_json::json!({ "command": command }))
}

/// The decision as a word.
pub(crate) fn word(verdict: &Verdict) -> &'static str {
    verdict.decision.map_or("none", Severity::as_str)
}
