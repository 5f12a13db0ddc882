//! Runs of sessions as they are kept in a journal.

use event::{Draft, Event, FORK_ORIGIN, Raw, SessionId};
use journal::{Journal, ReadError, Selection};

use crate::origin::first_origin;
use crate::{Episode, Extent, Run, Session, SessionError, distill_run, run, run_tree};

impl Session {
    /// The session as a run: turns, their steps, what went in and what came out.
    pub fn export_run(&self) -> Result<Run, SessionError> {
        self.export_run_redacted(Extent::Session, &|_| {})
    }

    /// The run with those of all sessions below it. Its cost counts every event once, also where
    /// several forks show it.
    pub fn export_run_tree(&self) -> Result<Run, SessionError> {
        self.export_run_redacted(Extent::Tree, &|_| {})
    }

    /// The run, or the tree of runs, of events that `redact` has changed.
    pub fn export_run_redacted(
        &self,
        extent: Extent,
        redact: &dyn Fn(&mut Draft),
    ) -> Result<Run, SessionError> {
        let mut events = self.events()?.collect::<Result<Vec<Event>, ReadError>>()?;
        events.iter_mut().for_each(|event| redact(&mut event.draft));
        let id = self.session_id().clone();
        if extent == Extent::Session {
            return Ok(run::export_run(id, &events));
        }
        name_makers(self.journal(), &mut events)?;
        let load = |id: &SessionId| load_events(self.journal(), id, redact);
        Ok(run_tree::export_run_tree(id, &events, load)?)
    }

    /// What the run was worth.
    pub fn distill(&self) -> Result<Episode, SessionError> {
        Ok(distill_run(&self.export_run()?))
    }
}

/// The events of a session; `None` if there is none of that name.
fn load_events(
    journal: &Journal,
    id: &SessionId,
    redact: &dyn Fn(&mut Draft),
) -> Result<Option<Vec<Event>>, ReadError> {
    let events = match journal.events(id, Selection::all()) {
        Err(ReadError::SessionNotFound(_)) => return Ok(None),
        events => events?,
    };
    let mut events = events.collect::<Result<Vec<Event>, ReadError>>()?;
    events.iter_mut().for_each(|event| redact(&mut event.draft));
    name_makers(journal, &mut events)?;
    Ok(Some(events))
}

/// Makes inherited events with a cost name the session that first recorded them. A fork names its
/// parent, which may be a fork too and need not be part of the tree.
fn name_makers(journal: &Journal, events: &mut [Event]) -> Result<(), ReadError> {
    for event in events.iter_mut().filter(|event| event.cost.is_some()) {
        let Some(origin) = event.fork_origin() else { continue };
        let origin = first_origin(journal, origin)?;
        let origin = Raw::from_value(&origin).expect("two strings always encode");
        event.draft.metadata.insert(FORK_ORIGIN.to_owned(), origin);
    }
    Ok(())
}
