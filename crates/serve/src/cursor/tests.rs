//! However a follower and the journal take turns, it gets everything behind its place once.

use event::SessionId;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::replay_buffer::RECENT_EVENTS_MAX;

/// An event of one of three sessions; each counts for itself.
fn told(position: u64, session: u64, seq: u64) -> StreamEvent {
    let session_id = SessionId::new(format!("made-up:{session}")).unwrap();
    let frame = StreamFrame::of_event(position, "null").into();
    StreamEvent { position, session_id, seq, frame, decision: None }
}

/// A log and its newest part.
struct Log {
    all: Vec<StreamEvent>,
    recent: ReplayBuffer,
    seqs: [u64; 3],
}

impl Log {
    fn append(&mut self, session: u64) {
        let seq = &mut self.seqs[usize::try_from(session).unwrap()];
        *seq += 1;
        let told = told(self.all.len() as u64 + 1, session, *seq);
        self.all.push(told.clone());
        self.recent.push(told);
    }

    /// A page of the journal behind the place of a cursor.
    fn read(&self, cursor: &FollowCursor, page: usize) -> JournalPage {
        let tail = self.recent.tail();
        let place = cursor.place();
        let is_behind = |told: &&StreamEvent| match cursor.session() {
            Some(session) => told.session_id == *session && Some(told.seq) > place.seq,
            None => told.position > place.position,
        };
        let told: Vec<StreamEvent> =
            self.all.iter().filter(is_behind).take(page).cloned().collect();
        let up_to = (told.len() < page).then_some(tail);
        JournalPage { told, up_to }
    }
}

fn positions(frames: &[Utf8Bytes]) -> Vec<u64> {
    let frames = frames.iter().map(|frame| serde_json::from_str::<Value>(frame).unwrap());
    let events = frames.filter(|frame| frame["type"] == "stream-event");
    events.map(|frame| frame["position"].as_u64().unwrap()).collect()
}

#[derive(Clone, Debug)]
enum Turn {
    Append { session: u64, times: usize },
    Look,
    ReadSlowly { page: usize, appended_meanwhile: u64 },
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    // Enough at once to fall out of memory, now and then.
    let times = prop_oneof![8 => 1..20usize, 1 => Just(RECENT_EVENTS_MAX + 10)];
    let turn = prop_oneof![
        3 => (0..3u64, times).prop_map(|(session, times)| Turn::Append { session, times }),
        4 => Just(Turn::Look),
        2 => (1..50usize, 0..3u64)
            .prop_map(|(page, appended_meanwhile)| Turn::ReadSlowly { page, appended_meanwhile }),
    ];
    proptest::collection::vec(turn, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn each_event_comes_exactly_once(
        turns in turns(),
        before in 0..30u64,
        after in 0..30u64,
        session in proptest::option::of(0..3u64),
    ) {
        let mut log = Log { all: Vec::new(), recent: ReplayBuffer::new(0), seqs: [0; 3] };
        for position in 0..before {
            log.append(position % 3);
        }
        // What was recorded before the daemon started is not in memory.
        log.recent = ReplayBuffer::new(before);
        let mut cursor = match session {
            Some(session) => {
                let id = SessionId::new(format!("made-up:{session}")).unwrap();
                FollowCursor::for_session(id, after, 0)
            }
            None => FollowCursor::for_all(after.min(before)),
        };
        let mut given = Vec::new();
        for turn in turns {
            match turn {
                Turn::Append { session, times } => (0..times).for_each(|_| log.append(session)),
                Turn::Look => {
                    if let CursorStep::Give(frames) = cursor.next_step(&log.recent) {
                        given.extend(frames);
                    }
                }
                Turn::ReadSlowly { page, appended_meanwhile } => {
                    let read = log.read(&cursor, page);
                    (0..appended_meanwhile).for_each(|session| log.append(session));
                    given.extend(cursor.accept_page(read));
                }
            }
        }
        loop {
            match cursor.next_step(&log.recent) {
                CursorStep::Give(frames) => given.extend(frames),
                CursorStep::Read => given.extend(cursor.accept_page(log.read(&cursor, 100))),
                CursorStep::Wait => break,
            }
        }
        let is_wanted = |told: &&StreamEvent| match session {
            Some(session) => {
                told.session_id.as_str() == format!("made-up:{session}") && told.seq > after
            }
            None => told.position > after.min(before),
        };
        let wanted: Vec<u64> =
            log.all.iter().filter(is_wanted).map(|told| told.position).collect();
        prop_assert_eq!(positions(&given), wanted);
    }
}

#[test]
fn lagging_follower_is_told_once() {
    let mut log = Log { all: Vec::new(), recent: ReplayBuffer::new(0), seqs: [0; 3] };
    let mut cursor = FollowCursor::for_all(0);
    let kinds = |step: CursorStep| match step {
        CursorStep::Give(frames) => {
            let kind = |frame: &Utf8Bytes| {
                serde_json::from_str::<Value>(frame).unwrap()["type"].as_str().unwrap().to_owned()
            };
            frames.iter().map(kind).collect()
        }
        CursorStep::Read => vec!["read".to_owned()],
        CursorStep::Wait => vec!["wait".to_owned()],
    };
    assert_eq!(kinds(cursor.next_step(&log.recent)), ["stream-status"]);
    assert_eq!(kinds(cursor.next_step(&log.recent)), ["wait"]);
    (0..RECENT_EVENTS_MAX + 5).for_each(|_| log.append(0));
    assert_eq!(kinds(cursor.next_step(&log.recent)), ["lagged"]);
    assert_eq!(kinds(cursor.next_step(&log.recent)), ["read"]);
    let read = log.read(&cursor, RECENT_EVENTS_MAX);
    assert_eq!(cursor.accept_page(read).len(), RECENT_EVENTS_MAX);
    assert_eq!(kinds(cursor.next_step(&log.recent)).last().unwrap(), "stream-status");
    assert_eq!(kinds(cursor.next_step(&log.recent)), ["wait"]);
    assert_eq!(cursor.lagged(), 1);
}
