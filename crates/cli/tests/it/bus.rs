//! `hansard bus`: hear and tell what happens.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::time::Duration;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use testkit::{ProgramOutput, RunningProgram, Transcripts, World};

use crate::ingest::{ingest, reading};
use crate::{empty, import};

/// A bus of the journal's own, once it listens.
pub(crate) fn serve(world: &World) -> RunningProgram {
    let running = world.start(&["bus", "serve"]);
    while world.run(&["bus", "stats"]).code != Some(0) {}
    running
}

/// A listener, once the bus has accepted it.
fn listen(world: &World, options: &[&str]) -> RunningProgram {
    let listener = world.start(&[&["bus", "listen"], options].concat());
    while !hears(world, &listener) {}
    listener
}

/// Whether the bus knows it.
pub(crate) fn hears(world: &World, listener: &RunningProgram) -> bool {
    let said = world.run(&["bus", "stats", "--json"]);
    let stats: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    stats["clients"].as_array().unwrap().iter().any(|client| client["pid"] == listener.process_id())
}

/// Ends it as people do.
fn interrupt(running: &RunningProgram) {
    let words = ["-INT".to_owned(), running.process_id().to_string()];
    assert!(Command::new("kill").args(words).status().unwrap().success());
}

/// What listeners print for what is sent, their times left out.
#[track_caller]
fn check_sent(words: &[&str], expected: Expect) {
    let world = empty();
    let _bus = serve(&world);
    let listener = listen(&world, &["--count", "1"]);
    let said = world.run(&[&["bus", "send"], words].concat());
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), "Sent\n"), "{said}");
    let heard = listener.end().stdout;
    // One that was given stays where it was.
    let (message, ts) = heard.rsplit_once(",\"ts\":").unwrap_or((&heard, ""));
    let message = if ts.contains(',') { heard.trim_end() } else { message };
    expected.assert_eq(message);
}

#[track_caller]
fn check_refused(words: &[&str], code: i32, expected: &str) {
    let world = empty();
    let _bus = serve(&world);
    let said = world.run(&[&["bus", "send"], words].concat());
    assert_eq!(said.code, Some(code), "{said}");
    assert!(said.stderr.contains(expected), "{said}");
}

#[test]
fn json_values_are_sent_as_json() {
    check_sent(
        &["a", "b", "n=42", "x=1.0", "b=true", "z=null", "l=[1,2]", "o={\"a\":1}", "v=NaN"],
        expect![[
            r#"{"tract":"a","event":"b","n":42,"x":1.0,"b":true,"z":null,"l":[1,2],"o":{"a":1},"v":NaN"#
        ]],
    );
    check_sent(
        &["a", "b", "big=123456789012345678901234567890", "t=\"7\""],
        expect![[r#"{"tract":"a","event":"b","big":123456789012345678901234567890,"t":"7""#]],
    );
}

#[test]
fn other_values_are_sent_as_text() {
    check_sent(
        &["a", "b", "i=007", "s=hello world", "q=a=b", "e=", "j={oops", "k=1 2"],
        expect![[
            r#"{"tract":"a","event":"b","i":"007","s":"hello world","q":"a=b","e":"","j":"{oops","k":"1 2""#
        ]],
    );
}

#[test]
fn some_fields_are_always_text() {
    check_sent(
        &[
            "a",
            "b",
            "day=20250101",
            "segment=143045_300",
            "ref=1",
            "stream=2",
            "facet=3",
            "id=null",
            "agent_id=4",
            "import_id=5",
            "timeout=5",
            "socket_path=x",
            "ts=0",
            "last=1",
        ],
        expect![[
            r#"{"tract":"a","event":"b","day":"20250101","segment":"143045_300","ref":"1","stream":"2","facet":"3","id":"null","agent_id":"4","import_id":"5","timeout":5,"socket_path":"x","ts":0,"last":1}"#
        ]],
    );
}

#[test]
fn json_message_may_span_arguments() {
    check_sent(
        &["{\"tract\":\"a\",", "\"event\":\"b\"}"],
        expect![[r#"{"tract":"a", "event":"b""#]],
    );
    // Blanks before the brace are not part of it.
    check_sent(
        &[" {\"tract\":\"a\",", "\"event\":\"b\"}"],
        expect![[r#"{"tract":"a", "event":"b""#]],
    );
}

#[test]
fn invalid_message_is_refused() {
    check_refused(&["a", "b", "tract=z"], 1, "`tract=z`");
    check_refused(&["a", "b", "event=z"], 1, "`event=z`");
    check_refused(&["a", "b", "=v"], 1, "`=v`");
    check_refused(&["a", "b", "word"], 1, "`word` is not KEY=VALUE");
    check_refused(&["a"], 1, "a message needs a tract and an event");
    check_refused(&["{\"tract\":1}"], 1, "`tract` or `event` is missing");
    check_refused(&["{oops"], 1, "it is not JSON");
    check_refused(&["--nonsense", "a", "b"], 2, "--nonsense");
}

#[test]
fn stdin_texts_are_sent_one_by_one() {
    let world = empty();
    let _bus = serve(&world);
    let mut listener = listen(&world, &["--count", "3"]);
    let input = b"{\"tract\":\"a\",\n  \"event\":\"b\",\"ts\":1}{\"tract\":\"a\",\"event\":\"c\",\"ts\":1}\n\n\
        {\"tract\":\"a\",\"event\":\"}\\\"{\",\"ts\":1}";
    let said = world.run_with_input(&["bus", "send"], input);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), "Sent\n"), "{said}");
    assert_eq!(listener.line().unwrap(), r#"{"tract":"a",   "event":"b","ts":1}"#);
    assert_eq!(listener.line().unwrap(), r#"{"tract":"a","event":"c","ts":1}"#);
    assert_eq!(listener.line().unwrap(), r#"{"tract":"a","event":"}\"{","ts":1}"#);
    assert_eq!(listener.end().code, Some(0));
    let said = world.run_with_input(&["bus", "send"], b"{\"tract\":1,\"event\":2}\n\n42\n");
    assert_eq!(said.code, Some(1));
    assert!(said.stderr.contains("line 3 of the input: it is not an object"), "{said}");
    assert!(said.stderr.contains("1 messages were sent before it"), "{said}");
    let said = world.run_with_input(&["bus", "send"], b"  \n");
    assert_eq!(said.code, Some(1), "{said}");
}

#[test]
fn endless_text_is_refused() {
    let world = empty();
    let _bus = serve(&world);
    let mut sender = world.command(&["bus", "send"]);
    let mut sender = sender.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = sender.stdin.take().unwrap();
    let block = vec![b'x'; 1 << 20];
    let is_refused = (0..64).any(|_| input.write_all(&block).is_err());
    assert!(is_refused, "it reads on");
    let said = sender.wait_with_output().unwrap();
    assert_eq!(said.status.code(), Some(1));
    let told = String::from_utf8(said.stderr).unwrap();
    assert!(
        told.contains("line 1 of the input") && told.contains("0 messages were sent"),
        "{told}"
    );
}

#[test]
fn long_socket_path_is_served() {
    let world = empty();
    let runtime = world.home().to_owned();
    let world = world.with("XDG_RUNTIME_DIR", runtime);
    let path = world.home().join("x".repeat(120));
    let path = path.to_str().unwrap();
    let bus = world.start(&["bus", "serve", "--socket", path]);
    while world.run(&["bus", "stats", "--socket", path]).code != Some(0) {}
    let message = r#"{"tract":"test","event":"note"}"#;
    let sent = world.run(&["bus", "send", "--socket", path, message]);
    assert_eq!(sent.code, Some(0), "{sent}");
    bus.terminate();
}

#[test]
fn stats_repeat_until_ctrl_c() {
    let world = empty();
    let _bus = serve(&world);
    let mut watch = world.start(&["bus", "stats", "--watch", "--json"]);
    for _ in 0..2 {
        let stats: Value = serde_json::from_str(&watch.line().unwrap()).unwrap();
        assert_eq!(stats["event"], "stats");
    }
    interrupt(&watch);
    assert!(watch.ends_within(Duration::from_secs(60)));
    assert_eq!(watch.end().code, Some(0));
}

#[test]
fn missing_bus_is_exit_3() {
    let world = empty();
    expect![[r#"
        --- stderr
        error: no bus listens at `~/.local/share/hansard/health/callosum.sock`
        hint: `hansard bus serve` starts one
        --- exit 3
    "#]]
    .assert_eq(&world.run(&["bus", "send", "a", "b"]).to_string());
    assert_eq!(world.run(&["bus", "stats"]).code, Some(3));
    assert_eq!(world.run(&["bus", "listen", "--no-wait"]).code, Some(3));
    assert_eq!(fs::read_dir(world.home()).unwrap().count(), 0, "nothing is created");
}

#[test]
fn listen_timeout_is_exit_1() {
    let world = empty();
    let said = world.run(&["bus", "--timeout", "0.1"]);
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.stderr.contains("waiting"), "{said}");
}

#[test]
fn listener_waits_across_restarts() {
    let world = empty();
    let mut listener = world.start(&["callosum", "--tract", "wanted", "--count", "2"]);
    for _ in 0..2 {
        let bus = serve(&world);
        while !hears(&world, &listener) {}
        assert_eq!(world.run(&["bus", "send", "other", "x"]).code, Some(0));
        assert_eq!(world.run(&["bus", "send", "wanted", "x"]).code, Some(0));
        assert!(listener.line().unwrap().starts_with(r#"{"tract":"wanted","event":"x""#));
        assert_eq!(bus.terminate().code, Some(0));
    }
    assert_eq!(listener.end().code, Some(0));
}

#[test]
fn missed_messages_are_noted_on_stderr() {
    let world = empty();
    let path = world.home().join("bus.sock");
    let server = UnixListener::bind(&path).unwrap();
    let words = ["bus", "listen", "--socket", path.to_str().unwrap(), "--count", "1"];
    let listener = world.start(&words);
    let (mut stream, _) = server.accept().unwrap();
    stream.write_all(b"{\"tract\":\"callosum\",\"event\":\"lagged\",\"dropped\":7}\n").unwrap();
    stream.write_all(b"{\"tract\":\"a\",\"event\":\"b\",\"ts\":1}\n").unwrap();
    let said = listener.end();
    assert_eq!((said.code, said.stdout.lines().count()), (Some(0), 1), "{said}");
    assert_eq!(said.stderr, "7 messages were missed\n");
}

#[test]
fn listener_ends_with_ctrl_c_or_closed_pipe() {
    let world = empty();
    let _bus = serve(&world);
    let mut listener = listen(&world, &[]);
    interrupt(&listener);
    assert!(listener.ends_within(Duration::from_secs(60)));
    assert_eq!(listener.end().code, Some(0));
    // A reader that has enough closes the pipe.
    let mut reader = world.command(&["bus", "listen"]);
    let mut reader = reader.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(reader.stdout.take());
    while reader.try_wait().unwrap().is_none() {
        assert_eq!(world.run(&["bus", "send", "a", "b"]).code, Some(0));
    }
    assert_eq!(reader.wait().unwrap().code(), Some(0));
}

#[test]
fn pretty_output_is_harmless() {
    let world = empty();
    let _bus = serve(&world);
    let listener = listen(&world, &["--pretty", "--count", "1"]);
    let message = r#"{"tract":"a","event":"b","c":"用户\u001b[31m\u202e\ud800","d":[],"e":[1.10,{"x":NaN}],"ts":1}"#;
    assert_eq!(world.run(&["bus", "send", message]).code, Some(0));
    expect![[r#"
        {
          "tract": "a",
          "event": "b",
          "c": "用户\u001b[31m\u202e\ud800",
          "d": [],
          "e": [
            1.10,
            {
              "x": NaN
            }
          ],
          "ts": 1
        }
    "#]]
    .assert_eq(&listener.end().stdout);
    // Each message at once, into a pipe too.
    let mut listener = listen(&world, &["--pretty"]);
    assert_eq!(world.run(&["bus", "send", "a", "b"]).code, Some(0));
    while listener.line().unwrap() != "}" {}
}

#[test]
fn serve_refuses_a_second_server() {
    let world = empty();
    let bus = serve(&world);
    let id = bus.process_id();
    let health = world.home().join(".local/share/hansard/health");
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(health.clone()), 0o700);
    assert_eq!(mode(health.join("callosum.sock")), 0o600);
    let said = world.run(&["bus", "serve"]);
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.stderr.contains(&format!(", in process {id}")), "{said}");
    let said = bus.terminate();
    assert_eq!(said.code, Some(0), "{said}");
    assert!(said.stderr.contains("listening on "), "{said}");
    assert!(!health.join("callosum.sock").exists());
}

#[test]
fn socket_of_killed_bus_is_replaced() {
    let world = empty();
    serve(&world).kill();
    let socket = world.home().join(".local/share/hansard/health/callosum.sock");
    assert!(socket.exists());
    assert_eq!(serve(&world).terminate().code, Some(0));
}

#[test]
fn stats_are_a_table_or_json() {
    let world = empty();
    let _bus = serve(&world);
    assert_eq!(world.run(&["bus", "send", "a\u{1b}[1m", "b", "ts=1"]).code, Some(0));
    let ProgramOutput { stdout, code, .. } = world.run(&["bus", "stats"]);
    assert_eq!(code, Some(0));
    assert!(stdout.contains(" messages,") && !stdout.contains('\u{1b}'), "{stdout}");
    let stats = world.run(&["bus", "stats", "--json"]).stdout;
    let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
    assert_eq!(stats["messages"]["a\u{1b}[1m"], 1, "{stats}");
}

#[test]
fn import_publishes_progress() {
    let world = empty();
    let lines = include_str!("../../../../docs/sample.ndjson");
    let first = lines.lines().next().unwrap();
    assert_eq!(import(&world, first).code, Some(0));
    let socket = world.home().join(".local/share/hansard/health/callosum.sock");
    let server = bus::Server::bind(&socket, bus::ServerSettings::default()).unwrap();
    let handle = server.handle();
    let tracts = vec!["importer".to_owned()];
    let heard = handle.listen(bus::Filter { tracts, ..bus::Filter::default() }).unwrap();
    let serving = std::thread::spawn(move || server.run().unwrap());
    assert_eq!(import(&world, lines).code, Some(0));
    assert_eq!(import(&world, "{\"no\":\"event\"}\n").code, Some(1));
    handle.stop();
    serving.join().unwrap();
    let told: Vec<Value> =
        std::iter::from_fn(|| heard.next(Duration::ZERO)).map(|told| told.to_json()).collect();
    let events: Vec<&str> = told.iter().map(|told| told["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["started", "completed", "started", "error"]);
    assert_eq!(
        (&told[0]["file_type"], &told[1]["entries_written"]),
        (&json!("events"), &json!(34))
    );
    assert_eq!(told[0]["import_id"], told[1]["import_id"]);
    let stages = ["initialization", "segmenting", "transcribing"];
    assert_eq!(told[1]["stages_run"], json!(stages));
    assert_eq!(told[3]["stage"], "segmenting");
}

#[test]
fn import_tells_segments_and_files() {
    let transcripts = Transcripts::make("1mb", 53, "0.6");
    transcripts.age();
    let source = reading(&transcripts);
    ingest(&source);
    let listed = crate::json(&source.run(&["--json", "sessions", "--limit", "1"])).remove(0);
    let session = &listed["items"][0]["id"];
    let bundle = source.run(&["export", session.as_str().unwrap()]).stdout;
    let world = empty();
    assert_eq!(import(&world, "").code, Some(0));
    let _bus = serve(&world);
    let mut listener = listen(&world, &["--tract", "importer"]);
    assert_eq!(import(&world, &bundle).code, Some(0));
    let told = std::iter::from_fn(|| listener.line());
    let mut told = told.map(|line| serde_json::from_str::<Value>(&line).unwrap());
    let completed = told.find(|told| told["event"] != "started").unwrap();
    let stages = ["initialization", "segmenting", "transcribing", "summarizing"];
    assert_eq!(completed["stages_run"], json!(stages), "{completed}");
    let segments = completed["segments"].as_array().unwrap();
    let files = completed["output_files"].as_array().unwrap();
    assert!(!segments.is_empty(), "{completed}");
    assert_eq!(
        (files.len(), &completed["total_files_created"]),
        (2 * segments.len(), &json!(files.len()))
    );
    let folder = world.home().join(".local/share/hansard");
    for file in files {
        assert!(folder.join(file.as_str().unwrap()).is_file(), "{file}");
    }
    let stream = segments[0].as_str().unwrap().split('/').nth(1).unwrap();
    assert_eq!(completed["stream"], stream);
    assert!(completed["date_range"].is_array(), "{completed}");
}

#[test]
fn notify_and_navigate_send_messages() {
    let world = empty();
    for words in [&["notify", "x"][..], &["navigate", "/x"]] {
        assert_eq!(world.run(words).code, Some(3), "nobody listens");
    }
    let _bus = serve(&world);
    let mut listener = listen(&world, &[]);
    let mut check = |words: &[&str], expected: &str| {
        let said = world.run(words);
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), "Sent\n"), "{said}");
        let heard = listener.line().unwrap();
        assert_eq!(heard.rsplit_once(",\"ts\":").unwrap().0, expected);
    };
    let shown = r#"{"tract":"notification","event":"show","message""#;
    check(&["notify", "<b>42</b>"], &format!(r#"{shown}:"<b>42</b>""#));
    check(
        &["notify", "x", "--title", "t", "--action", "/sessions", "--app", "make", "--badge", "2"],
        &format!(r#"{shown}:"x","title":"t","action":"/sessions","app":"make","badge":"2""#),
    );
    check(&["notify", "x", "--dismiss-after", "3"], &format!(r#"{shown}:"x","autoDismiss":3000"#));
    check(&["notify", "x", "--sticky"], &format!(r#"{shown}:"x","dismissible":false"#));
    let asked = r#"{"tract":"navigate","event":"request""#;
    check(&["navigate", "/sessions"], &format!(r#"{asked},"path":"/sessions""#));
    check(&["navigate", "--facet", "app"], &format!(r#"{asked},"facet":"app""#));
    check(&["navigate", "/x", "--facet", "a"], &format!(r#"{asked},"path":"/x","facet":"a""#));
}

#[test]
fn path_outside_the_page_is_wrong_usage() {
    let world = empty();
    assert_eq!(world.run(&["navigate"]).code, Some(2));
    for path in ["x", "//evil.example", "/a//b", "/a\\b", "javascript:x", "/a:b", "/a\nb", ""] {
        assert_eq!(world.run(&["navigate", path]).code, Some(2), "{path}");
        let action = format!("--action={path}");
        assert_eq!(world.run(&["notify", "x", &action]).code, Some(2), "{path}");
    }
}

#[test]
fn socket_option_beats_variable_and_default() {
    let world = empty();
    let asked = |options: &[&str], variables: &[(&str, &str)]| {
        let mut command = world.command(&[&["bus", "stats"], options].concat());
        let output = command.envs(variables.iter().copied()).output().unwrap();
        assert_eq!(output.status.code(), Some(3));
        let told = String::from_utf8(output.stderr).unwrap();
        told.split('`').nth(1).unwrap().to_owned()
    };
    let (bus, journal) = (("HANSARD_BUS", "/home/dev/b"), ("HANSARD_JOURNAL", "/home/dev/j"));
    assert_eq!(asked(&["--socket", "/home/dev/s"], &[bus, journal]), "/home/dev/s");
    assert_eq!(asked(&[], &[bus, journal]), "/home/dev/b");
    assert_eq!(asked(&[], &[journal]), "/home/dev/j/health/callosum.sock");
    let usual = world.home().join(".local/share/hansard/health/callosum.sock");
    assert!(usual.ends_with(asked(&[], &[]).trim_start_matches(['~', '/'])), "the default journal");
}
