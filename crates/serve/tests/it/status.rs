//! The last value of what each session is doing, for those who watch.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::given::{House, status};

/// The sessions on a board.
fn on(board: &Value) -> Vec<String> {
    let statuses = board["statuses"].as_array().unwrap().iter();
    statuses.map(|status| status["session_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn incomplete_board_is_not_sent() {
    let house = House::open();
    let mut socket = house.socket("/api/ws");
    socket.say(json!({"type": "subscribe-status"}));
    house.until("somebody watches", || house.watchers.load(Ordering::SeqCst) == 1);
    house.board.show([status("a", "running", 1)]);
    house.board.show_all([status("a", "running", 1), status("b", "idle", 1)]);
    assert_eq!(on(&socket.hear("session.board")), ["made-up:a", "made-up:b"]);
    // All of them again are told as what has changed.
    house.board.show_all([status("b", "running", 2)]);
    assert_eq!(socket.hear("session.gone")["session_id"], "made-up:a");
    assert_eq!(socket.hear("session.status")["status"]["session_id"], "made-up:b");
    // What was taken off waits to be whole again; nothing at all is told as such.
    house.board.wipe();
    let mut late = house.socket("/api/ws");
    late.say(json!({"type": "subscribe-status"}));
    house.until("both watch", || house.watchers.load(Ordering::SeqCst) == 2);
    house.board.show_all([]);
    assert_eq!(on(&late.hear("session.board")), Vec::<String>::new());
    assert_eq!(socket.hear("session.gone")["session_id"], "made-up:b");
}

#[test]
fn watchers_get_latest_status_and_waits() {
    let house = House::open();
    house.board.show_all([status("a", "running", 1), status("b", "idle", 1)]);
    let mut socket = house.socket("/api/ws");
    socket.say(json!({"type": "subscribe-status"}));
    assert_eq!(on(&socket.hear("session.board")), ["made-up:a", "made-up:b"]);
    assert_eq!(house.watchers.load(Ordering::SeqCst), 1);
    // The same again is no news.
    house.board.show([status("a", "running", 1)]);
    house.board.show([wire::Status {
        pending_approvals: vec!["p".to_owned()],
        ..status("a", "waiting_approval", 2)
    }]);
    assert_eq!(socket.hear("session.status")["status"]["status"], "waiting_approval");
    let waiting = socket.hear("waiting-for-input");
    assert_eq!((&waiting["reason"], &waiting["approvals"]), (&json!("approval"), &json!(["p"])));
    house.board.show([status("a", "running", 3)]);
    assert_eq!(socket.hear("session.status")["status"]["status"], "running");
    socket.say(json!({"type": "unsubscribe-status"}));
    house.until("nobody watches", || house.watchers.load(Ordering::SeqCst) == 0);
}

#[test]
fn removed_session_is_reported_gone() {
    let house = House::open();
    let waiting = || status("a", "waiting_approval", 1);
    house.board.show_all([waiting(), status("b", "idle", 1)]);
    let mut socket = house.socket("/api/ws");
    socket.say(json!({"type": "subscribe-status"}));
    assert_eq!(on(&socket.hear("session.board")), ["made-up:a", "made-up:b"]);
    socket.hear("waiting-for-input");
    house.board.keep(|id| id.as_str() != "made-up:a");
    assert_eq!(socket.hear("session.gone")["session_id"], "made-up:a");
    // Whoever comes now never hears of it.
    let mut late = house.socket("/api/ws");
    late.say(json!({"type": "subscribe-status"}));
    assert_eq!(on(&late.hear("session.board")), ["made-up:b"]);
    // It comes back as it was, and waits anew.
    house.board.show([waiting()]);
    for socket in [&mut socket, &mut late] {
        assert_eq!(socket.hear("session.status")["status"]["session_id"], "made-up:a");
        socket.hear("waiting-for-input");
    }
}

#[test]
fn late_watcher_gets_present_state() {
    let house = House::open();
    for since in 0..100 {
        house.board.show([status("a", "running", since)]);
    }
    house.board.show_all([status("a", "idle", 100)]);
    let mut socket = house.socket("/api/ws");
    socket.say(json!({"type": "subscribe-status"}));
    assert_eq!(socket.hear("session.board")["statuses"][0]["status"], "idle");
    house.board.show([status("b", "idle", 1)]);
    assert_eq!(socket.hear("session.status")["status"]["session_id"], "made-up:b");
}
