//! What has become of a child, told by its own log.

use event::payload::{AssistantMessage, SessionExited, StopReason, TokenUsage, TurnCompleted};
use event::{Event, Kind};

use crate::Latest;

/// How a child stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChildFate {
    /// It is running, or it waits for an answer.
    Running,
    Completed {
        summary: Option<String>,
        artifact_ids: Vec<String>,
        usage: Option<TokenUsage>,
    },
    Failed {
        error: String,
    },
    Canceled {
        reason: Option<String>,
    },
    /// It has no recorded end and no process.
    Lost,
}

impl ChildFate {
    /// Reads the fate of a child from the events of its own session. An end that is found there
    /// counts even if its process is still running.
    pub fn from_log(events: &[Event], is_running: bool) -> ChildFate {
        let mut end = None;
        for event in events {
            match event.kind {
                // A child that goes on after an end has not ended.
                Kind::TurnStarted | Kind::UserPrompt => end = None,
                Kind::TurnCompleted => end = event.readable::<TurnCompleted>().and_then(turn_end),
                // An exit behind the end of a turn is the usual one; an exit without it is a
                // failure.
                Kind::SessionExited if end.is_none() => {
                    let reason = event.readable::<SessionExited>().and_then(|exit| exit.reason);
                    let error = reason.unwrap_or_else(|| "exited".to_owned());
                    end = Some(ChildFate::Failed { error });
                }
                _ => {}
            }
        }
        match end {
            Some(ChildFate::Completed { artifact_ids, usage, .. }) => {
                // Only here, because the conclusion reads the log a second time.
                ChildFate::Completed { summary: conclusion(events), artifact_ids, usage }
            }
            Some(end) => end,
            None if is_running => ChildFate::Running,
            None => ChildFate::Lost,
        }
    }
}

/// The text of the last answer.
fn conclusion(events: &[Event]) -> Option<String> {
    let mut latest = Latest::default();
    events.iter().for_each(|event| latest.apply(event));
    let place = latest.answer()?;
    let mut messages: Vec<AssistantMessage> = events
        .iter()
        .filter(|event| (place.first_seq..=place.last_seq).contains(&event.seq))
        .filter_map(|event| event.readable::<AssistantMessage>())
        .filter(|message| message.message_id == place.message_id.as_deref().unwrap_or_default())
        .collect();
    // Parts may be recorded in another order than the model said them.
    messages.sort_by_key(|message| message.block);
    let texts: Vec<String> = messages.iter().map(|message| message.content.joined_text()).collect();
    Some(texts.join("\n")).filter(|text| !text.trim().is_empty())
}

fn turn_end(completed: TurnCompleted) -> Option<ChildFate> {
    if let Some(error) = completed.error {
        return Some(ChildFate::Failed { error });
    }
    match completed.stop_reason {
        // The turn is over, the child is not: it goes on when it gets its answer.
        Some(StopReason::Waiting) => Some(ChildFate::Running),
        // It stopped because of a limit and has not done what it was asked.
        Some(StopReason::MaxTurnsHit | StopReason::BudgetExhausted) => {
            let error = completed.stop_reason?.to_string();
            Some(ChildFate::Failed { error })
        }
        _ => Some(ChildFate::Completed {
            summary: None,
            artifact_ids: Vec::new(),
            usage: completed.usage,
        }),
    }
}
