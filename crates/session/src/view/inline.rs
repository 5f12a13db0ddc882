//! Entries that a base gives in full, with calls and results brought together.

use std::sync::Arc;

use event::payload::{ContextKind, Outcome, SavedEntry, ToolCall, ToolResult};
use event::{EventId, Kind};

use super::entry::{HistoryEntry, Role, ToolNote, Why, result_content};

/// An entry of a base, with what the entries around it say about it.
#[derive(Debug)]
pub(crate) struct BaseEntry {
    pub(crate) saved: SavedEntry,
    /// The call that a result in full answers.
    call: Option<ToolCall>,
    /// Calls of an answer in full were left out: no entry behind it has their results.
    is_call_left_out: bool,
}

/// An entry in full and the event it comes from.
#[derive(Debug)]
pub(crate) struct InlineEntry {
    entry: BaseEntry,
    pub(crate) base_seq: u64,
    origin: (u64, EventId),
}

/// Gives each result in full the call it answers, and leaves out calls without a result: those of
/// an answer are looked for up to the next entry that is neither a result nor context.
pub(crate) fn pair_inline(entries: Vec<SavedEntry>) -> Vec<BaseEntry> {
    let mut paired: Vec<BaseEntry> = Vec::with_capacity(entries.len());
    let mut open: Option<OpenCalls> = None;
    for saved in entries {
        let mut call = None;
        if saved.is_in_full() && !is_context(&saved) {
            if role(&saved) == "tool" {
                let result = saved.result.as_ref();
                call = result.and_then(|result| open.as_mut()?.take_call(&result.call_id));
            } else {
                close_calls(open.take(), &mut paired);
                let waiting = saved.calls.iter().cloned().map(Some).collect();
                open = Some(OpenCalls { at: paired.len(), waiting });
            }
        } else if !saved.is_in_full() {
            // The events that a reference names have their results in the log.
            close_calls(open.take(), &mut paired);
        }
        paired.push(BaseEntry { saved, call, is_call_left_out: false });
    }
    close_calls(open, &mut paired);
    paired
}

/// The calls of an answer in full that have no result yet.
struct OpenCalls {
    at: usize,
    waiting: Vec<Option<ToolCall>>,
}

impl OpenCalls {
    fn take_call(&mut self, call_id: &str) -> Option<ToolCall> {
        let fits = |call: &&mut Option<ToolCall>| {
            call.as_ref().is_some_and(|call| call.call_id == call_id && !call_id.trim().is_empty())
        };
        self.waiting.iter_mut().find(fits)?.take()
    }
}

fn close_calls(open: Option<OpenCalls>, paired: &mut [BaseEntry]) {
    let Some(OpenCalls { at, waiting }) = open else { return };
    let answer = &mut paired[at];
    answer.is_call_left_out = waiting.iter().any(Option::is_some);
    let mut waiting = waiting.into_iter();
    answer.saved.calls.retain(|_| waiting.next().is_some_and(|call| call.is_none()));
}

impl InlineEntry {
    /// `named` is the number of the event that the entry says it comes from, if the log has it.
    /// Else the base says it.
    pub(crate) fn new(
        entry: BaseEntry,
        named: Option<u64>,
        base_seq: u64,
        base_id: EventId,
    ) -> InlineEntry {
        let origin = match (named, entry.saved.event_id) {
            (Some(seq), Some(id)) => (seq, id),
            _ => (base_seq, base_id),
        };
        InlineEntry { entry, base_seq, origin }
    }

    /// Why a part of the entry was left out.
    pub(crate) fn repair(&self) -> Option<Why> {
        self.entry.is_call_left_out.then_some(Why::NoResult)
    }

    /// The entry, or why it cannot be shown. `None` if a repair says that already.
    pub(crate) fn history_entry(&self) -> Option<Result<HistoryEntry, Why>> {
        let read = self.read_entry();
        let is_left_out = |entry: &HistoryEntry| self.repair().is_some() && !entry.has_substance();
        if read.as_ref().is_ok_and(is_left_out) { None } else { Some(read) }
    }

    fn read_entry(&self) -> Result<HistoryEntry, Why> {
        let BaseEntry { saved, call, .. } = &self.entry;
        let (kind, role) = match role(saved) {
            // Context is shown as user, whatever role the base gives it.
            _ if is_context(saved) => (Kind::ContextAdded, Role::User),
            "tool" => (Kind::ToolResult, Role::Tool),
            "assistant" => (Kind::AssistantMessage, Role::Assistant),
            // No entry ranks above the user; see `Role`.
            "user" | "system" | "developer" => (Kind::UserPrompt, Role::User),
            _ => return Err(Why::NoRole),
        };
        let content = saved.content.clone().unwrap_or_default();
        let mut entry = HistoryEntry::without_event(kind, role, content);
        (entry.seq, entry.event_id) = (Some(self.origin.0), Some(self.origin.1));
        match role {
            Role::Tool => {
                let (Some(call), Some(result)) = (call, &saved.result) else {
                    return Err(Why::NoCall);
                };
                entry.note = Some(ToolNote::new(call, None, result));
                if saved.content.is_none() {
                    entry.content = Arc::new(result_content(result, None));
                }
            }
            Role::Assistant => {
                entry.calls = saved.calls.iter().cloned().map(Arc::new).collect();
                let thinking = saved.thinking.iter().filter(|thinking| thinking.has_substance());
                entry.thinking = thinking.cloned().map(Arc::new).collect();
            }
            Role::User => {}
        }
        if is_context(saved) {
            let kind = saved.context_kind.clone().unwrap_or(ContextKind::Generic);
            let implied = kind.default_placement();
            entry.placement = Some(saved.placement.clone().unwrap_or(implied));
            entry.context_kind = Some(kind);
        }
        Ok(entry)
    }
}

impl HistoryEntry {
    /// The entry as a base gives it in full. `origin` is the event it comes from.
    pub(crate) fn in_full(&self, origin: Option<EventId>) -> SavedEntry {
        SavedEntry {
            event_id: origin,
            role: Some(self.role.as_str().to_owned()),
            context_kind: self.context_kind.clone(),
            placement: self.placement.clone(),
            content: Some(self.content.as_ref().clone()),
            thinking: self.thinking.iter().map(|thinking| thinking.as_ref().clone()).collect(),
            calls: self.calls.iter().map(|call| call.as_ref().clone()).collect(),
            result: self.note.as_ref().map(ToolNote::result),
            ..SavedEntry::default()
        }
    }
}

impl ToolNote {
    /// The result that it was made from, without its output.
    fn result(&self) -> ToolResult {
        ToolResult {
            call_id: self.call_id.clone(),
            tool: Some(self.name.clone()),
            idempotency_key: self.idempotency_key.clone(),
            outcome: if self.is_error { Outcome::Error } else { Outcome::Ok },
            error: self.error.clone(),
            duration_ms: self.duration_ms,
            ..ToolResult::default()
        }
    }
}

fn role(saved: &SavedEntry) -> &str {
    saved.role.as_deref().unwrap_or_default()
}

fn is_context(saved: &SavedEntry) -> bool {
    saved.context_kind.is_some() || saved.placement.is_some()
}
