//! When there was work in a session, and what was done.
//!
//! A span lasts while one turn follows the other without a long pause. The wait for the result of a
//! call is no pause, however long it took. Each epoch has spans of its own. Inherited events belong
//! to the spans of the session they come from.

use std::collections::BTreeMap;

use event::payload::{SessionStarted, ToolCall, ToolResult};
use event::{Deed, Event, Kind, Time};
use serde::{Deserialize, Serialize};

use crate::command;
use crate::epoch::{EpochCount, is_content};
use crate::id_hash::IdHash;
use crate::ring_buffer::RingBuffer;
use crate::tool::{ToolUse, has_failed};
use crate::tool_lines::relative_to;
use crate::torn::{EventNovelty, TornRecords};
use crate::turn_machine::is_told_end;

/// A pause that ends a span of work.
pub const PAUSE_MILLIS: u64 = 30 * 60 * 1_000;

/// Different files, branches and pull requests that are counted in a stretch. Further ones are left
/// out.
const TOUCHED_MAX: usize = 200;

/// Spans of a session. When there are more the oldest is forgotten.
const STRETCHES_MAX: usize = 1_000;

/// Calls with a result to come, which may say that they failed.
const CALLS_MAX: usize = 256;

/// A time of work without a long pause.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WorkSpan {
    pub epoch: u64,
    pub from_seq: u64,
    pub to_seq: u64,
    pub from: Time,
    pub to: Time,
    /// Turns that began in it.
    pub turns: u64,
    /// How long a turn was open.
    pub busy_millis: u64,
    pub deeds: BTreeMap<Deed, u64>,
    /// Runs of tests.
    pub tests: u64,
    /// Looks at what others or the agent itself had changed.
    pub reviews: u64,
    /// Calls that failed.
    pub failures: u64,
    /// Files that were changed, branches and pull requests, and how often.
    pub touched: BTreeMap<String, u64>,
}

/// The stretches of a session, told from its events in order.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct WorkSpans {
    seq: u64,
    torn: TornRecords,
    epochs: EpochCount,
    /// The folder it works in; files in it go by what follows.
    cwd: Option<String>,
    list: RingBuffer<WorkSpan, STRETCHES_MAX>,
    is_turn_open: bool,
    calls: RingBuffer<IdHash, CALLS_MAX>,
}

impl WorkSpans {
    pub(crate) fn list(&self) -> impl Iterator<Item = &WorkSpan> {
        self.list.iter()
    }

    pub(crate) fn apply(&mut self, event: &Event) {
        if event.seq <= self.seq {
            return;
        }
        self.seq = event.seq;
        if self.torn.inspect_event(event) == EventNovelty::Again || event.fork_origin().is_some() {
            return;
        }
        match event.kind {
            Kind::SessionStarted => {
                let started = event.readable::<SessionStarted>();
                self.cwd = started.and_then(|started| started.cwd).or(self.cwd.take());
            }
            // `extend_last` comes first: the time up to the end is still time of an open turn.
            ref kind if is_told_end(kind) || *kind == Kind::EpochClosed => {
                self.extend_last(event);
                self.is_turn_open = false;
            }
            _ if is_content(&event.kind) => self.apply_content(event),
            _ => {}
        }
        self.epochs.apply(event);
    }

    fn apply_content(&mut self, event: &Event) {
        let at = event.created_at;
        // A result ends the wait for a call, and a build may take longer than any pause.
        let is_pause = self.list.back().is_none_or(|last| {
            last.epoch != self.epochs.number()
                || event.kind != Kind::ToolResult && last.to.millis_until(at) >= PAUSE_MILLIS
        });
        if is_pause {
            self.is_turn_open = false;
            self.list.push(WorkSpan::starting_at(event, self.epochs.number()));
        }
        // After the new span was pushed, so that the pause itself counts as no work.
        self.extend_last(event);
        // Any content opens a turn here: what is measured is the time at work.
        if !std::mem::replace(&mut self.is_turn_open, true) {
            self.with_last(|last| last.turns += 1);
        }
        match event.kind {
            Kind::ToolCall => self.apply_call(event),
            Kind::ToolResult => self.apply_result(event),
            _ => {}
        }
    }

    fn apply_call(&mut self, event: &Event) {
        let Some(call) = event.readable::<ToolCall>() else { return };
        let used = relative_to(ToolUse::from_call(&call.tool, &call.input), self.cwd.as_deref());
        self.calls.push(IdHash::from_id(&call.call_id));
        let line = used.command().unwrap_or_default();
        let is_test = command::tests_of_line(line).is_some();
        let is_review = command::is_review(line);
        let things = command::git_things(line).into_iter().filter_map(|thing| thing_name(&thing));
        let files = used.files().iter().filter(|(deed, _)| deed.modifies());
        let files = files.map(|(_, file)| file.clone());
        let touched: Vec<String> = files.chain(things).collect();
        self.with_last(|last| {
            *last.deeds.entry(used.deed).or_default() += 1;
            last.tests += u64::from(is_test);
            last.reviews += u64::from(is_review);
            touched.into_iter().for_each(|thing| last.touch_thing(thing));
        });
    }

    fn apply_result(&mut self, event: &Event) {
        let Some(result) = event.readable::<ToolResult>() else { return };
        let mark = IdHash::from_id(&result.call_id);
        // A hook and the transcript may both report a result; the first one takes the call.
        if self.calls.take(|call| *call == mark).is_some() && has_failed(&result) {
            self.with_last(|last| last.failures += 1);
        }
    }

    /// The last stretch goes on up to here.
    fn extend_last(&mut self, event: &Event) {
        let is_its_own = |last: &WorkSpan| last.to.millis_until(event.created_at) < PAUSE_MILLIS;
        // What only the clock says, as the end after a long silence, is not work.
        let counts = is_content(&event.kind) || self.list.back().is_some_and(is_its_own);
        let is_turn_open = self.is_turn_open;
        self.with_last(|last| {
            last.to_seq = event.seq;
            // Records arrive out of order, and time at work never runs back.
            if counts && event.created_at > last.to {
                if is_turn_open {
                    last.busy_millis += last.to.millis_until(event.created_at);
                }
                last.to = event.created_at;
            }
        });
    }

    fn with_last(&mut self, change: impl FnOnce(&mut WorkSpan)) {
        if let Some(last) = self.list.back_mut() {
            change(last);
        }
    }
}

impl WorkSpan {
    fn starting_at(event: &Event, epoch: u64) -> WorkSpan {
        WorkSpan {
            epoch,
            from_seq: event.seq,
            to_seq: event.seq,
            from: event.created_at,
            to: event.created_at,
            turns: 0,
            busy_millis: 0,
            deeds: BTreeMap::new(),
            tests: 0,
            reviews: 0,
            failures: 0,
            touched: BTreeMap::new(),
        }
    }

    fn touch_thing(&mut self, thing: String) {
        if self.touched.len() < TOUCHED_MAX || self.touched.contains_key(&thing) {
            *self.touched.entry(thing).or_default() += 1;
        }
    }
}

/// A branch or a pull request by its name; a commit is no thing one goes back to.
fn thing_name(thing: &str) -> Option<String> {
    let branch = thing.strip_prefix("On branch ").map(|name| format!("branch {name}"));
    branch.or_else(|| thing.strip_prefix("Pull request ").map(|number| format!("pr {number}")))
}
