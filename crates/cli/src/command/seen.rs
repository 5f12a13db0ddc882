//! `hansard seen`: marks sessions as seen, so that they no longer need attention.

use clap::Args;
use event::payload::Note;
use event::{Draft, Kind, Raw, SessionId};
use journal::Batch;
use projection::status::SEEN;
use serde::Serialize;

use super::{CommandResult, Completion, Global};
use crate::output::{CliOutput, one_line};
use crate::world;

/// Mark sessions as seen, so that they no longer need you.
#[derive(Args)]
pub(crate) struct SeenArgs {
    /// The ids of sessions, or their beginnings as lists print them
    #[arg(required = true)]
    sessions: Vec<String>,
}

#[derive(Serialize)]
struct SeenReport {
    session_id: SessionId,
}

impl SeenArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let journal = world::journal_to_write(global, output)?;
        let found = self.sessions.iter().map(|session| journal.resolve(session));
        let found = found.collect::<Result<Vec<_>, _>>()?;
        let host = world::host(journal.clone());
        for info in found {
            let now = host.now();
            let about = Raw::from_value(SEEN).expect("a text encodes");
            let note = Note { text: "seen".to_owned(), about: Some(about) };
            let data = Raw::from_value(&note).expect("a note encodes");
            let draft =
                Draft::with_data(host.new_event_id(now), info.id.clone(), now, Kind::Note, data);
            journal.append(Batch::observed().with(draft))?;
            match output.json() {
                true => output.json_line(&SeenReport { session_id: info.id })?,
                false => {
                    let id = world::short_id(&journal, &info.id)?;
                    output.line(format!("{} marked as seen", one_line(&id, 64)))?;
                }
            }
        }
        journal.close();
        output.flush()?;
        Ok(Completion::Success)
    }
}
