//! What the rules of the user say about the tool call of a hook.
//!
//! The rules stand in one file that is read here; no daemon is needed. Whatever fails here leaves
//! the call to the agent, unless the user wants it refused while the rules cannot be read.

use std::path::{Path, PathBuf};
use std::time::Duration;

use capture::{AnswerableCall, Payload};
use event::payload::Payload as EventPayload;
use event::{HookFact, Raw, Time};
use hooks::{CallPlace, GateOutcome, HookReport, RulesFile, judge_call, refuse_unjudged};
use ingest::ProjectAround;

use crate::world;

/// How long rules may take. A call that takes longer, on a hanging disk for instance, goes its
/// usual way.
const TIMEOUT: Duration = Duration::from_millis(50);

/// What the rules say about a call.
#[derive(Default)]
pub(super) struct Gate {
    /// The line that the agent reads.
    pub line: Option<String>,
    /// What is recorded of it.
    pub facts: Vec<HookFact>,
}

impl Gate {
    /// Judges the call of a hook. An event that takes no answer costs nothing but the look into a
    /// table.
    pub(super) fn judge(
        agent: &str,
        event: &str,
        payload: &Payload,
        folder: &Path,
        now: Time,
    ) -> Gate {
        let Some(call) = AnswerableCall::read(agent, event, payload) else {
            return Gate::default();
        };
        let unjudged = Unjudged::new(agent, event, folder, &call, now);
        let (agent, folder) = (agent.to_owned(), folder.to_owned());
        let judged =
            super::read_within(TIMEOUT, move || Some(judge_by_file(&agent, &call, &folder, now)));
        match judged {
            Some(Ok(gate)) => gate,
            Some(Err(problem)) => unjudged.report(problem),
            None => unjudged.report("the rules took too long".to_owned()),
        }
    }
}

/// Judges a call by the rules in the file; the error says why they cannot be used.
fn judge_by_file(
    agent: &str,
    call: &AnswerableCall,
    folder: &Path,
    now: Time,
) -> Result<Gate, String> {
    let file = RulesFile::in_journal(folder);
    let compiled = match file.read().map_err(|error| super::causes(&error))? {
        Some(compiled) => compiled,
        // Where calls are to be refused there always is a file, even without a rule.
        None if file.is_fail_closed() => return Err("the compiled rules are gone".to_owned()),
        None => return Ok(Gate::default()),
    };
    if compiled.is_empty() {
        return Ok(Gate::default());
    }
    let around = call.cwd.as_deref().map(ProjectAround::find).unwrap_or_default();
    let home = world::home_folder().ok();
    let place = CallPlace {
        project: around.name.as_deref(),
        project_root: around.root.as_deref(),
        home: home.as_deref().and_then(Path::to_str),
    };
    Ok(judge_call(agent, call, &compiled, place, now).map(Gate::from).unwrap_or_default())
}

/// A call that could not be judged.
struct Unjudged {
    agent: String,
    event: String,
    folder: PathBuf,
    /// The line that refuses it.
    refusal: Option<String>,
    now: Time,
}

impl Unjudged {
    fn new(agent: &str, event: &str, folder: &Path, call: &AnswerableCall, now: Time) -> Unjudged {
        let (agent, event, folder) = (agent.to_owned(), event.to_owned(), folder.to_owned());
        Unjudged { agent, event, folder, refusal: refuse_unjudged(call), now }
    }

    /// Notes why, and refuses the call if the user wants that. Both use the disk, which may be what
    /// hangs.
    fn report(self, problem: String) -> Gate {
        let Unjudged { agent, event, folder, refusal, now } = self;
        let line = super::read_within(TIMEOUT, move || {
            HookReport::in_journal(&folder).note_failure(&agent, &event, &problem, now);
            refusal.filter(|_| RulesFile::in_journal(&folder).is_fail_closed())
        });
        Gate { line, facts: Vec::new() }
    }
}

impl From<GateOutcome> for Gate {
    fn from(outcome: GateOutcome) -> Gate {
        let GateOutcome { line, matched, asked, .. } = outcome;
        let matched = matched.as_ref().map(fact);
        Gate { line, facts: matched.into_iter().chain(asked.as_ref().map(fact)).collect() }
    }
}

fn fact<P: EventPayload>(payload: &P) -> HookFact {
    HookFact { kind: P::KIND, data: Raw::from_value(payload).expect("payloads always encode") }
}
