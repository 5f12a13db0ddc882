//! Rules at the agents: what is told about a tool call, and what is recorded of it.
//!
//! Without a rule that matches nothing is told: an `allow` that the user did not write would skip
//! the agent's own question. A rule that asks is a refusal where the agent cannot ask, because the
//! user wanted a person to decide.
//!
//! Not here: the language of rules (`rules`), what each agent takes as an answer (`capture`).

use capture::{AnswerMoment, AnswerableCall, HookAnswer};
use event::Time;
use event::payload::{ApprovalRequested, MatchedRule, RuleMatched};
use rules::{Action, CompiledRules, RuleMatch, Severity, Verdict};

/// Where a call is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallPlace<'a> {
    pub project: Option<&'a str>,
    pub project_root: Option<&'a str>,
    pub home: Option<&'a str>,
}

/// What comes of a tool call that rules are about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GateOutcome {
    pub answer: Option<HookAnswer>,
    /// The line for the agent; `None` if it is told nothing.
    pub line: Option<String>,
    /// What is recorded; `None` where the call was recorded before it ran.
    pub matched: Option<RuleMatched>,
    /// The approval that the agent now asks for, where only this answer tells of it.
    pub asked: Option<ApprovalRequested>,
}

/// Judges a tool call; `None` if no rule matches.
pub fn judge_call(
    agent: &str,
    call: &AnswerableCall,
    rules: &CompiledRules,
    place: CallPlace<'_>,
    now: Time,
) -> Option<GateOutcome> {
    let action = Action {
        agent,
        session: &call.session,
        project: place.project,
        project_root: place.project_root,
        cwd: call.cwd.as_deref(),
        home: place.home,
        tool: &call.tool,
        server: None,
        input: &call.input,
    };
    let verdict = rules.judge(&action, now);
    if verdict.matches.is_empty() {
        return None;
    }
    let told = verdict.winner().and_then(|winner| {
        let answer = answer_to(winner.severity, call)?;
        Some((answer, call.line(answer, &text_for(winner, answer))?))
    });
    let is_recorded = match call.row.moment {
        AnswerMoment::Before => true,
        // The call was judged before, with the same result: only the answer is news.
        AnswerMoment::Asking => told.is_some(),
        AnswerMoment::After => false,
    };
    let answer = told.as_ref().map(|(answer, _)| *answer);
    let asked =
        (call.is_ask_untold && answer == Some(HookAnswer::Ask)).then(|| ApprovalRequested {
            tool: call.tool.clone(),
            input: Some(call.input.clone()),
            call_id: call.call_id.clone(),
            ..ApprovalRequested::default()
        });
    let matched = is_recorded.then(|| record(&verdict, call, answer));
    Some(GateOutcome { answer, line: told.map(|(_, line)| line), matched, asked })
}

/// The line that refuses a call because the rules cannot be read.
pub fn refuse_unjudged(call: &AnswerableCall) -> Option<String> {
    let text = "The user's rules cannot be read, and until then no tool may run. Tell the user: \
                `hansard rules list` says what is wrong.";
    // Only a call that has not run can be refused, and an open question stays with the user.
    (call.row.moment == AnswerMoment::Before).then(|| call.line(HookAnswer::Deny, text)).flatten()
}

/// The answer that stands for a decision, where this event takes one.
fn answer_to(severity: Severity, call: &AnswerableCall) -> Option<HookAnswer> {
    let wanted: &[HookAnswer] = match (call.row.moment, severity) {
        (AnswerMoment::Before | AnswerMoment::Asking, Severity::Block) => &[HookAnswer::Deny],
        (AnswerMoment::Before | AnswerMoment::Asking, Severity::Allow) => &[HookAnswer::Allow],
        (AnswerMoment::Before, Severity::Ask) => &[HookAnswer::Ask, HookAnswer::Deny],
        (AnswerMoment::Before | AnswerMoment::After, Severity::Warn) => &[HookAnswer::Note],
        // The user is being asked, or it is too late.
        (AnswerMoment::Asking, Severity::Ask | Severity::Warn)
        | (AnswerMoment::After, Severity::Block | Severity::Ask | Severity::Allow) => &[],
    };
    wanted.iter().copied().find(|answer| call.takes(*answer))
}

/// What the model reads: the user's reason, then the rule and what follows from it.
fn text_for(winner: &RuleMatch, answer: HookAnswer) -> String {
    let reason = match &winner.reason {
        Some(reason) => format!("{reason}. "),
        None => String::new(),
    };
    let rule = &winner.rule;
    match (answer, winner.severity) {
        (HookAnswer::Deny, Severity::Ask) => format!(
            "{reason}A rule of the user wants a person to decide about this call (`{rule}`), and \
             you cannot ask here. Do not work around it; tell the user what you wanted to run."
        ),
        (HookAnswer::Deny, _) => format!(
            "{reason}A rule of the user forbids this call (`{rule}`). Do not work around it."
        ),
        (HookAnswer::Ask | HookAnswer::Allow, _) => format!("{reason}Rule: {rule}"),
        (HookAnswer::Note, _) => format!("{reason}A rule of the user warns here: {rule}"),
    }
}

fn record(verdict: &Verdict, call: &AnswerableCall, told: Option<HookAnswer>) -> RuleMatched {
    let matched = |found: &RuleMatch| MatchedRule {
        rule_id: found.id.clone(),
        rule: found.rule.clone(),
        is_dry: found.is_dry,
    };
    RuleMatched {
        tool: call.tool.clone(),
        call_id: call.call_id.clone(),
        verdict: verdict.decision.map(|decision| decision.as_str().to_owned()),
        told: told.map(|answer| answer.as_str().to_owned()),
        rules: verdict.matches.iter().map(matched).collect(),
    }
}
