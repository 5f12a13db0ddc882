//! `hansard delete`: deletes a session with its segments and originals. What stays of it is listed in
//! `docs/guide/capture.md`.

use clap::Args;
use event::SessionId;
use journal::{ForkPolicy, Journal};
use serde::Serialize;

use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::{CliOutput, format_several, one_line};
use crate::world;

/// Delete a session and everything recorded of it.
#[derive(Args)]
pub(crate) struct DeleteArgs {
    /// The id of a session, or its beginning as lists print it
    session: String,
    /// Delete it; without this, only print what would be deleted
    #[arg(long)]
    yes: bool,
    /// Copy the shared events to its forks first, instead of refusing
    #[arg(long)]
    copy_to_forks: bool,
}

#[derive(Serialize)]
struct Deleted {
    session_id: SessionId,
    events: u64,
    deleted: bool,
}

impl DeleteArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let journal = world::journal_to_write(global, output)?;
        let (session_id, events) = self.find_session(&journal)?;
        if self.yes {
            let forks = if self.copy_to_forks { ForkPolicy::Copy } else { ForkPolicy::Refuse };
            daemon::delete(&journal, &session_id, world::now(), forks)?;
        }
        // Before the report: what it says is then on disk.
        journal.close();
        if output.json() {
            output.json_line(&Deleted { session_id, events, deleted: self.yes })?;
        } else {
            let id = one_line(session_id.as_str(), 64);
            let did = if self.yes { "deleted" } else { "would delete" };
            output.line(format!("{did} {id} with {}", format_several(events, "event")))?;
        }
        output.flush()?;
        if !self.yes {
            output.note("nothing was deleted; use --yes to delete");
            return Ok(Completion::Negative);
        }
        Ok(Completion::Success)
    }

    /// Finds the session and the number of its events. A session whose deletion was interrupted has
    /// none left, and needs its whole id.
    fn find_session(&self, journal: &Journal) -> Result<(SessionId, u64), CliError> {
        let found = journal.resolve(&self.session);
        // An id that is not found may be one of an interrupted deletion.
        if let (Err(_), Ok(id)) = (&found, SessionId::new(&self.session))
            && journal.deleted_at(&id)?.is_some()
        {
            return Ok((id, 0));
        }
        let info = found?;
        Ok((info.id, info.events))
    }
}
