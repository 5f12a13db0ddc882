//! Each row of the tables in `lineage.rs`.

use super::*;

const OWN: &str = "own";

/// Facts of a source that was never read, related to a family; a case changes what it is about.
fn facts(hint: &LineageHint) -> LineageFacts<'_> {
    LineageFacts {
        session: OWN,
        hint,
        times: FileTimes { changed: 10, made: Some(10) },
        was_read: false,
        is_related: true,
        is_named_parent: false,
        history: None,
        opening: None,
        relatives: None,
    }
}

fn opening(opening: Opening) -> Option<OpeningFacts> {
    Some(OpeningFacts { opening, is_settled: true, is_quiet: true })
}

/// The source repeats events up to place 7 of the session `recorder`.
fn repeated(named: Option<&str>) -> RepeatedPart {
    RepeatedPart {
        recorder: SessionId::new("parrot:recorder").unwrap(),
        seq: 7,
        end: 100,
        last_at: Some(Time::from_millis(5)),
        is_all: false,
        named: named.map(str::to_owned),
    }
}

fn relative(name: &str, parent: Option<&str>) -> Relative {
    let parent = parent.map(ParentLink::unseen);
    Relative { name: name.to_owned(), parent, is_started: true, last_at: None, file: None }
}

fn line(line: &[(&str, Option<&str>)], elders: &[(&str, Option<&str>)]) -> Option<Relatives> {
    let all = |list: &[(&str, Option<&str>)]| {
        list.iter().map(|(name, parent)| relative(name, *parent)).collect()
    };
    Some(Relatives { line: all(line), elders: all(elders), has_files: true })
}

fn family() -> LineageHint {
    LineageHint { family: Some("first record".to_owned()), ..LineageHint::default() }
}

fn fork() -> Decision {
    let parent = ParentLink::behind_event("recorder", 7);
    Decision::Settled(Lineage::Fork { parent, copy: CopiedPart::Beginning })
}

fn parent(parent: Option<&str>, heir: Option<usize>) -> Decision {
    let parent = parent.map(ParentLink::unseen);
    Decision::Settled(Lineage::Parent { parent, heir })
}

#[track_caller]
fn check(row: &str, facts: &LineageFacts<'_>, expected: Decision) {
    assert_eq!(decide(facts), expected, "row {row}");
}

#[test]
fn unrelated_source_is_new() {
    let hint = LineageHint::default();
    let new = || Decision::Settled(Lineage::New);
    check("1", &LineageFacts { is_related: false, ..facts(&hint) }, new());
    let needs = Decision::Needs(MissingFact::Opening);
    check("1, but related", &facts(&hint), needs.clone());
    check(
        "1, but read",
        &LineageFacts { was_read: true, is_related: false, ..facts(&hint) },
        needs,
    );
}

#[test]
fn numbered_source_follows_its_history() {
    let hint = LineageHint { begins_at: Some(3), ..LineageHint::default() };
    let other = |seq| HistoryPoint::OtherSession { session: "other".to_owned(), seq };
    let shown = ParentLink::behind_event("other", 9);
    let cases = [
        ("2", HistoryPoint::OwnSession, Lineage::Resume),
        ("3", other(Some(9)), Lineage::Fork { parent: shown, copy: CopiedPart::Nothing }),
        ("4", other(None), Lineage::New),
        ("4", HistoryPoint::Missing, Lineage::New),
    ];
    check("2 to 4", &facts(&hint), Decision::Needs(MissingFact::History));
    for (row, history, lineage) in cases {
        let facts = LineageFacts { history: Some(history), ..facts(&hint) };
        check(row, &facts, Decision::Settled(lineage));
    }
}

#[test]
fn fresh_silent_source_waits() {
    let hint = LineageHint::default();
    let cases = [
        // has_spoken, is_settled, is_related
        ("5", false, false, true, Lineage::Defer),
        ("6, has spoken", true, false, true, Lineage::New),
        ("6, is settled", false, true, true, Lineage::New),
        ("6, is unrelated", false, false, false, Lineage::New),
    ];
    for (row, has_spoken, is_settled, is_related, lineage) in cases {
        let opening = Opening::Unnamed { has_spoken };
        let opening = Some(OpeningFacts { opening, is_settled, is_quiet: false });
        let facts = LineageFacts { opening, is_related, was_read: true, ..facts(&hint) };
        check(row, &facts, Decision::Settled(lineage));
    }
    let own = LineageFacts { opening: opening(Opening::Own), ..facts(&hint) };
    check("7", &own, Decision::Settled(Lineage::New));
}

#[test]
fn growing_copy_waits_unless_it_is_named() {
    let hint = LineageHint::default();
    let cases = [
        // is_all, is_named_parent, is_quiet
        ("8", true, false, false, Decision::Settled(Lineage::Defer)),
        ("8, says more", false, false, false, Decision::Needs(MissingFact::Relatives)),
        ("8, is named", true, true, false, Decision::Needs(MissingFact::Relatives)),
        ("8, is quiet", true, false, true, Decision::Needs(MissingFact::Relatives)),
    ];
    for (row, is_all, is_named_parent, is_quiet, expected) in cases {
        let opening = Opening::Repeated(RepeatedPart { is_all, ..repeated(None) });
        let opening = Some(OpeningFacts { opening, is_settled: true, is_quiet });
        check(row, &LineageFacts { opening, is_named_parent, ..facts(&hint) }, expected);
    }
}

#[test]
fn names_decide_before_ages() {
    let plain = LineageHint::default();
    let family = family();
    let silent = |mut relatives: Option<Relatives>| {
        relatives.iter_mut().flat_map(|it| &mut it.elders).for_each(|it| it.is_started = false);
        relatives
    };
    let root = ("recorder", None);
    let cases = [
        ("9", &plain, None, line(&[("recorder", Some(OWN))], &[]), parent(None, None)),
        (
            "9, names a parent",
            &plain,
            Some("other"),
            line(&[("recorder", Some(OWN))], &[("other", None)]),
            parent(Some("other"), None),
        ),
        (
            "9, the parent comes from it",
            &plain,
            Some("other"),
            line(&[("recorder", Some(OWN))], &[("other", Some(OWN))]),
            parent(None, None),
        ),
        ("10", &plain, Some("recorder"), line(&[root], &[root]), fork()),
        (
            "11",
            &plain,
            Some("other"),
            line(&[("recorder", Some("other"))], &[("other", None)]),
            parent(Some("other"), None),
        ),
        ("12", &plain, Some("gone"), line(&[root], &[]), fork()),
        ("12, silent", &plain, Some("other"), silent(line(&[root], &[("other", None)])), fork()),
        ("13", &plain, None, line(&[root], &[]), parent(None, None)),
        (
            "13, named",
            &plain,
            Some("other"),
            line(&[root], &[("other", None)]),
            parent(Some("other"), None),
        ),
        (
            "15",
            &family,
            Some("other"),
            line(&[root], &[("other", None)]),
            parent(Some("other"), None),
        ),
        ("17, the parent is gone", &family, Some("gone"), line(&[root], &[]), fork()),
        ("17", &family, None, line(&[root], &[]), fork()),
    ];
    for (row, hint, named, relatives, expected) in cases {
        let opening = opening(Opening::Repeated(repeated(named)));
        check(row, &LineageFacts { opening, relatives, ..facts(hint) }, expected);
    }
}

#[test]
fn fork_that_says_nothing_yet_is_shown() {
    let hint = LineageHint { named: Some(OWN.to_owned()), ..family() };
    let part = RepeatedPart { is_all: true, ..repeated(Some("recorder")) };
    let opening = opening(Opening::Repeated(part));
    let relatives = line(&[("recorder", None)], &[("recorder", None)]);
    let copy = CopiedPart::Everything;
    let parent = ParentLink::behind_event("recorder", 7);
    let facts = LineageFacts { opening, relatives, ..facts(&hint) };
    check("10, all of it", &facts, Decision::Settled(Lineage::Fork { parent, copy }));
}

#[test]
fn older_source_is_the_parent() {
    let family = family();
    let at = |millis| LineageHint { since: Some(Time::from_millis(millis)), ..family.clone() };
    let file = |hint: LineageHint, made| {
        let times = FileTimes { changed: made, made: Some(made) };
        Some(RelativeFile { hint, is_main: true, times })
    };
    let copy_of_source = LineageHint { named: Some(OWN.to_owned()), ..family.clone() };
    // Of the recorder: its file, and when it said its last; of the source: whether it says more.
    let cases = [
        ("a", file(copy_of_source, 1), 5, true, true),
        ("b, later", file(at(9), 1), 5, true, true),
        ("b, earlier", file(at(1), 99), 9, false, false),
        ("c, the recorder goes on", file(at(3), 1), 9, false, true),
        ("c, the source goes on", file(at(3), 99), 5, true, false),
        ("e, younger file", file(at(3), 99), 9, true, true),
        ("e, older file", file(at(3), 1), 9, true, false),
        ("d, no file", None, 9, true, false),
    ];
    let hint = at(3);
    for (row, file, last_at, goes_on, is_older) in cases {
        let part = RepeatedPart { is_all: !goes_on, ..repeated(None) };
        let mut relatives = line(&[("recorder", None)], &[]);
        for recorder in relatives.iter_mut().flat_map(|it| &mut it.line) {
            recorder.file.clone_from(&file);
            recorder.last_at = Some(Time::from_millis(last_at));
        }
        let opening = opening(Opening::Repeated(part));
        let facts = LineageFacts { opening, relatives, ..facts(&hint) };
        check(row, &facts, if is_older { parent(None, Some(0)) } else { fork() });
    }
}

#[test]
fn equal_ages_are_a_tie() {
    let family = family();
    let file = |changed, made| {
        let times = FileTimes { changed, made };
        Some(RelativeFile { hint: family.clone(), is_main: true, times })
    };
    let tie = |parent: Option<&str>| {
        Decision::Settled(Lineage::Tie { parent: parent.map(ParentLink::unseen) })
    };
    // Of the recorder: its file and its parent; of the source: the parent that it names.
    let cases = [
        ("f, one tick", file(99, Some(10)), None, None, tie(None)),
        (
            "f, one tick, the recorder is a fork",
            file(99, Some(10)),
            Some("first"),
            None,
            tie(Some("first")),
        ),
        ("f, no time", file(1, None), None, None, tie(None)),
        ("15", file(99, Some(10)), None, Some("other"), parent(Some("other"), None)),
        ("17", file(99, Some(10)), None, Some("gone"), fork()),
    ];
    for (row, file, recorder_parent, named, expected) in cases {
        let elders: &[_] = if named == Some("other") { &[("other", None)] } else { &[] };
        let mut relatives = line(&[("recorder", recorder_parent)], elders);
        for recorder in relatives.iter_mut().flat_map(|it| &mut it.line) {
            recorder.file.clone_from(&file);
            recorder.last_at = Some(Time::from_millis(9));
        }
        let opening = opening(Opening::Repeated(repeated(named)));
        check(row, &LineageFacts { opening, relatives, ..facts(&family) }, expected);
    }
}

#[test]
fn tie_within_a_line_hides_no_elder() {
    let hint = |millis| LineageHint { since: Some(Time::from_millis(millis)), ..family() };
    let file = |millis| {
        let times = FileTimes { changed: 10, made: Some(10) };
        Some(RelativeFile { hint: hint(millis), is_main: true, times })
    };
    let opening = opening(Opening::Repeated(repeated(None)));
    let mut relatives =
        line(&[("recorder", Some("middle")), ("middle", Some("first")), ("first", None)], &[]);
    for (relative, millis) in relatives.iter_mut().flat_map(|it| &mut it.line).zip([9, 3, 1]) {
        relative.file = file(millis);
        relative.last_at = Some(Time::from_millis(9));
    }
    // Older than the recorder, and begun together with the one in the middle.
    let own = hint(3);
    let facts = LineageFacts { opening, relatives, ..facts(&own) };
    check("14, a tie above", &facts, parent(Some("first"), None));
}

#[test]
fn source_takes_its_place_within_a_line() {
    let hint = LineageHint { since: Some(Time::from_millis(3)), ..family() };
    let since = |millis| {
        let hint = LineageHint { since: Some(Time::from_millis(millis)), ..family() };
        Some(RelativeFile { hint, is_main: true, times: FileTimes::default() })
    };
    let opening = opening(Opening::Repeated(repeated(None)));
    let mut relatives = line(&[("recorder", Some("first")), ("first", None)], &[]);
    let mut ages = [since(9), since(1)].into_iter();
    for relative in relatives.iter_mut().flat_map(|it| &mut it.line) {
        relative.file = ages.next().flatten();
    }
    // The recorder is younger and the one before it older; the recorder keeps the parent it has.
    let facts = LineageFacts { opening, relatives, ..facts(&hint) };
    check("14, between two", &facts, parent(Some("first"), None));
}

#[test]
fn files_are_looked_at_only_where_they_count() {
    let opening = || opening(Opening::Repeated(repeated(None)));
    let unread =
        |parent| line(&[("recorder", parent)], &[]).map(|it| Relatives { has_files: false, ..it });
    let family = family();
    let needs = Decision::Needs(MissingFact::RelativeFiles);
    let facts_of = |relatives| LineageFacts { opening: opening(), relatives, ..facts(&family) };
    check("14 to 17", &facts_of(unread(None)), needs);
    check("9", &facts_of(unread(Some(OWN))), parent(None, None));
}

#[test]
fn working_for_a_session_counts_more_than_repeating_one() {
    use SessionMode::{Child, Fork};
    let cases = [
        // mode, names_itself, has_parent, is_started
        (Child, false, false, false, ParentClaim::Kept),
        (Child, false, true, false, ParentClaim::Kept),
        (Child, false, false, true, ParentClaim::Ignored),
        (Fork, false, false, false, ParentClaim::Kept),
        (Fork, false, true, false, ParentClaim::Ignored),
        (Fork, true, false, false, ParentClaim::Ignored),
        (Fork, false, false, true, ParentClaim::Announced),
        (Fork, false, true, true, ParentClaim::Ignored),
    ];
    for (mode, names_itself, has_parent, is_started, claim) in cases {
        let judged = judge_claim(&mode, names_itself, has_parent, is_started);
        assert_eq!(judged, claim, "{mode:?} {names_itself} {has_parent} {is_started}");
    }
}

#[test]
fn named_parent_comes_from_the_surest_place() {
    let link = ParentLink::unseen("by record");
    let works_for = ParentLink { mode: SessionMode::Child, ..ParentLink::unseen("boss") };
    let hint = |parent: Option<&str>, named: Option<&str>| LineageHint {
        parent: parent.map(str::to_owned),
        named: named.map(str::to_owned),
        ..LineageHint::default()
    };
    let cases = [
        (Some(&link), hint(Some("by hint"), Some("called")), true, Some("by record")),
        (Some(&works_for), hint(Some("by hint"), Some("called")), true, Some("by hint")),
        (None, hint(None, Some("called")), true, Some("called")),
        (None, hint(None, Some("called")), false, None),
        (None, hint(None, Some(OWN)), true, None),
    ];
    for (records, hint, is_main, expected) in cases {
        assert_eq!(named_parent(OWN, is_main, records, &hint).as_deref(), expected);
    }
}
