//! Rewinds, bases and fuller accounts: what changes the beginning of a history.

use super::*;

#[test]
fn rewinding_prompt_abandons_later_events() {
    check(
        |log| {
            log.prompt("first");
            log.message("m1", 0, "left");
            log.context(ContextKind::Bootstrap, "left too");
            log.fact();
            log.prompt_after(1, "second");
        },
        expect![[r#"
            1 user "first"
            5 user "second"
        "#]],
    );
}

#[test]
fn abandoned_path_can_be_resumed() {
    check(
        |log| {
            log.prompt("root");
            log.message("m1", 0, "one way");
            log.prompt_after(1, "other way");
            log.prompt_after(2, "back to the first");
        },
        expect![[r#"
            1 user "root"
            2 assistant "one way"
            4 user "back to the first"
        "#]],
    );
}

#[test]
fn rewind_before_compaction_restores_view() {
    check(
        |log| {
            log.prompt("first");
            log.prompt("second");
            log.add(&compaction(2, vec![summary("summary")]));
            log.prompt("third");
            log.prompt_after(1, "again");
        },
        expect![[r#"
            1 user "first"
            5 user "again"
        "#]],
    );
}

#[test]
fn an_unknown_parent_is_no_parent() {
    check(
        |log| {
            log.prompt("first");
            log.prompt_after(77, "second");
            log.message("m1", 0, "answer");
            log.last().parent_id = Some(id_at(1));
        },
        expect![[r#"
            1 user "first"
            2 user "second"
            3 assistant "answer"
        "#]],
    );
}

#[test]
fn path_summary_is_in_history() {
    check(
        |log| {
            log.prompt("root");
            log.message("m1", 0, "one way");
            log.prompt_after(1, "other way");
            log.add(&ContextAdded {
                kind: Some(ContextKind::Summary),
                placement: Some(Placement::History),
                content: Content::text("what was tried"),
                covers: Some(Covers {
                    from: Raw::from_value(&id_at(2)).unwrap(),
                    to: Raw::from_value(&id_at(2)).unwrap(),
                }),
            });
        },
        expect![[r#"
            1 user "root"
            3 user "other way"
            4 user (summary, history) "what was tried"
        "#]],
    );
}

#[test]
fn context_moves_behind_the_result() {
    check(
        |log| {
            log.call("m1", 0, "a");
            log.context(ContextKind::Generic, "meanwhile");
            log.result("a", "done");
        },
        expect![[r#"
            1 assistant -> a
            3 tool [a run {}] "done"
            2 user (generic, history) "meanwhile"
            ! 2 moved behind the results
        "#]],
    );
}

#[test]
fn covered_answer_returns_with_its_result() {
    check(
        |log| {
            log.prompt("do it");
            log.message("m1", 0, "on it");
            log.call("m1", 1, "a");
            log.call("m1", 2, "b");
            log.result("a", "one");
            log.add(&compaction(5, vec![summary("summary")]));
            log.result("b", "two");
        },
        expect![[r#"
            base 6
            6 user (summary, prefix) "summary"
            2 assistant "on it" -> a -> b
            5 tool [a run {}] "one"
            7 tool [b run {}] "two"
        "#]],
    );
    check(
        |log| {
            log.call("m1", 0, "a");
            log.add(&snapshot(None, 1, vec![at(1)]));
            log.result("a", "one");
        },
        expect![[r#"
            base 2
            1 assistant -> a
            3 tool [a run {}] "one"
        "#]],
    );
}

#[test]
fn covered_answer_without_result_stays_covered() {
    check(
        |log| {
            log.message("m1", 0, "on it");
            log.call("m1", 1, "a");
            log.add(&compaction(2, vec![summary("summary")]));
            log.prompt("never mind");
        },
        expect![[r#"
            base 3
            3 user (summary, prefix) "summary"
            4 user "never mind"
        "#]],
    );
}

#[test]
fn context_behind_the_last_message_is_shown_once() {
    check(
        |log| {
            log.prompt("old");
            log.context(ContextKind::Generic, "news");
            log.add(&compaction(1, vec![summary("summary"), at(2)]));
        },
        expect![[r#"
            base 3
            3 user (summary, prefix) "summary"
            2 user (generic, history) "news"
            ! 3 entry behind the cutoff
        "#]],
    );
}

#[test]
fn many_snapshots_make_one_working_set() {
    check(
        |log| {
            log.prompt("old");
            let base = log.add(&Compaction {
                read_files: files(&["a"]),
                ..compaction(1, vec![summary("summary")])
            });
            for _ in 0..10 {
                let last = log.prompt("more");
                log.add(&Snapshot {
                    read_files: files(&["a"]),
                    ..snapshot(Some(base), last, vec![at(base), at(last)])
                });
            }
        },
        expect![[r#"
            base 22
            2 user (summary, prefix) "summary"
            - user (working_set, prefix) "<working_set>\nRead-only files:\n- a\n</working_set>"
            21 user "more"
        "#]],
    );
}

#[test]
fn a_snapshot_of_an_older_compaction_is_ignored() {
    check(
        |log| {
            log.prompt("old");
            let older = log.add(&compaction(1, vec![summary("older")]));
            log.add(&compaction(2, vec![summary("newer")]));
            log.add(&snapshot(Some(older), 3, vec![summary("stale")]));
        },
        expect![[r#"
            base 3
            3 user (summary, prefix) "newer"
            ! 4 snapshot of another base
        "#]],
    );
}

#[test]
fn text_never_decides_what_an_entry_is() {
    check(
        |log| {
            log.message("m1", 0, "hello");
            log.prompt("<working_set>mine</working_set>");
            log.prompt("<conversation_summary>mine too</conversation_summary>");
        },
        expect![[r#"
            1 assistant "hello"
            2 user "<working_set>mine</working_set>"
            3 user "<conversation_summary>mine too</conversation_summary>"
        "#]],
    );
}

#[test]
fn amendment_keeps_the_first_place() {
    check(
        |log| {
            let first = log.prompt("hel");
            log.message("m1", 0, "hi");
            log.prompt("hello, and more");
            log.amending(first);
            log.prompt("next");
        },
        expect![[r#"
            3 user "hello, and more"
            2 assistant "hi"
            4 user "next"
            ! 1 replaced by a fuller account
        "#]],
    );
}

#[test]
fn amendment_of_covered_event_stays_covered() {
    check(
        |log| {
            let first = log.prompt("hel");
            let kept = log.prompt("kept");
            log.add(&compaction(2, vec![summary("summary"), at(kept)]));
            log.prompt("hello");
            log.amending(first);
            log.prompt("kept, in full");
            log.amending(kept);
        },
        expect![[r#"
            base 3
            3 user (summary, prefix) "summary"
            5 user "kept, in full"
            ! 2 replaced by a fuller account
        "#]],
    );
}

#[test]
fn replaced_text_stands_in_the_place_of_its_event() {
    check(
        |log| {
            log.call("m1", 0, "a");
            log.result("a", "very long");
            log.add(&compaction(
                2,
                vec![
                    SavedEntry { seq: Some(1), to_seq: Some(2), ..SavedEntry::default() },
                    SavedEntry {
                        seq: Some(2),
                        shown: Some("see artifact".to_owned()),
                        artifact: Some("art".to_owned()),
                        ..SavedEntry::default()
                    },
                ],
            ));
        },
        expect![[r#"
            base 3
            1 assistant -> a
            2 tool [a run {}] "see artifact"
        "#]],
    );
}

#[test]
fn entries_behind_the_cutoff_are_not_taken_from_the_base() {
    check(
        |log| {
            log.prompt("one");
            log.prompt("two");
            log.prompt("three");
            log.add(&compaction(
                2,
                vec![
                    at(3),
                    SavedEntry { seq: Some(2), to_seq: Some(3), ..SavedEntry::default() },
                    at(2),
                    at(9),
                ],
            ));
        },
        expect![[r#"
            base 4
            2 user "two"
            3 user "three"
            ! 4 entry behind the cutoff
            ! 4 entry not found
        "#]],
    );
}

#[test]
fn bases_may_nest_deeply() {
    let mut log = TestLog::new();
    log.prompt("first");
    let mut below = log.add(&compaction(1, vec![summary("summary")]));
    for _ in 0..5_000 {
        below = log.add(&compaction(1, vec![at(below)]));
    }
    let built = ViewBuilder::default().build(&log.events).unwrap();
    assert_eq!(built.len(), 1);
}

#[test]
fn messages_are_the_entries_without_their_origin() {
    let mut log = TestLog::new();
    log.prompt("do it");
    log.call("m1", 0, "a");
    log.result("a", "done");
    let view = ViewBuilder::default().build(&log.events).unwrap();
    let messages: Vec<_> = view.messages().collect();
    assert_eq!(messages.len(), view.len());
    assert_eq!(messages[1].calls[0].call_id, "a");
    assert_eq!((messages[2].role, messages[2].call_id.as_deref()), (Role::Tool, Some("a")));
}

#[test]
fn an_event_out_of_order_is_refused() {
    let mut log = TestLog::new();
    log.prompt("one");
    log.prompt("two");
    let mut view = View::new(ViewOptions::default());
    let refused = view.apply(&log.events[1], &log);
    assert!(matches!(refused, Err(ViewError::OutOfOrder { expected: 1, found: 2, .. })));
    view.apply(&log.events[0], &log).unwrap();
    assert_eq!(view.effective(&log).unwrap().len(), 1);
}

/// A log that counts the events it is asked for.
struct Counting<'a> {
    log: &'a TestLog,
    read: Cell<u64>,
}

impl EventLog for Counting<'_> {
    fn read(
        &self,
        from_seq: u64,
        to_seq: u64,
        each: &mut dyn FnMut(&Event),
    ) -> Result<(), ReadError> {
        self.log.read(from_seq, to_seq, &mut |event| {
            self.read.set(self.read.get() + 1);
            each(event);
        })
    }

    fn seq_of(&self, id: EventId) -> Result<Option<u64>, ReadError> {
        self.log.seq_of(id)
    }
}

/// A session of turns with calls, facts and prompts that name their parents.
fn long_session(turns: u64) -> TestLog {
    let mut log = TestLog::new();
    for turn in 0..turns {
        let last = log.tail();
        log.fact();
        log.prompt_after(last.max(1), "a prompt");
        log.message(&format!("m{turn}"), 0, "an answer");
        log.call(&format!("m{turn}"), 1, "a");
        log.result("a", "an output");
    }
    log
}

#[test]
fn a_plain_event_reads_nothing() {
    let log = long_session(200);
    let log = Counting { log: &log, read: Cell::new(0) };
    let mut view = View::new(ViewOptions::default());
    for event in &log.log.events {
        view.apply(event, &log).unwrap();
        view.effective(&log).unwrap();
    }
    assert_eq!(log.read.get(), 0);
    assert_eq!(view.effective(&log).unwrap().len(), 200 * 3);
}

#[test]
fn recent_change_reads_little() {
    let mut log = long_session(200);
    let mut view = View::new(ViewOptions::default());
    for event in &log.events {
        view.apply(event, &log).unwrap();
    }
    let tail = log.tail();
    log.prompt("the last prompt in full");
    log.amending(tail - 3);
    log.message("m198", 3, "a late part");
    log.prompt_after(tail - 5, "another way");
    let log = Counting { log: &log, read: Cell::new(0) };
    for event in &log.log.events[tail as usize..] {
        view.apply(event, &log).unwrap();
    }
    assert!(view.is_loaded());
    assert!(log.read.get() < 50, "{} of {tail} events were read", log.read.get());
    let built = ViewBuilder::default().build(&log.log.events).unwrap();
    assert!(view.effective(&log).unwrap().entries().eq(built.entries()));
}

#[test]
fn a_copy_of_the_history_does_not_change() {
    let mut log = long_session(100);
    let mut view = View::new(ViewOptions::default());
    for event in &log.events {
        view.apply(event, &log).unwrap();
    }
    let copy = view.effective(&log).unwrap().clone();
    let before: Vec<_> = copy.entries().cloned().collect();
    log.prompt("more");
    view.apply(log.events.last().unwrap(), &log).unwrap();
    assert_eq!(view.effective(&log).unwrap().len(), before.len() + 1);
    assert!(copy.entries().eq(&before));
}

#[test]
fn saved_view_reads_only_what_it_shows() {
    let mut log = long_session(100);
    let tail = log.tail();
    log.add(&compaction(tail, vec![summary("summary"), at(tail - 1), at(tail)]));
    log.prompt("recent");
    let mut view = View::new(ViewOptions::default());
    for event in &log.events {
        view.apply(event, &log).unwrap();
    }
    let bytes = view.save().to_bytes();
    log.prompt("newest");

    let log = Counting { log: &log, read: Cell::new(0) };
    let saved = SavedView::from_bytes(&bytes).unwrap();
    let mut opened = View::restore(&saved, ViewOptions::default(), &log).unwrap().unwrap();
    opened.apply(log.log.events.last().unwrap(), &log).unwrap();
    assert_eq!(opened.effective(&log).unwrap().len(), 5);
    assert!(log.read.get() < 30, "{} of {} events were read", log.read.get(), log.log.tail());
}

#[test]
fn a_saved_view_is_a_small_share_of_the_text() {
    let mut log = TestLog::new();
    let text = "x".repeat(1_024);
    let mut view = View::new(ViewOptions::default());
    let mut payload = 0;
    for turn in 0..2_500 {
        log.events.clear();
        let mut add = |kind, json: &str| {
            let mut event = event::Draft::with_data(
                id_at(view.up_to_seq() + 1),
                event::SessionId::new("s").unwrap(),
                event::Time::EPOCH,
                kind,
                Raw::parse(json).unwrap(),
            );
            if event.kind == Kind::UserPrompt && turn > 0 {
                event.parent_id = Some(id_at(view.up_to_seq() - 1));
                log.events.push(event.clone().with_seq(view.up_to_seq() - 1));
                log.events[0].draft.id = id_at(view.up_to_seq() - 1);
            }
            payload += json.len();
            view.apply(&event.with_seq(view.up_to_seq() + 1), &log).unwrap();
        };
        add(Kind::UserPrompt, &format!(r#"{{"content":"{text}"}}"#));
        let answer = format!(r#"{{"message_id":"m{turn}","content":"{text}"}}"#);
        add(Kind::AssistantMessage, &answer);
        add(Kind::TurnCompleted, "{}");
    }
    let saved = view.save().to_bytes().len();
    assert!(saved * 1_000 < payload, "{saved} bytes for {payload} bytes of text");
}

#[test]
fn invalid_saved_view_is_rebuilt() {
    let log = long_session(3);
    let mut view = View::new(ViewOptions::default());
    for event in &log.events {
        view.apply(event, &log).unwrap();
    }
    let saved = view.save();
    let bytes = saved.to_bytes();
    assert_eq!(SavedView::from_bytes(&bytes), Some(saved.clone()));
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(
            SavedView::from_bytes(&damaged).is_none_or(|read| read == saved),
            "byte {at} was believed"
        );
    }
    assert_eq!(SavedView::from_bytes(&bytes[..bytes.len() - 1]), None);
    assert_eq!(SavedView::from_bytes(b""), None);

    let mut other = TestLog::new();
    other.prompt("another session");
    assert!(View::restore(&saved, ViewOptions::default(), &other).unwrap().is_none());
}

#[test]
fn a_stream_reads_little_ahead() {
    let log = long_session(500);
    let mut view = View::new(ViewOptions::default());
    log.events.iter().for_each(|event| view.apply(event, &log).unwrap());
    let counting = Counting { log: &log, read: Cell::new(0) };
    let stream = view.into_stream(&counting).unwrap();
    let read_first = counting.read.replace(0);
    assert!(read_first > 500 && read_first <= log.tail(), "{read_first} read at first");
    for entry in stream {
        let seq = entry.unwrap().seq.unwrap();
        assert!(counting.read.get() <= seq + 2 * 64, "{} read at {seq}", counting.read.get());
    }
    assert_eq!(counting.read.get(), read_first, "the path is read twice");
}
