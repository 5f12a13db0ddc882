//! Messages, context and questions to the user.

use serde::{Deserialize, Deserializer, Serialize};

use super::impl_payload;
use crate::Raw;
use crate::kind::open_list;

impl_payload! {
    UserPrompt UserPrompt
    AssistantMessage AssistantMessage
    AssistantThinking AssistantThinking
    AssistantDelta AssistantDelta
    ContextAdded ContextAdded
    ExternalInput ExternalInput
    Handoff Handoff
}

/// The parts of a message. A plain string is read as one text part.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Content(pub Vec<ContentPart>);

/// One part of a message. The bytes of images are artifacts, never inline.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ContentPart {
    /// `text`, `image`, `file`, or another name.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The id of the artifact that holds the bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

impl Content {
    pub fn text(text: impl Into<String>) -> Content {
        Content(vec![ContentPart {
            kind: "text".to_owned(),
            text: Some(text.into()),
            ..ContentPart::default()
        }])
    }

    /// Joins the texts of all parts with line breaks.
    pub fn joined_text(&self) -> String {
        let texts: Vec<&str> = self.0.iter().filter_map(|part| part.text.as_deref()).collect();
        texts.join("\n")
    }

    /// Whether there is anything but white space.
    pub fn has_substance(&self) -> bool {
        self.0.iter().any(|part| {
            // An image or a file is an answer even without words.
            part.kind != "text" || part.text.as_deref().is_some_and(|text| !text.trim().is_empty())
        })
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Content, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Content;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text or a list of parts")
            }

            fn visit_str<E>(self, text: &str) -> Result<Content, E> {
                Ok(Content::text(text))
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> Result<Content, A::Error> {
                let mut parts = Vec::new();
                while let Some(part) = list.next_element()? {
                    parts.push(part);
                }
                Ok(Content(parts))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UserPrompt {
    pub content: Content,
    /// The user typed it while the agent was busy, and the agent got it in the middle of a turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub queued: bool,
}

impl UserPrompt {
    pub fn new(content: Content) -> UserPrompt {
        UserPrompt { content, queued: false }
    }

    pub fn text(text: impl Into<String>) -> UserPrompt {
        UserPrompt::new(Content::text(text))
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AssistantMessage {
    #[serde(default)]
    pub message_id: String,
    #[serde(default)]
    pub block: u32,
    pub content: Content,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AssistantThinking {
    #[serde(default)]
    pub message_id: String,
    #[serde(default)]
    pub block: u32,
    #[serde(default)]
    pub thinking: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redacted: Option<String>,
}

impl AssistantThinking {
    /// Whether there is a text, a signature or a redacted block; any of them is an answer.
    pub fn has_substance(&self) -> bool {
        !self.thinking.trim().is_empty()
            || self.signature.as_deref().is_some_and(|signature| !signature.is_empty())
            || self.redacted.as_deref().is_some_and(|redacted| !redacted.is_empty())
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AssistantDelta {
    #[serde(default)]
    pub message_id: String,
    #[serde(default)]
    pub block: u32,
    #[serde(default)]
    pub text: String,
}

open_list! {
    /// The purpose of a context.
    ContextKind {
        Generic = "generic",
        Bootstrap = "bootstrap",
        Harness = "harness",
        Summary = "summary",
        WorkingSet = "working_set",
    }
}

open_list! {
    /// The place of a context in the effective history.
    Placement {
        Prefix = "prefix",
        History = "history",
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ContextAdded {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ContextKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    pub content: Content,
    /// The path that a summary replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covers: Option<Covers>,
}

impl ContextAdded {
    /// Returns the kind; the default is `generic`.
    pub fn kind(&self) -> ContextKind {
        self.kind.clone().unwrap_or(ContextKind::Generic)
    }

    /// Returns the placement; the default depends on the kind.
    pub fn placement(&self) -> Placement {
        self.placement.clone().unwrap_or_else(|| self.kind().default_placement())
    }
}

impl ContextKind {
    pub fn default_placement(&self) -> Placement {
        match self {
            ContextKind::Bootstrap
            | ContextKind::Harness
            | ContextKind::Summary
            | ContextKind::WorkingSet => Placement::Prefix,
            // A kind that is not known here stays where it was said.
            ContextKind::Generic | ContextKind::Other(_) => Placement::History,
        }
    }
}

/// The first and the last event that a summary of an abandoned path replaces, both included.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Covers {
    pub from: Raw,
    pub to: Raw,
}

open_list! {
    /// The state of a question to the user.
    InputStatus {
        Pending = "pending",
        Received = "received",
        Canceled = "canceled",
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ExternalInput {
    pub request_id: String,
    #[serde(default)]
    pub prompt: String,
    pub status: InputStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Raw>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Handoff {
    pub target_agent_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Raw>,
}
