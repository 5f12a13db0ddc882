//! Replays the journal for the bus: the messages behind a position, one page at a time.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bus::{Draft, Message, PAGE_BYTES, PageRequest, ReplayError, ReplayPage, ReplaySource};
use event::payload::{ToolCall, UserPrompt};
use event::{Event, EventKey, KeyFamily, Kind, SessionId};
use journal::{
    Delivery, FollowError, FollowFrom, Journal, OnLag, Recorded, Selection, SessionInfo,
    Subscription,
};
use projection::PriceTable;

use super::cortex::{Cortex, SessionAbout, SessionHistory};
use super::run::AgentRun;
use super::words::compact;
use crate::journal_handle::JournalHandle;

/// Cursors that are kept. With more, the one unused for longest is dropped, and its subscriber's next
/// page builds it again.
const CURSORS_MAX: usize = 8;

/// Events before the last prompt of a session that are read as well: what they left open, and which
/// turns they ended, decides about later ones. What happened still earlier is not known.
const NEAR: u64 = 10_000;

/// Events at the beginning of a session that are read in any case: they say how it was started.
const OPENING: u64 = 16;

/// Events read for one page, so that a filter without matches does not hold up other subscribers.
const EVENTS_MAX: usize = 1_024;

/// Reads the messages of the past from the journal.
pub(crate) struct BusReplay {
    journal_handle: JournalHandle,
    /// Cursors between two pages, the last used at the end.
    cursors: Mutex<Vec<ReplayCursor>>,
}

/// A subscriber's place in the journal.
struct ReplayCursor {
    /// Everything up to here was delivered.
    at: u64,
    subscription: Subscription,
    /// An event that was read, but lies behind the page.
    next: Option<std::sync::Arc<Recorded>>,
    cortex: Cortex,
}

impl BusReplay {
    pub(crate) fn new(journal_handle: JournalHandle) -> BusReplay {
        BusReplay { journal_handle, cursors: Mutex::default() }
    }

    /// Takes the cursor at a position, or makes one.
    fn take_cursor(&self, after: u64, journal: &Journal) -> Result<ReplayCursor, ReplayError> {
        let mut cursors = self.cursors.lock().unwrap_or_else(PoisonError::into_inner);
        // Any cursor at this position fits: what follows depends on the journal alone.
        let known = cursors.iter().rposition(|cursor| cursor.at == after);
        if let Some(known) = known {
            return Ok(cursors.remove(known));
        }
        let from = FollowFrom::At(after.saturating_add(1));
        let subscription = journal.follow(from, OnLag::CatchUp).map_err(replay_error)?;
        Ok(ReplayCursor { at: after, subscription, next: None, cortex: Cortex::default() })
    }

    fn keep_cursor(&self, cursor: ReplayCursor) {
        let mut cursors = self.cursors.lock().unwrap_or_else(PoisonError::into_inner);
        if cursors.len() >= CURSORS_MAX {
            // The first was used longest ago.
            cursors.remove(0);
        }
        cursors.push(cursor);
    }
}

impl ReplaySource for BusReplay {
    fn read_page(&self, wanted: PageRequest) -> Result<ReplayPage, ReplayError> {
        let journal = self.journal_handle.current();
        let mut cursor = self.take_cursor(wanted.after, &journal)?;
        let page = cursor.read_page(wanted, &journal)?;
        // A subscriber that has caught up is served live, and its cursor is not needed again.
        if page.up_to < wanted.up_to {
            self.keep_cursor(cursor);
        }
        Ok(page)
    }

    fn last_position(&self) -> Result<u64, ReplayError> {
        self.journal_handle.current().tail().map_err(replay_error)
    }
}

impl ReplayCursor {
    fn read_page(
        &mut self,
        wanted: PageRequest,
        journal: &Journal,
    ) -> Result<ReplayPage, ReplayError> {
        let mut messages = Vec::new();
        let mut bytes = 0;
        for _ in 0..EVENTS_MAX {
            let Some(recorded) = self.next_event()? else {
                // Nothing more is recorded, so the subscriber is current as far as it asked.
                self.at = wanted.up_to;
                break;
            };
            if recorded.position > wanted.up_to {
                // Kept for the next page: the subscription does not deliver it again.
                self.next = Some(recorded);
                self.at = wanted.up_to;
                break;
            }
            self.at = recorded.position;
            let told = self.cortex.make_messages(&recorded, journal);
            // The whole event follows its messages, with the same position.
            let whole = wanted.with_journal.then(|| whole_event(&recorded));
            for message in told.into_iter().chain(whole) {
                bytes += message.line().len();
                messages.push(message);
            }
            // Counted after the event: a page holds each event with all its messages, or not at
            // all.
            if bytes >= PAGE_BYTES || self.at >= wanted.up_to {
                break;
            }
        }
        Ok(ReplayPage { messages, up_to: self.at })
    }

    /// The next event that is recorded already.
    fn next_event(&mut self) -> Result<Option<std::sync::Arc<Recorded>>, ReplayError> {
        if let Some(next) = self.next.take() {
            return Ok(Some(next));
        }
        loop {
            match self.subscription.next_within(Duration::ZERO) {
                Ok(Some(Delivery::Event(recorded))) => return Ok(Some(recorded)),
                Ok(Some(_)) => {}
                Ok(None) | Err(FollowError::Closed) => return Ok(None),
                Err(FollowError::Failed(error)) => return Err(replay_error(error)),
            }
        }
    }
}

/// Looks up what a message needs of earlier events. A failed read counts as nothing found: the message
/// then has fewer fields.
impl SessionHistory for Journal {
    fn tool(&self, session: &SessionId, call_id: &str, seq: u64) -> Option<String> {
        let found = self.find(session, &EventKey::new(KeyFamily::Call, call_id)).ok()?;
        let is_call = |event: &&Event| event.kind == Kind::ToolCall && event.seq < seq;
        let call = found.iter().rfind(is_call)?;
        call.readable::<ToolCall>().map(|call| call.tool)
    }

    fn info(&self, session: &SessionId) -> Option<SessionInfo> {
        self.stat(session).ok()
    }

    fn is_deleted(&self, session: &SessionId) -> bool {
        // A failed read proves nothing.
        matches!(self.exists(session), Ok(false))
    }

    fn look_back(&self, session: &SessionId, seq: u64) -> (SessionAbout, AgentRun) {
        let before = |from_seq: u64| Selection { from_seq, ..Selection::all() }.up_to(seq - 1);
        let read = |selection: Selection| {
            let events = self.events(session, selection);
            events.into_iter().flatten().map_while(Result::ok)
        };
        let prompts = before(1).of_kinds([Kind::UserPrompt]).newest_first();
        // A queued prompt is a part of the run that was open before it.
        let starts = |event: &Event| event.readable::<UserPrompt>().is_none_or(|it| !it.queued);
        let start = read(prompts).find(starts).map_or(seq, |prompt| prompt.seq);
        let from = start.saturating_sub(NEAR).max(1);
        let prices = SessionHistory::prices(self);
        let (mut about, mut run) = (SessionAbout::default(), AgentRun::default());
        // Of a long session the settings of today are nearer than those of its beginning.
        if from > 1
            && let Some(SessionInfo { agent, model, project, .. }) = self.info(session)
        {
            about = SessionAbout { agent, model, project };
        }
        let opening = read(before(1).up_to(OPENING.min(from - 1)));
        opening.for_each(|event| _ = run.apply(&event, &prices));
        for event in read(before(from)) {
            about.apply(&event);
            run.apply(&event, &prices);
        }
        (about, run)
    }

    fn prices(&self) -> PriceTable {
        // A table of the user that cannot be read is reported by `usage`; the bus goes on.
        crate::api::prices(self).unwrap_or_else(|_| PriceTable::shipped())
    }
}

/// The whole event on tract `journal`, or its ids if it is too long for a message.
fn whole_event(recorded: &Recorded) -> Message {
    let Recorded { position, event } = recorded;
    let millis = i64::try_from(event.observed_at.nanos() / 1_000_000).unwrap_or(0);
    let encoded = event.encode();
    let kind = compact(event.kind.as_str());
    let named = || {
        // Last, because the last of two equal names counts: an event cannot override ours.
        let fields = encoded.strip_suffix('}')?;
        let kind = serde_json::to_string(&kind).expect("a text always encodes");
        let names = format!("\"position\":{position},\"tract\":\"journal\",\"event\":{kind}");
        Message::parse(format!("{fields},{names},\"ts\":{millis}}}").as_bytes()).ok()
    };
    let short = || {
        let draft = Draft::new("journal", &kind)
            .with("id", event.id.to_string())
            .with("session_id", event.session_id.as_str())
            .with("seq", event.seq)
            .with("truncated", true);
        let draft = draft.with("position", position).with("ts", millis);
        draft.build().expect("every text in it is short")
    };
    named().unwrap_or_else(short)
}

fn replay_error(error: journal::ReadError) -> ReplayError {
    ReplayError(Box::new(error))
}

#[cfg(test)]
mod tests;
