//! Sessions as documents.

mod hostile; // text that would like to be more than text

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use event::Event;
use expect_test::{Expect, expect};
use projection::document::{Document, DocumentHead, Format, Options, write_handoff};
use projection::{Digest, Facts, Projection, Redact, redacted};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::given::{Log, amends};

fn head(log: &Log) -> DocumentHead {
    let mut facts = Facts::default();
    log.events.iter().for_each(|event| facts.apply(event));
    DocumentHead::from_facts(&log.events[0].session_id, &facts)
}

/// The whole document, and the pieces it came in.
fn written(mut document: Document<'_>, events: &[Event]) -> (String, Vec<usize>) {
    let mut out = String::new();
    let mut lens = Vec::new();
    for event in events {
        document.push(event, &mut out);
        lens.push(out.len());
    }
    document.finish(&mut out);
    (out, lens)
}

fn document(log: &Log, format: Format, options: Options) -> String {
    written(Document::new(format, head(log), options), &log.events).0
}

#[track_caller]
fn check(tell: impl FnOnce(&mut Log), format: Format, expected: Expect) {
    let mut log = Log::started();
    tell(&mut log);
    let document = document(&log, format, Options::default());
    // What stands above every session has a test of its own.
    let first_turn = match format {
        Format::Html => "<section",
        Format::Markdown => "## 1",
        Format::Plain => "--- 1",
    };
    let body = &document[document.find(first_turn).unwrap()..];
    expected.assert_eq(body);
}

#[test]
fn only_what_a_person_decided_or_a_rule_denied_is_told() {
    let resolve = |log: &mut Log, decision: &str, by: &str, automated: bool| {
        let data =
            json!({"approval_id": "a", "decision": decision, "by": by, "automated": automated});
        log.add("approval.resolved", data);
    };
    check(
        |log| {
            log.prompt("go");
            resolve(log, "allow", "rule", true);
            resolve(log, "allow", "person", false);
            resolve(log, "deny", "rule", true);
        },
        Format::Plain,
        expect![[r#"
            --- 1 --- 2026-11-16 08:00:02 UTC --------------------------------------

            USER
              go

            -- Allowed by person

            -- Denied by rule
        "#]],
    );
}

#[test]
fn what_a_turn_left_running_begins_no_new_one() {
    let is_of = |event: &mut Event, turn: &str| event.draft.turn_id = Some(turn.to_owned());
    check(
        |log| {
            is_of(log.prompt("run it"), "t1");
            is_of(log.end("completed"), "t1");
            let call = log.call("Bash", json!({"command": "sleep 60"}));
            is_of(log.events.last_mut().unwrap(), "t1");
            is_of(log.fail(&call, "killed"), "t1");
        },
        Format::Plain,
        expect![[r#"
            --- 1 --- 2026-11-16 08:00:02 UTC --------------------------------------

            USER
              run it

            [Bash: sleep 60] failed
              | killed
        "#]],
    );
}

/// A session with a bit of everything.
fn everything(log: &mut Log) {
    log.prompt("Add a test.\n\n```rust\nfn a() {}\n```");
    log.add(
        "assistant.thinking",
        json!({"message_id": "m1", "block": 0, "thinking": "Where are the tests?"}),
    );
    log.say("m2", "# Plan\n\nI look at `tests/a.rs`.");
    let first = log.call("Bash", json!({"command": "cargo test\ngit status"}));
    let second =
        log.call("Edit", json!({"file_path": "a.rs", "old_string": "a", "new_string": "b"}));
    log.result(&second, "ok");
    log.fail(&first, "error: no tests");
    log.queued("and hurry");
    log.add("error", json!({"message": "overloaded"}));
    log.end("interrupted");
    log.add(
        "compaction",
        json!({"strategy": "captured", "entries": [{"content": "A test is added."}]}),
    );
    log.prompt("go on");
    log.call("Read", json!({"file_path": "b.rs"}));
}

#[test]
fn plain_text_tells_everything() {
    check(
        everything,
        Format::Plain,
        expect![[r#"
            --- 1 --- 2026-11-16 08:00:02 UTC --------------------------------------

            USER
              Add a test.

              ```rust
              fn a() {}
              ```

            THINKING
              Where are the tests?

            ASSISTANT
              # Plan

              I look at `tests/a.rs`.

            [Bash: cargo test] failed
              > cargo test
              > git status
              | error: no tests

            [Edit: a.rs] ok
              > - a
              > + b
              | done

            USER, meanwhile
              and hurry

            !! Error: overloaded

            !! Interrupted by the user

            COMPACTED
              A test is added.

            --- 2 --- 2026-11-16 08:00:13 UTC --------------------------------------

            USER
              go on

            [Read: b.rs] no result
        "#]],
    );
}

#[test]
fn markdown_tells_everything() {
    check(
        everything,
        Format::Markdown,
        expect![[r#"
            ## 1 · 2026-11-16 08:00:02 UTC

            > **User:**
            >
            > Add a test.
            >
            > ```rust
            > fn a() {}
            > ```

            <details>
            <summary>Thinking</summary>

            Where are the tests?

            </details>

            ### Plan

            I look at `tests/a.rs`.

            <details>
            <summary>Bash: <code>cargo test</code> — failed</summary>

            ```text
            cargo test
            git status
            ```

            ```text
            error: no tests
            ```

            </details>

            <details>
            <summary>Edit: <code>a.rs</code> — ok</summary>

            ```text
            - a
            + b
            ```

            ```text
            done
            ```

            </details>

            > **User**, meanwhile:
            >
            > and hurry

            > ⚠ **Error:** overloaded

            > ⏹ **Interrupted by the user**

            <details>
            <summary>Compacted: the model goes on with a summary</summary>

            A test is added.

            </details>

            ## 2 · 2026-11-16 08:00:13 UTC

            > **User:**
            >
            > go on

            - Read: <code>b.rs</code> — no result
        "#]],
    );
}

#[test]
fn html_tells_everything() {
    check(
        everything,
        Format::Html,
        expect![[r##"
        <section id="turn-1">
        <h2><a href="#turn-1">1</a> <time datetime="2026-11-16T08:00:02Z">2026-11-16 08:00:02 UTC</time></h2>
        <article class="prompt">
        <h3>User</h3>
        <div class="text" dir="auto">Add a test.</div>
        <pre dir="auto">fn a() {}</pre>
        </article>
        <details class="thinking">
        <summary>Thinking</summary>
        <div class="text" dir="auto">Where are the tests?</div>
        </details>
        <article class="answer">
        <h3>Assistant</h3>
        <h4 dir="auto">Plan</h4>
        <div class="text" dir="auto">I look at <code>tests/a.rs</code>.</div>
        </article>
        <details class="call bad">
        <summary><span class="tool">Bash</span> <code dir="auto">cargo test</code> <span class="how">failed</span></summary>
        <pre class="input" dir="auto">cargo test
        git status</pre>
        <pre class="output" dir="auto">error: no tests</pre>
        </details>
        <details class="call good">
        <summary><span class="tool">Edit</span> <code dir="auto">a.rs</code> <span class="how">ok</span></summary>
        <pre class="input" dir="auto">- a
        + b</pre>
        <pre class="output" dir="auto">done</pre>
        </details>
        <article class="prompt">
        <h3>User, meanwhile</h3>
        <div class="text" dir="auto">and hurry</div>
        </article>
        <p class="mark error" dir="auto"><strong>Error</strong> overloaded</p>
        <p class="mark interrupted" dir="auto"><strong>Stopped</strong> Interrupted by the user</p>
        <details class="compacted">
        <summary>Compacted: the model goes on with a summary</summary>
        <div class="text" dir="auto">A test is added.</div>
        </details>
        </section>
        <section id="turn-2">
        <h2><a href="#turn-2">2</a> <time datetime="2026-11-16T08:00:13Z">2026-11-16 08:00:13 UTC</time></h2>
        <article class="prompt">
        <h3>User</h3>
        <div class="text" dir="auto">go on</div>
        </article>
        <p class="call open"><span class="tool">Read</span> <code dir="auto">b.rs</code> <span class="how">no result</span></p>
        </section>
        </main>
        </body>
        </html>
    "##]],
    );
}

#[test]
fn a_head_says_what_there_is_to_know() {
    let mut log = Log::started();
    log.add("settings.changed", json!({"model": "m-1", "branch": "main", "title": "A *title*"}));
    log.prompt("hi");
    log.say("m1", "hello");
    log.step("m-1", 12_345, 6);
    let document = document(&log, Format::Plain, Options::default());
    let head = document.split_once("\n---").unwrap().0;
    expect![[r#"
        A *title*
        =========

        Agent:   claude
        Model:   m-1
        Folder:  /home/dev/app
        Branch:  main
        Session: claude:s
        Work:    1 prompt, 1 response
        Tokens:  12,345 in, 6 out, 0 cached

        -- Model: m-1 · Branch: main
    "#]]
    .assert_eq(head);
}

#[test]
fn thinking_can_be_left_out() {
    let mut log = Log::started();
    everything(&mut log);
    let options = Options { shows_thinking: false, ..Options::default() };
    for format in [Format::Plain, Format::Markdown, Format::Html] {
        assert!(document(&log, format, Options::default()).contains("Where are the tests?"));
        assert!(!document(&log, format, options).contains("Where are the tests?"));
    }
}

#[test]
fn long_output_loses_its_middle_and_says_so() {
    let mut log = Log::started();
    log.prompt("go");
    let call = log.call("Bash", json!({"command": "seq 9999"}));
    let lines: Vec<String> = (1..=9_999).map(|number| number.to_string()).collect();
    log.add("tool.result", json!({"call_id": call, "outcome": "ok", "output": lines.join("\n")}));
    let options = Options { output_max: 30, ..Options::default() };
    let document = document(&log, Format::Plain, options);
    let behind = document.split_once("seq 9999").unwrap().1;
    expect![[r#"
        ] ok
          | 1
          | 2
          | 3
          | 4
          | 5
          | 6
          | 7
          | 8
          | 9
          | … 9988 lines (49 KB) left out …
          | 9998
          | 9999
    "#]]
    .assert_eq(behind);
}

#[test]
fn all_text_is_redacted_before_it_is_cut() {
    let secret = "hunter2hunter2";
    let mut log = Log::started();
    log.add("settings.changed", json!({"title": secret, "branch": secret}));
    log.prompt(secret);
    log.say("m1", &format!("a `{secret}` b"));
    log.use_tool("Bash", json!({"command": format!("login {secret}"), "why": secret}));
    let call = log.call("Other", json!({secret: {"deep": [secret]}}));
    log.fail(&call, &format!("{}{secret}", "x".repeat(15)));
    log.add("error", json!({"message": secret}));
    log.add("note", json!({"text": format!("a\u{1b}[1mhunter2\u{1b}[0mhunter2")}));
    for format in [Format::Plain, Format::Markdown, Format::Html] {
        let redact: &mut Redact<'_> = &mut |text| Cow::Owned(text.replace(secret, "[gone]"));
        let options = Options { output_max: 24, input_max: 24, ..Options::default() };
        let document = Document::redacted(format, head(&log), options, redact);
        let (document, _) = written(document, &log.events);
        assert!(!document.contains("hunter"), "{document}");
        assert!(document.contains("gone"));
    }
}

#[test]
fn text_comes_out_as_soon_as_it_is_settled() {
    let mut log = Log::started();
    for _ in 0..300 {
        log.prompt("do it");
        log.use_tool("Bash", json!({"command": "true"}));
        log.say("m", "done");
    }
    let (document, lens) =
        written(Document::new(Format::Html, head(&log), Options::default()), &log.events);
    assert!(lens.windows(9).all(|lens| lens[0] < lens[8]));
    assert!(document.len() - lens.last().unwrap() < 100);
}

#[test]
fn a_call_waits_for_its_result_but_not_for_ever() {
    let mut log = Log::started();
    log.prompt("go");
    let call = log.call("Task", json!({"description": "slow"}));
    for number in 0..500 {
        log.say("m", &format!("answer {number}"));
    }
    log.result(&call, "ok");
    let (document, lens) =
        written(Document::new(Format::Plain, head(&log), Options::default()), &log.events);
    assert!(lens[400] > lens[10]);
    assert!(document.contains("[Task: slow] no result"));
    assert!(document.contains("[tool: result] ok"));
}

#[test]
fn a_fuller_account_is_not_told_twice() {
    let mut log = Log::started();
    log.prompt("go");
    let first = log.say("m", "half an ans").id;
    let second = log.say("m", "half an answer, and the rest");
    amends(second, first);
    let document = document(&log, Format::Plain, Options::default());
    assert!(document.contains("half an ans\n") && !document.contains("and the rest"));
}

#[test]
fn a_document_in_html_takes_its_own_style_only() {
    let mut log = Log::started();
    log.prompt("hi");
    let document = document(&log, Format::Html, Options::default());
    let style = document.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
    let hash = STANDARD.encode(Sha256::digest(style));
    assert!(document.contains(&format!("style-src 'sha256-{hash}'")), "{hash}");
    assert!(document.contains("default-src 'none'"));
}

fn note(log: &Log) -> String {
    let (mut facts, mut digest) = (Facts::default(), Digest::default());
    for event in &log.events {
        facts.apply(event);
        digest.apply(event);
    }
    digest.flush();
    write_handoff(
        &log.events[0].session_id,
        &facts,
        &digest.take_new(),
        Some("claude --resume 7c1e"),
        None,
    )
}

#[test]
fn a_handoff_says_what_was_done_and_what_is_left() {
    let mut log = Log::started();
    log.prompt("Make the total of the basket right to the cent.");
    log.use_tool(
        "Edit",
        json!({"file_path": "/home/dev/app/src/basket.rs", "old_string": "a", "new_string": "b"}),
    );
    let call = log.call("Bash", json!({"command": "cargo test"}));
    log.fail(&call, "error[E0308]: mismatched types");
    log.use_tool("Bash", json!({"command": "cargo test"}));
    log.say("m1", "I decided to round once, at the end. Next: `tax.rs` needs <b>the same</b>.");
    log.end("completed");
    log.prompt("Never round prices one by one. Please do tax.rs too.");
    log.end("interrupted");
    expect![[r#"
        # Handoff: Make the total of the basket right to the cent

        ## Goal

        - Make the total of the basket right to the cent.

        ## Asked

        - Never round prices one by one. Please do tax.rs too.

        ## Done

        - Edited /home/dev/app/src/basket.rs
        - Ran cargo 2
        - Tests passed: cargo test

        ## Decided

        - I decided to round once, at the end.
        - Never round prices one by one.

        ## Problems and fixes

        - error[E0308]: mismatched types → cargo test

        ## Open

        - Never round prices one by one. Please do tax.rs too.

        ## How to resume

        - Folder: `/home/dev/app`
        - State: the last turn was interrupted
        - Go on with: `claude --resume 7c1e`
    "#]]
    .assert_eq(&note(&log));
}

#[test]
fn a_handoff_of_nothing_still_says_how_to_resume() {
    let log = Log::started();
    expect![[r#"
        # Handoff: A session without a title

        ## How to resume

        - Folder: `/home/dev/app`
        - State: the last turn is open
        - Go on with: `claude --resume 7c1e`
    "#]]
    .assert_eq(&note(&log));
}

#[test]
fn an_event_is_redacted_wherever_it_has_text() {
    let mut log = Log::started();
    log.prompt("x");
    let data = json!({"call_id": "c", "tool": "t", "input": {"b": "hunter2", "a": [{"hunter2": 7}], "n": 1.50}});
    let event = log.add("tool.call", data);
    event.draft.text = Some("say hunter2".to_owned());
    let redact: &mut Redact<'_> = &mut |text| match text.contains("hunter2") {
        true => Cow::Owned(text.replace("hunter2", "[gone]")),
        false => Cow::Borrowed(text),
    };
    let event = redacted(&log.events[2], redact);
    assert!(!event.encode().contains("hunter2"));
    assert_eq!(event.text.as_deref(), Some("say [gone]"));
    assert!(event.data.get().contains(r#""input":{"a":[{"[gone]":7}],"b":"[gone]","n":1.5}"#));
    assert_eq!(redacted(&log.events[1], redact), log.events[1]);
}

#[test]
fn turns_are_those_of_the_turn_machine() {
    check(
        |log| {
            log.prompt("go");
            log.say("m1", "Here it is.");
            log.end("interrupted");
            // A hook reports the same end.
            log.end("interrupted");
            // Typed while the agent was busy, and handed over after the end.
            log.queued("and then?");
            log.add("turn.started", json!({"agent_id": "a"}));
            log.say("m2", "That too.");
        },
        Format::Plain,
        expect![[r#"
            --- 1 --- 2026-11-16 08:00:02 UTC --------------------------------------

            USER
              go

            ASSISTANT
              Here it is.

            !! Interrupted by the user

            --- 2 --- 2026-11-16 08:00:06 UTC --------------------------------------

            USER
              and then?

            ASSISTANT
              That too.
        "#]],
    );
}
