//! The checks of a draft that do not need the state of the session.
//!
//! Not here: how large it may be (`journal`).

use event::payload::{
    ApprovalResolved, ChildMode, ChildRequested, Decision, Effect, ExternalInput, InputStatus,
    Outcome, Snapshot, ToolResult, ToolStarted, check_hosted,
};
use event::{BadPayload, Draft, Kind, Lane, Raw};

use crate::RuleViolation;
use crate::answer::AnswerPart;

/// The metadata key under which an imported message keeps the role it had.
const ORIGINAL_ROLE: &str = "original_role";

/// Checks each draft of a batch alone, and that each answer in it has content.
pub(crate) fn check_drafts(batch: &[Draft]) -> Result<(), RuleViolation> {
    for draft in batch {
        check_kind(draft)?;
        check_hosted(draft)?;
        check_words(draft)?;
        check_rank(draft)?;
    }
    check_substance(batch)
}

fn check_kind(draft: &Draft) -> Result<(), RuleViolation> {
    match &draft.kind {
        // Live signals: the complete message follows a delta and is stored.
        Kind::Heartbeat | Kind::AssistantDelta => {
            Err(RuleViolation::LiveOnly { event_id: draft.id, kind: draft.kind.clone() })
        }
        kind if kind.as_str().trim().is_empty() => Err(RuleViolation::BadPayload(BadPayload {
            kind: kind.clone(),
            event_id: draft.id,
            path: "kind".to_owned(),
            why: "it is blank".to_owned(),
        })),
        _ => Ok(()),
    }
}

/// Unknown names in the open enums are accepted when reading, but a hosted session must not write
/// them.
fn check_words(draft: &Draft) -> Result<(), RuleViolation> {
    let bad = |argument: &str, expected| {
        let argument = argument.to_owned();
        Err(RuleViolation::BadArgument { event_id: draft.id, argument, expected })
    };
    if let Some(ApprovalResolved { decision: Decision::Other(word), .. }) = draft.readable() {
        return bad(&word, "a decision: allow or deny");
    }
    if let Some(ExternalInput { status: InputStatus::Other(word), .. }) = draft.readable() {
        return bad(&word, "the status of a question: pending, received or canceled");
    }
    if let Some(ToolStarted { effect: Effect::Other(word), .. }) = draft.readable() {
        return bad(&word, "an effect: replay_safe, reconcile or never_replay");
    }
    if let Some(ToolResult { outcome: Outcome::Other(word), .. }) = draft.readable() {
        return bad(&word, "an outcome: ok, error, rejected, canceled or lost");
    }
    if let Some(ChildRequested { mode: Some(ChildMode::Other(word)), .. }) = draft.readable() {
        return bad(&word, "the mode of a child: fork, handoff or fresh");
    }
    if let Some(Snapshot { strategy, .. }) = draft.readable()
        && !["count", "time", "manual"].contains(&strategy.as_str())
    {
        return bad(&strategy, "the strategy of a snapshot: count, time or manual");
    }
    Ok(())
}

/// Talk has the roles of people, models and tools; system instructions are not in the log.
fn check_rank(draft: &Draft) -> Result<(), RuleViolation> {
    if draft.kind.lane() != Lane::Talk {
        return Ok(());
    }
    match draft.metadata.get(ORIGINAL_ROLE).and_then(Raw::text) {
        Some(role) if is_privileged(&role) => {
            Err(RuleViolation::PrivilegedRole { event_id: draft.id, role })
        }
        _ => Ok(()),
    }
}

fn is_privileged(role: &str) -> bool {
    let role = role.trim();
    role.eq_ignore_ascii_case("system") || role.eq_ignore_ascii_case("developer")
}

/// An answer may come in several events: one of them with content is enough.
fn check_substance(batch: &[Draft]) -> Result<(), RuleViolation> {
    let mut answers: Vec<(String, &Draft, bool)> = Vec::new();
    for draft in batch {
        let Some(part) = AnswerPart::from_draft(draft) else { continue };
        match answers.iter_mut().find(|(id, ..)| *id == part.message_id) {
            // A call or thinking has substance too, so a message may be empty beside it.
            Some((_, _, said)) => *said |= part.has_substance,
            None => answers.push((part.message_id, draft, part.has_substance)),
        }
    }
    match answers.into_iter().find(|(_, _, said)| !said) {
        Some((message_id, first, _)) => {
            Err(RuleViolation::EmptyAnswer { event_id: first.id, message_id })
        }
        None => Ok(()),
    }
}
