//! Child runs.

use serde::{Deserialize, Serialize};

use super::{TokenUsage, impl_payload};
use crate::kind::open_list;
use crate::{EventId, Raw};

impl_payload! {
    ChildRequested ChildRequested
    ChildStarted ChildStarted
    ChildProgressed ChildProgressed
    ChildBlocked ChildBlocked
    ChildCompleted ChildCompleted
    ChildFailed ChildFailed
    ChildCanceled ChildCanceled
    ChildMerged ChildMerged
}

open_list! {
    /// The history that a child starts with.
    ChildMode {
        /// The parent's history.
        Fork = "fork",
        /// One prompt with the task and its context.
        Handoff = "handoff",
        /// No history.
        Fresh = "fresh",
    }
}

/// Declares the payload of one child event: the two ids and metadata, then its own fields.
macro_rules! child {
    ($name:ident { $($(#[$attribute:meta])* $field:ident: $type:ty),* $(,)? }) => {
        #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
        pub struct $name {
            pub child_id: String,
            #[serde(default)]
            pub child_session_id: String,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub metadata: Option<Raw>,
            $(#[serde(default)] $(#[$attribute])* pub $field: $type,)*
        }
    };
}

child!(ChildRequested {
    agent_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<ChildMode>,
    task: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_event_id: Option<EventId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<Raw>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shared_prefix_key: Option<String>,
});

child!(ChildStarted { agent_id: String });

child!(ChildProgressed {
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
});

child!(ChildBlocked {
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<String>,
});

child!(ChildCompleted {
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    artifact_ids: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    episode_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<TokenUsage>,
});

child!(ChildFailed { error: String });

child!(ChildCanceled {
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
});

child!(ChildMerged {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    artifact_ids: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
});
