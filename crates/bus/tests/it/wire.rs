//! What is relayed, line by line.

use proptest::prelude::*;

use crate::harness::{NOW, TestClient, TestServer};

const BETWEEN: &str = r#"{"tract":"test","event":"between","ts":0}"#;
const LAST: &str = r#"{"tract":"test","event":"last","ts":0}"#;

/// What a client receives for these bytes, and the count of lines ignored for a reason.
fn relayed(bytes: &[u8]) -> (Vec<String>, serde_json::Value) {
    let server = TestServer::open();
    let mut client = server.client();
    client.say_bytes(bytes);
    heard(&mut client)
}

fn heard(client: &mut TestClient) -> (Vec<String>, serde_json::Value) {
    client.say_bytes(b"\n");
    client.say(LAST);
    let mut lines = Vec::new();
    loop {
        let line = client.hear();
        if line == LAST {
            break;
        }
        lines.push(line);
    }
    client.say(r#"{"tract":"callosum","event":"stats"}"#);
    (lines, client.hear_json()["ignored"].take())
}

#[track_caller]
fn check(line: impl AsRef<[u8]>, expected: &str) {
    let (lines, ignored) = relayed(line.as_ref());
    assert_eq!(lines, [expected], "{ignored}");
}

#[track_caller]
fn check_same(line: &str) {
    check(line, line);
}

#[track_caller]
fn check_ignored(line: impl AsRef<[u8]>, reason: &str) {
    let (lines, ignored) = relayed(line.as_ref());
    assert_eq!(lines, [""; 0]);
    let counts = ignored.as_object().unwrap();
    let counted: Vec<&String> =
        counts.iter().filter(|(_, count)| **count != 0).map(|(reason, _)| reason).collect();
    assert_eq!(counted, [reason], "{:?}", String::from_utf8_lossy(line.as_ref()));
}

#[test]
fn missing_timestamp_is_added() {
    check(r#"{"tract":"a","event":"b"}"#, &format!(r#"{{"tract":"a","event":"b","ts":{NOW}}}"#));
}

#[test]
fn given_timestamp_stays() {
    check_same(r#"{"tract":"a","event":"b","ts":1}"#);
    check_same(r#"{"ts":null,"tract":"a","event":"b"}"#);
    check_same(r#"{"ts":"x","tract":"a","event":"b"}"#);
    check_same(r#"{"ts":1.5,"tract":"a","event":"b"}"#);
    // A time further down is another one.
    check(
        r#"{"tract":"a","event":"b","c":{"ts":1}}"#,
        &format!(r#"{{"tract":"a","event":"b","c":{{"ts":1}},"ts":{NOW}}}"#),
    );
}

#[test]
fn surrounding_whitespace_is_removed() {
    let plain = r#"{"tract":"a","event":"b","ts":1}"#;
    check(format!("{plain}\r"), plain);
    check(format!(" \t {plain} \t\r"), plain);
    check(format!("\n\r\n  \n{plain}"), plain);
}

#[test]
fn invalid_json_is_malformed() {
    for line in [
        "{oops",
        r#"{"tract":"a","event":"b"} x"#,
        r#"{"tract":"a","event":"b"}{"tract":"a","event":"b"}"#,
        "{\"tract\":\"a\",\"event\":\"b\u{1}\"}",
        r#"{"tract":"a","event":"\x"}"#,
        r#"{"tract":"a","event":"\u12g4"}"#,
        r#"{"tract":"a","event":"b",}"#,
        r#"{"tract":"a","event":"b","c":01}"#,
        r#"{"tract":"a","event":"b","c":1.}"#,
        r#"{"tract":"a","event":"b","c":.5}"#,
        r#"{"tract":"a","event":"b","c":+1}"#,
        r#"{"tract":"a","event":"b","c":1e}"#,
        r#"{"tract":"a","event":"b","c":nul}"#,
        r#"{"tract":"a","event":"b","c":-NaN}"#,
        r#"{"tract":"a","event":"b","c":[1,]}"#,
        r#"{"tract":"a","event":"b","c":[}]"#,
        r#"{"tract":"a","event":"b"#,
        r#"{"tract" "a","event":"b"}"#,
        r#"{tract:"a","event":"b"}"#,
        r#"{'tract':'a','event':'b'}"#,
        "\u{FEFF}{\"tract\":\"a\",\"event\":\"b\"}",
        "hello",
        "-",
    ] {
        check_ignored(line, "malformed");
    }
}

#[test]
fn message_needs_both_names() {
    check_ignored(r#"{"tract":"a"}"#, "incomplete");
    check_ignored(r#"{"event":"b"}"#, "incomplete");
    check_ignored("{}", "incomplete");
    check_ignored(r#"{"a":{"tract":"a","event":"b"}}"#, "incomplete");
    check_ignored(r#"{"tracts":"a","event":"b"}"#, "incomplete");
    check_ignored(r#"{"a":"tract","b":"event"}"#, "incomplete");
}

#[test]
fn names_may_have_any_value() {
    check_same(r#"{"tract":"","event":"","ts":1}"#);
    check_same(r#"{"tract":null,"event":7,"ts":1}"#);
    check_same(r#"{"tract":[],"event":{"a":[1]},"ts":1}"#);
}

#[test]
fn keys_may_be_doubled_and_escaped() {
    check_same(r#"{"tract":"a","tract":"c","event":"b","ts":1,"ts":2}"#);
    check_same(r#"{"tr\u0061ct":"a","ev\u0065nt":"b","\u0074s":1}"#);
}

#[test]
fn similar_keys_are_different_keys() {
    check_ignored(r#"{"tr\u0161ct":"a","event":"b"}"#, "incomplete");
    check_ignored(r#"{"tract\n":"a","event":"b"}"#, "incomplete");
    check_ignored("{\"tracté\":\"a\",\"event\":\"b\"}", "incomplete");
}

#[test]
fn python_dialect_passes_unchanged() {
    let digits = "1".repeat(4_300);
    for value in [
        "NaN",
        "Infinity",
        "-Infinity",
        "1e400",
        "1.10",
        "1E5",
        "-0",
        "0.5e-7",
        &digits,
        "123456789012345678901234567890",
        r#""\ud800""#,
        r#""\u0000""#,
        r#""\/""#,
        "\"\u{7f}\"",
        "[ 1 ,\t{ } , [ ] ]",
        "true",
        "false",
        "null",
    ] {
        check_same(&format!(r#"{{ "event" : "b","x":{value} ,"tract":"a","ts":1 }}"#));
    }
}

#[test]
fn overlong_integer_is_ignored() {
    let digits = "1".repeat(4_301);
    check_ignored(format!(r#"{{"tract":"a","event":"b","c":{digits}}}"#), "number");
    check_ignored(format!(r#"{{"tract":"a","event":"b","c":[-{digits}]}}"#), "number");
    check_same(&format!(r#"{{"tract":"a","event":"b","c":{digits}.5,"ts":1}}"#));
}

#[test]
fn characters_above_ascii_are_escaped() {
    check(
        "{\"tract\":\"ä\",\"event\":\"用\",\"c\":\"x😀y\",\"ts\":1}",
        r#"{"tract":"\u00e4","event":"\u7528","c":"x\ud83d\ude00y","ts":1}"#,
    );
}

#[test]
fn invalid_utf8_is_ignored() {
    let line = |bytes: &[u8]| [b"{\"tract\":\"a\",\"event\":\"", bytes, b"\"}"].concat();
    for bytes in [
        &b"\xff"[..],
        b"\xc3",
        b"\xc3\x28",
        b"\xc0\xaf",
        b"\xe0\x80\xaf",
        b"\xf0\x80\x80\xaf",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xf8\x88\x80\x80\x80",
        b"\x80",
        b"\xe2\x82",
    ] {
        check_ignored(line(bytes), "encoding");
    }
    check_ignored(b"\xff", "encoding");
}

#[test]
fn non_objects_are_ignored() {
    for line in
        ["42", "null", "true", "NaN", r#""tract event ts""#, "[1,2]", r#"["tract","event","ts"]"#]
    {
        check_ignored(line, "not_object");
    }
}

#[test]
fn nesting_is_limited_without_recursion() {
    let nested = |depth: usize| {
        let (open, close) = ("[".repeat(depth - 1), "]".repeat(depth - 1));
        format!(r#"{{"tract":"a","event":"b","c":{open}{close},"ts":1}}"#)
    };
    check_same(&nested(512));
    check_ignored(nested(513), "depth");
    check_ignored(nested(100_000), "depth");
}

#[test]
fn line_length_is_limited() {
    let line = |len: usize| {
        let frame = r#"{"tract":"a","event":"b","ts":1,"c":""}"#.len();
        format!(r#"{{"tract":"a","event":"b","ts":1,"c":"{}"}}"#, "x".repeat(len - frame))
    };
    let (longest, longer) = (line(bus::LINE_MAX), line(bus::LINE_MAX + 1));
    check_same(&longest);
    check_ignored(longer, "too_long");
}

#[test]
fn line_needs_its_newline() {
    let server = TestServer::open();
    let mut listener = server.client();
    let mut sender = TestClient::connect(server.path());
    sender.say_bytes(br#"{"tract":"a","event":"b","ts":1}"#);
    sender.leave();
    listener.say(LAST);
    assert_eq!(listener.hear(), LAST);
}

#[test]
fn endless_line_ends_the_connection() {
    let server = TestServer::open();
    let mut sender = TestClient::connect(server.path());
    let block = vec![b'x'; 1 << 20];
    // The server hangs up at some point, and the rest cannot be written.
    let refused = (0..80).any(|_| std::io::Write::write_all(&mut sender.stream, &block).is_err());
    assert!(refused);
    let mut other = server.client();
    other.say(LAST);
    assert_eq!(other.hear(), LAST);
    other.say(r#"{"tract":"callosum","event":"stats"}"#);
    assert_eq!(other.hear_json()["ignored"]["too_long"], 1, "counted once");
}

#[test]
fn longest_unfinished_line_is_cut_off() {
    let server = TestServer::open();
    let mut listener = server.client();
    let mib = 1 << 20;
    let begin = |len: usize| {
        let mut sender = TestClient::connect(server.path());
        sender.say_bytes(br#"{"tract":"a","event":"b","ts":1,"x":""#);
        sender.say_bytes(&vec![b'x'; len]);
        sender
    };
    let longest = begin(15 * mib);
    let others: Vec<TestClient> = [14, 13, 12, 11].map(|len| begin(len * mib)).into();
    assert_eq!(longest.hear_all(), [""; 0]);
    for mut other in others {
        other.say("\"}");
        assert!(listener.hear().len() > 10 * mib);
    }
}

/// Lines of every kind; what comes of them does not depend on how they are cut.
const LINES: &str = concat!(
    "{\"tract\":\"a\",\"event\":\"b\",\"ts\":1}\r\n",
    "\n  \n",
    "{\"tr\\u0061ct\":\"ä😀\",\"event\":[-1.5e3,NaN,{\"x\":\"\\\\\\\"\"}],\"c\":\"\\ud800\"} \n",
    "{oops\n[1,2]\n42\n{\"tract\":1}\n\"\u{e4}\"\n",
    "{\"event\":null,\"tract\":{\"tract\":[[],[{}]]},\"ts\":null}\n",
    "{\"tract\":\"a\",\"event\":\"b\",\"c\":-Infinity,\"d\":1e400,\"e\":true}\n",
);

#[test]
fn lines_are_the_same_cut_at_every_byte() {
    let (whole, _) = relayed(LINES.as_bytes());
    assert_eq!(whole.len(), 4, "{whole:?}");
    let server = TestServer::open();
    let mut client = server.client();
    for at in 0..=LINES.len() {
        client.say_bytes(&LINES.as_bytes()[..at]);
        // An answer in between makes sure that the halves are read apart from each other.
        let mut other = server.client();
        other.say(BETWEEN);
        while other.hear() != BETWEEN {}
        client.say_bytes(&LINES.as_bytes()[at..]);
        let (lines, _) = heard(&mut client);
        let lines: Vec<String> = lines.into_iter().filter(|line| line != BETWEEN).collect();
        assert_eq!(lines, whole, "cut at {at}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn lines_are_the_same_in_any_split(cuts in prop::collection::vec(0..LINES.len(), 0..20)) {
        let (whole, counted) = relayed(LINES.as_bytes());
        let mut cuts = cuts;
        cuts.sort_unstable();
        let server = TestServer::open();
        let mut client = server.client();
        let mut from = 0;
        for cut in cuts.into_iter().chain([LINES.len()]) {
            client.say_bytes(&LINES.as_bytes()[from..cut]);
            from = cut;
        }
        let (lines, ignored) = heard(&mut client);
        prop_assert_eq!(lines, whole);
        prop_assert_eq!(ignored, counted);
    }
}
