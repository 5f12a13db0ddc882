//! Lines of every format that was ever stored. They must stay readable for ever.

use std::collections::BTreeSet;

use event::{Event, Kind};

/// One line per kind and one of an unknown kind; every field is set.
pub(crate) const V1: &str = include_str!("../golden/v1.jsonl");

/// The event of `kind` among the golden lines.
pub(crate) fn event(kind: &Kind) -> Event {
    V1.lines()
        .map(|line| Event::decode(line).expect("a golden line is an event"))
        .find(|event| event.kind == *kind)
        .unwrap_or_else(|| panic!("no golden line for {kind}"))
}

#[test]
fn golden_lines_survive_reencoding() {
    for line in V1.lines() {
        let event = Event::decode(line).unwrap_or_else(|error| panic!("{error}\n{line}"));
        assert_eq!(event.encode(), line);
    }
}

#[test]
fn every_kind_has_a_golden_line() {
    let kinds: BTreeSet<Kind> =
        V1.lines().map(|line| Event::decode(line).unwrap().draft.kind).collect();
    let known: BTreeSet<Kind> = Kind::KNOWN.iter().cloned().collect();
    assert_eq!(known.difference(&kinds).collect::<Vec<_>>(), Vec::<&Kind>::new());
    assert_eq!(
        kinds.difference(&known).collect::<Vec<_>>(),
        [&Kind::Other("weather.changed".into())]
    );
}

#[test]
fn kind_codes_never_change() {
    let mut codes = String::new();
    for kind in Kind::KNOWN {
        codes.push_str(&format!("{} {kind}\n", kind.code()));
    }
    expect_test::expect_file!["../golden/kind_codes.txt"].assert_eq(&codes);
}
