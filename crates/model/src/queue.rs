//! What is asked when, and what becomes of it.
//!
//! Events in, questions out; time is handed in. All of it can be saved and loaded: what waits is a
//! range of events and no text, so that nothing that was said lies about. A question that was out
//! when the program was killed is asked once more, and then no more. Nothing is asked twice that
//! was answered: a range is taken once, and the next one begins behind it.
//!
//! An endpoint that fails is left alone for a while, longer each time; so is a question.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use event::payload::UserPrompt;
use event::{Event, Kind, SessionId, Time};
use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::gathered::Gathered;

/// The shape of what is saved. Another one is not continued.
const VERSION: u32 = 1;

/// What happened longer ago is history: nobody wants to pay for years of it at once.
const HISTORY: Duration = Duration::from_secs(24 * 60 * 60);

/// What was done lately is asked for while it is so, and not more often than this in one session.
const LATELY: Duration = Duration::from_secs(60 * 60);
const LATELY_EVERY: Duration = Duration::from_secs(30);

/// Sessions that are counted at a time. With more, the one that was heard of longest ago is asked
/// about and forgotten.
const SESSIONS_MAX: usize = 512;

/// Questions that wait. With more, the oldest is given up: what was found without a model stays.
const WAITING_MAX: usize = 256;

/// How often one question is asked, and how often if what comes back is junk.
const TRIES_MAX: u32 = 4;
const JUNK_TRIES_MAX: u32 = 2;

/// How often a question that was out when the program was killed is asked again.
const INTERRUPTED_MAX: u32 = 1;

/// How long nothing is asked after a failure, doubled each time up to the most.
const PAUSE: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(10 * 60);

/// How long an endpoint may ask to be left alone.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60 * 60);

/// The span requests are counted in.
const MINUTE: Duration = Duration::from_secs(60);

/// What a question is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// What is worth keeping of a range.
    Digest,
    /// What was done in the last turns, in a line.
    Recent,
}

/// A range of events to ask about.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ask {
    pub purpose: Purpose,
    pub session: SessionId,
    pub from_seq: u64,
    pub to_seq: u64,
    tries: u32,
    interrupted: u32,
    not_before: Time,
    /// It was sent and nothing has come back.
    is_out: bool,
}

impl Ask {
    /// What tells it from all others: whoever has an answer to it need not ask.
    pub fn key(&self) -> String {
        let purpose = match self.purpose {
            Purpose::Digest => "digest",
            Purpose::Recent => "recent",
        };
        format!("{purpose} {} {}", self.from_seq, self.to_seq)
    }

    fn is_same(&self, other: &Ask) -> bool {
        (&self.session, self.key()) == (&other.session, other.key())
    }
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Next {
    /// This is asked now.
    Ask(Ask),
    /// Nothing before this time.
    At(Time),
    /// Nothing waits.
    Nothing,
}

/// How a question ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ended {
    /// It was answered, and that is recorded.
    Done,
    /// There is nothing to ask any more.
    Moot,
    /// What it is about could not be read now; nobody was asked.
    Unread,
    /// What came back says nothing.
    Junk,
    Failed(Failure),
}

/// Everything that waits, and how it stands with the endpoint.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Queue {
    version: u32,
    /// The journal was heard up to here.
    position: u64,
    /// What was said before is history.
    since: Time,
    sessions: BTreeMap<SessionId, Gathered>,
    waiting: VecDeque<Ask>,
    /// When something was last sent, within a minute.
    sent: VecDeque<Time>,
    /// Who is asked.
    endpoint: String,
    trouble: Option<Trouble>,
    answered: u64,
    given_up: u64,
}

/// The endpoint does not do what it should.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Trouble {
    why: String,
    /// In a row.
    failures: u32,
    until: Time,
    /// It asked for that time itself.
    is_wished: bool,
}

impl Queue {
    /// Begins behind a position and a time: what was recorded or said before is history.
    pub fn begin_at(position: u64, since: Time) -> Queue {
        Queue {
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

    /// Goes on with what was saved; `None` where this version cannot. What was out when the
    /// program ended is asked again, but not for ever.
    pub fn load(saved: &[u8]) -> Option<Queue> {
        let mut queue: Queue = serde_json::from_slice(saved).ok()?;
        if queue.version != VERSION {
            return None;
        }
        for ask in queue.waiting.iter_mut().filter(|ask| ask.is_out) {
            ask.is_out = false;
            ask.interrupted += 1;
        }
        // Whoever starts anew may have mended it; only what was asked for is granted.
        queue.trouble = queue.trouble.filter(|trouble| trouble.is_wished);
        let before = queue.waiting.len();
        queue.waiting.retain(|ask| ask.interrupted <= INTERRUPTED_MAX);
        queue.given_up += (before - queue.waiting.len()) as u64;
        Some(queue)
    }

    pub fn save(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("names and numbers always encode")
    }

    /// The journal was heard up to here.
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

    /// What is wrong with the endpoint, if anything is.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_ref().map(|trouble| trouble.why.as_str())
    }

    /// Asks there from now on. What somebody else did is not held against it, and what was meant
    /// for somebody else does not go there.
    pub fn turn_to(&mut self, endpoint: &str, now: Time) {
        if self.endpoint == endpoint {
            return;
        }
        if !self.endpoint.is_empty() {
            self.since = now;
            self.sessions.clear();
            self.waiting.clear();
        }
        self.endpoint = endpoint.to_owned();
        self.trouble = None;
    }

    /// Hears what was recorded at a position.
    pub fn hear(&mut self, position: u64, event: &Event, now: Time) {
        self.position = self.position.max(position);
        let is_history = event.created_at < self.since || is_before(event.created_at, now, HISTORY);
        if event.fork_origin().is_some() || is_history {
            return;
        }
        let id = &event.session_id;
        if !self.sessions.contains_key(id) {
            if !is_said_or_done(&event.kind) {
                return;
            }
            self.make_room();
            self.sessions.insert(id.clone(), Gathered::new(event.seq, now));
        }
        let is_lately = !is_before(event.created_at, now, LATELY);
        // Of a turn whose end nobody told, the next prompt tells it.
        if is_lately && is_typed(event) {
            self.ask_lately(id, now);
        }
        let gathered = self.sessions.get_mut(id).expect("it was just put there");
        gathered.add(event, now);
        let is_over = matches!(event.kind, Kind::EpochClosed | Kind::SessionExited);
        let is_worth_it = is_over || gathered.is_much();
        let digest = if is_worth_it { gathered.take() } else { None };
        if let Some(range) = digest {
            self.put(Purpose::Digest, id, range, now);
        }
        if is_lately && matches!(event.kind, Kind::TurnCompleted | Kind::SessionExited) {
            self.ask_lately(id, now);
        }
    }

    /// What is to be done at this time.
    pub fn next(&self, requests_per_minute: u32, now: Time) -> Next {
        let Some(soonest) = self.waiting.iter().map(|ask| ask.not_before).min() else {
            return Next::Nothing;
        };
        let in_pause = self.trouble.as_ref().map(|trouble| trouble.until);
        let full = self.sent.len().checked_sub(requests_per_minute.max(1) as usize);
        let in_minute = full.map(|oldest| after(self.sent[oldest], MINUTE));
        let earliest = [Some(soonest), in_pause, in_minute].into_iter().flatten().max();
        if let Some(earliest) = earliest.filter(|earliest| *earliest > now) {
            return Next::At(earliest);
        }
        let due = self.waiting.iter().find(|ask| ask.not_before <= now);
        due.cloned().map_or(Next::At(soonest), Next::Ask)
    }

    /// It is sent now. Whoever sends it saves this first.
    pub fn begin(&mut self, ask: &Ask, now: Time) {
        self.sent.retain(|sent| !is_before(*sent, now, MINUTE) && *sent <= now);
        self.sent.push_back(now);
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.is_same(ask)) {
            waiting.is_out = true;
            waiting.tries += 1;
        }
    }

    /// It has come to an end.
    pub fn end(&mut self, ask: &Ask, ended: &Ended, now: Time) {
        let place = self.waiting.iter().position(|waiting| waiting.is_same(ask));
        let Some(mut ask) = place.and_then(|place| self.waiting.remove(place)) else { return };
        ask.is_out = false;
        let tries_max = match ended {
            Ended::Moot => return,
            Ended::Unread => {
                ask.tries += 1;
                TRIES_MAX
            }
            Ended::Done => {
                self.trouble = None;
                self.answered += 1;
                return;
            }
            Ended::Junk => {
                self.trouble = None;
                JUNK_TRIES_MAX
            }
            Ended::Failed(failure) => {
                self.suffer(failure, now);
                match failure {
                    Failure::Failed(_) => TRIES_MAX,
                    Failure::Refused { .. } => 0,
                    // That is no fault of the question.
                    Failure::Unreachable(_) | Failure::Busy { .. } | Failure::KeyRefused { .. } => {
                        ask.tries = ask.tries.saturating_sub(1);
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
        ask.not_before = after(now, pause(ask.tries));
        self.waiting.push_back(ask);
    }

    fn suffer(&mut self, failure: &Failure, now: Time) {
        // One question that is refused says nothing about the next.
        if matches!(failure, Failure::Refused { .. }) {
            self.trouble = None;
            return;
        }
        let failures = self.trouble.as_ref().map_or(0, |trouble| trouble.failures) + 1;
        let is_wished = matches!(failure, Failure::Busy { retry_after: Some(_), .. });
        let rest = match failure {
            Failure::Busy { retry_after: Some(wish), .. } => {
                (*wish).clamp(Duration::from_secs(1), RETRY_AFTER_MAX)
            }
            Failure::KeyRefused { .. } => PAUSE_MAX,
            _ => pause(failures),
        };
        let until = after(now, rest);
        self.trouble = Some(Trouble { why: failure.to_string(), failures, until, is_wished });
    }

    /// Asks what was done in the last turns. One that waits is asked about these instead.
    fn ask_lately(&mut self, id: &SessionId, now: Time) {
        let Some(gathered) = self.sessions.get_mut(id) else { return };
        let Some(range) = gathered.take_turns() else { return };
        let is_waiting =
            |ask: &&mut Ask| ask.purpose == Purpose::Recent && ask.session == *id && !ask.is_out;
        if let Some(waiting) = self.waiting.iter_mut().find(is_waiting) {
            (waiting.from_seq, waiting.to_seq) = range;
            return;
        }
        let earliest = gathered.summed_at.map_or(now, |at| after(at, LATELY_EVERY).max(now));
        gathered.summed_at = Some(earliest);
        self.put(Purpose::Recent, &id.clone(), range, earliest);
    }

    fn put(&mut self, purpose: Purpose, id: &SessionId, range: (u64, u64), not_before: Time) {
        if self.waiting.len() >= WAITING_MAX {
            let oldest = self.waiting.iter().position(|ask| !ask.is_out);
            oldest.and_then(|oldest| self.waiting.remove(oldest));
            self.given_up += 1;
        }
        self.waiting.push_back(Ask {
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
        let oldest = self.sessions.iter().min_by_key(|(_, gathered)| gathered.heard_at);
        let Some((id, at)) = oldest.map(|(id, gathered)| (id.clone(), gathered.heard_at)) else {
            return;
        };
        let range = self.sessions.remove(&id).and_then(|mut gathered| gathered.take());
        if let Some(range) = range {
            self.put(Purpose::Digest, &id, range, at);
        }
    }
}

/// What a session can be heard of first by.
fn is_said_or_done(kind: &Kind) -> bool {
    matches!(kind, Kind::UserPrompt | Kind::AssistantMessage | Kind::ToolCall | Kind::ToolResult)
}

/// A prompt that begins a turn.
fn is_typed(event: &Event) -> bool {
    event.readable::<UserPrompt>().is_some_and(|prompt| !prompt.queued)
}

fn is_before(at: Time, now: Time, ago: Duration) -> bool {
    now.nanos() - at.nanos() >= nanos(ago)
}

fn after(at: Time, by: Duration) -> Time {
    Time::from_nanos(at.nanos() + nanos(by))
}

fn nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX / 4)
}

/// How long to wait after so many failures in a row.
fn pause(failures: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
    PAUSE.saturating_mul(doubled).min(PAUSE_MAX)
}
