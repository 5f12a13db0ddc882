//! Three lines for people: what it does now, what it did lately, what was last asked.
//!
//! Found without a model; one that was asked may have better words for the middle one. Secrets are
//! taken out first, then everything that could disturb what is printed around, then what is too
//! long.

use super::pending::QuestionText;
use super::state::StatusState;
use super::work::FinishedCall;
use super::{Reason, Status, Verdict};
use crate::digest::FactOrigin;
use crate::excerpt;
use crate::redacted::Redact;

/// Characters of a line.
pub const SUMMARY_CHARS_MAX: usize = 120;

/// Deeds that are named in one line, if there is room.
const DEEDS_MAX: usize = 4;

#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct StatusSummary {
    pub current: String,
    pub recent: Option<String>,
    /// Whether a model or a rule found those words.
    pub recent_origin: Option<FactOrigin>,
    pub last_prompt: Option<String>,
}

/// What a person wants to know of a session at a glance.
pub fn summarize(state: &StatusState, verdict: &Verdict, redact: &mut Redact<'_>) -> StatusSummary {
    let mut line = |text: &str| {
        let text = redact(text).into_owned();
        excerpt::beginning(&excerpt::one_line(&text), SUMMARY_CHARS_MAX)
    };
    let recent = recent_text(state).map(|(text, origin)| (line(&text), origin));
    let (recent, recent_origin) = recent.filter(|(line, _)| !line.is_empty()).unzip();
    let last_prompt = state.work.last_prompt.as_deref().map(&mut line);
    StatusSummary {
        current: line(&current_text(state, verdict)),
        recent,
        recent_origin,
        last_prompt: last_prompt.filter(|line| !line.is_empty()),
    }
}

fn current_text(state: &StatusState, verdict: &Verdict) -> String {
    match (verdict.status, verdict.reason) {
        (Status::Exited, Reason::Gone) => "its process is gone".to_owned(),
        (Status::Exited, _) => "has ended".to_owned(),
        (Status::WaitingApproval, _) => approval(state),
        (Status::Running, Reason::Retry) => "waits before it asks the model again".to_owned(),
        (Status::Running, Reason::Compaction) => "compacts its history".to_owned(),
        (Status::Running, Reason::Background) => "works in the background".to_owned(),
        (Status::Running, _) => match state.calls.back() {
            Some(call) => call.doing.present_tense(),
            None => "works on the last prompt".to_owned(),
        },
        (Status::Waiting, Reason::Question) => {
            match state.questions.back().map(|open| &open.asks) {
                Some(QuestionText::Words(words)) if !words.is_empty() => format!("asks: {words}"),
                _ => "asks a question".to_owned(),
            }
        }
        (Status::Waiting | Status::Idle, _) => match &state.work.failure {
            Some(failure) => format!("failed: {failure}"),
            None if verdict.status == Status::Idle => "is idle".to_owned(),
            None => "is ready for the next prompt".to_owned(),
        },
        (Status::Unknown, Reason::Answered) => "has answered; may still be working".to_owned(),
        (Status::Unknown, _) => "no sign whether it is still running".to_owned(),
    }
}

fn approval(state: &StatusState) -> String {
    let Some(asked) = state.approvals.front() else {
        return match state.likely_asked() {
            Some(call) => {
                format!("waits for approval, probably to {}", call.doing.infinitive())
            }
            None => "waits for approval".to_owned(),
        };
    };
    let call = state.calls.iter().find(|call| Some(call.id) == asked.call);
    let what = match (call, &asked.asks) {
        (Some(call), _) => call.doing.infinitive(),
        (None, QuestionText::ToDo(doing)) => doing.infinitive(),
        (None, QuestionText::Words(words)) => words.clone(),
    };
    match state.approvals.len() {
        1 => format!("waits for approval to {what}"),
        count => format!("waits for {count} approvals, first to {what}"),
    }
}

/// What a model made of it, else what was done, else what was said.
fn recent_text(state: &StatusState) -> Option<(String, FactOrigin)> {
    if let Some(told) = &state.work.told {
        return Some((told.clone(), FactOrigin::Model));
    }
    let deeds: Vec<String> = state.work.recent().take(DEEDS_MAX).map(finished_text).collect();
    let found =
        if deeds.is_empty() { state.work.last_answer.clone() } else { Some(deeds.join(", ")) };
    found.map(|found| (found, FactOrigin::Heuristic))
}

fn finished_text(done: &FinishedCall) -> String {
    let past = done.doing.past_tense();
    if done.is_failed { format!("{past} (failed)") } else { past }
}
