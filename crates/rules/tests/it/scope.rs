//! Which sessions a rule is for, and until when.

use event::{Raw, Time};
use rules::{Action, Severity, Verdict};
use serde_json::json;

use crate::given::{action, compiled, now, word};

#[track_caller]
fn judge(rule: &str, change: impl FnOnce(&mut Action<'_>)) -> Verdict {
    judge_at(rule, now(), change)
}

#[track_caller]
fn judge_at(rule: &str, time: Time, change: impl FnOnce(&mut Action<'_>)) -> Verdict {
    let input = Raw::from_value(&json!({"command": "rm x"})).unwrap();
    let mut action = action("Bash", &input);
    change(&mut action);
    compiled(rule).judge(&action, time)
}

#[test]
fn project_is_exact() {
    let rule = "block shell: rm @project:org/repo";
    assert_eq!(word(&judge(rule, |_| ())), "block");
    assert_eq!(word(&judge(rule, |action| action.project = Some("org/repo2"))), "none");
    assert_eq!(word(&judge(rule, |action| action.project = Some("repo"))), "none");
    assert_eq!(word(&judge(rule, |action| action.project = None)), "none");
}

#[test]
fn agents_and_sessions_are_lists() {
    let rule = "block shell: rm @agent:codex,Claude @session:s0,s1";
    assert_eq!(word(&judge(rule, |_| ())), "block");
    assert_eq!(word(&judge(rule, |action| action.agent = "gemini")), "none");
    assert_eq!(word(&judge(rule, |action| action.session = "s10")), "none");
}

#[test]
fn a_day_ends_with_itself() {
    let rule = "block shell: rm @until:2026-11-18";
    let at = |time: &str| judge_at(rule, time.parse().unwrap(), |_| ());
    assert_eq!(word(&at("2026-11-18T23:59:59Z")), "block");
    assert_eq!(word(&at("2026-11-19T00:00:00Z")), "none");
    let rule = "block shell: rm @until:2026-11-18T12:00:00Z";
    assert_eq!(word(&judge(rule, |_| ())), "none");
}

#[test]
fn dry_rules_are_noted_and_decide_nothing() {
    let verdict = judge("block shell: rm @dry\nwarn shell: rm", |_| ());
    assert_eq!(verdict.decision, Some(Severity::Warn));
    let noted: Vec<bool> = verdict.matches.iter().map(|found| found.is_dry).collect();
    assert_eq!(noted, [true, false]);
    assert_eq!(verdict.winner().map(|winner| winner.id.as_str()), Some("2"));
    let verdict = judge("block shell: rm @dry\nallow shell: rm *", |_| ());
    assert_eq!(verdict.decision, Some(Severity::Allow));
}

#[test]
fn timeout_denies_where_the_question_is_asked() {
    let rules = "ask shell: rm @on_timeout:deny";
    assert!(judge(rules, |_| ()).denies_on_timeout);
    assert!(!judge("ask shell: rm", |_| ()).denies_on_timeout);
    let rules = "block shell: rm\nask shell: rm @on_timeout:deny";
    assert!(!judge(rules, |_| ()).denies_on_timeout);
    assert!(!judge("ask shell: rm @on_timeout:deny @agent:codex", |_| ()).denies_on_timeout);
}
