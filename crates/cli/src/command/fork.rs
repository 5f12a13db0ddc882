//! `hansard fork`: starts a new session from a point of another one.

use clap::Args;
use event::SessionId;
use serde::Serialize;
use session::ForkOptions;

use super::{CommandResult, Completion, Global};
use crate::output::CliOutput;
use crate::times::PointArg;
use crate::world;

/// Start a new session from a point of another one.
#[derive(Args)]
pub(crate) struct ForkArgs {
    /// The id of a session, or its beginning as lists print it
    session: String,
    /// Fork after this event (number or id), or at this time [default: the end]
    #[arg(long, value_name = "POINT")]
    at: Option<PointArg>,
    /// The id of the fork [default: generated]
    #[arg(long, value_name = "ID")]
    id: Option<SessionId>,
    /// A name for the fork, shown by `hansard lineage`
    #[arg(long)]
    label: Option<String>,
    /// Why it was forked, shown by `hansard lineage`
    #[arg(long)]
    reason: Option<String>,
}

#[derive(Serialize)]
struct Forked {
    session_id: SessionId,
    parent_id: SessionId,
    fork_point_seq: u64,
}

impl ForkArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let journal = world::journal_to_write(global, output)?;
        let info = journal.resolve(&self.session)?;
        let at = match &self.at {
            None => info.tail_seq,
            Some(point) => {
                let point = point.resolve(world::now(), output.zone());
                point.resolve(&journal, &info.id)?
            }
        };
        let host = world::host(journal);
        let id = match &self.id {
            Some(id) => id.clone(),
            None => SessionId::new(host.new_event_id(host.now()).to_string().to_lowercase())
                .expect("an event id can be a session id"),
        };
        let options =
            ForkOptions { at: Some(at), label: self.label.clone(), reason: self.reason.clone() };
        session::fork(&host, &info.id, id.clone(), options)?;
        if output.json() {
            let parent_id = info.id;
            output.json_line(&Forked { session_id: id, parent_id, fork_point_seq: at })?;
        } else {
            output.line(id.as_str())?;
        }
        output.flush()?;
        Ok(Completion::Success)
    }
}
