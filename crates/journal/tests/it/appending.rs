//! What an append answers: numbers, second tellings, conflicts, and what is refused.

use std::sync::Arc;

use event::{Confidence, Draft, Event, EventId, Kind, Raw, Source};
use journal::{
    AppendError, AppendOutcome, Batch, EventReceipt, FollowFrom, Journal, OnLag, Receipt, Sighting,
};

use crate::given::{
    at, fact, fork, host, id, ids, moved, next_events, nothing_more, observe, prompt, prompts,
    read_all, recorded_from, seqs, session, talk,
};
use crate::world::World;

cases! {
    batch_is_numbered_per_session
    numbering_continues_after_reopen
    empty_batch_is_accepted
    repeated_event_is_already_recorded
    provenance_makes_no_new_event
    duplicate_in_batch_is_one_row
    retry_after_reopen_is_recorded
    long_session_recognises_duplicates
    hosted_conflict_is_duplicate_id
    duplicate_id_refuses_batch
    observed_conflict_is_a_sighting
    second_source_is_a_sighting
    exact_repeat_is_no_sighting
    other_time_is_same_fact
    other_session_is_other_fact
    last_byte_distinguishes_facts
    fuller_account_is_a_new_event
    id_of_other_session_is_refused
    observed_foreign_id_is_a_sighting
    id_for_two_sessions_is_refused
    observed_id_for_two_sessions_is_one
    queued_batches_share_no_id
    wrong_expected_seq_is_conflict
    missing_session_ends_at_zero
    same_expected_tail_conflicts_once
    expected_event_must_be_last
    expected_event_may_be_inherited
    batch_on_refused_one_is_refused
    event_may_bring_next_seq
    wrong_seq_is_refused
    repeated_numbered_event_is_recorded
    live_kinds_are_not_stored
    merged_tool_delta_is_stored
    unknown_kinds_are_recorded
    observed_meaning_is_never_refused
    every_session_id_is_distinct
    refused_batch_spares_neighbours
    wait_for_new_returns_recorded_events
    dropped_handle_keeps_batch
    appenders_share_one_numbering
}

fn batch_is_numbered_per_session(world: World) {
    let drafts = [prompt("a", 1), prompt("b", 1), prompt("a", 2), prompt("c", 1), prompt("b", 2)];
    let receipt = world.append(Batch::observed().with_all(drafts.clone())).unwrap();
    let seqs: Vec<u64> = receipt.events.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, [1, 1, 2, 1, 2]);
    let positions: Vec<u64> = receipt.events.iter().map(|event| event.position).collect();
    assert_eq!(positions, [1, 2, 3, 4, 5]);
    let ids: Vec<EventId> = receipt.events.iter().map(|event| event.id).collect();
    assert_eq!(ids, drafts.map(|draft| draft.id));
    assert!(receipt.events.iter().all(|event| event.outcome == AppendOutcome::Recorded));
}

fn numbering_continues_after_reopen(mut world: World) {
    talk(&world, "a", 3);
    talk(&world, "b", 1);
    world.reopen();
    let next = host(&world, prompt("a", 4));
    assert_eq!((next.seq, next.position), (4, 5));
}

fn empty_batch_is_accepted(world: World) {
    assert_eq!(world.append(Batch::hosted()).unwrap(), Receipt { events: Vec::new() });
    assert_eq!(world.tail().unwrap(), 0);
}

fn repeated_event_is_already_recorded(world: World) {
    talk(&world, "a", 3);
    let mut news = world.follow(FollowFrom::Now, OnLag::CatchUp).unwrap();
    let expected = EventReceipt {
        id: id("a", 2),
        seq: 2,
        position: 2,
        outcome: AppendOutcome::AlreadyRecorded { differs: false },
    };
    assert_eq!(host(&world, prompt("a", 2)), expected);
    assert_eq!(observe(&world, prompt("a", 2)), expected);
    assert_eq!(seqs(&read_all(&world, "a")), [1, 2, 3]);
    assert_eq!(world.tail().unwrap(), 3);
    nothing_more(&mut news);
}

fn provenance_makes_no_new_event(world: World) {
    host(&world, prompt("a", 1));
    let mut again = prompt("a", 1);
    again.observed_at = at(99);
    again.source = Source::Hook;
    again.confidence = Confidence::Low;
    let appended = host(&world, again);
    assert_eq!(appended.outcome, AppendOutcome::AlreadyRecorded { differs: false });
    assert_eq!(read_all(&world, "a"), [prompt("a", 1).with_seq(1)]);
}

fn duplicate_in_batch_is_one_row(world: World) {
    let batch = Batch::hosted().with_all([prompt("a", 1), prompt("a", 1), prompt("a", 2)]);
    let receipt = world.append(batch).unwrap();
    let answers: Vec<_> = receipt.events.iter().map(|e| (e.seq, e.position, e.outcome)).collect();
    let already = AppendOutcome::AlreadyRecorded { differs: false };
    let new = AppendOutcome::Recorded;
    assert_eq!(answers, [(1, 1, new), (1, 1, already), (2, 2, new)]);
    assert_eq!(seqs(&read_all(&world, "a")), [1, 2]);
}

fn retry_after_reopen_is_recorded(mut world: World) {
    talk(&world, "a", 3);
    world.reopen();
    let receipt = world.append(Batch::hosted().with_all(prompts("a", 1..=4))).unwrap();
    let outcomes: Vec<_> = receipt.events.iter().map(|event| (event.seq, event.outcome)).collect();
    let already = AppendOutcome::AlreadyRecorded { differs: false };
    assert_eq!(outcomes, [(1, already), (2, already), (3, already), (4, AppendOutcome::Recorded)]);
}

fn long_session_recognises_duplicates(mut world: World) {
    talk(&world, "a", 40);
    world.reopen();
    let mut later = prompt("a", 7);
    later.created_at = at(5_000);
    later.id = EventId::new(at(5_000), later.id.tail());
    // The first looks for its own ids only, the second for others, the third for one that came
    // with the first.
    for (batch, expected) in [
        (vec![later, prompt("a", 41)], [7, 41]),
        (vec![prompt("a", 39), prompt("a", 42)], [39, 42]),
        (vec![prompt("a", 41), prompt("a", 43)], [41, 43]),
    ] {
        let receipt = world.append(Batch::observed().with_all(batch)).unwrap();
        let seqs: Vec<_> = receipt.events.iter().map(|event| event.seq).collect();
        assert_eq!(seqs, expected);
        assert_ne!(receipt.events[0].outcome, AppendOutcome::Recorded);
        assert_eq!(receipt.events[1].outcome, AppendOutcome::Recorded);
    }
    assert_eq!(read_all(&world, "a").len(), 43);
}

fn hosted_conflict_is_duplicate_id(world: World) {
    talk(&world, "a", 2);
    let mut other = prompt("a", 2);
    other.text = Some("something else".to_owned());
    let error = world.append(Batch::hosted().with(other)).unwrap_err();
    let AppendError::DuplicateId { id: found, session_id, seq } = error else {
        panic!("{error:?}");
    };
    assert_eq!((found, session_id, seq), (id("a", 2), session("a"), 2));
    assert_eq!(read_all(&world, "a")[1], prompt("a", 2).with_seq(2));
    assert_eq!(world.sightings(&session("a"), 2).unwrap(), []);
}

fn duplicate_id_refuses_batch(world: World) {
    talk(&world, "a", 1);
    let mut other = prompt("a", 1);
    other.text = Some("something else".to_owned());
    let batch = Batch::hosted()
        .with_all([prompt("a", 2), prompt("b", 1), other])
        .from_source(moved("file", None, "10"));
    assert!(matches!(world.append(batch), Err(AppendError::DuplicateId { seq: 1, .. })));
    assert_eq!(seqs(&read_all(&world, "a")), [1]);
    assert!(!world.exists(&session("b")).unwrap());
    assert_eq!(world.source_position("file").unwrap(), None);
    assert_eq!(world.tail().unwrap(), 1);
    assert_eq!(host(&world, prompt("b", 1)).position, 2);
}

fn observed_conflict_is_a_sighting(mut world: World) {
    talk(&world, "a", 2);
    let mut other = prompt("a", 2);
    other.text = Some("something else".to_owned());
    other.source = Source::Hook;
    other.observed_at = at(77);
    let batch = Batch::observed().with(other).from_source(moved("file", None, "10"));
    let receipt = world.append(batch).unwrap();
    let expected = EventReceipt {
        id: id("a", 2),
        seq: 2,
        position: 2,
        outcome: AppendOutcome::AlreadyRecorded { differs: true },
    };
    assert_eq!(receipt.events, [expected]);
    world.reopen();
    assert_eq!(read_all(&world, "a")[1], prompt("a", 2).with_seq(2));
    let sighting = Sighting {
        source: "hook".to_owned(),
        observed_at: at(77),
        source_position: Some("10".to_owned()),
        differs: true,
    };
    assert_eq!(world.sightings(&session("a"), 2).unwrap(), [sighting]);
    assert_eq!(world.sightings(&session("a"), 1).unwrap(), []);
    assert_eq!(world.tail().unwrap(), 2);
}

fn second_source_is_a_sighting(world: World) {
    talk(&world, "a", 1);
    for (source, seen) in [(Source::Hook, 5), (Source::Transcript, 6)] {
        let mut again = prompt("a", 1);
        again.source = source;
        again.observed_at = at(seen);
        let appended = observe(&world, again);
        assert_eq!(appended.outcome, AppendOutcome::AlreadyRecorded { differs: false });
    }
    let sightings = world.sightings(&session("a"), 1).unwrap();
    let told: Vec<_> = sightings.iter().map(|s| (s.source.as_str(), s.observed_at)).collect();
    assert_eq!(told, [("hook", at(5)), ("transcript", at(6))]);
    assert!(sightings.iter().all(|sighting| !sighting.differs));
}

fn exact_repeat_is_no_sighting(world: World) {
    talk(&world, "a", 1);
    observe(&world, prompt("a", 1));
    assert_eq!(world.sightings(&session("a"), 1).unwrap(), []);
}

fn other_time_is_same_fact(world: World) {
    talk(&world, "a", 2);
    let mut later = prompt("a", 2);
    later.created_at = at(5_000);
    later.id = EventId::new(at(5_000), later.id.tail());
    assert_ne!(later.id, id("a", 2));
    let appended = observe(&world, later);
    assert_eq!((appended.id, appended.seq), (id("a", 2), 2));
    assert_eq!(appended.outcome, AppendOutcome::AlreadyRecorded { differs: true });
    assert_eq!(seqs(&read_all(&world, "a")), [1, 2]);
}

fn other_session_is_other_fact(world: World) {
    talk(&world, "a", 1);
    let mut twin = prompt("b", 1);
    twin.id = EventId::new(at(9), id("a", 1).tail());
    assert_eq!(observe(&world, twin).outcome, AppendOutcome::Recorded);
}

/// Generators that count up within a millisecond make such ids.
fn last_byte_distinguishes_facts(mut world: World) {
    let counted = |n: u8| {
        let mut draft = prompt("a", u64::from(n));
        draft.id = EventId::new(at(1), [7, 7, 7, 7, 7, 7, 7, 7, 7, n]);
        draft
    };
    let receipt = world.append(Batch::hosted().with_all((1..=3).map(counted))).unwrap();
    assert!(receipt.events.iter().all(|event| event.outcome == AppendOutcome::Recorded));
    world.reopen();
    let receipt = world.append(Batch::observed().with_all((1..=5).map(counted))).unwrap();
    let recorded = receipt.events.iter().filter(|event| event.outcome == AppendOutcome::Recorded);
    assert_eq!(recorded.map(|event| event.seq).collect::<Vec<_>>(), [4, 5]);
}

fn fuller_account_is_a_new_event(world: World) {
    talk(&world, "a", 1);
    let mut fuller = prompt("a", 2);
    fuller.metadata.insert("amends".to_owned(), Raw::from_value(&id("a", 1)).unwrap());
    assert_eq!(observe(&world, fuller).seq, 2);
    assert_eq!(read_all(&world, "a")[1].amends(), Some(id("a", 1)));
}

/// An event of `b` under the id of an event of `a`.
fn taken(n: u64) -> Draft {
    let mut draft = prompt("b", n);
    draft.id = id("a", n);
    draft
}

fn id_of_other_session_is_refused(mut world: World) {
    talk(&world, "a", 2);
    world.reopen();
    let error = world.append(Batch::hosted().with_all([prompt("b", 1), taken(2)])).unwrap_err();
    let AppendError::DuplicateId { id: found, session_id, seq } = error else {
        panic!("{error:?}");
    };
    assert_eq!((found, session_id, seq), (id("a", 2), session("a"), 2));
    assert!(!world.exists(&session("b")).unwrap());
    assert_eq!(host(&world, prompt("b", 1)).position, 3);
}

fn observed_foreign_id_is_a_sighting(mut world: World) {
    talk(&world, "a", 2);
    world.reopen();
    for round in 1..=2 {
        let drafts = [prompt("b", 10 * round), taken(2), prompt("b", 10 * round + 1)];
        let receipt = world.append(Batch::observed().with_all(drafts)).unwrap();
        let already = AppendOutcome::AlreadyRecorded { differs: true };
        let second = &receipt.events[1];
        assert_eq!((second.id, second.seq, second.outcome), (id("a", 2), 2, already));
    }
    world.reopen();
    assert_eq!(seqs(&read_all(&world, "b")), [1, 2, 3, 4]);
    assert_eq!(world.sightings(&session("a"), 2).unwrap().len(), 2);
    assert_eq!(observe(&world, taken(1)).position, 1);
}

fn id_for_two_sessions_is_refused(world: World) {
    let error = world.append(Batch::hosted().with_all([prompt("a", 1), taken(1)])).unwrap_err();
    assert!(matches!(error, AppendError::DuplicateId { seq: 1, .. }), "{error:?}");
    assert_eq!(world.tail().unwrap(), 0);
    assert_eq!(host(&world, prompt("a", 1)).position, 1);
}

fn observed_id_for_two_sessions_is_one(world: World) {
    let batch = Batch::observed().with_all([prompt("a", 1), taken(1), prompt("b", 2)]);
    let receipt = world.append(batch).unwrap();
    let answers: Vec<_> = receipt.events.iter().map(|e| (e.seq, e.position)).collect();
    assert_eq!(answers, [(1, 1), (1, 1), (1, 2)]);
    assert_eq!(world.sightings(&session("a"), 1).unwrap().len(), 1);
    assert_eq!(ids(&read_all(&world, "b")), [id("b", 2)]);
}

fn queued_batches_share_no_id(world: World) {
    for round in 1..=20 {
        let first = world.submit(Batch::hosted().with(prompt("a", round))).unwrap();
        let second = world.submit(Batch::hosted().with(taken(round))).unwrap();
        first.wait().unwrap();
        assert!(matches!(second.wait(), Err(AppendError::DuplicateId { .. })));
    }
    assert_eq!(world.tail().unwrap(), 20);
    assert!(!world.exists(&session("b")).unwrap());
}

fn wrong_expected_seq_is_conflict(world: World) {
    talk(&world, "a", 2);
    talk(&world, "b", 1);
    let append = |draft, a, b| {
        let batch = Batch::hosted().with(draft);
        world.append(batch.expecting(session("a"), a).expecting(session("b"), b))
    };
    for (a, b, expected, actual) in [(1, 1, 1, 2), (3, 1, 3, 2), (2, 0, 0, 1), (2, 2, 2, 1)] {
        let error = append(prompt("a", 3), a, b).unwrap_err();
        let AppendError::Conflict { session_id, expected: said, actual: found } = error else {
            panic!("{error:?}");
        };
        assert_eq!(session_id, session(if a == 2 { "b" } else { "a" }));
        assert_eq!((said, found), (expected, actual));
    }
    assert_eq!(world.tail().unwrap(), 3);
    assert_eq!(append(prompt("a", 3), 2, 1).unwrap().events[0].seq, 3);
}

fn missing_session_ends_at_zero(world: World) {
    let batch = |seq| Batch::hosted().with(prompt("a", 1)).expecting(session("a"), seq);
    let error = world.append(batch(1)).unwrap_err();
    assert!(matches!(error, AppendError::Conflict { expected: 1, actual: 0, .. }), "{error:?}");
    assert_eq!(world.append(batch(0)).unwrap().events[0].seq, 1);
}

fn same_expected_tail_conflicts_once(world: World) {
    talk(&world, "a", 1);
    let batch = |n| Batch::hosted().with(prompt("a", n)).expecting(session("a"), 1);
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| world.append(batch(2)));
        let second = scope.spawn(|| world.append(batch(3)));
        (first.join().unwrap(), second.join().unwrap())
    });
    let (won, lost) = if first.is_ok() { (first, second) } else { (second, first) };
    assert_eq!(won.unwrap().events[0].seq, 2);
    assert!(matches!(lost, Err(AppendError::Conflict { expected: 1, actual: 2, .. })));
    assert_eq!(seqs(&read_all(&world, "a")), [1, 2]);
}

fn expected_event_must_be_last(world: World) {
    let behind = |n, seq, last| {
        let batch = Batch::hosted().with(prompt("a", n));
        world.append(batch.expecting_event(session("a"), seq, id("a", last)))
    };
    let conflict = |answer| matches!(answer, Err(AppendError::Conflict { .. }));
    assert!(conflict(behind(2, 1, 1)), "nothing is there yet");
    host(&world, prompt("a", 1));
    assert!(conflict(behind(3, 1, 2)), "another event ends the session");
    behind(2, 1, 1).unwrap();
    assert!(conflict(behind(3, 1, 1)), "it is not the last any more");
    behind(3, 2, 2).unwrap();
}

fn expected_event_may_be_inherited(world: World) {
    talk(&world, "p", 2);
    host(&world, fork("f", 3, "p", 2));
    let mut imported = world.lineage(&session("f")).unwrap().remove(1);
    imported.session_id = session("g");
    world.import_ancestry(vec![imported]).unwrap();
    let last = read_all(&world, "g")[1].id;
    let behind = |id| Batch::hosted().with(prompt("g", 4)).expecting_event(session("g"), 2, id);
    assert!(matches!(world.append(behind(id("p", 2))), Err(AppendError::Conflict { .. })));
    assert_eq!(world.append(behind(last)).unwrap().events[0].seq, 3);
}

fn batch_on_refused_one_is_refused(world: World) {
    talk(&world, "a", 1);
    let submit = |n, seq, last| {
        let batch = Batch::hosted().with(prompt("a", n));
        world.submit(batch.expecting_event(session("a"), seq, id("a", last))).unwrap()
    };
    let tickets = [submit(2, 1, 1), submit(3, 9, 1), submit(4, 3, 3), submit(5, 2, 2)];
    let is_recorded = tickets.map(|ticket| ticket.wait().is_ok());
    assert_eq!(is_recorded, [true, false, false, true]);
    assert_eq!(read_all(&world, "a")[2].id, id("a", 5));
}

fn event_may_bring_next_seq(world: World) {
    let mut batch = Batch::observed();
    for n in 1..=3 {
        batch = batch.with_numbered(prompt("a", n), n);
    }
    assert_eq!(world.append(batch).unwrap().events[2].seq, 3);
    world.append(Batch::observed().with_numbered(prompt("a", 4), 4)).unwrap();
    assert_eq!(seqs(&read_all(&world, "a")), [1, 2, 3, 4]);
}

fn wrong_seq_is_refused(world: World) {
    talk(&world, "a", 2);
    for number in [0, 1, 2, 4, u64::MAX] {
        let batch = Batch::observed().with(prompt("b", 1)).with_numbered(prompt("a", 3), number);
        let error = world.append(batch).unwrap_err();
        let AppendError::BadSeq { session_id, expected, found } = error else {
            panic!("{error:?}");
        };
        assert_eq!((session_id, expected, found), (session("a"), 3, number));
    }
    assert_eq!(world.tail().unwrap(), 2);
}

fn repeated_numbered_event_is_recorded(world: World) {
    talk(&world, "a", 2);
    let receipt = world.append(Batch::observed().with_numbered(prompt("a", 1), 1)).unwrap();
    assert_eq!(receipt.events[0].seq, 1);
    assert_eq!(receipt.events[0].outcome, AppendOutcome::AlreadyRecorded { differs: false });
}

fn live_kinds_are_not_stored(world: World) {
    for kind in ["heartbeat", "assistant.delta"] {
        for batch in [Batch::hosted(), Batch::observed()] {
            let batch = batch.with_all([prompt("a", 1), fact("a", 2, kind, "{}")]);
            let error = world.append(batch).unwrap_err();
            assert!(matches!(&error, AppendError::LiveOnly(found) if *found == Kind::from(kind)));
        }
    }
    assert_eq!(world.tail().unwrap(), 0);
}

fn merged_tool_delta_is_stored(world: World) {
    let delta = fact("a", 1, "tool.delta", r#"{"call_id":"c","tool":"bash","text":"half"}"#);
    assert_eq!(host(&world, delta.clone()).seq, 1);
    assert_eq!(read_all(&world, "a"), [delta.with_seq(1)]);
}

fn unknown_kinds_are_recorded(mut world: World) {
    let strange = fact("a", 1, "weather.changed", r#"{"sky":["grey",1.50]}"#);
    host(&world, strange.clone());
    world.reopen();
    assert_eq!(read_all(&world, "a"), [strange.with_seq(1)]);
}

fn observed_meaning_is_never_refused(world: World) {
    let odd = [
        fact("a", 1, "tool.result", r#"{"call_id":"nobody asked"}"#),
        fact("a", 2, "user.prompt", r#"{"content":17}"#),
        fact("a", 3, "assistant.message", "null"),
        fact("a", 4, "session.started", r#"["not","an","object"]"#),
        fact("a", 5, "settings.changed", r#"{"model":{"deep":1}}"#),
        fork("b", 1, "nobody", 4),
        fork("c", 1, "c", 1),
        fork("d", 1, "a", 99),
    ];
    let receipt = world.append(Batch::observed().with_all(odd.clone())).unwrap();
    assert!(receipt.events.iter().all(|event| event.outcome == AppendOutcome::Recorded));
    let events: Vec<_> = recorded_from(&world, 1).into_iter().map(|r| r.event.draft).collect();
    assert_eq!(events, odd);
}

fn every_session_id_is_distinct(mut world: World) {
    let long = ["x".repeat(255), "X".repeat(255), format!("{}y", "x".repeat(254))];
    let mut names = vec![
        "ancestry",
        "Ancestry",
        "ANCESTRY",
        ".jsonl",
        "a.jsonl",
        "../x",
        "..",
        ".",
        "a/b",
        "a\\b",
        "/",
        "/etc/passwd",
        "CON",
        "con",
        "nul.txt",
        "~",
        "a:b",
        "*",
        "%2e",
        "%",
        "a b",
        " a",
        "a ",
        "用户",
        "é",
        "e\u{301}",
        "🦀",
        "journal.db",
        "index",
        "quarantine",
        "-rf",
    ];
    names.extend(long.iter().map(String::as_str));
    for (n, name) in names.iter().enumerate() {
        talk(&world, name, 1 + n as u64 % 3);
    }
    world.reopen();
    for (n, name) in names.iter().enumerate() {
        let events = read_all(&world, name);
        assert_eq!(events.len() as u64, 1 + n as u64 % 3, "{name}");
        assert!(events.iter().all(|event| event.session_id == session(name)), "{name}");
        assert_eq!(world.stat(&session(name)).unwrap().id.as_str(), *name);
    }
}

fn refused_batch_spares_neighbours(world: World) {
    talk(&world, "a", 1);
    let mut other = prompt("a", 1);
    other.text = Some("something else".to_owned());
    let submit = |batch: Batch| world.submit(batch).unwrap();
    let before = submit(Batch::hosted().with(prompt("a", 2)));
    let refused = submit(Batch::hosted().with_all([prompt("a", 90), other]));
    let after = submit(Batch::hosted().with(prompt("a", 3)));
    assert_eq!(before.wait().unwrap().events[0].seq, 2);
    assert!(matches!(refused.wait(), Err(AppendError::DuplicateId { .. })));
    let after = after.wait().unwrap();
    assert_eq!((after.events[0].seq, after.events[0].position), (3, 3));
    assert_eq!(recorded_from(&world, 1).len(), 3);
}

fn wait_for_new_returns_recorded_events(world: World) {
    talk(&world, "a", 1);
    let drafts = [prompt("a", 2), prompt("a", 1), prompt("b", 1), prompt("a", 3)];
    let ticket = world.submit(Batch::observed().with_all(drafts)).unwrap();
    let news = ticket.wait_for_new().unwrap().into_iter();
    let news: Vec<Event> =
        news.map(|(seq, draft)| Arc::unwrap_or_clone(draft).with_seq(seq)).collect();
    let mut expected = read_all(&world, "a").split_off(1);
    expected.insert(1, read_all(&world, "b").remove(0));
    assert_eq!(news, expected);
}

fn dropped_handle_keeps_batch(world: World) {
    let mut news = world.follow(FollowFrom::Now, OnLag::CatchUp).unwrap();
    for n in 1..=50 {
        drop(world.submit(Batch::hosted().with(prompt("a", n))).unwrap());
    }
    let seqs: Vec<u64> = next_events(&mut news, 50).iter().map(|r| r.event.seq).collect();
    assert_eq!(seqs, (1..=50).collect::<Vec<_>>());
}

fn appenders_share_one_numbering(world: World) {
    const EACH: u64 = 50;
    std::thread::scope(|scope| {
        for appender in 0..8 {
            let journal: Journal = world.clone();
            scope.spawn(move || {
                for n in 1..=EACH {
                    host(&journal, prompt("a", appender * 1_000 + n));
                }
            });
        }
    });
    let events = read_all(&world, "a");
    assert_eq!(seqs(&events), (1..=8 * EACH).collect::<Vec<_>>());
    for appender in 0..8 {
        let millis = appender * 1_000..(appender + 1) * 1_000;
        let own = events.iter().map(|event| event.created_at.nanos() as u64 / 1_000_000);
        let own: Vec<u64> = own.filter(|at| millis.contains(at)).collect();
        assert!(own.is_sorted(), "the order of one appender is kept");
        assert_eq!(own.len() as u64, EACH);
    }
    let recorded = recorded_from(&world, 1);
    assert!(recorded.iter().zip(&events).all(|(recorded, event)| recorded.event == *event));
    assert_eq!(recorded.last().unwrap().position, 8 * EACH);
}
