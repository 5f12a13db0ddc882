//! Decides when to ask about which events.
//!
//! Events go in, questions come out; the caller supplies the time. The queue can be saved and
//! loaded: a pending question is a range of events without text, so that no session text lies in
//! the file. A question that was in flight when the program was killed is asked once more and
//! then given up. No answered range is asked again: the next range begins after it.
//!
//! After a failure the endpoint is paused, longer each time; so is a question that failed.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use event::payload::UserPrompt;
use event::{Event, Kind, SessionId, Time};
use serde::{Deserialize, Serialize};

use crate::AskError;
use crate::unasked::UnaskedEvents;

/// The version of the saved form. A queue of another version is not loaded.
const VERSION: u32 = 1;

/// Older events are history: the user should not pay for years of it at the first start.
const HISTORY: Duration = Duration::from_secs(24 * 60 * 60);

/// The age up to which recent work is asked for, and the shortest time between two such questions
/// about one session.
const RECENT: Duration = Duration::from_secs(60 * 60);
const RECENT_EVERY: Duration = Duration::from_secs(30);

/// Sessions that are tracked at a time. With more, the least recently active one is asked about
/// and forgotten.
const SESSIONS_MAX: usize = 512;

/// Pending questions. With more, the oldest is given up; the facts found without a model stay.
const WAITING_MAX: usize = 256;

/// The tries of one question, and the tries if its answers are not usable.
const TRIES_MAX: u32 = 4;
const JUNK_TRIES_MAX: u32 = 2;

/// How often a question that was in flight when the program was killed is asked again.
const INTERRUPTED_MAX: u32 = 1;

/// The pause after a failure, doubled with each further one up to the maximum.
const PAUSE: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(10 * 60);

/// The longest pause that an endpoint can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60 * 60);

/// The window of the rate limit.
const MINUTE: Duration = Duration::from_secs(60);

/// The purpose of a question.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The facts of a range that are worth keeping.
    Digest,
    /// The work of the last turns in one line.
    Recent,
}

/// A question about a range of events that waits or is in flight.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PendingAsk {
    pub purpose: Purpose,
    pub session: SessionId,
    pub from_seq: u64,
    pub to_seq: u64,
    tries: u32,
    interrupted: u32,
    not_before: Time,
    /// It was sent, and no reply has come yet.
    is_out: bool,
}

impl PendingAsk {
    /// Returns a key that is unique within the session. A caller that has an answer under this
    /// key need not ask.
    pub fn key(&self) -> String {
        let purpose = match self.purpose {
            Purpose::Digest => "digest",
            Purpose::Recent => "recent",
        };
        format!("{purpose} {} {}", self.from_seq, self.to_seq)
    }

    fn is_same(&self, other: &PendingAsk) -> bool {
        (&self.session, self.key()) == (&other.session, other.key())
    }
}

/// What the caller has to do next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NextAsk {
    /// Ask this now.
    Ask(PendingAsk),
    /// Come back at this time.
    At(Time),
    /// No question waits.
    Nothing,
}

/// The outcome of a question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AskOutcome {
    /// The answer is recorded.
    Done,
    /// The question is no longer needed.
    Moot,
    /// The events could not be read now, so no request was sent.
    Unread,
    /// The answer is not usable.
    Junk,
    Failed(AskError),
}

/// All pending questions and the state of the endpoint.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct QuestionQueue {
    version: u32,
    /// The last journal position that was applied.
    position: u64,
    /// Events before this time are history.
    since: Time,
    sessions: BTreeMap<SessionId, UnaskedEvents>,
    waiting: VecDeque<PendingAsk>,
    /// The times of the requests of the last minute.
    sent: VecDeque<Time>,
    /// The endpoint that the questions are meant for.
    endpoint: String,
    trouble: Option<EndpointTrouble>,
    answered: u64,
    given_up: u64,
}

/// The failures of the endpoint since its last success.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct EndpointTrouble {
    why: String,
    /// In a row.
    failures: u32,
    until: Time,
    /// The endpoint asked for the pause (`retry-after`).
    is_wished: bool,
}

impl QuestionQueue {
    /// Creates an empty queue after a position and a time. Earlier events are history.
    pub fn begin_at(position: u64, since: Time) -> QuestionQueue {
        QuestionQueue {
            version: VERSION,
            position,
            since,
            sessions: BTreeMap::new(),
            waiting: VecDeque::new(),
            sent: VecDeque::new(),
            endpoint: String::new(),
            trouble: None,
            answered: 0,
            given_up: 0,
        }
    }

    /// Loads a saved queue; `None` if it is damaged or of another version. Questions that were in
    /// flight are asked again, but only `INTERRUPTED_MAX` times.
    pub fn load(saved: &[u8]) -> Option<QuestionQueue> {
        let mut queue: QuestionQueue = serde_json::from_slice(saved).ok()?;
        if queue.version != VERSION {
            return None;
        }
        // The program was killed while the request was out. The user may have paid for its answer,
        // so it is not asked again without end.
        for ask in queue.waiting.iter_mut().filter(|ask| ask.is_out) {
            ask.is_out = false;
            ask.interrupted += 1;
        }
        // The user may have fixed the problem before the restart. Only a pause that the endpoint
        // asked for is kept.
        queue.trouble = queue.trouble.filter(|trouble| trouble.is_wished);
        let before = queue.waiting.len();
        queue.waiting.retain(|ask| ask.interrupted <= INTERRUPTED_MAX);
        queue.given_up += (before - queue.waiting.len()) as u64;
        Some(queue)
    }

    pub fn save(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("names and numbers always encode")
    }

    /// Returns the last journal position that was applied.
    pub fn position(&self) -> u64 {
        self.position
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub fn answered(&self) -> u64 {
        self.answered
    }

    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Returns the last failure of the endpoint, unless a request has succeeded since.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_ref().map(|trouble| trouble.why.as_str())
    }

    /// Switches to an endpoint. A new one starts without the failures of the old one, and no
    /// question that was meant for the old one is sent to it.
    pub fn switch_endpoint(&mut self, endpoint: &str, now: Time) {
        if self.endpoint == endpoint {
            return;
        }
        // A queue without an endpoint so far holds no question that was meant for another one.
        if !self.endpoint.is_empty() {
            self.since = now;
            self.sessions.clear();
            self.waiting.clear();
        }
        self.endpoint = endpoint.to_owned();
        self.trouble = None;
    }

    /// Applies the event at a journal position.
    pub fn apply(&mut self, position: u64, event: &Event, now: Time) {
        // Also for events that are left out: the reader of the journal goes on from here.
        self.position = self.position.max(position);
        let is_history = event.created_at < self.since || is_before(event.created_at, now, HISTORY);
        // Inherited events of a fork were asked about in the session they come from.
        if event.fork_origin().is_some() || is_history {
            return;
        }
        let id = &event.session_id;
        if !self.sessions.contains_key(id) {
            // Settings and status alone are worth no question and no place among the sessions.
            if !starts_tracking(&event.kind) {
                return;
            }
            self.make_room();
            self.sessions.insert(id.clone(), UnaskedEvents::new(event.seq, now));
        }
        let is_recent = !is_before(event.created_at, now, RECENT);
        // A turn without a recorded end is ended by the next prompt.
        if is_recent && begins_turn(event) {
            self.ask_recent(id, now);
        }
        // `ask_recent` goes before `add_event`: the turn it asks about ends before this prompt.
        let gathered = self.sessions.get_mut(id).expect("it was just put there");
        gathered.add_event(event, now);
        // The end of an epoch always cuts a range: a question must not reach over two epochs.
        let is_over = matches!(event.kind, Kind::EpochClosed | Kind::SessionExited);
        let is_worth_it = is_over || gathered.is_enough();
        let digest = if is_worth_it { gathered.take_range() } else { None };
        if let Some(range) = digest {
            self.enqueue(Purpose::Digest, id, range, now);
        }
        if is_recent && matches!(event.kind, Kind::TurnCompleted | Kind::SessionExited) {
            self.ask_recent(id, now);
        }
    }

    /// Returns what the caller has to do at this time.
    pub fn next_ask(&self, requests_per_minute: u32, now: Time) -> NextAsk {
        let Some(soonest) = self.waiting.iter().map(|ask| ask.not_before).min() else {
            return NextAsk::Nothing;
        };
        // The latest of three times counts: the question, the pause of the endpoint and the rate
        // limit.
        let in_pause = self.trouble.as_ref().map(|trouble| trouble.until);
        // With a full minute, the oldest request that still counts decides when it has room.
        let full = self.sent.len().checked_sub(requests_per_minute.max(1) as usize);
        let in_minute = full.map(|oldest| add_duration(self.sent[oldest], MINUTE));
        let earliest = [Some(soonest), in_pause, in_minute].into_iter().flatten().max();
        if let Some(earliest) = earliest.filter(|earliest| *earliest > now) {
            return NextAsk::At(earliest);
        }
        // In the order of the queue, not by time: a question that has to wait lets others pass.
        let due = self.waiting.iter().find(|ask| ask.not_before <= now);
        due.cloned().map_or(NextAsk::At(soonest), NextAsk::Ask)
    }

    /// Marks a question as in flight. The caller must save the queue before it sends the request:
    /// otherwise a crash would hide that the request may have been sent.
    pub fn begin_ask(&mut self, ask: &PendingAsk, now: Time) {
        // A time in the future comes from a clock that was set back; it would block the rate for as
        // long.
        self.sent.retain(|sent| !is_before(*sent, now, MINUTE) && *sent <= now);
        self.sent.push_back(now);
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.is_same(ask)) {
            waiting.is_out = true;
            waiting.tries += 1;
        }
    }

    /// Applies the outcome of a question.
    pub fn finish_ask(&mut self, ask: &PendingAsk, ended: &AskOutcome, now: Time) {
        let place = self.waiting.iter().position(|waiting| waiting.is_same(ask));
        // The question may be gone: the endpoint was switched while its request was out.
        let Some(mut ask) = place.and_then(|place| self.waiting.remove(place)) else { return };
        ask.is_out = false;
        let tries_max = match ended {
            AskOutcome::Moot => return,
            // `begin_ask` was not called, so the try is counted here. Else an unreadable range would
            // be tried for ever.
            AskOutcome::Unread => {
                ask.tries += 1;
                TRIES_MAX
            }
            AskOutcome::Done => {
                self.trouble = None;
                self.answered += 1;
                return;
            }
            // The endpoint works. A model that missed the format often misses it again.
            AskOutcome::Junk => {
                self.trouble = None;
                JUNK_TRIES_MAX
            }
            AskOutcome::Failed(failure) => {
                self.note_failure(failure, now);
                match failure {
                    AskError::Failed(_) => TRIES_MAX,
                    AskError::Refused { .. } => 0,
                    // The question itself did not fail, so the try does not count.
                    AskError::Unreachable(_)
                    | AskError::Busy { .. }
                    | AskError::KeyRefused { .. } => {
                        ask.tries = ask.tries.saturating_sub(1);
                        // To the front: it keeps its turn, and the pause of the endpoint holds it
                        // back.
                        self.waiting.push_front(ask);
                        return;
                    }
                }
            }
        };
        if ask.tries >= tries_max {
            self.given_up += 1;
            return;
        }
        ask.not_before = add_duration(now, pause_after(ask.tries));
        self.waiting.push_back(ask);
    }

    fn note_failure(&mut self, failure: &AskError, now: Time) {
        // A refused question says nothing about the next one.
        if matches!(failure, AskError::Refused { .. }) {
            self.trouble = None;
            return;
        }
        let failures = self.trouble.as_ref().map_or(0, |trouble| trouble.failures) + 1;
        let is_wished = matches!(failure, AskError::Busy { retry_after: Some(_), .. });
        // A second at least: an endpoint that says 0 would be asked in a loop.
        let rest = match failure {
            AskError::Busy { retry_after: Some(wish), .. } => {
                (*wish).clamp(Duration::from_secs(1), RETRY_AFTER_MAX)
            }
            // A wrong key stays wrong until the user changes it.
            AskError::KeyRefused { .. } => PAUSE_MAX,
            _ => pause_after(failures),
        };
        let until = add_duration(now, rest);
        self.trouble =
            Some(EndpointTrouble { why: failure.to_string(), failures, until, is_wished });
    }

    /// Enqueues a question about the last turns, or extends the one that waits.
    fn ask_recent(&mut self, id: &SessionId, now: Time) {
        let Some(gathered) = self.sessions.get_mut(id) else { return };
        let Some(range) = gathered.take_turns() else { return };
        let is_waiting = |ask: &&mut PendingAsk| {
            ask.purpose == Purpose::Recent && ask.session == *id && !ask.is_out
        };
        // One question about the newest turns instead of several about older ones. A question that
        // is out keeps its range, which its answer will name.
        if let Some(waiting) = self.waiting.iter_mut().find(is_waiting) {
            (waiting.from_seq, waiting.to_seq) = range;
            return;
        }
        let earliest = gathered.summed_at.map_or(now, |at| add_duration(at, RECENT_EVERY).max(now));
        gathered.summed_at = Some(earliest);
        self.enqueue(Purpose::Recent, &id.clone(), range, earliest);
    }

    fn enqueue(&mut self, purpose: Purpose, id: &SessionId, range: (u64, u64), not_before: Time) {
        if self.waiting.len() >= WAITING_MAX {
            // The answer of one that is out may arrive at any moment, so it is not given up.
            let oldest = self.waiting.iter().position(|ask| !ask.is_out);
            oldest.and_then(|oldest| self.waiting.remove(oldest));
            self.given_up += 1;
        }
        self.waiting.push_back(PendingAsk {
            purpose,
            session: id.clone(),
            from_seq: range.0,
            to_seq: range.1,
            tries: 0,
            interrupted: 0,
            not_before,
            is_out: false,
        });
    }

    fn make_room(&mut self) {
        if self.sessions.len() < SESSIONS_MAX {
            return;
        }
        // By when it was heard of, not by its own times: history may be read in any order.
        let oldest = self.sessions.iter().min_by_key(|(_, gathered)| gathered.heard_at);
        let Some((id, at)) = oldest.map(|(id, gathered)| (id.clone(), gathered.heard_at)) else {
            return;
        };
        let range = self.sessions.remove(&id).and_then(|mut gathered| gathered.take_range());
        if let Some(range) = range {
            self.enqueue(Purpose::Digest, &id, range, at);
        }
    }
}

/// Whether an event of this kind makes the queue track its session.
fn starts_tracking(kind: &Kind) -> bool {
    matches!(kind, Kind::UserPrompt | Kind::AssistantMessage | Kind::ToolCall | Kind::ToolResult)
}

/// Whether the event is a prompt that begins a turn.
fn begins_turn(event: &Event) -> bool {
    event.readable::<UserPrompt>().is_some_and(|prompt| !prompt.queued)
}

fn is_before(at: Time, now: Time, ago: Duration) -> bool {
    now.nanos() - at.nanos() >= to_nanos(ago)
}

fn add_duration(at: Time, by: Duration) -> Time {
    Time::from_nanos(at.nanos() + to_nanos(by))
}

fn to_nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX / 4)
}

/// Returns the pause after so many failures in a row.
fn pause_after(failures: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
    PAUSE.saturating_mul(doubled).min(PAUSE_MAX)
}
