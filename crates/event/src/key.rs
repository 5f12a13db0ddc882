//! The keys that link the events of one session.

use std::borrow::Cow;

use crate::json::JsonField;
use crate::payload::Payload;
use crate::{Draft, Kind};

/// The kind of thing that a key names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum KeyFamily {
    Call,
    Execution,
    Approval,
    Wait,
    Question,
    Child,
}

/// A name that links events of one session: a call and its result, a request and its answer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EventKey {
    pub family: KeyFamily,
    pub name: String,
}

impl EventKey {
    pub fn new(family: KeyFamily, name: impl Into<String>) -> EventKey {
        EventKey { family, name: name.into() }
    }
}

impl KeyFamily {
    /// Returns the letter that stands for the family in stored keys. It must never change.
    pub fn letter(self) -> char {
        match self {
            KeyFamily::Call => 'c',
            KeyFamily::Execution => 'x',
            KeyFamily::Approval => 'a',
            KeyFamily::Wait => 'w',
            KeyFamily::Question => 'q',
            KeyFamily::Child => 'h',
        }
    }
}

impl Draft {
    /// Returns the keys of this event; none for blank names and unreadable payloads.
    pub fn keys(&self) -> Vec<EventKey> {
        self.keys_in(&self.data.fields().collect::<Vec<_>>())
    }

    /// Returns the tool that a call, start, result or request is about.
    pub fn tool(&self) -> Option<String> {
        if !self.is_about_tool() {
            return None;
        }
        self.data.field("tool")?.text().map(Cow::into_owned)
    }

    /// [`Draft::keys`] for a payload that is already split into its members.
    pub(crate) fn keys_in(&self, members: &[JsonField<'_>]) -> Vec<EventKey> {
        let keys = key_fields(&self.kind).iter().filter_map(|(field, family)| {
            let name = members.iter().find(|member| member.name == *field)?.text()?;
            // A blank name would link all events without a name to each other.
            (!name.trim().is_empty()).then(|| EventKey::new(*family, name))
        });
        keys.collect()
    }

    /// [`Draft::tool`] for a payload that is already split into its members.
    pub(crate) fn tool_in(&self, members: &[JsonField<'_>]) -> Option<String> {
        let named = members.iter().find(|member| member.name == "tool");
        named.filter(|_| self.is_about_tool())?.text().map(Cow::into_owned)
    }

    fn is_about_tool(&self) -> bool {
        matches!(
            self.kind,
            Kind::ToolCall
                | Kind::ToolStarted
                | Kind::ToolDelta
                | Kind::ToolResult
                | Kind::ApprovalRequested
                | Kind::ApprovalCanceled
        )
    }

    /// Decodes the payload and returns `None` where it does not fit, for readers that skip it.
    pub fn readable<P: Payload>(&self) -> Option<P> {
        self.payload().ok().flatten()
    }
}

/// Returns the members of a payload that are keys.
fn key_fields(kind: &Kind) -> &'static [(&'static str, KeyFamily)] {
    match kind {
        // The payload of a delta has no idempotency key.
        Kind::ToolDelta => &[("call_id", KeyFamily::Call)],
        // A call that is tried again keeps its id; the idempotency key tells the executions apart.
        Kind::ToolCall | Kind::ToolStarted | Kind::ToolResult => {
            &[("call_id", KeyFamily::Call), ("idempotency_key", KeyFamily::Execution)]
        }
        Kind::ApprovalRequested | Kind::ApprovalResolved | Kind::ApprovalCanceled => {
            &[("approval_id", KeyFamily::Approval)]
        }
        Kind::WaitStarted | Kind::WaitResolved => &[("wait_id", KeyFamily::Wait)],
        Kind::ExternalInput => &[("request_id", KeyFamily::Question)],
        Kind::ChildRequested
        | Kind::ChildStarted
        | Kind::ChildProgressed
        | Kind::ChildBlocked
        | Kind::ChildCompleted
        | Kind::ChildFailed
        | Kind::ChildCanceled
        | Kind::ChildMerged
        | Kind::ArtifactRecorded => &[("child_id", KeyFamily::Child)],
        _ => &[],
    }
}
