//! `hansard doctor`: is the record sound, and if not, where.

use std::path::Path;

use capture::SourceSurvey;
use clap::Args;
use daemon::{Condition, Settings, Switches};
use event::Time;
use journal::Journal;
use wire::ModelHealth;

use super::{Done, Global};
use crate::error::CliError;
use crate::output::{Output, Style, plain};
use crate::shape::{CheckShape, DoctorShape};
use crate::world;

/// A daemon that is not busy has read everything before this.
const LAG_SECONDS_MAX: i128 = 30;

/// What cannot be read is named up to so often, and then counted.
const NAMED_MAX: usize = 3;

#[derive(Args)]
pub(crate) struct Doctor {
    /// Repair what can be repaired, keeping what is replaced
    #[arg(long)]
    repair: bool,
}

impl Doctor {
    pub(crate) fn run(&self, global: &Global, output: &mut Output) -> Result<Done, CliError> {
        let journal = if self.repair {
            world::journal_to_write(global, output)?
        } else {
            world::journal_to_read(global, output)?
        };
        output.progress(|| "looking at every event".to_owned());
        let condition = journal.dir().and_then(Condition::of);
        let recording = recording(condition.as_ref());
        let mut checks = match self.check(&journal) {
            // The cause is known and comes next.
            Err(error) if !recording.ok => vec![unchecked("journal", &error)],
            checks => checks?,
        };
        // Whoever has to read years first, or cannot record, is late for a reason.
        let is_busy = |condition: &Condition| condition.backlog.is_some() || !recording.ok;
        let is_followed = condition.as_ref().is_some_and(|condition| !is_busy(condition));
        checks.push(recording);
        let sources = sources(&journal, is_followed);
        checks.extend(sources.unwrap_or_else(|error| vec![unchecked("sources", &error)]));
        checks.extend(privacy(&journal)?);
        checks.extend(condition.and_then(|condition| condition.model).map(model));
        let ok = checks.iter().all(|check| check.ok);
        if output.json() {
            output.json_line(&DoctorShape { ok, checks })?;
        } else {
            for check in &checks {
                // What is no damage and still wants to be read is no green check.
                let word = match (check.ok, &check.fix) {
                    (true, None) => "ok ",
                    (true, Some(_)) => "see",
                    (false, _) => "BAD",
                };
                let word = output.styled(Style::Bold, word);
                output.line(format!("{word} {:<12} {}", check.name, plain(&check.detail)))?;
                if let Some(fix) = &check.fix {
                    output.line(format!("    {}", plain(fix)))?;
                }
            }
            output.line(if ok { "the journal is sound" } else { "the journal needs care" })?;
        }
        output.flush()?;
        Ok(if ok { Done::Yes } else { Done::NotSo })
    }

    /// Whether what is recorded is sound, and understood.
    fn check(&self, journal: &Journal) -> Result<Vec<CheckShape>, CliError> {
        let checks = journal.doctor(self.repair, world::now())?.into_iter();
        let checks = checks.map(|check| CheckShape {
            name: check.name,
            ok: check.ok,
            detail: check.detail,
            fix: check.fix,
        });
        let mut checks: Vec<CheckShape> = checks.collect();
        checks.push(formats(journal)?);
        Ok(checks)
    }
}

/// The journal could not be looked at.
fn unchecked(name: &'static str, error: &CliError) -> CheckShape {
    let detail = error.message().to_owned();
    CheckShape { name, ok: false, detail, fix: None }
}

/// Whether what happens now is recorded.
fn recording(condition: Option<&Condition>) -> CheckShape {
    let trouble = condition.and_then(Condition::trouble);
    CheckShape {
        name: "daemon",
        ok: trouble.is_none(),
        detail: match (condition, &trouble) {
            (None, _) => "none runs".to_owned(),
            (Some(Condition { backlog: Some(backlog), .. }), None) => {
                format!("it records what agents write; {backlog}")
            }
            (Some(Condition { misses: 1.., .. }), None) => {
                let misses = condition.map_or(0, |condition| condition.misses);
                format!("it records what agents write; {misses} changes the system did not tell")
            }
            (Some(_), None) => "it records what agents write".to_owned(),
            (Some(_), Some(trouble)) => format!("nothing is recorded now: {trouble}"),
        },
        fix: trouble.map(|_| "it goes on by itself once the cause is gone".to_owned()),
    }
}

/// Whether what agents write can be read, and is. What cannot be is no damage to what was.
fn sources(journal: &Journal, is_followed: bool) -> Result<Vec<CheckShape>, CliError> {
    let environment = world::environment(None)?;
    let now = world::now();
    let mut checks = Vec::new();
    for agent in capture::survey_sources(capture::AGENTS, &environment, &journal.sources()?, now) {
        let troubles = troubles(&agent, is_followed, now);
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

/// A path in one line: who names a file may put anything into it.
fn one_line(path: &Path) -> String {
    path.display().to_string().replace(['\n', '\r'], "\u{FFFD}")
}

/// What somebody should look at.
fn troubles(agent: &SourceSurvey, is_followed: bool, now: Time) -> Vec<String> {
    let emptied = agent.emptied.iter();
    let mut troubles: Vec<String> =
        emptied.map(|root| format!("`{}` had sessions and has none now", one_line(root))).collect();
    let late = agent.behind_since.map(|since| (now.nanos() - since.nanos()) / 1_000_000_000);
    if let Some(late) = late.filter(|late| is_followed && *late > LAG_SECONDS_MAX) {
        troubles.push(format!("something was written {late} s ago and is not read yet"));
    }
    if let Some(first) = agent.mute.first() {
        let (count, first) = (agent.mute.len(), first.display());
        troubles.push(format!("nothing was found in {count} that were read, such as `{first}`"));
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

/// What is kept as it was written, and what leaves this machine.
fn privacy(journal: &Journal) -> Result<Option<CheckShape>, CliError> {
    let Some(dir) = journal.dir() else { return Ok(None) };
    let check = |ok, detail, fix| Some(CheckShape { name: "privacy", ok, detail, fix });
    Ok(match Settings::load(dir) {
        Ok(settings) => {
            let Switches { kept, leaves } = settings.switches();
            check(true, format!("{kept}; {leaves}"), None)
        }
        // With it nothing is recorded.
        Err(error) => check(false, error.to_string(), Some("mend the file".to_owned())),
    })
}

/// Whether the model that somebody has set up answers. Without it there is what is found without
/// one, so it is no damage.
fn model(model: ModelHealth) -> CheckShape {
    let ModelHealth { name, endpoint, waiting, answered, given_up, trouble } = model;
    let counts = format!("{answered} answers, {waiting} questions wait, {given_up} given up");
    CheckShape {
        name: "model",
        ok: true,
        detail: match &trouble {
            None => format!("`{name}` at {endpoint} is asked: {counts}"),
            Some(trouble) => format!("`{name}` at {endpoint} does not answer: {trouble}; {counts}"),
        },
        fix: trouble.map(|_| {
            "digests, titles and summaries are made without it; it is asked again by itself"
                .to_owned()
        }),
    }
}

/// Whether agents write what we understand. What we do not is kept, so it is no damage.
fn formats(journal: &Journal) -> Result<CheckShape, CliError> {
    let unknown = views::unknown_records(journal)?;
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
            true => "everything agents wrote is understood".to_owned(),
            false => told.join("; "),
        },
        fix: (!is_understood).then(|| "a newer hansard may understand them".to_owned()),
    })
}
