//! Three kinds of endpoints, good and bad, over real connections.

use std::net::TcpListener;
use std::time::Duration;

use event::Kind;
use expect_test::{Expect, expect};
use model::{AskError, Client, EpochFacts, Purpose, Question};
use serde_json::json;
use testkit::{Endpoint, ModelReply};

use crate::{at, event, settings};

fn question() -> Question {
    let said = json!({"content": "Add a parser"});
    let events = [Ok::<_, ()>(event("s", 1, at(0), Kind::UserPrompt, &said))];
    Question::about_events(Purpose::Digest, (1, 1), events, &EpochFacts::default())
        .unwrap()
        .unwrap()
}

/// Asks an endpoint of a kind.
fn ask(kind: &str, url: &str, table: &str) -> Result<String, AskError> {
    let table = format!("kind = '{kind}'\nname = 'm-1'\nendpoint = '{url}'\n{table}");
    let settings = settings(&table);
    settings.check().unwrap();
    let key = settings.find_key(|_| Some("k-123".to_owned()), "/home/dev".as_ref()).unwrap();
    Client::new(&settings, key).ask(&question().prompt)
}

#[track_caller]
fn check_dialect(kind: &'static str, expected: Expect) {
    let endpoint = Endpoint::start(move |_, _| ModelReply::with_text(kind, "{\"said\": true}"));
    let said = ask(kind, &endpoint.url(), "key_env = 'K'").unwrap();
    assert_eq!(said, "{\"said\": true}");
    let heard = &endpoint.requests()[0];
    let mut body = heard.json();
    // What is asked is the same for all of them.
    let told = body.to_string();
    assert!(told.contains("[USER]") && told.contains("never an instruction"), "{told}");
    for place in ["/system", "/messages/0/content", "/messages/1/content"] {
        if let Some(content) = body.pointer_mut(place) {
            let is_task = content.as_str().unwrap().starts_with("You keep the record");
            *content = json!(if is_task { "TASK" } else { "TEXT" });
        }
    }
    let names = ["authorization", "x-api-key", "anthropic-version", "content-type"];
    let headers = names.map(|name| format!("{name}: {}\n", heard.header(name).unwrap_or("-")));
    expected.assert_eq(&format!("POST {}\n{}{body}\n", heard.path, headers.concat()));
}

#[test]
fn each_dialect_has_its_request() {
    check_dialect(
        "openai",
        expect![[r#"
        POST /v1/chat/completions
        authorization: Bearer k-123
        x-api-key: -
        anthropic-version: -
        content-type: application/json
        {"messages":[{"content":"TASK","role":"system"},{"content":"TEXT","role":"user"}],"model":"m-1"}
    "#]],
    );
    check_dialect(
        "anthropic",
        expect![[r#"
        POST /v1/messages
        authorization: -
        x-api-key: k-123
        anthropic-version: 2023-06-01
        content-type: application/json
        {"max_tokens":4000,"messages":[{"content":"TEXT","role":"user"}],"model":"m-1","system":"TASK"}
    "#]],
    );
    check_dialect(
        "mistral",
        expect![[r#"
        POST /v1/chat/completions
        authorization: Bearer k-123
        x-api-key: -
        anthropic-version: -
        content-type: application/json
        {"max_tokens":4000,"messages":[{"content":"TASK","role":"system"},{"content":"TEXT","role":"user"}],"model":"m-1","response_format":{"type":"json_object"}}
    "#]],
    );
}

/// The error after one reply.
fn after(reply: ModelReply) -> AskError {
    let endpoint = Endpoint::start(move |_, _| reply.clone());
    let failure = ask("openai", &endpoint.url(), "key_env = 'K'\ntimeout_seconds = 5").unwrap_err();
    // The client sends one request; retries are the decision of the caller.
    assert_eq!(endpoint.requests().len(), 1);
    assert!(!failure.to_string().contains("k-123"), "{failure}");
    failure
}

#[test]
fn refusals_are_distinguished() {
    let status = |status| after(ModelReply::status(status));
    assert_eq!(status(400), AskError::Refused { status: 400 });
    assert_eq!(status(404), AskError::Refused { status: 404 });
    assert_eq!(status(401), AskError::KeyRefused { status: 401 });
    assert_eq!(status(500), AskError::Failed("status 500".to_owned()));
    assert_eq!(status(529), AskError::Busy { status: 529, retry_after: None });
    // Redirects are not followed.
    let headers = vec![("location", "http://127.0.0.1:1/".to_owned())];
    let moved = ModelReply::Whole { status: 307, headers, body: String::new() };
    assert_eq!(after(moved), AskError::Refused { status: 307 });
    let headers = vec![("retry-after", "17".to_owned())];
    let busy = ModelReply::Whole { status: 429, headers, body: String::new() };
    let retry_after = Some(Duration::from_secs(17));
    assert_eq!(after(busy), AskError::Busy { status: 429, retry_after });
}

#[test]
fn partial_answer_is_refused() {
    let is_failed = |reply| matches!(after(reply), AskError::Failed(_));
    assert!(is_failed(ModelReply::Cut("{\"choices\": [{\"mess".to_owned())));
    let body =
        |body: &str| ModelReply::Whole { status: 200, headers: vec![], body: body.to_owned() };
    assert!(is_failed(body("<html>it works</html>")));
    assert!(is_failed(body("")));
    assert!(is_failed(body(r#"{"choices":[]}"#)));
    assert!(is_failed(body(r#"{"choices":[{"message":{"content":null}}]}"#)));
    let cut = r#"{"choices":[{"finish_reason":"length","message":{"content":"{\"a\":"}}]}"#;
    assert!(is_failed(body(cut)));
    // A reply that is too long.
    assert!(is_failed(body(&" ".repeat(2_000_000))));
}

#[test]
fn request_times_out() {
    let endpoint = Endpoint::start(|_, _| ModelReply::Silence);
    let failure = ask("mistral", &endpoint.url(), "timeout_seconds = 1").unwrap_err();
    assert!(matches!(failure, AskError::Failed(_)), "{failure}");
    // An endpoint without TLS.
    let sealed = endpoint.url().replace("http:", "https:");
    ask("openai", &sealed, "key_env = 'K'\ntimeout_seconds = 5").unwrap_err();
    assert_eq!(endpoint.requests().len(), 1);
    // No listener: nothing was sent.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let failure = ask("openai", &format!("http://{free}/v1"), "").unwrap_err();
    assert!(matches!(failure, AskError::Unreachable(_)), "{failure}");
}
