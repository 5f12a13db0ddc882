//! What is asked is answered; what makes no sense is refused with a word and a sentence.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::time::Duration;

use event::Kind;
use journal::Batch;
use serde_json::{Value, json};

use crate::given::{House, of_kind};

#[test]
fn events_are_read_after_a_seq() {
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
fn events_are_read_backwards_from_the_end() {
    let house = House::open();
    house.record("s", (1..=5).map(|number| format!("text {number}")));
    let path = "/api/sessions/made-up:s/capture/events";
    for (asked, seqs, next) in [
        ("before=9007199254740991&limit=2", json!([4, 5]), json!("4")),
        ("before=4&limit=2", json!([2, 3]), json!("2")),
        ("before=2&limit=2", json!([1]), Value::Null),
        ("before=4&after=2", json!([3]), Value::Null),
        ("before=1", json!([]), Value::Null),
        ("before=0", json!([]), Value::Null),
    ] {
        let (_, page) = house.get(&format!("{path}?{asked}"));
        let items = page["items"].as_array().unwrap();
        let given: Vec<&Value> = items.iter().map(|item| &item["seq"]).collect();
        assert_eq!((json!(given), &page["next"]), (seqs, &next), "{asked}");
    }
}

#[test]
fn long_texts_are_truncated_on_request() {
    let house = House::open();
    let long = "ä".repeat(300);
    house.record("s", [long.clone(), "short".to_owned()]);
    let path = "/api/sessions/made-up:s/capture/events";
    let (_, page) = house.get(&format!("{path}?text_max=256"));
    let (cut, whole) = (&page["items"][0], &page["items"][1]);
    assert_eq!(cut["data"]["content"], "ä".repeat(256));
    assert_eq!((&cut["truncated"], &cut["seq"]), (&json!(true), &json!(1)));
    assert_eq!((&whole["data"]["content"], &whole["truncated"]), (&json!("short"), &Value::Null));
    let (_, page) = house.get(path);
    assert_eq!(page["items"][0]["data"]["content"], long);
    assert_eq!(page["items"][0]["truncated"], Value::Null);
    assert_eq!(house.get(&format!("{path}?text_max=255")).0, 400);
    // What is cut does not count against how much a page has.
    house.record("big", (0..12).map(|number| format!("{number}{}", "x".repeat(1_000_000))));
    let big = "/api/sessions/made-up:big/capture/events";
    assert_eq!(house.get(big).1["next"], "5");
    assert_eq!(house.get(&format!("{big}?text_max=1000")).1["next"], Value::Null);
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
fn export_is_streamed() {
    let house = House::open();
    house.record("s", (0..900).map(|number| format!("text {number}")));
    let token = format!("Authorization: Bearer {}", house.token());
    let said = house.ask("GET /api/sessions/made-up:s/export?format=text HTTP/1.0", &[&token]);
    assert_eq!((said.status, said.body.len()), (200, 900_000));
    let saved = "content-disposition: attachment; filename=\"made-up-s.txt\"";
    assert!(said.head.contains(saved), "{}", said.head);
    let note = house.ask("GET /api/sessions/made-up:s/handoff HTTP/1.1", &[&token]);
    assert_eq!(note.body, "# made-up:s");
    assert_eq!(house.get("/api/sessions/nobody/export").0, 404);
    assert_eq!(house.get("/api/sessions/made-up:s/export?format=exe").0, 400);
}

#[test]
fn broken_document_ends_with_error() {
    let house = House::open();
    house.record("s", (0..900).map(|number| format!("text {number}")));
    let token = format!("Authorization: Bearer {}", house.token());
    for (format, ends_well) in [("text", true), ("html", false)] {
        let request = format!("GET /api/sessions/made-up:s/export?format={format} HTTP/1.1");
        let said = house.ask(&request, &[&token]);
        assert_eq!(said.status, 200, "{format}");
        // The last chunk is empty: without it nobody takes the rest for the whole.
        assert_eq!(said.body.ends_with("\r\n0\r\n\r\n"), ends_well, "{format}");
    }
}

#[test]
fn stalled_documents_block_only_documents() {
    let house = House::open();
    house.record("s", ["one".to_owned()]);
    let request = format!(
        "GET /api/sessions/made-up:s/export?format=jsonl HTTP/1.1\r\nHost: {}\r\n\
         Authorization: Bearer {}\r\n\r\n",
        house.address(),
        house.token()
    );
    let ask = || {
        let mut stream = house.connect();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    };
    // Two are written and eight wait: there is no room for another, but for everything else.
    let paused = RefCell::new(Vec::new());
    house.until("there is no room for another", || {
        let mut stream = ask();
        let mut head = [0; 12];
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let is_refused = stream.read_exact(&mut head).is_ok() && head == *b"HTTP/1.1 503";
        paused.borrow_mut().push(stream);
        is_refused
    });
    assert!(paused.borrow().len() >= 11);
    assert_eq!(house.get("/api/sessions").0, 200);
    drop(paused);
    house.until("there is room again", || {
        let mut head = [0; 12];
        ask().read_exact(&mut head).is_ok() && head == *b"HTTP/1.1 200"
    });
}

#[test]
fn unknown_query_parameters_are_refused() {
    let house = House::open();
    for (path, status) in [
        ("/api/sessions?provider=claude&limit=3&since=2026-11-16T00:00:00Z", 200),
        ("/api/feed?project=%2Fhome%2Fdev%2Fa&after=x", 200),
        ("/api/feed?since=yesterday", 400),
        ("/api/activity?unknown=1", 400),
        ("/api/usage?provider=claude&provider=codex", 400),
        ("/api/search?q=a&project=b&session=none", 404),
        ("/api/facets", 200),
    ] {
        assert_eq!(house.get(path).0, status, "{path}");
    }
}

#[test]
fn picture_type_comes_from_its_bytes() {
    let house = House::open();
    let put = |bytes: &[u8]| house.journal.artifacts().put_bytes(bytes).unwrap();
    let token = format!("Authorization: Bearer {}", house.token());
    for (bytes, kind) in [
        (&b"\x89PNG\r\n\x1a\nrest"[..], "content-type: image/png"),
        (b"<svg onload=alert(1)>", "content-disposition: attachment"),
        (b"<script>", "content-type: application/octet-stream"),
    ] {
        let asked = format!("GET /api/artifacts/{} HTTP/1.1", put(bytes));
        let said = house.ask(&asked, &[&token]);
        assert!(said.status == 200 && said.head.contains(kind), "{kind} {said:?}");
    }
    house.record("s", ["one".to_owned()]);
    let path = "/api/sessions/made-up:s/pictures";
    let said = house.ask(&format!("GET {path}/7/0 HTTP/1.1"), &[&token]);
    assert_eq!(said.body, "GIF8 of 7");
    assert!(said.head.contains("content-type: image/gif"), "{said:?}");
    assert_eq!(house.get(&format!("{path}/7/1")).0, 404);
    assert_eq!(house.get(&format!("{path}/x/0")).0, 400);
    assert_eq!(house.get("/api/artifacts/none").0, 404);
    assert_eq!(house.get("/api/artifacts/..%2f..%2fhttp.token").0, 400);
}

#[test]
fn invalid_requests_get_clear_errors() {
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
