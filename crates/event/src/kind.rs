//! The event kinds and the small enums of the envelope. All of them accept unknown names.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::json::JsonString;

/// The part that events of a kind play in a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    /// Messages between people, models and tools.
    Talk,
    /// Text that was given to the model beside the talk.
    Context,
    /// Stored, and hidden from the model.
    Fact,
    /// Published while it happens and never stored as single events.
    Live,
}

macro_rules! kinds {
    ($($variant:ident $name:literal $code:literal $lane:ident)*) => {
        /// The kind of an event. An unknown kind keeps its name.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Kind {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
            Other(Box<str>),
        }

        impl Kind {
            /// Every kind that this program knows.
            pub const KNOWN: &[Kind] = &[$(Kind::$variant,)*];

            pub fn as_str(&self) -> &str {
                match self {
                    $(Kind::$variant => $name,)*
                    Kind::Other(name) => name,
                }
            }

            /// Returns the number that stores keep for the kind; 0 for an unknown kind.
            /// A number is never reused for another kind.
            pub fn code(&self) -> u8 {
                match self {
                    $(Kind::$variant => $code,)*
                    Kind::Other(_) => 0,
                }
            }

            pub fn lane(&self) -> Lane {
                match self {
                    $(Kind::$variant => Lane::$lane,)*
                    // A kind of a newer program is stored, but not shown to a model: its meaning is
                    // not known here.
                    Kind::Other(_) => Lane::Fact,
                }
            }
        }

        impl From<&str> for Kind {
            fn from(name: &str) -> Kind {
                match name {
                    $($name => Kind::$variant,)*
                    _ => Kind::Other(name.into()),
                }
            }
        }
    };
}

kinds! {
    // The numbers are stored. A new kind takes the next free one, and a kind that is given up
    // leaves its number unused.
    SessionStarted    "session.started"     1 Fact
    SessionExited     "session.exited"      2 Fact
    StatusChanged     "status.changed"      3 Fact
    Heartbeat         "heartbeat"           4 Live
    Error             "error"               5 Fact
    TurnStarted       "turn.started"        6 Fact
    TurnCompleted     "turn.completed"      7 Fact
    StepStarted       "step.started"        8 Fact
    StepCompleted     "step.completed"      9 Fact
    Retry             "retry"              10 Fact
    UserPrompt        "user.prompt"        11 Talk
    AssistantMessage  "assistant.message"  12 Talk
    AssistantThinking "assistant.thinking" 13 Talk
    AssistantDelta    "assistant.delta"    14 Live
    ContextAdded      "context.added"      15 Context
    ExternalInput     "external.input"     16 Fact
    Handoff           "handoff"            17 Fact
    ToolCall          "tool.call"          18 Talk
    ToolStarted       "tool.started"       19 Fact
    ToolDelta         "tool.delta"         20 Live
    ToolResult        "tool.result"        21 Talk
    ApprovalRequested "approval.requested" 22 Fact
    ApprovalResolved  "approval.resolved"  23 Fact
    ApprovalCanceled  "approval.canceled"  24 Fact
    WaitStarted       "wait.started"       25 Fact
    WaitResolved      "wait.resolved"      26 Fact
    CompactionStarted "compaction.started" 27 Fact
    Compaction        "compaction"         28 Fact
    Snapshot          "snapshot"           29 Fact
    EpochClosed       "epoch.closed"       30 Fact
    SettingsChanged   "settings.changed"   31 Fact
    ChildRequested    "child.requested"    32 Fact
    ChildStarted      "child.started"      33 Fact
    ChildProgressed   "child.progressed"   34 Fact
    ChildBlocked      "child.blocked"      35 Fact
    ChildCompleted    "child.completed"    36 Fact
    ChildFailed       "child.failed"       37 Fact
    ChildCanceled     "child.canceled"     38 Fact
    ChildMerged       "child.merged"       39 Fact
    ArtifactRecorded  "artifact.recorded"  40 Fact
    Note              "note"               41 Fact
    Unknown           "unknown"            42 Fact
    UsageReported     "usage.reported"     43 Fact
    RuleAdded         "rule.added"         44 Fact
    RuleRemoved       "rule.removed"       45 Fact
    RuleMatched       "rule.matched"       46 Fact
}

impl Kind {
    /// Whether a model can be shown events of this kind: talk and context.
    pub fn is_shown(&self) -> bool {
        matches!(self.lane(), Lane::Talk | Lane::Context)
    }

    /// Whether events of this kind are part of a model's answer.
    pub fn is_answer(&self) -> bool {
        matches!(self, Kind::AssistantMessage | Kind::AssistantThinking | Kind::ToolCall)
    }

    pub fn is_live(&self) -> bool {
        self.lane() == Lane::Live
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Kind, D::Error> {
        // Borrowed: a known kind, which is the usual case, costs no allocation.
        JsonString::deserialize(deserializer).map(|name| Kind::from(&*name.0))
    }
}

/// Declares an enum that is written and read as text and keeps unknown names as `Other`.
macro_rules! open_list {
    ($(#[$doc:meta])* $list:ident { $($(#[$variant_doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $list {
            $($(#[$variant_doc])* $variant,)*
            Other(Box<str>),
        }

        impl $list {
            pub fn as_str(&self) -> &str {
                match self {
                    $($list::$variant => $name,)*
                    $list::Other(name) => name,
                }
            }
        }

        impl From<&str> for $list {
            fn from(name: &str) -> $list {
                match name {
                    $($name => $list::$variant,)*
                    _ => $list::Other(name.into()),
                }
            }
        }

        impl std::fmt::Display for $list {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl serde::Serialize for $list {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $list {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<$list, D::Error> {
                $crate::json::JsonString::deserialize(deserializer).map(|name| $list::from(&*name.0))
            }
        }
    };
}
pub(crate) use open_list;

open_list! {
    /// The channel through which an event was observed.
    Source {
        Transcript = "transcript",
        Hook = "hook",
        Telemetry = "telemetry",
        Pty = "pty",
        /// A prompt that Hansard typed into the agent.
        Input = "input",
        /// A session that Hansard itself ran.
        Native = "native",
    }
}

open_list! {
    /// How certain an observation is. A guess from a screen is never `high`.
    Confidence {
        High = "high",
        Medium = "medium",
        Low = "low",
    }
}
