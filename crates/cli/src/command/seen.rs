//! `hansard seen`: what a session has done was looked at, and wants nobody any more.

use clap::Args;
use event::payload::Note;
use event::{Draft, Kind, Raw, SessionId};
use journal::Batch;
use projection::status::SEEN;
use serde::Serialize;

use super::{Done, Global};
use crate::error::CliError;
use crate::output::{Output, one_line};
use crate::world;

#[derive(Args)]
pub(crate) struct Seen {
    /// The beginnings of sessions' ids, ours or their providers'
    #[arg(required = true)]
    sessions: Vec<String>,
}

#[derive(Serialize)]
struct Noted {
    session_id: SessionId,
}

impl Seen {
    pub(crate) fn run(&self, global: &Global, output: &mut Output) -> Result<Done, CliError> {
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
                true => output.json_line(&Noted { session_id: info.id })?,
                false => output.line(format!("{} was seen", one_line(info.id.as_str(), 64)))?,
            }
        }
        journal.close();
        output.flush()?;
        Ok(Done::Yes)
    }
}
