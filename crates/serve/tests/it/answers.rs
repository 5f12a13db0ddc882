//! What is asked is answered; what makes no sense is refused with a word and a sentence.

use event::Kind;
use journal::Batch;
use serde_json::{Value, json};

use crate::given::{House, of_kind};

#[test]
fn events_are_read_from_a_place_on() {
    let house = House::open();
    house.record("s", (1..=5).map(|number| format!("text {number}")));
    let (status, page) = house.get("/api/sessions/made-up:s/capture/events?after=1&limit=2");
    assert_eq!(status, 200);
    let seqs = |page: &Value| -> Vec<u64> {
        page["items"].as_array().unwrap().iter().map(|item| item["seq"].as_u64().unwrap()).collect()
    };
    assert_eq!((seqs(&page), &page["next"]), (vec![2, 3], &json!("3")));
    assert_eq!(page["items"][0]["data"]["content"], "text 2");
    let (_, page) = house.get("/api/sessions/made-up:s/capture/events?after=3&limit=2");
    assert_eq!((seqs(&page), &page["next"]), (vec![4, 5], &Value::Null));
    let (_, page) = house.get("/api/sessions/made-up:s/capture/events?after=18446744073709551615");
    assert_eq!(seqs(&page), Vec::<u64>::new());
}

#[test]
fn messages_are_what_was_said() {
    let house = House::open();
    let mut batch = Batch::observed();
    for (kind, data) in [
        (Kind::SessionStarted, json!({})),
        (Kind::UserPrompt, json!({"content": "do it"})),
        (Kind::ToolCall, json!({"call_id": "c", "tool": "Bash", "input": {"command": "ls"}})),
        (Kind::AssistantMessage, json!({"content": "x".repeat(20_000)})),
    ] {
        batch = batch.with(of_kind("s", kind.as_str(), kind.clone(), data));
    }
    house.journal.append(batch).unwrap();
    let (status, messages) = house.get("/api/session/messages?session=made-up:s");
    assert_eq!(status, 200, "{messages}");
    let items = messages["items"].as_array().unwrap();
    let roles: Vec<_> = items.iter().map(|item| (&item["seq"], &item["role"])).collect();
    assert_eq!(
        roles,
        [
            (&json!(2), &json!("user")),
            (&json!(3), &json!("tool_call")),
            (&json!(4), &json!("assistant"))
        ]
    );
    assert_eq!(items[1]["tool"], "Bash");
    assert_eq!((&items[0]["truncated"], &items[2]["truncated"]), (&json!(false), &json!(true)));
}

#[test]
fn what_makes_no_sense_is_refused_in_words() {
    let house = House::open();
    for session in ["s1", "s2"] {
        house.record(session, ["one".to_owned()]);
    }
    for (path, status, kind) in [
        ("/api/nothing", 404, "not_found"),
        ("/api/sessions?limit=0", 400, "bad_argument"),
        ("/api/sessions?limit=1001", 400, "bad_argument"),
        ("/api/sessions?limit=x", 400, "bad_argument"),
        ("/api/sessions?since=yesterday", 400, "bad_argument"),
        ("/api/sessions?unknown=1", 400, "bad_argument"),
        ("/api/sessions/none", 404, "session_not_found"),
        ("/api/sessions/made-up", 400, "ambiguous"),
        ("/api/sessions/%FF", 400, "bad_argument"),
        ("/api/sessions/..%2f..%2fetc%2fpasswd", 404, "session_not_found"),
        ("/api/sessions/made-up:s1/stream?after=9", 400, "bad_argument"),
        ("/api/explain", 400, "bad_argument"),
        ("/api/explain?session=", 400, "bad_argument"),
        ("/api/search", 400, "bad_argument"),
        ("/api/ws", 400, "not_a_websocket"),
    ] {
        let (given, body) = house.get(path);
        assert_eq!((given, body["error"]["kind"].as_str()), (status, Some(kind)), "{path} {body}");
        assert!(!body["error"]["message"].as_str().unwrap().is_empty());
    }
}
