//! What the first watchers see, and later ones.

use event::{Draft, EventId, Kind, Raw};
use journal::{Batch, Journal};
use projection::Projection;
use serde_json::{Value, json};
use serve::BoardCursor;

use super::*;

const BEGUN: i64 = 1_800_000_000_000;

/// How long a test waits for a frame.
const WITHIN: Duration = Duration::from_secs(60);

fn now() -> Time {
    Time::from_millis(BEGUN + 60_000)
}

/// Adds an event to a session, so many seconds after it began.
fn add(journal: &Journal, session: &str, secs: i64, kind: &str, data: &Value) {
    let at = Time::from_millis(BEGUN + secs * 1_000);
    let id = EventId::derived(at, "made up", session, kind.as_bytes());
    let session_id = SessionId::new(format!("made-up:{session}")).unwrap();
    let draft =
        Draft::with_data(id, session_id, at, Kind::from(kind), Raw::from_value(data).unwrap());
    journal.append(Batch::observed().with(draft)).unwrap();
}

/// Records a session that asks for an approval.
fn ask(journal: &Journal, session: &str, mode: &Value) {
    add(journal, session, 0, "session.started", mode);
    add(journal, session, 1, "user.prompt", &json!({"content": "go"}));
    let approval = json!({"approval_id": session, "tool": "Bash"});
    add(journal, session, 2, "approval.requested", &approval);
}

fn allow(journal: &Journal, session: &str) {
    let decision = json!({"approval_id": session, "decision": "allow"});
    add(journal, session, 3, "approval.resolved", &decision);
}

/// The frames a watcher receives, up to the first of this type.
#[track_caller]
fn hear(board: &Board, seen: &mut BoardCursor, kind: &str) -> Vec<Value> {
    let begun = Instant::now();
    let mut heard: Vec<Value> = Vec::new();
    while heard.last().is_none_or(|frame| frame["type"] != kind) {
        assert!(begun.elapsed() < WITHIN, "no {kind}: {heard:?}");
        let news = board.news(seen);
        heard.extend(news.iter().map(|frame| serde_json::from_str::<Value>(frame).unwrap()));
        std::thread::yield_now();
    }
    heard
}

#[test]
fn ended_waits_leave_the_board() {
    let dir = tempfile::TempDir::new().unwrap();
    let journal_handle = JournalHandle::open(dir.path().join("journal")).unwrap();
    let journal = journal_handle.current();
    let environment = Environment::new(dir.path(), []);
    let service = Arc::new(StatusService::new(journal_handle, environment, now));
    let board = service.board().clone();
    let thread = service.start().unwrap();
    ask(&journal, "child", &json!({"entry_point": "cli", "mode": "child"}));
    let watch = service.watch();
    let mut seen = BoardCursor::default();
    hear(&board, &mut seen, "waiting-for-input");
    // A child session that needs no approval any more leaves the list.
    allow(&journal, "child");
    let gone = hear(&board, &mut seen, "session.gone");
    assert_eq!(gone.last().unwrap()["session_id"], "made-up:child");
    ask(&journal, "main", &json!({"entry_point": "cli"}));
    hear(&board, &mut seen, "waiting-for-input");
    drop(watch);
    allow(&journal, "main");
    let _watch = service.watch();
    let heard = hear(&board, &mut BoardCursor::default(), "session.board");
    let statuses = heard[0]["statuses"].as_array().unwrap();
    assert_eq!(statuses.len(), 1, "{heard:?}");
    assert_eq!(statuses[0]["session_id"], "made-up:main", "{heard:?}");
    assert_eq!(statuses[0]["status"], "running", "{heard:?}");
    thread.stop();
}

#[test]
fn long_session_is_read_before_the_lock() {
    let dir = tempfile::TempDir::new().unwrap();
    let journal_handle = JournalHandle::open(dir.path().join("journal")).unwrap();
    let journal = journal_handle.current();
    let session_id = SessionId::new("made-up:long").unwrap();
    let notes = (0..3_000_u64).map(|number| {
        let at = Time::from_millis(BEGUN);
        let id = EventId::derived(at, "made up", "long", &number.to_be_bytes());
        let data = Raw::from_value(&json!({"content": "more"})).unwrap();
        Draft::with_data(id, session_id.clone(), at, Kind::AssistantMessage, data)
    });
    journal.append(notes.fold(Batch::observed(), Batch::with)).unwrap();
    let environment = Environment::new(dir.path(), []);
    let service = StatusService::new(journal_handle, environment, now);
    service.prepare_recent().unwrap();
    // What the tracker needs is there: it does not fold the session under its lock.
    let tail = journal.stat(&session_id).unwrap().tail_seq;
    let status = views::load_saved::<StatusState>(&journal, &session_id).unwrap();
    let facts = views::load_saved::<Facts>(&journal, &session_id).unwrap();
    let seqs = (status.map(|it| it.seq()), facts.map(|it| it.seq()));
    assert_eq!(seqs, (Some(tail), Some(tail)));
}
