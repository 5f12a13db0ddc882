//! One answer of the model: its parts, its calls and their results.

use std::sync::Arc;

use event::payload::{AssistantThinking, Content, ToolCall, ToolResult, ToolStarted};
use event::{Event, EventId, Kind};

use super::contribution::Contribution;
use super::entry::{
    HistoryEntry, Repair, Replaced, Role, ToolNote, Why, result_content, with_text,
};

/// An answer as far as it has come.
#[derive(Debug)]
pub(crate) struct AnswerBuilder {
    /// Blank if the provider gave none.
    pub(crate) message_id: String,
    parts: Vec<AnswerBlock>,
    /// Parts from here on can still get a result; those before belong to talk that moved on.
    open_from: usize,
    /// Shows anything that no base covers; only then is it in the history.
    is_awake: bool,
    /// The joined content, built on request.
    content: Option<Arc<Content>>,
}

#[derive(Debug)]
struct AnswerBlock {
    block: u32,
    seq: u64,
    event_id: EventId,
    kind: Kind,
    place: u64,
    body: BlockBody,
}

#[derive(Debug)]
enum BlockBody {
    Message(Content, Option<Replaced>),
    Thinking(Arc<AssistantThinking>),
    Call(Box<AnswerCall>),
}

#[derive(Debug)]
struct AnswerCall {
    call: Arc<ToolCall>,
    start: Option<(u64, ToolStarted)>,
    result: Option<(ToolResult, Arc<HistoryEntry>)>,
}

/// An event at its place, on its way into the history.
#[derive(Clone, Copy)]
pub(crate) struct PlacedEvent<'a> {
    pub(crate) event: &'a Event,
    pub(crate) place: u64,
    pub(crate) replaced: Option<&'a Replaced>,
    /// Covered by a base.
    pub(crate) is_dormant: bool,
}

impl<'a> PlacedEvent<'a> {
    /// An event that speaks for itself, where it stands.
    pub(crate) fn in_place(event: &'a Event) -> PlacedEvent<'a> {
        PlacedEvent { event, place: event.seq, replaced: None, is_dormant: false }
    }
}

impl AnswerBuilder {
    pub(crate) fn new(message_id: &str) -> AnswerBuilder {
        AnswerBuilder {
            message_id: message_id.to_owned(),
            parts: Vec::new(),
            open_from: 0,
            is_awake: false,
            content: None,
        }
    }

    /// Where its first part stands.
    pub(crate) fn place(&self) -> u64 {
        self.parts.first().map_or(0, |part| part.place)
    }

    /// Forgets the calls that wait: the talk has moved on since.
    pub(crate) fn forget_calls(&mut self) {
        self.open_from = self.parts.len();
    }

    /// Adds a message, thinking or call; anything else is no part of an answer.
    pub(crate) fn add_part(&mut self, said: Contribution, spoken: PlacedEvent<'_>) {
        let (block, body) = match said {
            Contribution::Message(message) => {
                let content = match spoken.replaced {
                    Some(replaced) => with_text(&message.content, &replaced.text),
                    None => message.content,
                };
                // The joined content is out of date.
                self.content = None;
                (message.block, BlockBody::Message(content, spoken.replaced.cloned()))
            }
            Contribution::Thinking(thinking) => {
                (thinking.block, BlockBody::Thinking(Arc::new(thinking)))
            }
            Contribution::Call(call) => {
                let call = AnswerCall { call: Arc::new(call), start: None, result: None };
                (call.call.block, BlockBody::Call(Box::new(call)))
            }
            _ => return,
        };
        self.is_awake |= !spoken.is_dormant;
        self.parts.push(AnswerBlock {
            block,
            seq: spoken.event.seq,
            event_id: spoken.event.id,
            kind: spoken.event.kind.clone(),
            place: spoken.place,
            body,
        });
    }

    /// Notes the start of a call; one that fits none is ignored.
    pub(crate) fn note_start(&mut self, started: ToolStarted, place: u64) {
        let free = self.open_call(&started.call_id, |call| call.start.is_none());
        if let Ok(call) = free {
            call.start = Some((place, started));
            if let Some((result, entry)) = call.result.take() {
                // A start may be recorded behind the result of its call. The note is worded again
                // with it.
                call.set_result(result, entry.as_ref().clone());
            }
        }
    }

    /// Gives the result to the first call of its id that has none, or says why it cannot.
    pub(crate) fn add_result(
        &mut self,
        result: ToolResult,
        spoken: PlacedEvent<'_>,
    ) -> Result<(), Why> {
        let call = self.open_call(&result.call_id, |call| call.result.is_none())?;
        let content = result_content(&result, spoken.replaced);
        let mut entry = HistoryEntry::from_speech(spoken.event, spoken.place, Role::Tool, content);
        entry.replaced.extend(spoken.replaced.cloned());
        // The entry has the text; what is kept of the result only words the note.
        let spare = ToolResult { output: None, shown: None, parts: Vec::new(), ..result };
        call.set_result(spare, entry);
        self.is_awake |= !spoken.is_dormant;
        Ok(())
    }

    /// The entries of the answer as it stands, and what had to be left out.
    pub(crate) fn render_into(
        &mut self,
        entries: &mut Vec<Arc<HistoryEntry>>,
        repairs: &mut Vec<Repair>,
    ) {
        // All of it is covered by a base, and no later part or result has brought it back.
        if !self.is_awake {
            return;
        }
        let content = self.joined_content();
        let Some(first) = self.parts.first() else { return };
        let mut answer =
            HistoryEntry::without_event(first.kind.clone(), Role::Assistant, Content::default());
        answer.event_id = Some(first.event_id);
        answer.seq = Some(first.seq);
        answer.sources = self.parts.iter().map(|part| part.place).collect();
        answer.content = content;
        let mut results = Vec::new();
        let mut has_calls = false;
        for part in in_block_order(&self.parts) {
            match &part.body {
                BlockBody::Message(_, replaced) => answer.replaced.extend(replaced.clone()),
                BlockBody::Thinking(thinking) if thinking.has_substance() => {
                    answer.thinking.push(Arc::clone(thinking));
                }
                BlockBody::Call(call) => {
                    has_calls = true;
                    match &call.result {
                        Some((_, entry)) => {
                            answer.calls.push(Arc::clone(&call.call));
                            // Results follow the answer in the order of its calls, in whatever
                            // order the tools ended.
                            results.push(Arc::clone(entry));
                        }
                        // Providers refuse a call without a result, so the call is left out.
                        None => repairs.push(Repair { seq: part.seq, why: Why::NoResult }),
                    }
                }
                _ => {}
            }
        }
        if answer.content.0.is_empty() && answer.thinking.is_empty() && answer.calls.is_empty() {
            // Calls that were left out are repairs already.
            if !has_calls {
                repairs.push(Repair { seq: first.seq, why: Why::Empty });
            }
            return;
        }
        entries.push(Arc::new(answer));
        entries.append(&mut results);
    }

    fn joined_content(&mut self) -> Arc<Content> {
        let content = self.content.get_or_insert_with(|| {
            let messages =
                in_block_order(&self.parts).into_iter().filter_map(|part| match &part.body {
                    BlockBody::Message(content, _) if content.has_substance() => {
                        Some(content.0.clone())
                    }
                    _ => None,
                });
            Arc::new(Content(messages.flatten().collect()))
        });
        Arc::clone(content)
    }

    /// The first free one of the calls of this id that can still be answered.
    fn open_call(
        &mut self,
        id: &str,
        is_free: fn(&AnswerCall) -> bool,
    ) -> Result<&mut AnswerCall, Why> {
        let mut why = Why::NoCall;
        for part in &mut self.parts[self.open_from..] {
            match &mut part.body {
                // A blank id matches nothing: any result without an id would answer any such call.
                BlockBody::Call(call) if call.call.call_id == id && !id.trim().is_empty() => {
                    if is_free(call) {
                        return Ok(call);
                    }
                    // There was a call of this id, and it has its result.
                    why = Why::SecondResult;
                }
                _ => {}
            }
        }
        Err(why)
    }
}

impl AnswerCall {
    fn set_result(&mut self, result: ToolResult, mut entry: HistoryEntry) {
        let (place, start) = self.start.as_ref().map(|(place, start)| (*place, start)).unzip();
        entry.note = Some(ToolNote::new(&self.call, start, &result));
        entry.sources.extend(place);
        entry.sources.sort_unstable();
        self.result = Some((result, Arc::new(entry)));
    }
}

fn in_block_order(parts: &[AnswerBlock]) -> Vec<&AnswerBlock> {
    let mut parts: Vec<&AnswerBlock> = parts.iter().collect();
    parts.sort_by_key(|part| part.block);
    parts
}
