//! What the three lines about a session are made of: the last prompt, the last answer, and what was
//! done lately.
//!
//! Texts are kept as they were said, each to a limit far above what is shown of it: secrets are
//! taken out when the lines are made, and a secret that was cut in two would not be known as one.

use event::{Deed, Raw};
use serde::{Deserialize, Serialize};

use crate::excerpt;
use crate::ring_buffer::RingBuffer;
use crate::tool::{Object, ToolUse};

/// Characters kept of anything said.
const SPOKEN_CHARS_MAX: usize = 1_000;

/// Deeds that are remembered; older ones are no longer recent.
const DEEDS_MAX: usize = 12;

/// Turns a recent deed may lie back.
const TURNS_BACK: u64 = 5;

/// Files of one call that are named.
const NAMES_MAX: usize = 3;

/// What a session did lately.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct RecentWork {
    pub(super) last_prompt: Option<String>,
    pub(super) last_answer: Option<String>,
    /// Why the last turn failed, if it did.
    pub(super) failure: Option<String>,
    /// What a model made of the last turns, until one more is over.
    #[serde(default)]
    pub(super) told: Option<String>,
    /// The last event of the last turn that is over.
    #[serde(default)]
    over_seq: u64,
    #[serde(default)]
    is_open: bool,
    turn: u64,
    deeds: RingBuffer<FinishedCall, DEEDS_MAX>,
}

/// What a call does, in words that can be put into a sentence.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct CallAction {
    deed: Deed,
    /// A command, names of files, or the tool and its first words.
    object: String,
}

/// A call that has come back.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct FinishedCall {
    turn: u64,
    pub(super) doing: CallAction,
    pub(super) is_failed: bool,
}

impl RecentWork {
    pub(super) fn apply_prompt(&mut self, text: &str, seq: u64) {
        // A turn without a recorded end ends with the next prompt.
        if self.is_open {
            self.turn_over(seq.saturating_sub(1));
        }
        self.is_open = true;
        self.turn += 1;
        self.failure = None;
        self.last_prompt = Some(cut_spoken(text));
    }

    pub(super) fn apply_answer(&mut self, text: &str) {
        self.last_answer = Some(cut_spoken(text));
    }

    /// A turn is over: what a model made of those before it is no longer all of it.
    pub(super) fn turn_over(&mut self, seq: u64) {
        self.over_seq = seq;
        self.is_open = false;
        self.told = None;
    }

    /// Takes what a model made of the turns up to an event, unless another one is over since.
    pub(super) fn apply_model_words(&mut self, recent: &str, to_seq: u64) {
        // A model answers late. Its words about fewer turns than are over would be out of date.
        if to_seq >= self.over_seq {
            self.told = Some(cut_spoken(recent)).filter(|recent| !recent.is_empty());
        }
    }

    pub(super) fn note_failure(&mut self, why: &str) {
        self.failure = Some(cut_spoken(why));
    }

    /// Remembers a call that came back, if it changed or ran anything.
    pub(super) fn note_finished(&mut self, doing: CallAction, is_failed: bool) {
        if doing.modifies() || doing.is_command() || doing.deed == Deed::Delegate {
            self.deeds.push(FinishedCall { turn: self.turn, doing, is_failed });
        }
    }

    /// What was done in the last turns, the newest first.
    pub(super) fn recent(&self) -> impl Iterator<Item = &FinishedCall> {
        let since = self.turn.saturating_sub(TURNS_BACK - 1);
        self.deeds.iter().rev().filter(move |done| done.turn >= since)
    }
}

impl CallAction {
    pub(super) fn from_call(tool: &str, input: &Raw) -> CallAction {
        let used = ToolUse::from_call(tool, input);
        let object = match &used.object {
            Object::Files(files) => {
                let names = files.iter().take(NAMES_MAX).map(|(_, path)| file_name(path));
                names.collect::<Vec<_>>().join(", ")
            }
            Object::Command(text) | Object::Host(text) => text.clone(),
            Object::Pattern { pattern, .. } => format!("for {pattern}"),
            // An unknown tool is named: "used jira: PROJ-1" says more than its text alone.
            Object::Text(text) if used.deed != Deed::Other => text.clone(),
            Object::Text(text) => format!("{}: {text}", used.tool),
            Object::Nothing => used.tool.clone(),
        };
        // "reads Read" makes no sense; without an object it "uses Read".
        let deed = match used.object {
            Object::Nothing => Deed::Other,
            _ => used.deed,
        };
        CallAction { deed, object }
    }

    /// Whether a file is not the same afterwards.
    pub(super) fn modifies(&self) -> bool {
        self.deed.modifies()
    }

    pub(super) fn is_command(&self) -> bool {
        self.deed == Deed::Run
    }

    /// Whether two calls do the same, as far as can be told.
    pub(super) fn is_same(&self, other: &CallAction) -> bool {
        // Two calls of unknown tools may look alike and do different things.
        self == other && self.deed != Deed::Other
    }

    /// "run npm test"
    pub(super) fn infinitive(&self) -> String {
        format!("{} {}", self.verb_forms()[0], self.object)
    }

    /// "runs npm test"
    pub(super) fn present_tense(&self) -> String {
        format!("{} {}", self.verb_forms()[1], self.object)
    }

    /// "ran npm test"
    pub(super) fn past_tense(&self) -> String {
        format!("{} {}", self.verb_forms()[2], self.object)
    }

    fn verb_forms(&self) -> [&'static str; 3] {
        match self.deed {
            Deed::Read => ["read", "reads", "read"],
            Deed::Edit => ["edit", "edits", "edited"],
            Deed::Create => ["write", "writes", "wrote"],
            Deed::Delete => ["delete", "deletes", "deleted"],
            Deed::Run => ["run", "runs", "ran"],
            Deed::Search | Deed::WebSearch => ["search", "searches", "searched"],
            Deed::Visit => ["fetch", "fetches", "fetched"],
            Deed::Delegate => ["delegate", "delegates", "delegated"],
            Deed::Other => ["use", "uses", "used"],
        }
    }
}

/// The beginning of a text, as it is kept.
pub(super) fn cut_spoken(text: &str) -> String {
    excerpt::take_head(text.trim(), SPOKEN_CHARS_MAX).to_owned()
}

/// The last part of a path.
fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).find(|part| !part.is_empty()).unwrap_or(path)
}
