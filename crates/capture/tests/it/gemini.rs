//! Gemini CLI: its recordings, and the traps of its format.

use capture::Gemini;
use event::Kind;
use expect_test::expect;

use crate::growth::check_growth;
use crate::handmade::Home;
use crate::mangled::check_mangled;
use crate::scenario::{check, told};
use crate::truth::check_usage;

#[test]
fn a_question_and_its_answer() {
    check(&Gemini, "s1");
}

#[test]
fn tools() {
    check(&Gemini, "s2");
}

#[test]
fn approvals_and_a_denial() {
    check(&Gemini, "s3_approval_tui");
}

#[test]
fn a_session_that_is_resumed() {
    check(&Gemini, "s4_resume_headless");
}

#[test]
fn a_compression() {
    check(&Gemini, "s5_compact_tui");
}

#[test]
fn interruptions() {
    check(&Gemini, "s6_interrupt");
}

#[test]
fn a_process_that_was_killed() {
    check(&Gemini, "s6_kill9_stream");
}

#[test]
fn a_subagent() {
    check(&Gemini, "s7_subagent");
}

#[test]
fn errors_and_retries() {
    check(&Gemini, "s8_errors");
}

#[test]
fn telemetry_changes_nothing() {
    check(&Gemini, "s11_otel");
}

#[test]
fn usage_is_what_the_model_counted() {
    for (scenario, unrecorded) in [
        ("s1", &[][..]),
        ("s2", &[]),
        ("s3_approval_tui", &[]),
        // The title is asked for beside the session.
        ("s4_resume_headless", &["gem_lab000014"]),
        // So is a summary.
        ("s5_compact_tui", &["gem_lab000010", "gem_lab000013"]),
        // An answer that was interrupted is not written down.
        ("s6_interrupt", &["gem_lab000001"]),
        ("s6_kill9_stream", &["gem_lab000001"]),
        ("s7_subagent", &[]),
        ("s8_errors", &["gem_lab000004"]),
    ] {
        check_usage(&Gemini, scenario, unrecorded);
    }
}

#[test]
fn damaged_lines_are_survived() {
    for scenario in ["s2", "s3_approval_tui", "s5_compact_tui", "s7_subagent"] {
        check_mangled(&Gemini, scenario);
    }
}

#[test]
fn a_growing_file_tells_the_same_in_any_split() {
    for (scenario, step) in
        [("s3_approval_tui", 97), ("s4_resume_headless", 61), ("s7_subagent", 40)]
    {
        check_growth(&Gemini, scenario, step);
    }
}

const CHAT: &str = ".gemini/tmp/project/chats/session-2026-01-01T10-00-aaaaaaaa.jsonl";

const HEAD: &str = r#"{"sessionId":"aaaaaaaa-1","projectHash":"p","startTime":"2026-01-01T10:00:00.000Z","kind":"main"}"#;

/// What is told of the lines of one session.
fn lines(lines: &[&str]) -> String {
    let mut home = Home::new();
    home.write(CHAT, &format!("{HEAD}\n{}\n", lines.join("\n")));
    home.told(&Gemini)
}

fn user(id: &str, text: &str) -> String {
    format!(
        r#"{{"id":"{id}","timestamp":"2026-01-01T10:00:01.000Z","type":"user","content":[{{"text":"{text}"}}]}}"#
    )
}

fn answer(id: &str, text: &str) -> String {
    format!(
        r#"{{"id":"{id}","timestamp":"2026-01-01T10:00:02.000Z","type":"gemini","content":"{text}","tokens":{{"input":10,"output":2,"cached":4,"thoughts":3,"tool":0,"total":15}},"model":"m"}}"#
    )
}

#[test]
fn what_is_cached_and_thought_is_counted_once() {
    let told = lines(&[&user("u1", "hi"), &answer("g1", "yes"), &answer("g1", "yes")]);
    expect![[r#"
        == gemini:aaaaaaaa-1
          1 session.started {"agent":"gemini"}
          2 user.prompt <u1> {"content":[{"type":"text","text":"hi"}]}
          3 settings.changed <u1> {"model":"m"}
          4 assistant.message <u1> {"message_id":"g1","block":0,"content":[{"type":"text","text":"yes"}]}
          5 step.completed <u1> {"agent_id":"","model":"m","response_id":"g1","usage":{"input_tokens":6,"output_tokens":5,"cache_read_tokens":4,"reasoning_tokens":3,"total_tokens":15}}
    "#]]
    .assert_eq(&told);
}

#[test]
fn the_same_words_twice_are_two_prompts() {
    let told = lines(&[&user("u1", "again"), &user("u2", "again")]);
    assert_eq!(told.matches("user.prompt").count(), 2);
}

#[test]
fn list_shows_added_and_removed_messages() {
    let list =
        format!(r#"{{"$set":{{"messages":[{},{}]}}}}"#, user("u1", "one"), user("u3", "three"));
    let told = lines(&[&user("u1", "one"), &user("u2", "two"), &list]);
    expect![[r#"
        == gemini:aaaaaaaa-1
          1 session.started {"agent":"gemini"}
          2 user.prompt <u1> {"content":[{"type":"text","text":"one"}]}
          3 user.prompt <u2> {"content":[{"type":"text","text":"two"}]}
          4 note <u2> {"text":"rewound to 01KDWFZZ78SPJN308J4VM0MSJW","about":"rewind"}
          5 user.prompt <u3> {"content":[{"type":"text","text":"three"}]}
    "#]]
    .assert_eq(&told);
}

#[test]
fn a_prompt_continues_behind_what_was_left_of_the_talk() {
    let mut home = Home::new();
    let lines = [
        HEAD,
        &user("u1", "one"),
        &answer("g1", "first"),
        &user("u2", "two"),
        r#"{"$rewindTo":"u2"}"#,
        &user("u3", "three"),
        "",
    ];
    home.write(CHAT, &lines.join("\n"));
    home.read(&Gemini);
    let events: Vec<_> = home.sink.events().collect();
    let first = events.iter().find(|event| event.kind == Kind::AssistantMessage).unwrap();
    let last = events.iter().rfind(|event| event.kind == Kind::UserPrompt).unwrap();
    assert_eq!(last.parent_id, Some(first.id));
}

#[test]
fn files_a_prompt_names_are_no_part_of_it() {
    let told = lines(&[
        r#"{"id":"u1","timestamp":"2026-01-01T10:00:01Z","type":"user","content":[{"text":"explain @a.rs"},{"text":"\n--- Content from referenced files ---"},{"text":"fn main() {}"}]}"#,
    ]);
    expect![[r#"
        == gemini:aaaaaaaa-1
          1 session.started {"agent":"gemini"}
          2 user.prompt <u1> {"content":[{"type":"text","text":"explain @a.rs"}]}
          3 context.added <u1> {"content":[{"type":"text","text":"\n--- Content from referenced files ---\nfn main() {}"}]}
    "#]]
    .assert_eq(&told);
}

#[test]
fn hook_text_is_not_prompt() {
    let told = lines(&[
        &user("u1", "one"),
        r#"{"id":"u2","timestamp":"2026-01-01T10:00:01Z","type":"user","content":[{"text":"<hook_context>mind the gap</hook_context>"},{"text":"two"}]}"#,
    ]);
    assert!(told.contains(r#"user.prompt <u2> {"content":[{"type":"text","text":"two"}]}"#));
    assert!(told.contains("context.added <u2>"));
}

#[test]
fn a_question_to_the_user_waits_and_is_answered() {
    let told = lines(&[
        &user("u1", "hi"),
        r#"{"id":"g1","timestamp":"2026-01-01T10:00:02Z","type":"gemini","content":"","toolCalls":[{"id":"c1","name":"ask_user","args":{"questions":[{"question":"Which?"}]},"result":[{"functionResponse":{"id":"c1","name":"ask_user","response":{"output":"{\"answers\":{\"0\":\"B\"}}"}}}],"status":"success","timestamp":"2026-01-01T10:00:09Z"}],"model":"m","tokens":null}"#,
    ]);
    assert!(
        told.contains(
            r#"external.input <u1> {"request_id":"c1","prompt":"Which?","status":"pending"}"#
        ),
        "{told}"
    );
    assert!(
        told.contains(r#""status":"received","input":"{\"answers\":{\"0\":\"B\"}}"}"#),
        "{told}"
    );
}

#[test]
fn an_output_that_was_moved_to_a_file_is_read_there() {
    let mut home = Home::new();
    let whole = home.path().join(".gemini/tmp/project/tool-outputs/c1.txt");
    home.write(".gemini/tmp/project/tool-outputs/c1.txt", "all of it");
    let call = format!(
        r#"{{"id":"g1","type":"gemini","timestamp":"2026-01-01T10:00:02Z","content":"","toolCalls":[{{"id":"c1","name":"grep","args":{{}},"result":[{{"functionResponse":{{"id":"c1","name":"grep","response":{{"output":"Output too large. For full output see: {}\nall"}}}}}}],"status":"success"}}]}}"#,
        whole.display()
    );
    home.write(CHAT, &format!("{HEAD}\n{call}\n"));
    let told = home.told(&Gemini);
    assert!(told.contains(r#""output":"all of it","shown":"Output too large."#), "{told}");
}

#[test]
fn an_unknown_type_is_kept_and_counted() {
    let mut home = Home::new();
    home.write(CHAT, &format!("{HEAD}\n{}\n", r#"{"id":"x","type":"dream","content":"?"}"#));
    let summary = home.read(&Gemini);
    assert_eq!(summary.unknown, 1);
    assert!(told(&home.sink).contains(r#""record_type":"dream""#));
}

#[test]
fn a_torn_line_belongs_to_the_session_of_the_first() {
    let mut home = Home::new();
    home.write(CHAT, &format!("{HEAD}\n{}\n{{\"id\":\"u2\",\"ty", user("u1", "hi")));
    home.read(&Gemini);
    assert_eq!(home.sink.sessions.len(), 1);
    assert!(told(&home.sink).contains(r#""error":"torn""#));
}

const OLD_CHAT: &str = ".gemini/tmp/0f3a/chats/session-2025-10-01T10-00-bbbbbbbb.json";

fn document(messages: &[String]) -> String {
    format!(
        "{{\n  \"sessionId\": \"bbbbbbbb-1\",\n  \"projectHash\": \"p\",\n  \"messages\": [\n{}\n  ]\n}}\n",
        messages.join(",\n")
    )
}

#[test]
fn a_document_that_is_written_anew_tells_only_its_news() {
    let mut home = Home::new();
    home.write(OLD_CHAT, &document(&[user("u1", "one")]));
    home.read(&Gemini);
    let messages = [user("u1", "one"), answer("g1", "two"), user("u2", "three")];
    home.write(OLD_CHAT, &document(&messages));
    let summary = home.read(&Gemini);
    assert_eq!(summary.events, 4);
    expect![[r#"
        == gemini:bbbbbbbb-1
          1 session.started {"agent":"gemini"}
          2 user.prompt <u1> {"content":[{"type":"text","text":"one"}]}
          3 settings.changed <u1> {"model":"m"}
          4 assistant.message <u1> {"message_id":"g1","block":0,"content":[{"type":"text","text":"two"}]}
          5 step.completed <u1> {"agent_id":"","model":"m","response_id":"g1","usage":{"input_tokens":6,"output_tokens":5,"cache_read_tokens":4,"reasoning_tokens":3,"total_tokens":15}}
          6 user.prompt <u2> {"content":[{"type":"text","text":"three"}]}
    "#]]
    .assert_eq(&told(&home.sink));
    // What was read is kept, one record a line.
    let kept = home.sink.kept().remove(0);
    assert_eq!(String::from_utf8_lossy(&kept).lines().count(), 4);
}

#[test]
fn a_document_that_is_half_written_waits() {
    let mut home = Home::new();
    home.write_now(OLD_CHAT, &document(&[user("u1", "one")])[..60]);
    assert_eq!(home.read(&Gemini).events, 0);
    home.write(OLD_CHAT, &document(&[user("u1", "one")]));
    assert_eq!(home.read(&Gemini).events, 2);
}

#[test]
fn reused_inode_is_another_document() {
    let document = |name: &str| {
        format!(
            r#"{{"sessionId":"{name}","startTime":"2026-01-01T00:00:00Z","messages":[{{"id":"m-{name}","timestamp":"2026-01-01T00:00:01Z","type":"user","content":"{name}"}}]}}"#
        )
    };
    let path = |name: &str| format!(".gemini/tmp/app/chats/session-2026-01-01T00-00-{name}.json");
    let mut home = Home::new();
    home.write(&path("gone"), &document("gone"));
    home.read(&Gemini);
    let [gone, new] = ["gone", "new"].map(|name| home.path().join(path(name)));
    std::fs::rename(gone, new).unwrap();
    home.write(&path("new"), &document("new"));
    home.read(&Gemini);
    let sessions: Vec<&str> = home.sink.sessions.keys().map(|id| id.as_str()).collect();
    assert_eq!(sessions, ["gemini:gone", "gemini:new"]);
    assert_eq!(home.sink.positions.len(), 2);
}

#[test]
fn session_moved_to_lines_is_recorded_once() {
    let mut home = Home::new();
    let messages = [user("u1", "one"), answer("g1", "two")];
    home.write(OLD_CHAT, &document(&messages));
    home.read(&Gemini);
    let before = told(&home.sink);
    let head = r#"{"sessionId":"bbbbbbbb-1","projectHash":"p"}"#;
    let lines = format!("{head}\n{}\n{}\n", messages[0], messages[1]);
    home.write(&format!("{OLD_CHAT}l"), &lines);
    assert_eq!(home.told(&Gemini), before);
}

#[test]
fn what_is_remembered_does_not_grow_with_the_session() {
    let mut home = Home::new();
    let mut text = format!("{HEAD}\n");
    for number in 0..500 {
        text += &format!("{}\n", user(&format!("user-message-number-{number}"), "hi"));
        text += &format!("{}\n", answer(&format!("gemini-message-number-{number}"), "yes"));
    }
    home.write(CHAT, &text);
    home.read(&Gemini);
    assert!(home.sink.state_len() <= 4096, "{}", home.sink.state_len());
}
