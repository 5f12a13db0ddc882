//! Events as the documents of one search.

use std::ops::RangeInclusive;

use ::search::{DocId, DocumentSource, Order};
use event::Kind;

use super::Corpus;
use super::filter::Filter;
use crate::Recorded;
use crate::derived::DerivedError;
use crate::store::Direction;

/// What the words of people and agents count more than output of tools and machines. The score of
/// a text is at most 1, so no difference between two texts outweighs it.
const SPOKEN_BOOST: f64 = 1.0;

/// The events of the log, with the filters of a query. A document's id is the event's position.
pub(super) struct EventDocuments<'a> {
    pub(super) corpus: &'a dyn Corpus,
    pub(super) filter: Filter<'a>,
}

impl DocumentSource for EventDocuments<'_> {
    type Document = Recorded;
    type Error = DerivedError;

    fn last_id(&self) -> Result<DocId, DerivedError> {
        Ok(self.corpus.tail()?)
    }

    fn read_page(
        &self,
        ids: RangeInclusive<DocId>,
        order: Order,
    ) -> Result<Vec<Recorded>, DerivedError> {
        let direction = match order.is_newest_first() {
            true => Direction::NewestFirst,
            false => Direction::OldestFirst,
        };
        Ok(self.corpus.page(ids, direction)?)
    }

    fn read_document(&self, id: DocId) -> Result<Option<Recorded>, DerivedError> {
        Ok(self.corpus.event_at(id)?)
    }

    fn doc_id(&self, document: &Recorded) -> DocId {
        document.position
    }

    fn supersedes(&self, document: &Recorded) -> Result<Option<DocId>, DerivedError> {
        let event = &document.event;
        // An amending event names the first account by its id, and documents have positions.
        match event.amends() {
            Some(first) => Ok(self.corpus.position(&event.session_id, &first)?),
            None => Ok(None),
        }
    }

    fn accepts(&self, document: &Recorded) -> Result<bool, DerivedError> {
        // Also for candidates that the index gave: keyword terms are hashes, and times are indexed
        // by the day.
        Ok(self.filter.accepts(&document.event, self.corpus)?)
    }

    fn texts(&self, document: &Recorded) -> Vec<String> {
        document.event.search_texts()
    }

    fn boost(&self, document: &Recorded) -> f64 {
        if is_spoken(&document.event.kind) { SPOKEN_BOOST } else { 0.0 }
    }
}

/// Whether a person or an agent said this, rather than a tool or a machine.
fn is_spoken(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::UserPrompt
            | Kind::AssistantMessage
            | Kind::Note
            | Kind::SessionStarted
            | Kind::SettingsChanged
    )
}
