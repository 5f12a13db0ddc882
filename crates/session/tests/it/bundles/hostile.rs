//! Any bytes as a bundle: taken in or refused, and the journal is sound afterwards.

use std::io::Cursor;

use journal::{Journal, Selection, SessionFilter};

pub(crate) fn check(bytes: &[u8]) {
    let journal = Journal::in_memory();
    let first = session::import(&journal, &mut Cursor::new(bytes));
    let page = journal.sessions(&SessionFilter::default(), None, 100).unwrap();
    for info in &page.items {
        let events = journal.events(&info.id, Selection::all()).unwrap();
        let seqs: Vec<u64> = events.map(|event| event.unwrap().seq).collect();
        assert_eq!(seqs, (1..=info.tail_seq).collect::<Vec<_>>());
    }
    match first {
        Err(_) => assert!(page.items.is_empty(), "refused and yet there"),
        Ok(_) => {
            let again = session::import(&journal, &mut Cursor::new(bytes)).unwrap();
            assert_eq!(again.events, 0, "what is there is there");
        }
    }
}
