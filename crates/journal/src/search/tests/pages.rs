//! From page to page.

use super::log::Log;
use crate::ReadError;
use crate::search::{Match, Order, Query, search};

/// All hits of a query, page after page, while the log grows and the index follows at its own
/// pace.
fn pages(log: &mut Log, query: &Query, feed_between: bool) -> Vec<u64> {
    let mut query = query.clone();
    let mut positions = Vec::new();
    loop {
        let found = log.search(&query);
        assert!(found.hits.len() <= query.limit);
        positions.extend(found.hits.iter().map(|hit| hit.position));
        let Some(next) = found.next else { return positions };
        assert!(!found.hits.is_empty());
        query.cursor = Some(next);
        log.prompt("s", "one more sand, sandwich and => arrow");
        if feed_between {
            log.feed();
        }
    }
}

fn log_of(count: usize) -> Log {
    let mut log = Log::new();
    for number in 0..count {
        match number % 4 {
            0 => log.prompt("s", &format!("sand {number} =>")),
            1 => log.answer("s", &format!("{} sandwich =>", "long ".repeat(number % 7))),
            2 => log.prompt("s", "nothing here"),
            _ => log.prompt("s", "sand sand => sandwich"),
        };
    }
    log
}

#[test]
fn pages_visit_every_hit_once_while_the_log_grows() {
    for order in [Order::Best, Order::Newest, Order::Oldest] {
        for (text, mode) in
            [("sand", Match::Words), ("=>", Match::Words), ("and", Match::Substring)]
        {
            for limit in [1, 7, 30] {
                for (fed, feed_between) in [(true, true), (true, false), (false, true)] {
                    let mut log = log_of(60);
                    if fed {
                        log.feed();
                    }
                    let query = Query { order, limit, mode, ..Query::new(text) };
                    let expected = 45;
                    let mut positions = pages(&mut log, &query, feed_between);
                    match order {
                        Order::Best => positions.sort(),
                        Order::Newest => positions.reverse(),
                        Order::Oldest => {}
                    }
                    assert_eq!(positions.len(), expected, "{query:?}");
                    assert!(positions.is_sorted_by(|a, b| a < b), "{query:?} {positions:?}");
                }
            }
        }
    }
}

#[test]
fn more_hits_than_one_window_are_all_reached() {
    let mut log = log_of(600);
    log.feed();
    let mut positions = pages(&mut log, &Query { limit: 64, ..Query::new("sand") }, true);
    positions.sort();
    positions.dedup();
    assert_eq!(positions.len(), 450);
}

#[test]
fn the_total_is_the_same_on_every_page() {
    let log = log_of(80);
    log.feed();
    let mut query = Query { limit: 10, ..Query::new("sand") };
    let mut totals = Vec::new();
    loop {
        let found = log.search(&query);
        totals.push((found.total, found.total_is_exact, found.complete));
        match found.next {
            Some(next) => query.cursor = Some(next),
            None => break,
        }
    }
    assert_eq!(totals, [(60, true, true); 6]);
}

#[test]
fn a_total_that_was_not_counted_is_a_lower_bound() {
    let log = log_of(80);
    log.feed();
    let query = Query { limit: 10, order: Order::Newest, ..Query::new("=>") };
    let found = log.search(&query);
    assert_eq!((found.total, found.total_is_exact), (11, false));
    let all = log.search(&Query { limit: 1_000, ..query });
    assert_eq!((all.total, all.total_is_exact), (60, true));
}

#[test]
fn a_cursor_belongs_to_its_query() {
    let log = log_of(40);
    let query = Query { limit: 3, ..Query::new("sand") };
    let cursor = log.scan(&query).next;
    assert!(cursor.is_some());
    for bad in [
        Query { cursor: cursor.clone(), ..Query::new("sandwich") },
        Query { cursor: cursor.clone(), order: Order::Newest, ..query.clone() },
        Query { cursor: Some("".to_owned()), ..query.clone() },
        Query { cursor: Some("1.x".to_owned()), ..query.clone() },
    ] {
        let answer = search(&log, None, &bad);
        assert!(matches!(answer, Err(ReadError::BadArgument { .. })), "{bad:?}");
    }
    assert!(search(&log, None, &Query { cursor, limit: 5, ..query }).is_ok());
}
