//! `hansard show`: one session as turns, events, or the view of a model.

use std::time::Duration;

use clap::Args;
use daemon::{answers, prices};
use event::Event;
use journal::{Delivery, Events, FollowError, FollowFrom, Journal, OnLag, Selection, SessionInfo};
use projection::digest::summarize;
use projection::{
    Chapter, Chronicle, FactOrigin, Facts, PriceTable, Projection, ToolCount, Turn, TurnOutcome,
    Turns, redacted,
};
use redact::Redactor;
use serde::Serialize;
use session::view::EffectiveStream;
use session::{LogPoint, Session, SessionError, SessionReader};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use views::{chronicle_of, load_current};
use wire::Page;

use super::ingest::on_signal;
use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::{CliOutput, Style, escape_controls, format_money, format_several, one_line};
use crate::shape::{EffectiveShape, EpochShape};
use crate::streamed::Streamed;
use crate::times::PointArg;
use crate::world;

/// Show a session: its turns, its events, or what a model would see.
#[derive(Args)]
pub(crate) struct ShowArgs {
    /// The id of a session, or its beginning as lists print it
    session: String,
    /// Print the events
    #[arg(long, conflicts_with = "effective")]
    events: bool,
    /// Print what a model would see
    #[arg(long)]
    effective: bool,
    /// Print what was done in each epoch: goal, decisions, changes
    #[arg(long, conflicts_with_all = ["events", "effective"])]
    digest: bool,
    /// Show the session as it was at an event (number or id) or at a time
    #[arg(long, value_name = "POINT")]
    until: Option<PointArg>,
    /// With --events: only those after this `seq`
    #[arg(long, value_name = "SEQ", requires = "events")]
    after: Option<u64>,
    /// With --events: print at most N; with --json as an object with a cursor
    #[arg(long, value_name = "N", requires = "events")]
    limit: Option<usize>,
    /// Print the last events, then new ones as they are recorded
    #[arg(long, conflicts_with_all = ["effective", "digest", "until", "limit"])]
    follow: bool,
}

/// The longest single wait for the next event; the loop repeats it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Events shown before following, without `--after`.
const LAST_EVENTS: u64 = 20;

/// Opens a session, or the state it had at a point.
pub(crate) fn open_session(
    journal: &Journal,
    info: &SessionInfo,
    point: Option<LogPoint>,
) -> Result<Session, CliError> {
    let host = world::host(journal.clone());
    let id = info.id.clone();
    Ok(match point {
        None => Session::open(&host, id)?,
        Some(point) => Session::at_point(&host, id, point)?,
    })
}

/// What a command shows of a session: its events up to a point. The events are read where they are
/// needed, and never all held.
struct ShownLog<'a> {
    journal: &'a Journal,
    info: &'a SessionInfo,
    to_seq: u64,
}

impl ShownLog<'_> {
    fn events(&self, after: u64) -> Result<Events, CliError> {
        Ok(self.journal.events(&self.info.id, Selection::after(after).up_to(self.to_seq))?)
    }

    /// Whether it ends where the session does, so that saved states can be continued.
    fn is_whole(&self) -> bool {
        self.to_seq == self.info.tail_seq
    }

    fn facts(&self) -> Result<Facts, CliError> {
        if self.is_whole() {
            return Ok(load_current(self.journal, self.info)?);
        }
        let mut facts = Facts::default();
        for event in self.events(0)? {
            facts.apply(&event?);
        }
        Ok(facts)
    }

    fn chronicle(&self) -> Result<Chronicle, CliError> {
        if self.is_whole() {
            return Ok(chronicle_of(self.journal, self.info)?);
        }
        let mut chronicle = Chronicle::default();
        let mut redactor = Redactor::new();
        for event in self.events(0)? {
            // Redacted before facts are found: they quote prompts and commands.
            chronicle.apply(&redacted(&event?, &mut |text| redactor.redact(text)));
        }
        // The last chapter is still open and has no end of its own.
        chronicle.flush();
        Ok(chronicle)
    }
}

impl ShowArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let journal = world::journal_to_read(global, output)?;
        let info = journal.resolve(&self.session)?;
        if self.follow {
            return self.follow_events(&journal, &info, output);
        }
        let until = self.until.as_ref().map(|it| it.resolve(world::now(), output.zone()));
        if self.effective {
            let host = world::host(journal.clone());
            print_effective(Session::stream_effective(&host, info.id, until)?, output)?;
            output.flush()?;
            return Ok(Completion::Success);
        }
        let to_seq = match until {
            Some(point) => point.resolve(&journal, &info.id)?,
            None => info.tail_seq,
        };
        let log = ShownLog { journal: &journal, info: &info, to_seq };
        if self.events {
            self.print_events(&log, output)?;
        } else if self.digest {
            print_digest(&log, output)?;
        } else {
            print_turns(&log, &prices(&journal)?, output)?;
        }
        output.flush()?;
        Ok(Completion::Success)
    }

    fn print_events(&self, log: &ShownLog<'_>, output: &mut CliOutput) -> Result<(), CliError> {
        let mut events = log.events(self.after.unwrap_or(0))?;
        // As a page with a cursor: a client has to know whether more follows.
        if let Some(limit) = self.limit.filter(|_| output.json()) {
            let items = events.by_ref().take(limit).collect::<Result<Vec<Event>, _>>()?;
            // One more is read to know.
            let more = events.next().is_some();
            // The cursor is the last `seq`, which `--after` takes.
            let next = items.last().filter(|_| more).map(|event| event.seq.to_string());
            return output.json_line(&Page { items, next });
        }
        for event in events.take(self.limit.unwrap_or(usize::MAX)) {
            print_event(&event?, output)?;
        }
        Ok(())
    }

    /// Prints events as they are recorded, until Ctrl-C or SIGTERM.
    fn follow_events(
        &self,
        journal: &Journal,
        info: &SessionInfo,
        output: &mut CliOutput,
    ) -> CommandResult {
        // The last few events show where the session stands.
        let after = self.after.unwrap_or(info.tail_seq.saturating_sub(LAST_EVENTS));
        let mut followed =
            journal.follow_session(&info.id, FollowFrom::At(after + 1), OnLag::CatchUp)?;
        // Registered before the loop, so that a signal is never missed.
        let signals = Signals::new([SIGINT, SIGTERM])?;
        let handle = signals.handle();
        let closed = journal.clone();
        // Closing the journal ends the wait in `next_within`.
        on_signal(signals, move || closed.close());
        loop {
            // Flushed only when nothing waits: a burst is written in few pieces.
            let mut next = followed.next_within(Duration::ZERO);
            if matches!(next, Ok(None)) {
                output.flush()?;
                next = followed.next_within(PATIENCE);
            }
            match next {
                Ok(Some(Delivery::Event(recorded))) => print_event(&recorded.event, output)?,
                // A read-only journal has only recorded events and misses none.
                Ok(Some(Delivery::Live(_) | Delivery::Behind { .. } | Delivery::Gap { .. })) => {}
                Ok(None) => {}
                Err(FollowError::Closed) => break,
                Err(FollowError::Failed(error)) => return Err(error.into()),
            }
        }
        // Ends the thread of the signals.
        handle.close();
        output.flush()?;
        Ok(Completion::Success)
    }
}

/// Prints one event, as JSON or as a line.
fn print_event(event: &Event, output: &mut CliOutput) -> Result<(), CliError> {
    if output.json() {
        return output.line(event.encode());
    }
    let text = event_text(event);
    let kind = output.styled(Style::Bold, format!("{:<19}", event.kind));
    let at = output.styled(Style::Dim, output.second(event.created_at));
    output.line(format!("{:>6}  {kind} {at}  {}", event.seq, one_line(&text, 100)).trim_end())
}

/// Returns a short text for an event.
fn event_text(event: &Event) -> String {
    match &event.text {
        Some(text) => text.clone(),
        None => event.search_texts().join(" · "),
    }
}

fn print_digest(log: &ShownLog<'_>, output: &mut CliOutput) -> Result<(), CliError> {
    for chapter in log.chronicle()?.chapters() {
        if output.json() {
            output.json_line(&EpochShape::from_chapter(log.info, chapter))?;
            continue;
        }
        let Chapter { epoch, facts, naming, .. } = chapter;
        let cause = epoch.closed.as_ref().map_or("open", |closed| &closed.cause);
        let (from, to) = (output.minute(epoch.started_at), output.minute(epoch.last_at));
        let number = epoch.number;
        let head = format!("epoch {number}, {from} to {to}, {}", one_line(cause, 20));
        output.line(output.styled(Style::Bold, head))?;
        for line in summarize(&facts).lines() {
            output.line(format!("  {}", escape_controls(line)))?;
        }
        // Facts by a model are marked, as they may be wrong.
        let told = facts.iter().filter(|fact| fact.origin == FactOrigin::Model).count();
        if told > 0 || naming.is_some() {
            let title = naming.and_then(|naming| naming.title.as_deref()).unwrap_or("untitled");
            let (title, all) = (one_line(title, 80), facts.len());
            let by = format!("  By a model: \"{title}\", {told} of {all} facts");
            output.line(output.styled(Style::Dim, by))?;
        }
    }
    Ok(())
}

fn print_turns(
    log: &ShownLog<'_>,
    prices: &PriceTable,
    output: &mut CliOutput,
) -> Result<(), CliError> {
    let info = log.info;
    let shape = answers::session(info, &log.facts()?, prices);
    let turns = Turns::stream(log.events(0)?);
    if output.json() {
        let turns = Streamed::new(turns.map(|turn| turn.map(answers::turn)));
        let printed = output.json_line(&SessionWithTurns { session: shape, turns: &turns });
        return turns.finish(printed);
    }
    let title = shape.title.as_deref().unwrap_or("untitled");
    output.line(output.styled(Style::Bold, one_line(title, 100)))?;
    let project = shape.project.as_deref().or(shape.cwd.as_deref()).unwrap_or("-");
    output.line(output.styled(
        Style::Dim,
        format!(
            "{} · {} · {} · {} · {}{}",
            one_line(info.id.as_str(), 64),
            one_line(&info.provider, 20),
            one_line(project, 60),
            format_several(shape.counts.events, "event"),
            format_money(shape.usd),
            if shape.title_origin == Some("model") { " · titled by a model" } else { "" },
        ),
    ))?;
    for turn in turns {
        output.line("")?;
        print_turn(&turn?, output)?;
    }
    Ok(())
}

/// A session whose turns are written while its events are read.
#[derive(Serialize)]
struct SessionWithTurns<'a, T: Serialize> {
    #[serde(flatten)]
    session: wire::Session,
    turns: &'a T,
}

fn print_turn(turn: &Turn, output: &mut CliOutput) -> Result<(), CliError> {
    let outcome = turn.outcome.map_or("open", TurnOutcome::as_str);
    let at = output.second(turn.started_at);
    let head = format!("#{}  {at}  {outcome}", turn.seq_from);
    output.line(output.styled(Style::Dim, head))?;
    if let Some(prompt) = &turn.prompt {
        // Prompts and answers come from transcripts, which are hostile text.
        for line in escape_controls(prompt).lines() {
            output.line(output.styled(Style::Bold, format!("> {line}")))?;
        }
    }
    for queued in &turn.queued {
        for line in escape_controls(queued).lines() {
            output.line(output.styled(Style::Bold, format!(">> {line}")))?;
        }
    }
    if !turn.tools.is_empty() {
        let tools: Vec<String> =
            turn.tools.iter().map(|(tool, count)| tool_text(tool, *count)).collect();
        output.line(output.styled(Style::Dim, format!("  {}", tools.join(", "))))?;
    }
    for file in &turn.modified_files {
        output.line(output.styled(Style::Dim, format!("  wrote {}", one_line(file, 90))))?;
    }
    for file in &turn.failed_files {
        let failed = format!("  failed to write {}", one_line(file, 90));
        output.line(output.styled(Style::Dim, failed))?;
    }
    if turn.errors > 0 {
        output.line(format!("  errors: {}", turn.errors))?;
    }
    if let Some(answer) = &turn.answer {
        for line in escape_controls(answer).lines() {
            output.line(format!("  {line}"))?;
        }
    }
    Ok(())
}

fn tool_text(tool: &str, count: ToolCount) -> String {
    let text = format!("{} ×{}", one_line(tool, 30), count.calls);
    match count.failures {
        0 => text,
        failures => format!("{text} ({failures} failed)"),
    }
}

fn print_effective(
    mut view: EffectiveStream<SessionReader>,
    output: &mut CliOutput,
) -> Result<(), CliError> {
    if output.json() {
        let view = EffectiveShape::new(view);
        let printed = output.json_line(&view);
        return view.finish(printed);
    }
    for entry in &mut view {
        let entry = entry.map_err(SessionError::from)?;
        let tool = entry.note.as_ref().map(|note| format!(" {}", one_line(&note.name, 30)));
        let head = format!("{}{} · {}", entry.role.as_str(), tool.unwrap_or_default(), entry.kind);
        output.line(output.styled(Style::Dim, head))?;
        for line in escape_controls(&entry.text()).lines() {
            output.line(format!("  {line}"))?;
        }
        for call in &entry.calls {
            let input = one_line(call.input.get(), 100);
            output.line(format!("  → {} {input}", one_line(&call.tool, 30)))?;
        }
    }
    // On stderr: stdout is what the model would see.
    for repair in view.repairs() {
        output.note(format!("left out or moved: event {} ({})", repair.seq, repair.why));
    }
    Ok(())
}
