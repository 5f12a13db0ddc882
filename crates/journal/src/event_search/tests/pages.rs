//! Cursors as texts.

use super::log::Log;
use crate::event_search::{Query, search};
use crate::{Order, ReadError};

fn needles() -> Log {
    Log::with_prompts(&["needle"; 10])
}

#[test]
fn cursor_belongs_to_its_query() {
    let log = needles();
    let query = Query { limit: 3, ..Query::new("needle") };
    let cursor = log.scan(&query).next;
    assert!(cursor.is_some());
    for bad in [
        Query { cursor: cursor.clone(), ..Query::new("needles") },
        Query { cursor: cursor.clone(), order: Order::Newest, ..query.clone() },
        Query { cursor: Some("".to_owned()), ..query.clone() },
        Query { cursor: Some("1.x".to_owned()), ..query.clone() },
    ] {
        let answer = search(&log, None, &bad);
        assert!(matches!(answer, Err(ReadError::BadArgument { .. })), "{bad:?}");
    }
    assert!(search(&log, None, &Query { cursor, limit: 5, ..query }).is_ok());
}

/// A client may hold a cursor while the daemon is replaced by a newer one.
#[test]
fn cursor_text_stays_the_same() {
    let query = Query { limit: 3, ..Query::new("needle") };
    assert_eq!(needles().scan(&query).next.as_deref(), Some("1.e3eca13bb217.14.0.0.3.a.1"));
}
