//! The keys an event can be found by.

use std::borrow::Cow;

use crate::payload::Payload;
use crate::raw::{Member, members};
use crate::text::shown;
use crate::{Draft, Kind};

/// What a key names.
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
pub struct Key {
    pub family: KeyFamily,
    pub name: String,
}

impl Key {
    pub fn new(family: KeyFamily, name: impl Into<String>) -> Key {
        Key { family, name: name.into() }
    }
}

impl KeyFamily {
    /// One letter that stands for the family wherever keys are stored.
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
    /// The keys this event can be found by; none for blank names and unreadable payloads.
    pub fn keys(&self) -> Vec<Key> {
        let fields: &[(&str, KeyFamily)] = match self.kind {
            Kind::ToolDelta => &[("call_id", KeyFamily::Call)],
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
            _ => return Vec::new(),
        };
        let members = members(self.data.get()).unwrap_or_default();
        fields
            .iter()
            .filter_map(|(field, family)| {
                let name = text_of(&members, field).filter(|name| !name.trim().is_empty())?;
                Some(Key::new(*family, name))
            })
            .collect()
    }

    /// The tool a call, start, result or request is about.
    pub fn tool(&self) -> Option<String> {
        if !matches!(
            self.kind,
            Kind::ToolCall
                | Kind::ToolStarted
                | Kind::ToolDelta
                | Kind::ToolResult
                | Kind::ApprovalRequested
                | Kind::ApprovalCanceled
        ) {
            return None;
        }
        text_of(&members(self.data.get()).ok()?, "tool").map(Cow::into_owned)
    }

    /// The payload, or nothing where it does not fit: for readers that go on.
    pub fn readable<P: Payload>(&self) -> Option<P> {
        self.payload().ok().flatten()
    }
}

/// The text of the first member called `field`.
fn text_of<'a>(members: &[Member<'a>], field: &str) -> Option<Cow<'a, str>> {
    let (_, value) = members.iter().find(|(name, _)| name == field)?;
    shown(value.get())
}
