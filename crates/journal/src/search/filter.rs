//! The typed filters of a query.

use event::{Event, SessionId};

use super::Corpus;
use super::query::Query;
use super::tags;
use crate::ReadError;

/// Days and months a time range may be looked up by. A range that needs more is compared with
/// the events only.
const TIME_TAGS_MAX: i64 = 256;

/// The filters of a query, with the session's ancestors looked up.
pub(super) struct Filter<'a> {
    query: &'a Query,
    /// The session asked for and those it was forked from, each with the last `seq` it shows.
    lineage: Vec<(SessionId, u64)>,
}

impl<'a> Filter<'a> {
    pub(super) fn of(query: &'a Query, corpus: &dyn Corpus) -> Result<Filter<'a>, ReadError> {
        let lineage = match &query.session {
            Some(session_id) => corpus.lineage(session_id)?,
            None => Vec::new(),
        };
        Ok(Filter { query, lineage })
    }

    pub(super) fn lets_through(
        &self,
        event: &Event,
        corpus: &dyn Corpus,
    ) -> Result<bool, ReadError> {
        let Filter { query, lineage } = self;
        let is_cheaply_out = query.after.is_some_and(|after| event.created_at < after)
            || query.before.is_some_and(|before| event.created_at >= before)
            || query.provider.as_ref().is_some_and(|provider| *provider != event.provider)
            || (!query.kinds.is_empty() && !query.kinds.contains(&event.kind))
            || (query.session.is_some()
                && !lineage.iter().any(|(session_id, up_to)| {
                    *session_id == event.session_id && event.seq <= *up_to
                }))
            || (query.tool.is_some() && query.tool != event.tool());
        if is_cheaply_out {
            return Ok(false);
        }
        Ok(query.project.is_none() || query.project == corpus.project(&event.session_id)?)
    }

    /// Lists of tags; an event must have one of each list. `days` are the first and the last day
    /// of anything indexed.
    pub(super) fn tags(&self, days: (i64, i64)) -> Vec<Vec<String>> {
        let query = self.query;
        let mut all = Vec::new();
        if query.session.is_some() {
            all.push(
                self.lineage.iter().map(|(session_id, _)| tags::session(session_id)).collect(),
            );
        }
        if !query.kinds.is_empty() {
            all.push(query.kinds.iter().map(tags::kind).collect());
        }
        all.extend(query.provider.as_deref().map(|provider| vec![tags::provider(provider)]));
        all.extend(query.project.as_deref().map(|project| vec![tags::project(project)]));
        all.extend(query.tool.as_deref().map(|tool| vec![tags::tool(tool)]));
        all.extend(self.time_tags(days));
        all
    }

    /// Whether the tags alone decide.
    pub(super) fn tags_are_sure(&self) -> bool {
        let query = self.query;
        query.after.is_none() && query.before.is_none() && self.lineage.len() <= 1
    }

    fn time_tags(&self, (first, last): (i64, i64)) -> Option<Vec<String>> {
        if self.query.after.is_none() && self.query.before.is_none() {
            return None;
        }
        let from = self.query.after.map_or(first, tags::day_of).max(first);
        let to = self.query.before.map_or(last, tags::day_of).min(last);
        let mut range = Vec::new();
        let mut day = from;
        while day <= to {
            if range.len() as i64 >= TIME_TAGS_MAX {
                return None;
            }
            if day.rem_euclid(tags::MONTH_DAYS) == 0 && day + tags::MONTH_DAYS - 1 <= to {
                range.push(tags::month(day.div_euclid(tags::MONTH_DAYS)));
                day += tags::MONTH_DAYS;
            } else {
                range.push(tags::day(day));
                day += 1;
            }
        }
        Some(range)
    }
}
