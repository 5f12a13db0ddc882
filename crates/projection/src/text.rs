//! A session as text: what people and agents said, and what was done, in lines a model or a person
//! can read.
//!
//! One renderer over the events of any agent. Lines are joined by one blank line and handed out in
//! chunks of complete lines. The portions in which events come make no difference. Amendments are
//! left out, because the first account is written already.
//!
//! Where a turn begins and ends is the [`TurnMachine`]'s decision.
//!
//! Secrets are taken out before: a text that is cut first could keep half of one.

use event::payload::{
    AssistantMessage, Content, ErrorRaised, Note, SessionStarted, SettingsChanged, ToolCall,
    ToolResult, TurnCompleted, UserPrompt,
};
use event::{Event, EventId, Kind, Raw};
use serde::{Deserialize, Serialize};

use crate::chunk::Chunks;
use crate::excerpt;
use crate::id_hash::IdHash;
use crate::problem;
use crate::tool::{ToolUse, has_failed};
use crate::tool_lines::{self, RunCall};
use crate::torn::{EventNovelty, TornRecords};
use crate::turn_machine::{TurnMachine, TurnOutcome, TurnStep, TurnStop};

const PROMPT_CHARS_MAX: usize = 2_000;
const ANSWER_CHARS_MAX: usize = 1_000;

/// An answer up to this long says little, and is left out where the turn has another one.
const SHORT_ANSWER_CHARS: usize = 20;

const COMMAND_CHARS_MAX: usize = 200;
const ERROR_CHARS_MAX: usize = 200;

/// Lines that wait until it is known whether a short answer is the only one. When there are more,
/// the answer is shown.
const HELD_MAX: usize = 1_000;

/// Calls that are told together. A longer run is told in parts.
const RUN_MAX: usize = 500;

/// Characters of a chunk, unless told otherwise.
pub const CHUNK_CHARS_MAX: usize = 100_000;

/// What begins a line here. A quoted line that begins so is indented.
const TAGS: &[&str] = &[
    "[USER]",
    "[ASSISTANT]",
    "[COMMAND]",
    "[TOOL]",
    "[ACTIVITY]",
    "[RESULT]",
    "[COMPACTED]",
    "[INTERRUPTED]",
    "[ERROR]",
];

/// How calls of tools are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStyle {
    /// Each in a line of its own.
    OneByOne,
    /// Runs of them in a few lines about what was done.
    AsActivity,
}

/// The text of a session so far.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SessionText {
    seq: u64,
    calls: CallStyle,
    cwd: Option<String>,
    torn: TornRecords,
    machine: TurnMachine,
    /// The turn has an answer that is not short.
    is_answered: bool,
    /// A short answer, and what came behind it.
    held: Vec<TextLine>,
    /// Calls since the last other line, and the failures among them.
    run: Vec<RunCall>,
    failures: Vec<String>,
    chunks: Chunks,
    /// The last error that was told, which the end of the turn often repeats.
    last_error: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum TextLine {
    Said(String),
    Called { call: IdHash, event_id: EventId, program: Option<EventId>, used: ToolUse },
    Failed { call: IdHash, why: String },
}

impl SessionText {
    pub fn new(calls: CallStyle, chunk_chars_max: usize) -> SessionText {
        SessionText {
            seq: 0,
            calls,
            cwd: None,
            torn: TornRecords::default(),
            machine: TurnMachine::default(),
            is_answered: false,
            held: Vec::new(),
            run: Vec::new(),
            failures: Vec::new(),
            chunks: Chunks::new(chunk_chars_max),
            last_error: None,
        }
    }

    /// Takes the next event. One that was applied before is left out.
    pub fn apply(&mut self, event: &Event) {
        if event.seq <= self.seq {
            return;
        }
        self.seq = event.seq;
        // The lines are written and may have been handed out; they cannot be changed any more.
        if self.torn.inspect_event(event) == EventNovelty::Again {
            return;
        }
        let outcome_before = self.machine.end().map(|end| end.outcome);
        let change = self.machine.apply(event);
        let is_over = matches!(change.stop, Some(TurnStop::Over { is_told: true, .. }));
        // The held answer comes before what begins the next turn, and before what ended its own.
        if is_over || matches!(change.step, TurnStep::Opened { .. }) {
            self.end_turn();
        }
        match event.kind {
            // Where the agent works: paths are shown from there.
            Kind::SessionStarted => {
                let started = event.readable::<SessionStarted>();
                self.move_to(started.and_then(|started| started.cwd));
            }
            Kind::SettingsChanged => {
                let changed = event.readable::<SettingsChanged>();
                self.move_to(changed.and_then(|changed| changed.cwd));
            }
            // What was said and done.
            Kind::UserPrompt => self.apply_prompt(event),
            Kind::AssistantMessage => self.apply_answer(event),
            Kind::ToolCall => {
                let Some(call) = event.readable::<ToolCall>() else { return };
                let used = ToolUse::from_call(&call.tool, &call.input);
                self.queue_line(TextLine::Called {
                    call: IdHash::from_id(&call.call_id),
                    event_id: event.id,
                    program: event.parent_id,
                    used,
                });
            }
            Kind::ToolResult => {
                let result = event.readable::<ToolResult>();
                // Output that went well would bury the talk; the call says what was done.
                if let Some(result) = result.filter(has_failed) {
                    let why = problem::of_result(&result);
                    self.queue_line(TextLine::Failed {
                        call: IdHash::from_id(&result.call_id),
                        why,
                    });
                }
            }
            Kind::Note => {
                let command = event.readable::<Note>().and_then(|note| note_command(&note));
                if let Some(command) = command {
                    self.queue_line(TextLine::Said(format!("[COMMAND] {command}")));
                }
            }
            // What happened to the session itself.
            Kind::Compaction => self.queue_line(TextLine::Said("[COMPACTED]".to_owned())),
            Kind::Error => {
                let raised = event.readable::<ErrorRaised>().unwrap_or_default();
                self.apply_error(&raised.message);
            }
            // A hook and the transcript may both report one end. The second report is told if it
            // says another end.
            Kind::TurnCompleted => {
                let outcome = self.machine.end().map(|end| end.outcome);
                if is_over || outcome != outcome_before {
                    self.tell_end(event, outcome);
                }
            }
            _ => {}
        }
    }

    /// The chunks that are full, each once.
    pub fn take_full(&mut self) -> Vec<String> {
        self.chunks.take_full()
    }

    /// All chunks that were not taken. The last one ends with the last event, also in an open turn.
    pub fn finish(mut self) -> Vec<String> {
        self.end_turn();
        self.tell_run();
        self.chunks.finish()
    }

    fn move_to(&mut self, cwd: Option<String>) {
        self.cwd = cwd.or(self.cwd.take());
    }

    fn apply_prompt(&mut self, event: &Event) {
        let Some(prompt) = event.readable::<UserPrompt>() else { return };
        self.queue_line(TextLine::Said(format!(
            "[USER]: {}",
            spoken_text(&prompt.content, PROMPT_CHARS_MAX)
        )));
    }

    fn apply_answer(&mut self, event: &Event) {
        let answer = event.readable::<AssistantMessage>();
        let Some(answer) = answer.filter(|answer| answer.content.has_substance()) else { return };
        let text = spoken_text(&answer.content, ANSWER_CHARS_MAX);
        let is_short = text.chars().count() <= SHORT_ANSWER_CHARS;
        if is_short && self.is_answered {
            return;
        }
        // With another answer, a short one before it is not the only one.
        self.drop_held_answer();
        let line = TextLine::Said(format!("[ASSISTANT]: {text}"));
        if is_short {
            self.held.push(line);
        } else {
            self.is_answered = true;
            self.queue_line(line);
        }
    }

    /// Tells how a turn ended, if not well.
    fn tell_end(&mut self, event: &Event, outcome: Option<TurnOutcome>) {
        let turn = event.readable::<TurnCompleted>().unwrap_or_default();
        if let Some(error) = turn.error {
            self.apply_error(&error);
        }
        if outcome == Some(TurnOutcome::Interrupted) {
            self.queue_line(TextLine::Said("[INTERRUPTED]".to_owned()));
        }
        self.last_error = None;
    }

    fn apply_error(&mut self, message: &str) {
        let line = excerpt::first_line(message, ERROR_CHARS_MAX);
        if self.last_error.as_ref() != Some(&line) {
            self.queue_line(TextLine::Said(format!("[ERROR] {line}").trim_end().to_owned()));
            self.last_error = Some(line);
        }
    }

    /// A short answer that is still held was the only one.
    fn end_turn(&mut self) {
        self.is_answered = false;
        for line in std::mem::take(&mut self.held) {
            self.write_line(line);
        }
    }

    fn drop_held_answer(&mut self) {
        // The first held line is the short answer itself; the calls behind it stay.
        for line in std::mem::take(&mut self.held).into_iter().skip(1) {
            self.write_line(line);
        }
    }

    fn queue_line(&mut self, line: TextLine) {
        // Lines behind a held answer wait with it, so that they keep their order:
        //
        //     held: [ "[ASSISTANT]: ok" ][ call ][ call ] ...
        //             dropped if a longer answer comes, told if the turn ends
        if self.held.is_empty() {
            self.write_line(line);
            return;
        }
        self.held.push(line);
        if self.held.len() > HELD_MAX {
            for line in std::mem::take(&mut self.held) {
                self.write_line(line);
            }
        }
    }

    /// Writes a line at its final place.
    fn write_line(&mut self, line: TextLine) {
        match (line, self.calls) {
            // Any line that is no call ends the run before it.
            (TextLine::Said(text), _) => {
                self.tell_run();
                self.chunks.push_line(&text);
            }
            (TextLine::Called { used, .. }, CallStyle::OneByOne) => {
                self.chunks.push_line(&tool_lines::tool_line(&used, self.cwd.as_deref()));
            }
            (TextLine::Failed { why, .. }, CallStyle::OneByOne) => {
                self.chunks.push_line(&format!("[RESULT] {why}"));
            }
            (TextLine::Called { call, event_id, program, used }, CallStyle::AsActivity) => {
                // What a program of the model calls is told in place of the program.
                self.run.retain(|called| Some(called.event_id) != program);
                if self.run.len() == RUN_MAX {
                    self.tell_run();
                }
                let cwd = self.cwd.as_deref();
                let used = tool_lines::relative_to(used, cwd);
                self.run.push(RunCall { call, event_id, used, has_failed: false });
            }
            (TextLine::Failed { call, why }, CallStyle::AsActivity) => {
                // The call may be in a run that was told already. The failure is told all the same.
                let failed = self.run.iter_mut().rfind(|called| called.call == call);
                if let Some(failed) = failed {
                    failed.has_failed = true;
                }
                self.failures.push(format!("[RESULT] {why}"));
            }
        }
    }

    /// Tells the calls since the last other line, then what failed among them.
    fn tell_run(&mut self) {
        for line in tool_lines::describe_run(&std::mem::take(&mut self.run)) {
            self.chunks.push_line(&line);
        }
        for failure in std::mem::take(&mut self.failures) {
            self.chunks.push_line(&failure);
        }
    }
}

/// A prompt or an answer in the shape it has here.
fn spoken_text(content: &Content, chars_max: usize) -> String {
    let text = excerpt::beginning(&excerpt::paragraph(&content.joined_text()), chars_max);
    if text.is_empty() {
        // A prompt may be an image alone: `(image)` says that there was one.
        let kinds: Vec<&str> = content.0.iter().map(|part| part.kind.as_str()).collect();
        return format!("({})", excerpt::beginning(&excerpt::one_line(&kinds.join(", ")), 80));
    }
    // A quotation from such a text must not look like a line of this one.
    let mut lines = text.split('\n');
    // The first line stands behind our own tag and needs no indent.
    let mut told = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        told.push('\n');
        if TAGS.iter().any(|tag| line.starts_with(tag)) {
            told.push(' ');
        }
        told.push_str(line);
    }
    told
}

/// The command of a note that tells one: `/name args`.
fn note_command(note: &Note) -> Option<String> {
    let about = note.about.as_ref()?;
    // Agents write `"command"` itself or an object with it as the `kind`.
    let is_command = |kind: &Raw| kind.text().as_deref() == Some("command");
    let members = about.members().unwrap_or_default();
    let has_kind = members.iter().any(|(name, value)| name == "kind" && is_command(value));
    let is_command = is_command(about) || has_kind;
    let text = excerpt::beginning(&excerpt::one_line(&note.text), COMMAND_CHARS_MAX);
    (is_command && !text.is_empty()).then_some(text)
}
