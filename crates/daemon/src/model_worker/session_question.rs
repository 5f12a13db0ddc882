//! A question about a session: read from the journal, its answer recorded in the journal.

use event::payload::ModelWords;
use event::{Draft, EventId, Time};
use journal::{AppendError, Batch, Journal, ReadError, Selection, SessionInfo};
use model::{AskError, AskOutcome, EpochFacts, PendingAsk, Question};
use projection::{Chapter, Chronicle, FactOrigin, Facts, TitleOrigin};

use segments::Zone;
use segments::{Segment, SegmentError, SegmentKey};
use views::{chronicle_of, load_current};

/// The origin of notes in their derived ids.
const MODEL: &str = "model";

/// A question about a session, and the note that its answer becomes.
pub(super) struct SessionQuestion {
    pub(super) question: Question,
    id: EventId,
    session: SessionInfo,
    /// The time of the last event it is about. The note gets this time, so that it does not count as
    /// activity of the session.
    at: Time,
}

impl SessionQuestion {
    /// Loads the question; `None` if the answer is recorded, there is nothing to ask about, or the
    /// session is deleted.
    pub(super) fn load(
        ask: &PendingAsk,
        journal: &Journal,
    ) -> Result<Option<SessionQuestion>, ReadError> {
        match SessionQuestion::find(ask, journal) {
            Err(ReadError::SessionNotFound(_)) => Ok(None),
            matter => matter,
        }
    }

    fn find(ask: &PendingAsk, journal: &Journal) -> Result<Option<SessionQuestion>, ReadError> {
        let session = journal.stat(&ask.session)?;
        let (from_seq, to_seq) = (ask.from_seq, ask.to_seq);
        let events = |from_seq| {
            let selection = Selection { from_seq, to_seq, ..Selection::all() };
            journal.events(&session.id, selection)
        };
        let Some(last) = events(to_seq)?.next() else { return Ok(None) };
        let at = last?.created_at;
        let chronicle = chronicle_of(journal, &session)?;
        let Some(chapter) = chapter_of(ask, &chronicle) else { return Ok(None) };
        let own = session.provider_session_id.as_deref().unwrap_or(session.id.as_str());
        let tag = chapter.epoch.tag(&session.provider, own);
        let identity = format!("{tag} {}", ask.key());
        let id = EventId::derived(at, MODEL, session.id.as_str(), identity.as_bytes());
        if journal.locate(id)?.is_some() {
            return Ok(None);
        }
        let mut facts = chapter.facts;
        facts.retain(|fact| {
            let is_inside = from_seq <= fact.from_seq && fact.to_seq <= to_seq;
            is_inside && fact.origin == FactOrigin::Heuristic
        });
        let named = load_current::<Facts>(journal, &session)?;
        // A title made from the first prompt may be replaced; one that was given must stay.
        let is_meant = named.title_origin() != Some(TitleOrigin::Heuristic);
        let title = named.title().filter(|_| is_meant).map(str::to_owned);
        let known = EpochFacts { tag, title, facts };
        let events = events(from_seq)?;
        let question = Question::about_events(ask.purpose, (from_seq, to_seq), events, &known)?;
        Ok(question.map(|question| SessionQuestion { question, id, session, at }))
    }

    /// Records the answer as a note in the session.
    pub(super) fn record(self, words: ModelWords, journal: &Journal, now: Time) -> AskOutcome {
        let SessionQuestion { id, session, at, .. } = self;
        let failed = |why: String| AskOutcome::Failed(AskError::Failed(why));
        let draft = match Draft::new(id, session.id, at, &words.into_note()) {
            Ok(draft) => Draft {
                observed_at: now,
                provider: session.provider,
                provider_session_id: session.provider_session_id,
                ..draft
            },
            Err(error) => return failed(error.to_string()),
        };
        match journal.append(Batch::observed().with(draft)) {
            // Recorded before, or the session is deleted.
            Ok(_) | Err(AppendError::DuplicateId { .. } | AppendError::Deleted(..)) => {
                AskOutcome::Done
            }
            Err(error) => failed(format!("its answer cannot be recorded: {error}")),
        }
    }
}

/// Writes the digest of a closed epoch again, if its segment has one.
pub(super) fn describe_again(
    ask: &PendingAsk,
    journal: &Journal,
    zone: &Zone,
) -> Result<(), SegmentError> {
    let Some(dir) = journal.dir() else { return Ok(()) };
    let session = match journal.stat(&ask.session) {
        Err(ReadError::SessionNotFound(_)) => return Ok(()),
        session => session?,
    };
    let chronicle = chronicle_of(journal, &session)?;
    let epoch = chapter_of(ask, &chronicle).map(|chapter| chapter.epoch);
    let Some(epoch) = epoch.filter(|epoch| epoch.closed.is_some()) else { return Ok(()) };
    let key = SegmentKey::for_epoch(&session.provider, epoch.started_at, epoch.last_at, zone);
    for segment in Segment::list_of_day(dir, key.day())? {
        let meta = &segment.meta;
        let is_it = (&meta.session_id, meta.epoch) == (&session.id, epoch.number);
        // A segment without a digest gets it from the chain.
        if is_it && segment.digest_summary().is_some() {
            segment.write_digest(&chronicle, journal)?;
        }
    }
    Ok(())
}

/// The chapter of the epoch that a question is about.
fn chapter_of<'c>(ask: &PendingAsk, chronicle: &'c Chronicle) -> Option<Chapter<'c>> {
    chronicle.chapters().filter(|chapter| chapter.epoch.from_seq <= ask.to_seq).last()
}
