//! `hansard delete`: a session and everything that was kept of it, gone for good.

use clap::Args;
use event::SessionId;
use journal::{ForkPolicy, Journal};
use serde::Serialize;

use super::{Done, Global};
use crate::error::CliError;
use crate::output::{Output, one_line};
use crate::world;

#[derive(Args)]
pub(crate) struct Delete {
    /// The beginning of the session's id, ours or its provider's
    session: String,
    /// Delete it; without this, only what would be deleted is told
    #[arg(long)]
    yes: bool,
    /// Give forks a copy of what they show of it, instead of refusing
    #[arg(long)]
    copy_to_forks: bool,
}

#[derive(Serialize)]
struct Deleted {
    session_id: SessionId,
    events: u64,
    deleted: bool,
}

impl Delete {
    pub(crate) fn run(&self, global: &Global, output: &mut Output) -> Result<Done, CliError> {
        let journal = world::journal_to_write(global, output)?;
        let (session_id, events) = self.find(&journal)?;
        if self.yes {
            let forks = if self.copy_to_forks { ForkPolicy::Copy } else { ForkPolicy::Refuse };
            daemon::delete(&journal, &session_id, world::now(), forks)?;
        }
        journal.close();
        if output.json() {
            output.json_line(&Deleted { session_id, events, deleted: self.yes })?;
        } else {
            let id = one_line(session_id.as_str(), 64);
            match self.yes {
                true => output.line(format!("{id} with {events} events is deleted"))?,
                false => output.line(format!("{id} with {events} events would be deleted"))?,
            }
        }
        output.flush()?;
        if !self.yes {
            output.note("nothing was deleted; say so with --yes");
            return Ok(Done::NotSo);
        }
        Ok(Done::Yes)
    }

    /// The session and how many events it has. One whose deletion was cut off has none left, and
    /// goes by its whole id.
    fn find(&self, journal: &Journal) -> Result<(SessionId, u64), CliError> {
        let found = journal.resolve(&self.session);
        if let (Err(_), Ok(id)) = (&found, SessionId::new(&self.session))
            && journal.deleted_at(&id)?.is_some()
        {
            return Ok((id, 0));
        }
        let info = found?;
        Ok((info.id, info.events))
    }
}
