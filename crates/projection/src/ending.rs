//! How a session stands at the end of its log.

use event::EventId;
use serde::{Deserialize, Serialize};

use crate::id_hash::IdHash;
use crate::ring_buffer::RingBuffer;
use crate::turn_machine::TurnOutcome;

/// Open calls that are kept. When there are more the oldest is forgotten: a session that leaves
/// so many behind is told as pending by the others.
const OPEN_CALLS_MAX: usize = 1_024;

/// What the last records of a session say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The answer is complete; it is the user's turn.
    AwaitingUser,
    /// A tool was called and its result is not there.
    ToolCallPending,
    /// The user asked, and there is no answer.
    UserLast,
    /// The user stopped it, and nothing came after.
    Interrupted,
    /// The last record is torn.
    Truncated,
    /// The agent said that it ended.
    Exited,
    /// None of these: results are there and the model has not answered, or nothing happened yet.
    Open,
}

impl Ending {
    pub fn as_str(self) -> &'static str {
        match self {
            Ending::AwaitingUser => "awaiting_user",
            Ending::ToolCallPending => "tool_call_pending",
            Ending::UserLast => "user_last",
            Ending::Interrupted => "interrupted",
            Ending::Truncated => "truncated",
            Ending::Exited => "exited",
            Ending::Open => "open",
        }
    }
}

/// A record that can change an ending. All others leave it as it is.
pub(crate) enum LastRecord<'a> {
    Prompted { is_queued: bool },
    Answered,
    Called(&'a str),
    Returned(&'a str),
    TurnCompleted(TurnOutcome),
    Exited,
    Resumed,
    TornRecords(EventId),
}

/// The state an ending is read from.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct EndingState {
    last: Last,
    /// Calls without a result since the last prompt that began a turn.
    open_calls: RingBuffer<IdHash, OPEN_CALLS_MAX>,
    /// The turn that ended last. What it left running may end later, and says nothing more.
    over: Option<IdHash>,
    torn: Option<EventId>,
    is_exited: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Last {
    #[default]
    Nothing,
    Prompt,
    Answer,
    Result,
    Interrupt,
}

impl EndingState {
    pub(crate) fn ending(&self) -> Ending {
        match self.last {
            // The order is that of certainty: nothing is known behind a torn record, and an exit
            // explains less than a call or a prompt that it left open.
            _ if self.torn.is_some() => Ending::Truncated,
            Last::Interrupt => Ending::Interrupted,
            _ if !self.open_calls.is_empty() => Ending::ToolCallPending,
            Last::Prompt => Ending::UserLast,
            _ if self.is_exited => Ending::Exited,
            Last::Answer => Ending::AwaitingUser,
            Last::Nothing | Last::Result => Ending::Open,
        }
    }

    pub(crate) fn apply(&mut self, record: LastRecord<'_>, turn_id: Option<&str>) {
        let turn = turn_id.map(IdHash::from_id);
        // Background work of the last turn may report after its end. That is no talk.
        let is_over = turn.is_some() && turn == self.over;
        match record {
            LastRecord::Prompted { is_queued } => {
                self.apply_talk(Last::Prompt);
                // A queued prompt comes while calls run, and leaves them open.
                if !is_queued {
                    // A call that is still open by now was lost with the turn before.
                    self.open_calls.clear();
                }
            }
            LastRecord::Answered => self.apply_talk(Last::Answer),
            // A call is a word of the model, so a prompt before it has its answer.
            LastRecord::Called(call_id) => {
                if !is_over {
                    self.apply_talk(Last::Answer);
                }
                self.open_calls.push(IdHash::from_id(call_id));
            }
            LastRecord::Returned(call_id) => {
                if !is_over {
                    self.apply_talk(Last::Result);
                }
                let mark = IdHash::from_id(call_id);
                self.open_calls.take(|open| *open == mark);
            }
            // The user stopped the calls, too: no results will come.
            LastRecord::TurnCompleted(TurnOutcome::Interrupted) => {
                self.last = Last::Interrupt;
                self.open_calls.clear();
                self.over = turn;
            }
            LastRecord::TurnCompleted(TurnOutcome::Done) => {
                self.over = turn;
                // A turn may end without a closing word.
                if self.last == Last::Result {
                    self.last = Last::Answer;
                }
            }
            // A turn that failed or died leaves its calls and its prompt without an answer.
            LastRecord::TurnCompleted(_) => {}
            LastRecord::Exited => self.is_exited = true,
            LastRecord::Resumed => self.is_exited = false,
            LastRecord::TornRecords(event_id) => self.torn = Some(event_id),
        }
    }

    /// A torn record was read completely after all.
    pub(crate) fn mend_torn(&mut self, event_id: EventId) {
        if self.torn == Some(event_id) {
            self.torn = None;
        }
    }

    fn apply_talk(&mut self, last: Last) {
        // Talk behind a torn record or an exit shows that the session went on.
        self.last = last;
        self.torn = None;
        self.is_exited = false;
    }
}
