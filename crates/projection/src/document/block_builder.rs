//! Events in, blocks out.
//!
//! A call is written together with its result, so the blocks behind a call wait for the result:
//! at most [`HELD_MAX`] of them, and never beyond the turn. Amendments are left out, because the
//! first account is written already.
//!
//! Where a turn begins and ends is the [`TurnMachine`]'s decision. Its head is written with the
//! first block of it, because many turns are announced before they have anything to show.

use std::collections::VecDeque;

use event::payload::{
    ApprovalResolved, AssistantMessage, AssistantThinking, ChildRequested, Compaction, Content,
    Decision, ErrorRaised, ExternalInput, ModelWords, Note, SettingsChanged, StopReason, ToolCall,
    ToolResult, TurnCompleted, UserPrompt,
};
use event::{Event, Kind};

use super::Options;
use super::block::{CallBlock, DocumentBlock};
use super::call;
use super::clean::Clean;
use crate::id_hash::IdHash;
use crate::torn::{EventNovelty, TornRecords};
use crate::turn_machine::{TurnMachine, TurnStep};

/// Blocks that wait for the result of a call. When there are more, the call is told without.
const HELD_MAX: usize = 200;

/// Tells a session, event by event.
pub(crate) struct BlockBuilder {
    options: Options,
    seq: u64,
    torn: TornRecords,
    machine: TurnMachine,
    /// How many turns have a head.
    turn: u64,
    /// A turn has begun that has no head yet.
    is_head_due: bool,
    is_inherited: bool,
    held: VecDeque<HeldBlock>,
    /// The last error that was told, which the end of the turn often repeats.
    last_error: Option<String>,
}

enum HeldBlock {
    Told(DocumentBlock),
    /// Waits for its result.
    Open(IdHash, CallBlock),
}

impl BlockBuilder {
    pub(crate) fn new(options: Options) -> BlockBuilder {
        BlockBuilder {
            options,
            seq: 0,
            torn: TornRecords::default(),
            machine: TurnMachine::default(),
            turn: 0,
            is_head_due: false,
            is_inherited: false,
            held: VecDeque::new(),
            last_error: None,
        }
    }

    /// Takes the next event. One that was applied before is left out.
    pub(crate) fn apply(&mut self, event: &Event, clean: &mut Clean<'_>) {
        if event.seq <= self.seq {
            return;
        }
        self.seq = event.seq;
        if self.torn.inspect_event(event) == EventNovelty::Again {
            return;
        }
        // Before the event is told: the remark stands between the inherited part and it.
        self.cross_fork(event);
        let outcome_before = self.machine.end().map(|end| end.outcome);
        let step = self.machine.apply(event).step;
        let is_opened = matches!(step, TurnStep::Opened { .. });
        self.is_head_due |= is_opened;
        // What arrives late belongs to a turn that has its head.
        let is_late = step == TurnStep::Late;
        match event.kind {
            Kind::UserPrompt => self.apply_prompt(event, is_opened, clean),
            Kind::AssistantMessage => {
                let Some(said) = event.readable::<AssistantMessage>() else { return };
                let answer = DocumentBlock::Answer(content_text(&said.content, clean));
                self.apply_answer(event, is_late, answer);
            }
            Kind::AssistantThinking if self.options.shows_thinking => {
                let Some(thought) = event.readable::<AssistantThinking>() else { return };
                let thinking = DocumentBlock::Thinking(clean.clean_text(&thought.thinking));
                self.apply_answer(event, is_late, thinking);
            }
            Kind::ToolCall => {
                let Some(called) = event.readable::<ToolCall>() else { return };
                if !is_late {
                    self.write_turn_head(event);
                }
                let call = call::call_block(&called, clean, self.options.input_max);
                // The blocks behind an open call wait, so that the document keeps its order:
                //
                //     held: [ Open(call) ][ Told ][ Open(call) ][ Told ] ...
                //             next() stops here until the result, the next turn or HELD_MAX
                self.hold_block(HeldBlock::Open(IdHash::from_id(&called.call_id), call));
            }
            Kind::ToolResult => self.apply_result(event, clean),
            // A hook and the transcript may both report one end. The second report is told if it
            // says another end.
            Kind::TurnCompleted if is_late => {}
            Kind::TurnCompleted => {
                let is_news = step != TurnStep::Unrelated
                    || self.machine.end().map(|end| end.outcome) != outcome_before;
                if is_news {
                    self.complete(event, clean);
                }
            }
            Kind::Error => {
                let raised = event.readable::<ErrorRaised>().unwrap_or_default();
                self.apply_error(&raised.message, clean);
            }
            Kind::Compaction => {
                let compaction = event.readable::<Compaction>().unwrap_or_default();
                let contents = compaction.entries.iter().filter_map(|entry| entry.content.as_ref());
                let texts: Vec<String> =
                    contents.map(|content| call::parts_text(&content.0)).collect();
                self.push_block(DocumentBlock::Compacted {
                    summary: clean.clean_text(&texts.join("\n\n")),
                });
            }
            _ => {
                if let Some(remark) = remark_text(event) {
                    self.push_block(DocumentBlock::Remark(clean.clean_text(&remark)));
                }
            }
        }
    }

    /// The next block that waits for nothing.
    pub(crate) fn next(&mut self) -> Option<DocumentBlock> {
        // A call of a killed agent never gets its result. Without a limit it would hold back the
        // rest of the document, and all of it in memory.
        let is_full = self.held.len() > HELD_MAX;
        match self.held.front()? {
            HeldBlock::Open(..) if !is_full => None,
            _ => self.held.pop_front().map(HeldBlock::into_block),
        }
    }

    /// The next block there is, even if it waits for a result.
    pub(crate) fn next_left(&mut self) -> Option<DocumentBlock> {
        self.held.pop_front().map(HeldBlock::into_block)
    }

    fn apply_prompt(&mut self, event: &Event, is_opened: bool, clean: &mut Clean<'_>) {
        let Some(prompt) = event.readable::<UserPrompt>() else { return };
        self.write_turn_head(event);
        let text = content_text(&prompt.content, clean);
        // A queued prompt behind the end of a turn opens one of its own.
        self.push_block(DocumentBlock::Prompt { text, is_queued: prompt.queued && !is_opened });
    }

    fn apply_answer(&mut self, event: &Event, is_late: bool, block: DocumentBlock) {
        let (DocumentBlock::Answer(text) | DocumentBlock::Thinking(text)) = &block else { return };
        // An empty answer comes before the calls of its record, and shows nothing.
        if !text.trim().is_empty() {
            if !is_late {
                self.write_turn_head(event);
            }
            self.push_block(block);
        }
    }

    fn apply_result(&mut self, event: &Event, clean: &mut Clean<'_>) {
        let Some(result) = event.readable::<ToolResult>() else { return };
        let mark = IdHash::from_id(&result.call_id);
        let output_max = self.options.output_max;
        let place = self.held.iter().position(|held| held.waits_for(mark));
        match place.and_then(|place| self.held.get_mut(place)) {
            Some(held) => held.settle_result(&result, clean, output_max),
            None => {
                let call = call::late_call_block(&result, clean, output_max);
                self.push_block(DocumentBlock::Call(call));
            }
        }
    }

    fn complete(&mut self, event: &Event, clean: &mut Clean<'_>) {
        let completed = event.readable::<TurnCompleted>().unwrap_or_default();
        match completed.stop_reason {
            Some(StopReason::Interrupted) => {
                self.push_block(DocumentBlock::Interrupted("Interrupted by the user".to_owned()));
            }
            Some(StopReason::Died) => {
                self.push_block(DocumentBlock::Interrupted(
                    "The agent ended in the middle of its work".to_owned(),
                ));
            }
            Some(StopReason::MaxTurnsHit | StopReason::BudgetExhausted) => {
                self.push_block(DocumentBlock::Interrupted("Stopped at a limit".to_owned()));
            }
            _ => {}
        }
        if let Some(error) = &completed.error {
            self.apply_error(error, clean);
        }
    }

    fn apply_error(&mut self, message: &str, clean: &mut Clean<'_>) {
        if self.last_error.as_deref() != Some(message) {
            self.push_block(DocumentBlock::Error(clean.clean_text(message)));
            self.last_error = Some(message.to_owned());
        }
    }

    fn write_turn_head(&mut self, event: &Event) {
        if !std::mem::take(&mut self.is_head_due) {
            return;
        }
        // The same error in another turn is news.
        self.last_error = None;
        self.turn += 1;
        // What still waits belongs to the turn before.
        self.held.iter_mut().for_each(HeldBlock::drop_result);
        self.push_block(DocumentBlock::Turn { number: self.turn, at: event.created_at });
    }

    /// Says where a fork stops showing what another session did.
    fn cross_fork(&mut self, event: &Event) {
        let is_inherited = event.fork_origin().is_some();
        if self.is_inherited && !is_inherited && event.kind != Kind::SessionStarted {
            self.push_block(DocumentBlock::Remark(
                "From here on it is a session of its own".to_owned(),
            ));
        }
        self.is_inherited = is_inherited;
    }

    fn push_block(&mut self, block: DocumentBlock) {
        self.hold_block(HeldBlock::Told(block));
    }

    fn hold_block(&mut self, held: HeldBlock) {
        self.held.push_back(held);
    }
}

impl HeldBlock {
    fn waits_for(&self, mark: IdHash) -> bool {
        matches!(self, HeldBlock::Open(open, _) if *open == mark)
    }

    fn settle_result(&mut self, result: &ToolResult, clean: &mut Clean<'_>, output_max: usize) {
        if let HeldBlock::Open(_, call) = self {
            let mut call = call.clone();
            call::add_result(&mut call, result, clean, output_max);
            *self = HeldBlock::Told(DocumentBlock::Call(call));
        }
    }

    fn drop_result(&mut self) {
        if let HeldBlock::Open(_, call) = self {
            *self = HeldBlock::Told(without_result(call.clone()));
        }
    }

    fn into_block(self) -> DocumentBlock {
        match self {
            HeldBlock::Told(block) => block,
            HeldBlock::Open(_, call) => without_result(call),
        }
    }
}

fn without_result(call: CallBlock) -> DocumentBlock {
    DocumentBlock::Call(CallBlock { how: "no result".to_owned(), ..call })
}

fn content_text(content: &Content, clean: &mut Clean<'_>) -> String {
    clean.clean_text(&call::parts_text(&content.0))
}

/// What else is worth a line.
fn remark_text(event: &Event) -> Option<String> {
    match event.kind {
        // What a model made of it is not part of the talk.
        Kind::Note if ModelWords::from_event(event).is_some() => None,
        Kind::Note => event.readable::<Note>().map(|note| note.text),
        Kind::ApprovalResolved => {
            let resolved = event.readable::<ApprovalResolved>()?;
            // What a rule lets pass is said by the call itself, with every call.
            if resolved.automated && resolved.decision == Decision::Allow {
                return None;
            }
            let word = if resolved.decision == Decision::Allow { "Allowed" } else { "Denied" };
            let by = resolved.by.map(|by| format!(" by {by}")).unwrap_or_default();
            let why = resolved.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            Some(format!("{word}{by}{why}"))
        }
        Kind::SettingsChanged => {
            let changed = event.readable::<SettingsChanged>()?;
            let rows = [
                ("Model", changed.model),
                ("Folder", changed.cwd),
                ("Branch", changed.branch),
                ("Permissions", changed.permission_mode),
            ];
            let told =
                rows.into_iter().filter_map(|(name, value)| Some(format!("{name}: {}", value?)));
            let told = told.collect::<Vec<_>>().join(" · ");
            (!told.is_empty()).then_some(told)
        }
        Kind::ExternalInput => {
            let asked = event.readable::<ExternalInput>()?;
            let answer = asked.input.map(|input| input.text().unwrap_or(input.get().to_owned()));
            let answer = answer.map(|answer| format!(" → {answer}")).unwrap_or_default();
            Some(format!("Asked: {}{answer}", asked.prompt))
        }
        Kind::ChildRequested => {
            let child = event.readable::<ChildRequested>()?;
            Some(format!("Handed to {}: {}", child.agent_id, child.task))
        }
        _ => None,
    }
}
