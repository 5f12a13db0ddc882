//! `hansard replay`: replays a session and compares it with the stored state.

use clap::Args;
use event::{Cost, SessionId};
use serde::Serialize;
use session::ViewBuilder;

use super::show::open_session;
use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::{CliOutput, format_count, format_several};
use crate::times::PointArg;
use crate::world;

/// Replay a session and compare it with its stored state.
#[derive(Args)]
pub(crate) struct ReplayArgs {
    /// The id of a session, or its beginning as lists print it
    session: String,
    /// Replay up to an event (number or id) or up to a time
    #[arg(long, value_name = "POINT")]
    until: Option<PointArg>,
}

#[derive(Serialize)]
struct Replayed {
    session_id: SessionId,
    events: u64,
    entries: u64,
    repairs: u64,
    cost: Cost,
    is_waiting: bool,
    open_calls: u64,
    /// Whether the stored state equals the replayed one.
    equal: bool,
}

impl ReplayArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let journal = world::journal_to_read(global, output)?;
        let info = journal.resolve(&self.session)?;
        let until = self.until.as_ref().map(|it| it.resolve(world::now(), output.zone()));
        let kept = open_session(&journal, &info, until)?;
        let mut replay = session::Replay::for_session(info.id.clone());
        let mut events = Vec::new();
        for event in kept.events()? {
            let event = event?;
            output.progress(|| format!("replaying event {} of {}", event.seq, kept.seq()));
            replay.apply(event.clone()).map_err(session::SessionError::from)?;
            events.push(event);
        }
        // A session without events has no state yet.
        let live =
            replay.session().cloned().unwrap_or_else(|| session::LiveState::new(info.id.clone()));
        let built = ViewBuilder::default().build(&events).map_err(session::SessionError::from)?;
        let view = kept.effective()?;
        // Compared with what the journal has stored, entry by entry.
        let same_view = view.entries().eq(built.entries()) && view.repairs().eq(built.repairs());
        let replayed = Replayed {
            session_id: info.id,
            events: events.len() as u64,
            entries: built.len() as u64,
            repairs: built.repairs().count() as u64,
            cost: live.cost.total(),
            is_waiting: live.open_work.is_waiting(),
            open_calls: live.open_work.calls().len() as u64,
            equal: same_view && live == kept.live(),
        };
        print_replay(&replayed, output)?;
        output.flush()?;
        Ok(if replayed.equal { Completion::Success } else { Completion::Negative })
    }
}

fn print_replay(replayed: &Replayed, output: &mut CliOutput) -> Result<(), CliError> {
    if output.json() {
        return output.json_line(replayed);
    }
    output.line(format!(
        "replayed {}: a model would see {}, with {}; ${}",
        format_several(replayed.events, "event"),
        if replayed.entries == 1 {
            "1 entry".to_owned()
        } else {
            format!("{} entries", format_count(replayed.entries))
        },
        format_several(replayed.repairs, "repair"),
        replayed.cost
    ))?;
    if replayed.open_calls > 0 {
        output.line(format!("calls without a result: {}", replayed.open_calls))?;
    }
    if replayed.is_waiting {
        output.line("it is waiting for an answer")?;
    }
    output.line(if replayed.equal {
        "the stored state equals the replayed state"
    } else {
        "the stored state differs from the replayed state; `hansard doctor --repair` rebuilds it"
    })
}
