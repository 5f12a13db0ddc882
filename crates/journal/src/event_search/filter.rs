//! The typed filters of a query.

use event::{Event, SessionId};

use super::query::Query;
use super::sqlite_index::IndexState;
use super::{Corpus, keywords};
use crate::ReadError;

/// Days and months a time range may be looked up by. A range that needs more is compared with
/// the events only.
const TIME_KEYWORDS_MAX: usize = 256;

/// The filters of a query, with the session's ancestors looked up.
pub(super) struct Filter<'a> {
    query: &'a Query,
    /// The session asked for and those it was forked from, each with the last `seq` it shows.
    lineage: Vec<(SessionId, u64)>,
}

impl<'a> Filter<'a> {
    pub(super) fn new(query: &'a Query, corpus: &dyn Corpus) -> Result<Filter<'a>, ReadError> {
        let lineage = match &query.session {
            Some(session_id) => corpus.lineage(session_id)?,
            None => Vec::new(),
        };
        Ok(Filter { query, lineage })
    }

    /// Whether an event fits all filters.
    pub(super) fn accepts(&self, event: &Event, corpus: &dyn Corpus) -> Result<bool, ReadError> {
        let Filter { query, lineage } = self;
        // What the event itself tells comes before the project, which has to be looked up.
        let is_excluded = query.after.is_some_and(|after| event.created_at < after)
            || query.before.is_some_and(|before| event.created_at >= before)
            || query.provider.as_ref().is_some_and(|provider| *provider != event.provider)
            || (!query.kinds.is_empty() && !query.kinds.contains(&event.kind))
            || (query.session.is_some()
                && !lineage.iter().any(|(session_id, up_to)| {
                    *session_id == event.session_id && event.seq <= *up_to
                }))
            || (query.tool.is_some() && query.tool != event.tool());
        if is_excluded {
            return Ok(false);
        }
        Ok(query.project.is_none() || query.project == corpus.project(&event.session_id)?)
    }

    /// Lists of keyword terms; an event must have one of each list.
    pub(super) fn keywords(&self, state: &IndexState) -> Vec<Vec<String>> {
        let query = self.query;
        let mut all = Vec::new();
        // With its ancestors: inherited events are indexed under the session that recorded them.
        if query.session.is_some() {
            let lineage = self.lineage.iter();
            all.push(lineage.map(|(session_id, _)| keywords::session(session_id)).collect());
        }
        if !query.kinds.is_empty() {
            all.push(query.kinds.iter().map(keywords::kind).collect());
        }
        all.extend(query.provider.as_deref().map(|provider| vec![keywords::provider(provider)]));
        all.extend(query.project.as_deref().map(|project| vec![keywords::project(project)]));
        all.extend(query.tool.as_deref().map(|tool| vec![keywords::tool(tool)]));
        all.extend(self.time_keywords(state.first_day, state.last_day));
        all
    }

    /// Whether the keywords alone decide: times are indexed by the day only, and of an ancestor a
    /// session shows the beginning only.
    pub(super) fn keywords_are_exact(&self) -> bool {
        let query = self.query;
        query.after.is_none() && query.before.is_none() && self.lineage.len() <= 1
    }

    /// The days and months that cover the time range, as far as they occur in the index. `None`
    /// if there is no time filter, or it would need too many.
    fn time_keywords(&self, first_day: i64, last_day: i64) -> Option<Vec<String>> {
        if self.query.after.is_none() && self.query.before.is_none() {
            return None;
        }
        // Without these bounds a filter such as "since 1970" would need thousands of days that no
        // event has.
        let from = self.query.after.map_or(first_day, keywords::day_of).max(first_day);
        let to = self.query.before.map_or(last_day, keywords::day_of).min(last_day);
        let mut terms = Vec::new();
        let mut day = from;
        while day <= to {
            if terms.len() >= TIME_KEYWORDS_MAX {
                return None;
            }
            // A whole month takes one term instead of one per day.
            if day.rem_euclid(keywords::MONTH_DAYS) == 0 && day + keywords::MONTH_DAYS - 1 <= to {
                terms.push(keywords::month(day.div_euclid(keywords::MONTH_DAYS)));
                day += keywords::MONTH_DAYS;
            } else {
                terms.push(keywords::day(day));
                day += 1;
            }
        }
        Some(terms)
    }
}
