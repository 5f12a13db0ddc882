//! Properties of generated sessions that measurements rely on.

use std::collections::BTreeMap;

use event::Kind;

use super::{Corpus, Description, NEEDLES};

fn described(corpus: Corpus, count: usize) -> Description {
    let mut description = Description::default();
    for draft in corpus.events(count) {
        let size = draft.encode().len();
        description.add_draft(&draft, size);
    }
    description
}

#[test]
fn one_seed_gives_one_corpus() {
    let lines = |seed| Corpus::new(seed).events(800).map(|draft| draft.encode());
    assert!(lines(7).eq(lines(7)));
    assert!(!lines(7).eq(lines(8)));
}

#[test]
fn sizes_are_those_of_recorded_sessions() {
    let description = described(Corpus::new(1), 8_000);
    let (median, p99) = (description.size_at(500), description.size_at(990));
    assert!((600..1_100).contains(&median), "{description}");
    assert!((15_000..30_000).contains(&p99), "{description}");
    assert!(description.size_at(1_000) > 100_000, "{description}");
}

#[test]
fn sessions_are_many_one_or_brief() {
    assert!(described(Corpus::new(1), 2_000).sessions() > 8);
    assert_eq!(described(Corpus::one_session(1), 2_000).sessions(), 1);
    let brief = described(Corpus::brief_sessions(1), 100 * Corpus::BRIEF_EVENTS);
    assert_eq!(brief.sessions(), 100);
}

#[test]
fn every_call_gets_its_result_before_the_talk_moves_on() {
    let mut open: BTreeMap<_, usize> = BTreeMap::new();
    for draft in Corpus::new(3).events(2_000) {
        let open = open.entry(draft.session_id.clone()).or_default();
        match draft.kind {
            Kind::ToolCall => *open += 1,
            Kind::ToolResult => *open = open.checked_sub(1).expect("a result answers a call"),
            Kind::UserPrompt => assert_eq!(*open, 0, "{}", draft.id),
            _ => {}
        }
    }
}

#[test]
fn needles_are_rare_and_never_absent() {
    for needle in NEEDLES {
        let found = Corpus::new(5)
            .events(4_000)
            .filter(|draft| draft.search_texts().iter().any(|text| text.contains(needle)))
            .count();
        assert!((1..60).contains(&found), "{needle}: {found}");
    }
}
