//! `hansard doctor`: checks the journal and what feeds it.

use std::path::Path;

use capture::{DatabaseGuard, SourceSurvey, StopFlag};
use clap::Args;
use daemon::{Condition, Settings, Switches};
use event::Time;
use ingest::Ingest;
use journal::{Journal, OpenError};
use wire::ModelHealth;

use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::{CliOutput, Style, escape_controls};
use crate::shape::{CheckShape, DoctorShape};
use crate::world;

/// An idle daemon has read a change within this time.
const LAG_SECONDS_MAX: i128 = 30;

/// Unreadable sources that are named; the rest is counted.
const NAMED_MAX: usize = 3;

/// Check the journal; `--repair` repairs it.
#[derive(Args)]
pub(crate) struct DoctorArgs {
    /// Repair what can be repaired, and keep a copy of what is replaced
    #[arg(long)]
    repair: bool,
}

impl DoctorArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        // A check opens the journal read-only, so it works beside a daemon.
        let journal = match self.repair {
            true => world::journal_to_repair(global, output)?,
            false => match Journal::open(&world::journal_folder(global)?, &world::read_only()) {
                Ok(journal) => world::warn_of_damage(journal, output),
                Err(
                    error @ (OpenError::Corrupt(_)
                    | OpenError::RecordMissing { .. }
                    | OpenError::NewerFormat { .. }),
                ) => return print_checks(vec![unopened(&error)], output),
                Err(error) => return Err(error.into()),
            },
        };
        // Every event is read, which takes a while for a large journal.
        output.progress(|| "looking at every event".to_owned());
        let condition = journal.dir().and_then(Condition::load);
        let recording = recording(condition.as_ref());
        let mut checks = match self.check_events(global, &journal) {
            // The next check names the cause.
            Err(error) if !recording.ok => vec![unchecked("journal", &error)],
            // Damage that a check cannot read past is damage, and the rest can be checked.
            Err(error) if !self.repair => {
                let fix = Some(
                    "`hansard doctor --repair` repairs it, and keeps a copy of the damaged file"
                        .to_owned(),
                );
                vec![CheckShape { fix, ..unchecked("events", &error) }]
            }
            checks => checks?,
        };
        // A daemon with a backlog, or one that cannot record, is late for a known reason.
        let is_busy = |condition: &Condition| condition.backlog.is_some() || !recording.ok;
        let is_followed = condition.as_ref().is_some_and(|condition| !is_busy(condition));
        checks.push(recording);
        let sources = check_sources(&journal, is_followed);
        checks.extend(sources.unwrap_or_else(|error| vec![unchecked("sources", &error)]));
        checks.extend(check_privacy(&journal)?);
        checks.extend(condition.and_then(|condition| condition.model).map(check_model));
        print_checks(checks, output)
    }

    /// Checks whether the recorded events are sound, all there, and understood.
    fn check_events(
        &self,
        global: &Global,
        journal: &Journal,
    ) -> Result<Vec<CheckShape>, CliError> {
        let environment = world::environment(None)?;
        // With settings that cannot be read, a repair could record what the user excluded. The
        // check of privacy reports them.
        let policy = match Settings::load(&world::journal_folder(global)?) {
            Err(error) if self.repair => return Err(error.into()),
            settings => settings.unwrap_or_default().recording(),
        };
        let clock = &world::now;
        let guard = DatabaseGuard::default();
        let pass = Ingest { journal, environment: &environment, clock, policy, guard };
        let checks = pass.doctor(self.repair, &StopFlag::default())?.into_iter();
        let checks = checks.map(|check| CheckShape {
            name: check.name,
            ok: check.ok,
            detail: check.detail,
            fix: check.fix,
        });
        let mut checks: Vec<CheckShape> = checks.collect();
        checks.push(check_formats(journal)?);
        Ok(checks)
    }
}

/// Prints the checks, and whether all are well.
fn print_checks(checks: Vec<CheckShape>, output: &mut CliOutput) -> CommandResult {
    let ok = checks.iter().all(|check| check.ok);
    if output.json() {
        output.json_line(&DoctorShape { ok, checks })?;
    } else {
        for check in &checks {
            // Not damage, but the user should read it: not a plain "ok".
            let word = match (check.ok, &check.fix) {
                (true, None) => "ok ",
                (true, Some(_)) => "see",
                (false, _) => "BAD",
            };
            let word = output.styled(Style::Bold, word);
            output.line(format!("{word} {:<12} {}", check.name, escape_controls(&check.detail)))?;
            if let Some(fix) = &check.fix {
                output.line(format!("    {}", escape_controls(fix)))?;
            }
        }
        output.line(if ok { "the journal is sound" } else { "the journal has problems" })?;
    }
    output.flush()?;
    Ok(if ok { Completion::Success } else { Completion::Negative })
}

/// The check of a journal that cannot be opened as it is.
fn unopened(error: &OpenError) -> CheckShape {
    let fix = match error {
        OpenError::RecordMissing { .. } => {
            "`hansard doctor --repair` rebuilds the record from the folder `originals`"
        }
        OpenError::NewerFormat { .. } => {
            "update this program; where no newer one ever ran, the number is damaged, and \
             `hansard doctor --repair` mends it"
        }
        _ => "`hansard doctor --repair` repairs it, and keeps a copy of the damaged file",
    };
    let (detail, fix) = (error.to_string(), Some(fix.to_owned()));
    CheckShape { name: "events", ok: false, detail, fix }
}

/// A check that could not be made.
fn unchecked(name: &'static str, error: &CliError) -> CheckShape {
    let detail = error.message().to_owned();
    CheckShape { name, ok: false, detail, fix: None }
}

/// Checks whether new events are recorded now.
fn recording(condition: Option<&Condition>) -> CheckShape {
    let trouble = condition.and_then(Condition::trouble);
    CheckShape {
        name: "daemon",
        ok: trouble.is_none(),
        detail: match (condition, &trouble) {
            (None, _) => "not running".to_owned(),
            (Some(Condition { backlog: Some(backlog), .. }), None) => {
                format!("it records what agents write; {backlog}")
            }
            (Some(Condition { misses: 1.., .. }), None) => {
                let misses = condition.map_or(0, |condition| condition.misses);
                format!("it records what agents write; the system did not report {misses} changes")
            }
            (Some(_), None) => "it records what agents write".to_owned(),
            (Some(_), Some(trouble)) => format!("nothing is being recorded: {trouble}"),
        },
        fix: trouble.map(|_| "it resumes by itself once the cause is gone".to_owned()),
    }
}

/// Checks whether the transcripts of agents can be read, and are. A source that cannot be read is
/// no damage to the journal.
fn check_sources(journal: &Journal, is_followed: bool) -> Result<Vec<CheckShape>, CliError> {
    let environment = world::environment(None)?;
    let now = world::now();
    let mut checks = Vec::new();
    for agent in capture::survey_sources(capture::AGENTS, &environment, &journal.sources()?, now) {
        let troubles = troubles(&agent, is_followed, now);
        // An agent that is not used here is not worth a line.
        if agent.sources == 0 && troubles.is_empty() {
            continue;
        }
        let there = match agent.sources {
            1 => "1 source".to_owned(),
            sources => format!("{sources} sources"),
        };
        let behind = match agent.behind {
            0 => "all read".to_owned(),
            behind => format!("{behind} with something new"),
        };
        let detail = format!("{}: {there}, {behind}", agent.provider);
        let fix = (!troubles.is_empty()).then(|| troubles.join("; "));
        checks.push(CheckShape { name: "sources", ok: true, detail, fix });
    }
    Ok(checks)
}

/// Shows a path on one line, because file names may contain line breaks.
fn one_line(path: &Path) -> String {
    path.display().to_string().replace(['\n', '\r'], "\u{FFFD}")
}

/// Lists the problems of an agent's sources.
fn troubles(agent: &SourceSurvey, is_followed: bool, now: Time) -> Vec<String> {
    let emptied = agent.emptied.iter();
    let mut troubles: Vec<String> = emptied
        .map(|root| format!("`{}` had sessions before and has none now", one_line(root)))
        .collect();
    // How long the oldest unread change has been there.
    let late = agent.behind_since.map(|since| (now.nanos() - since.nanos()) / 1_000_000_000);
    // Without a daemon nothing reads, and a backlog is expected.
    if let Some(late) = late.filter(|late| is_followed && *late > LAG_SECONDS_MAX) {
        troubles.push(format!("a change {late} s ago has not been read yet"));
    }
    if let Some(first) = agent.mute.first() {
        let (count, first) = (agent.mute.len(), first.display());
        troubles.push(format!("{count} files had no sessions in them, such as `{first}`"));
    }
    let unreadable = agent.unreadable.iter();
    troubles.extend(unreadable.take(NAMED_MAX).map(|warning| {
        let path = warning.path.as_ref().map(|path| format!("`{}`: ", one_line(path)));
        path.unwrap_or_default() + &warning.message
    }));
    let more = agent.unreadable.len().saturating_sub(NAMED_MAX);
    troubles.extend((more > 0).then(|| format!("{more} more cannot be read")));
    troubles
}

/// Shows what is stored unredacted, and what leaves this machine.
fn check_privacy(journal: &Journal) -> Result<Option<CheckShape>, CliError> {
    let Some(dir) = journal.dir() else { return Ok(None) };
    let check = |ok, detail, fix| Some(CheckShape { name: "privacy", ok, detail, fix });
    Ok(match Settings::load(dir) {
        Ok(settings) => {
            let Switches { kept, leaves } = settings.switches();
            check(true, format!("{kept}; {leaves}"), None)
        }
        // A faulty file keeps the daemon from recording.
        Err(error) => check(false, error.to_string(), Some("correct the file".to_owned())),
    })
}

/// Shows whether the configured model answers. It is no damage if it does not: digests are then
/// made without a model.
fn check_model(model: ModelHealth) -> CheckShape {
    let ModelHealth { name, endpoint, waiting, answered, given_up, trouble } = model;
    let counts = format!("{answered} answers, {waiting} questions waiting, {given_up} given up");
    CheckShape {
        name: "model",
        ok: true,
        detail: match &trouble {
            None => format!("using `{name}` at {endpoint}: {counts}"),
            Some(trouble) => format!("`{name}` at {endpoint} does not answer: {trouble}; {counts}"),
        },
        fix: trouble.map(|_| {
            "digests, titles and summaries are made without it; it is retried automatically"
                .to_owned()
        }),
    }
}

/// Lists records that are not understood. They are stored unparsed, so it is no damage.
fn check_formats(journal: &Journal) -> Result<CheckShape, CliError> {
    let unknown = views::count_unknown_records(journal)?;
    let told: Vec<String> = unknown
        .iter()
        .map(|((provider, version, kind), count)| {
            capture::describe_unknown(provider, version.as_deref(), kind, *count)
        })
        .collect();
    let is_understood = told.is_empty();
    Ok(CheckShape {
        name: "formats",
        ok: true,
        detail: match is_understood {
            true => "all records of agents are understood".to_owned(),
            false => told.join("; "),
        },
        fix: (!is_understood).then(|| "a newer hansard may understand them".to_owned()),
    })
}
