//! What each agent is told by a rule of each kind, at each event that takes an answer.

use std::fmt::Write;

use capture::{AGENTS, AnswerRow, AnswerableCall, HookAnswer};
use event::payload::RuleMatched;
use event::{Raw, Time};
use expect_test::expect;
use hooks::{CallPlace, GateOutcome, judge_call, refuse_unjudged};
use rules::{CompiledRules, RuleSet};
use serde_json::json;

fn call(row: AnswerRow, command: &str) -> AnswerableCall {
    AnswerableCall {
        row,
        is_ask_untold: false,
        session: "s".to_owned(),
        // Every agent's shell is known by this name, too.
        tool: "Bash".to_owned(),
        input: Raw::from_value(&json!({ "command": command })).unwrap(),
        call_id: Some("c1".to_owned()),
        cwd: Some("/home/dev/project".to_owned()),
    }
}

fn judge(agent: &str, row: AnswerRow, rules: &str, command: &str) -> Option<GateOutcome> {
    let (rules, errors) = RuleSet::parse(rules);
    assert_eq!(errors, []);
    let rules = CompiledRules::compile(&rules, 1);
    judge_call(agent, &call(row, command), &rules, CallPlace::default(), Time::from_millis(0))
}

fn rows() -> impl Iterator<Item = (&'static str, AnswerRow)> {
    let with_hooks = AGENTS.iter().filter_map(|agent| Some((agent.provider(), agent.hook_map()?)));
    with_hooks.flat_map(|(agent, map)| map.answers.iter().map(move |row| (agent, *row)))
}

fn row(agent: &str, event: &str) -> AnswerRow {
    rows().find(|(name, row)| *name == agent && row.event == event).unwrap().1
}

#[test]
fn every_agent_is_told_what_it_takes() {
    let mut table = String::new();
    for (agent, row) in rows() {
        write!(table, "{agent:<8} {:<20}", row.event).unwrap();
        for severity in ["block", "ask", "warn", "allow"] {
            let outcome = judge(agent, row, &format!("{severity} shell: touch *"), "touch x");
            let outcome = outcome.unwrap();
            assert_eq!(outcome.line.is_some(), outcome.answer.is_some());
            let said = outcome.answer.map_or("-", HookAnswer::as_str);
            write!(table, " {severity}={said:<5}").unwrap();
        }
        table.truncate(table.trim_end().len());
        table.push('\n');
    }
    expect![[r#"
        claude   PreToolUse           block=deny  ask=ask   warn=note  allow=allow
        claude   PermissionRequest    block=deny  ask=-     warn=-     allow=allow
        codex    PreToolUse           block=deny  ask=deny  warn=note  allow=-
        codex    PermissionRequest    block=deny  ask=-     warn=-     allow=allow
        copilot  preToolUse           block=deny  ask=ask   warn=-     allow=allow
        cursor   beforeShellExecution block=deny  ask=ask   warn=-     allow=allow
        cursor   beforeMCPExecution   block=deny  ask=ask   warn=-     allow=-
        cursor   preToolUse           block=deny  ask=deny  warn=-     allow=-
        cursor   postToolUse          block=-     ask=-     warn=note  allow=-
        gemini   BeforeTool           block=deny  ask=deny  warn=note  allow=-
        gemini   AfterTool            block=-     ask=-     warn=note  allow=-
        opencode tool.execute.before  block=deny  ask=deny  warn=-     allow=-
        opencode permission.asked     block=deny  ask=-     warn=-     allow=allow
        qwen     PreToolUse           block=deny  ask=ask   warn=note  allow=allow
        qwen     PermissionRequest    block=deny  ask=-     warn=-     allow=allow
    "#]]
    .assert_eq(&table);
}

#[test]
fn rule_that_does_not_match_is_silent() {
    for (agent, row) in rows() {
        let rules = "block shell: rm *\nask edit: **/x\nallow shell: ls";
        assert_eq!(judge(agent, row, rules, "touch x"), None, "{agent} {}", row.event);
    }
}

#[test]
fn rule_on_trial_is_recorded_and_not_told() {
    let outcome = judge("claude", row("claude", "PreToolUse"), "block shell: rm * @dry", "rm x");
    let GateOutcome { line, matched: Some(matched), .. } = outcome.unwrap() else {
        panic!("recorded")
    };
    assert_eq!((line, matched.verdict, matched.told), (None, None, None));
    assert!(matched.rules[0].is_dry);
}

#[test]
fn strongest_rule_gives_the_reason() {
    let rules = "warn shell: git push — look first\nblock shell: git push --force — never";
    let outcome = judge("codex", row("codex", "PreToolUse"), rules, "git push --force").unwrap();
    let line = outcome.line.unwrap();
    assert!(line.contains("never. A rule of the user forbids this call"), "{line}");
    let RuleMatched { tool, call_id, rules, .. } = outcome.matched.unwrap();
    assert_eq!((tool.as_str(), call_id.as_deref(), rules.len()), ("Bash", Some("c1"), 2));
}

#[test]
fn agent_that_cannot_ask_is_refused() {
    let outcome = judge("gemini", row("gemini", "BeforeTool"), "ask shell: git push", "git push");
    let line = outcome.unwrap().line.unwrap();
    assert!(line.contains("wants a person to decide"), "{line}");
}

#[test]
fn untold_question_is_told_by_its_answer() {
    let asks = AnswerableCall { is_ask_untold: true, ..call(row("qwen", "PreToolUse"), "touch x") };
    let asked_by = |rules: &str| {
        let (rules, _) = RuleSet::parse(rules);
        let rules = CompiledRules::compile(&rules, 1);
        let now = Time::from_millis(0);
        judge_call("qwen", &asks, &rules, CallPlace::default(), now).unwrap().asked
    };
    let asked = asked_by("ask shell: touch *").unwrap();
    assert_eq!((asked.tool.as_str(), asked.input.unwrap()), ("Bash", asks.input.clone()));
    assert_eq!(asked_by("block shell: touch *"), None);
}

#[test]
fn calls_without_rules_are_refused_before_they_run() {
    for (agent, row) in rows() {
        let is_refused = refuse_unjudged(&call(row, "ls")).is_some();
        let is_before = row.moment == capture::AnswerMoment::Before;
        assert_eq!(is_refused, is_before, "{agent} {}", row.event);
    }
}
