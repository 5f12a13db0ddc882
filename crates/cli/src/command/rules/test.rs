//! `hansard rules test`: what the rules say about a call, without any agent.

use capture::{AGENTS, AnswerableCall, CalledTool, HookAnswer};
use clap::Args;
use daemon::RuleStore;
use event::{Raw, Time};
use hooks::{CallPlace, RulesFile, judge_call};
use ingest::ProjectAround;
use rules::{Action, CompiledRules, Severity, Verdict};
use serde::Serialize;
use serde_json::json;

use super::{short_id, warn_of_problem};
use crate::command::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::{CliOutput, escape_controls};
use crate::world;

#[derive(Args)]
pub(super) struct TestArgs {
    /// Only what this agent would be told
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// The tool: shell, edit, read, web, or an agent's own name for a tool
    #[arg(long, value_name = "TOOL", default_value = "shell")]
    tool: String,
    /// The folder that the agent works in; without it the present one
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// The command; for other tools the path, the address, or the input as JSON
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

/// The verdict in JSON.
#[derive(Serialize)]
struct VerdictShape<'a> {
    verdict: Option<&'static str>,
    parts: &'a [String],
    matches: Vec<MatchShape<'a>>,
    not_allowed: &'a [String],
    agents: Vec<AgentShape>,
}

#[derive(Serialize)]
struct MatchShape<'a> {
    rule_id: &'a str,
    severity: &'static str,
    rule: &'a str,
    part: &'a str,
    is_searched: bool,
    is_dry: bool,
}

/// What one agent would be told.
#[derive(Serialize)]
struct AgentShape {
    agent: &'static str,
    /// The line that its hook would print; null for silence.
    answer: Option<String>,
    told: &'static str,
}

impl TestArgs {
    pub(super) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let journal = world::journal_to_read(global, output)?;
        let file = journal.dir().map(RulesFile::in_journal);
        let rules = match file.map(|file| file.read()) {
            Some(Ok(Some(rules))) => rules,
            // The warning below says what is wrong.
            Some(Ok(None) | Err(_)) | None => CompiledRules::compile(&Default::default(), 0),
        };
        let (tool, input) = self.call()?;
        let here = std::env::current_dir().ok();
        let cwd = self.cwd.clone().or_else(|| Some(here?.to_str()?.to_owned()));
        let around = cwd.as_deref().map(ProjectAround::find).unwrap_or_default();
        let home = world::home_folder().ok();
        let home = home.as_deref().and_then(|home| home.to_str());
        let (project, project_root) = (around.name.as_deref(), around.root.as_deref());
        let now = world::now();
        let action = Action {
            agent: self.agent.as_deref().unwrap_or_default(),
            session: "",
            project,
            project_root,
            cwd: cwd.as_deref(),
            home,
            tool: &tool,
            server: None,
            input: &input,
        };
        let verdict = rules.judge(&action, now);
        let place = CallPlace { project, project_root, home };
        let call = TestedCall { tool: &tool, input: &input, cwd: cwd.as_deref(), place, now };
        let agents = self.agents(&rules, call);
        let is_told = agents.iter().any(|agent| matches!(agent.told, "deny" | "ask"));
        let is_held_up =
            is_told || matches!(verdict.decision, Some(Severity::Block | Severity::Ask));
        match output.json() {
            true => output.json_line(&shape(&verdict, agents))?,
            false => print(&verdict, &agents, output)?,
        }
        output.flush()?;
        warn_of_problem(RuleStore::new(&journal), &journal, output)?;
        match is_held_up {
            true => Ok(Completion::Negative),
            false => Ok(Completion::Success),
        }
    }

    /// The tool and its input, as an agent would name them.
    fn call(&self) -> Result<(String, Raw), CliError> {
        let text = self.command.join(" ");
        let (tool, member) = match self.tool.as_str() {
            "shell" => ("Bash", "command"),
            "edit" => ("Edit", "file_path"),
            "read" => ("Read", "file_path"),
            "web" => ("WebFetch", "url"),
            tool => {
                let input = match text.trim_start().starts_with('{') {
                    true => Raw::parse(&text).map_err(|error| {
                        CliError::new("usage", format!("the input is no JSON: {error}"))
                            .wrong_usage()
                    })?,
                    false => Raw::from_value(&text).expect("a text encodes"),
                };
                return Ok((tool.to_owned(), input));
            }
        };
        let input = Raw::from_value(&json!({ member: text })).expect("texts always encode");
        Ok((tool.to_owned(), input))
    }

    fn agents(&self, rules: &CompiledRules, call: TestedCall<'_>) -> Vec<AgentShape> {
        let wanted = |agent: &&str| self.agent.as_deref().is_none_or(|wanted| wanted == *agent);
        let named = AGENTS.iter().map(|agent| agent.provider()).filter(wanted);
        named.filter_map(|agent| call.told_to(agent, rules)).collect()
    }
}

/// The call that is tested.
#[derive(Clone, Copy)]
struct TestedCall<'a> {
    tool: &'a str,
    input: &'a Raw,
    cwd: Option<&'a str>,
    place: CallPlace<'a>,
    now: Time,
}

impl TestedCall<'_> {
    /// What an agent would be told about the call, by the first of its events that has an answer;
    /// `None` for one whose hooks take none.
    fn told_to(self, agent: &'static str, rules: &CompiledRules) -> Option<AgentShape> {
        let map = AGENTS.iter().find(|known| known.provider() == agent)?.hook_map()?;
        let rows = map.answers.iter().filter(|row| map.is_fired_for(row.event, self.kind()));
        let answers = rows.map(|row| {
            let call = AnswerableCall {
                row: *row,
                is_ask_untold: map.asks_untold,
                session: String::new(),
                tool: self.tool.to_owned(),
                input: self.input.clone(),
                call_id: None,
                cwd: self.cwd.map(str::to_owned),
            };
            judge_call(agent, &call, rules, self.place, self.now)
        });
        let answer = answers.flatten().find(|outcome| outcome.line.is_some());
        let told = answer.as_ref().and_then(|outcome| outcome.answer);
        let told = told.map_or("nothing", HookAnswer::as_str);
        Some(AgentShape { agent, answer: answer.and_then(|outcome| outcome.line), told })
    }

    fn kind(self) -> CalledTool {
        match self.tool {
            "Bash" => CalledTool::Shell,
            tool if tool.starts_with("mcp__") || tool.starts_with("MCP:") => CalledTool::Mcp,
            _ => CalledTool::Other,
        }
    }
}

fn shape<'a>(verdict: &'a Verdict, agents: Vec<AgentShape>) -> VerdictShape<'a> {
    let matches = verdict.matches.iter().map(|found| MatchShape {
        rule_id: &found.id,
        severity: found.severity.as_str(),
        rule: &found.rule,
        part: &found.part,
        is_searched: found.is_searched,
        is_dry: found.is_dry,
    });
    VerdictShape {
        verdict: verdict.decision.map(Severity::as_str),
        parts: &verdict.parts,
        matches: matches.collect(),
        not_allowed: &verdict.not_allowed,
        agents,
    }
}

fn print(verdict: &Verdict, agents: &[AgentShape], output: &mut CliOutput) -> Result<(), CliError> {
    let mut text = verdict.explain();
    for found in &verdict.matches {
        // As `rules list` prints it.
        text = text.replace(&found.id, &short_id(&found.id));
    }
    for line in text.lines() {
        output.line(escape_controls(line))?;
    }
    for AgentShape { agent, told, .. } in agents {
        output.line(format!("{agent:<8} {told}"))?;
    }
    Ok(())
}
