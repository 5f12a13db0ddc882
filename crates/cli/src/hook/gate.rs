//! What the rules of the user say about the tool call of a hook.
//!
//! The rules stand in one file that is read here; no daemon is needed. Whatever fails here leaves
//! the call to the agent, unless the user wants it refused while the rules cannot be read.

use std::path::Path;
use std::time::Duration;

use capture::{AnswerableCall, Payload};
use event::{HookFact, Kind, Raw, Time};
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
    pub fact: Option<HookFact>,
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
        let (agent, event, folder) = (agent.to_owned(), event.to_owned(), folder.to_owned());
        let judged = super::read_within(TIMEOUT, move || {
            let rules = RulesFile::in_journal(&folder);
            let compiled = match rules.read() {
                Ok(compiled) => compiled?,
                Err(error) => {
                    let problem = super::causes(&error);
                    HookReport::in_journal(&folder).note_failure(&agent, &event, &problem, now);
                    let line = rules.is_fail_closed().then(|| refuse_unjudged(&call)).flatten();
                    return Some(Gate { line, fact: None });
                }
            };
            if compiled.is_empty() {
                return None;
            }
            let around = call.cwd.as_deref().map(ProjectAround::find).unwrap_or_default();
            let home = world::home_folder().ok();
            let place = CallPlace {
                project: around.name.as_deref(),
                project_root: around.root.as_deref(),
                home: home.as_deref().and_then(Path::to_str),
            };
            judge_call(&agent, &call, &compiled, place, now).map(Gate::from)
        });
        judged.unwrap_or_default()
    }
}

impl From<GateOutcome> for Gate {
    fn from(outcome: GateOutcome) -> Gate {
        let fact = outcome.matched.map(|matched| {
            let data = Raw::from_value(&matched).expect("payloads always encode");
            HookFact { kind: Kind::RuleMatched, data }
        });
        Gate { line: outcome.line, fact }
    }
}
