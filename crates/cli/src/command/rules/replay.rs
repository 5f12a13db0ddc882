//! `hansard rules replay`: what a rule would have caught, before it is switched on.

use std::path::Path;

use capture::call_line;
use clap::Args;
use daemon::RuleStore;
use event::payload::ToolCall;
use event::{Kind, Time};
use ingest::ProjectAround;
use journal::{Journal, SessionFilter, SessionInfo};
use rules::{Action, CompiledRules, Origin, Rule, RuleSet};
use serde::Serialize;

use super::find_rule;
use crate::command::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::{CliOutput, escape_controls, one_line};
use crate::times::TimeArg;
use crate::world;

/// Sessions that are read at once from the catalogue.
const PAGE: usize = 256;

#[derive(Args)]
pub(super) struct ReplayArgs {
    /// A rule, or the id of one that is in force
    #[arg(value_name = "RULE")]
    rule: String,
    /// Only calls since this time: 30d, yesterday, 2026-11-01
    #[arg(long, value_name = "TIME", default_value = "30d")]
    since: TimeArg,
}

/// A call that the rule would have caught.
#[derive(Serialize)]
struct CaughtShape<'a> {
    session_id: &'a str,
    seq: u64,
    at: Time,
    provider: &'a str,
    tool: &'a str,
    text: &'a str,
    part: &'a str,
}

impl ReplayArgs {
    pub(super) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let journal = world::journal_to_read(global, output)?;
        let rules = self.rules(&journal)?;
        let since = self.since.begin(world::now(), output.zone());
        let filter = SessionFilter { active_since: Some(since), ..SessionFilter::default() };
        let (mut calls, mut caught) = (0, 0);
        let mut cursor = None;
        loop {
            let page = journal.sessions(&filter, cursor.as_deref(), PAGE)?;
            for session in &page.items {
                let counts = replay(&journal, session, &rules, since, output)?;
                calls += counts.0;
                caught += counts.1;
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        output.flush()?;
        output.note(format!("{caught} of {calls} recorded calls"));
        Ok(Completion::Success)
    }

    /// The one rule, with the id `1`.
    fn rules(&self, journal: &Journal) -> Result<CompiledRules, CliError> {
        let rule = match self.rule.parse::<Rule>() {
            Ok(rule) => rule,
            Err(error) => {
                let stored = RuleStore::new(journal).rules()?;
                let named = find_rule(&stored, &self.rule).map_err(|_| {
                    let told = format!("`{}` is no rule: {error}", self.rule);
                    CliError::new("bad_rule", told).wrong_usage()
                })?;
                named.rule.clone().map_err(|error| CliError::new("bad_rule", error.to_string()))?
            }
        };
        let mut set = RuleSet::new();
        set.push("1", Origin::User, rule).expect("only rules of a hub are refused");
        Ok(CompiledRules::compile(&set, 0))
    }
}

/// Prints what the rule matches in a session; returns the calls and the matches.
fn replay(
    journal: &Journal,
    session: &SessionInfo,
    rules: &CompiledRules,
    since: Time,
    output: &mut CliOutput,
) -> Result<(u64, u64), CliError> {
    let (mut calls, mut caught) = (0, 0);
    let around = session.cwd.as_deref().map(ProjectAround::find).unwrap_or_default();
    let home = world::home_folder().ok();
    let id = world::short_id(journal, &session.id)?;
    for event in journal.own_events(&session.id, &[Kind::ToolCall])? {
        if event.created_at < since {
            continue;
        }
        let Some(call) = event.readable::<ToolCall>() else { continue };
        calls += 1;
        let action = Action {
            agent: &session.provider,
            session: session.provider_session_id.as_deref().unwrap_or_default(),
            project: session.project.as_deref(),
            project_root: around.root.as_deref(),
            cwd: session.cwd.as_deref(),
            home: home.as_deref().and_then(Path::to_str),
            tool: &call.tool,
            server: None,
            input: &call.input,
        };
        // At the time of the call: a rule that has ended since would have held then.
        let verdict = rules.judge(&action, event.created_at);
        let Some(found) = verdict.matches.first() else { continue };
        caught += 1;
        let line = call_line(&call.tool, &call.input);
        let text = event.text.as_deref().unwrap_or(&line);
        if output.json() {
            output.json_line(&CaughtShape {
                session_id: session.id.as_str(),
                seq: event.seq,
                at: event.created_at,
                provider: &session.provider,
                tool: &call.tool,
                text,
                part: &found.part,
            })?;
            continue;
        }
        let at = output.minute(event.created_at);
        let head = format!("{} #{}  {at}  {}", one_line(&id, 46), event.seq, session.provider);
        output.line(head)?;
        output.line(format!("    {}", escape_controls(&one_line(text, 200))))?;
    }
    Ok((calls, caught))
}
