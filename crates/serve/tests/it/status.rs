//! The last value of what each session is doing, for those who watch.

use std::sync::atomic::Ordering;

use serde_json::json;

use crate::given::{House, status};

#[test]
fn those_who_watch_are_told_the_last_value_and_who_waits() {
    let house = House::open();
    house.board.show([status("a", "running", 1), status("b", "idle", 1)]);
    let mut socket = house.socket("/api/ws");
    socket.say(json!({"type": "subscribe-status"}));
    for session in ["made-up:a", "made-up:b"] {
        assert_eq!(socket.hear("session.status")["status"]["session_id"], session);
    }
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
fn a_session_that_is_taken_off_is_gone_for_those_who_heard_of_it() {
    let house = House::open();
    let waiting = || status("a", "waiting_approval", 1);
    house.board.show([waiting(), status("b", "idle", 1)]);
    let mut socket = house.socket("/api/ws");
    socket.say(json!({"type": "subscribe-status"}));
    socket.hear("session.status");
    socket.hear("waiting-for-input");
    socket.hear("session.status");
    house.board.keep(|id| id.as_str() != "made-up:a");
    assert_eq!(socket.hear("session.gone")["session_id"], "made-up:a");
    // Whoever comes now never hears of it.
    let mut late = house.socket("/api/ws");
    late.say(json!({"type": "subscribe-status"}));
    assert_eq!(late.hear("session.status")["status"]["session_id"], "made-up:b");
    // It comes back as it was, and waits anew.
    house.board.show([waiting()]);
    for socket in [&mut socket, &mut late] {
        assert_eq!(socket.hear("session.status")["status"]["session_id"], "made-up:a");
        socket.hear("waiting-for-input");
    }
}

#[test]
fn one_who_comes_late_hears_only_what_is_so_now() {
    let house = House::open();
    for since in 0..100 {
        house.board.show([status("a", "running", since)]);
    }
    house.board.show([status("a", "idle", 100)]);
    let mut socket = house.socket("/api/ws");
    socket.say(json!({"type": "subscribe-status"}));
    assert_eq!(socket.hear("session.status")["status"]["status"], "idle");
    house.board.show([status("b", "idle", 1)]);
    assert_eq!(socket.hear("session.status")["status"]["session_id"], "made-up:b");
}
