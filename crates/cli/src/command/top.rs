//! `hansard top`: the status of all sessions, live and in full screen.

mod state; // the screen's state, and what keys do to it
mod transcript; // a session as lines
mod paint; // draws the state
mod screen; // the terminal
mod pane; // the terminal of an agent

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use daemon::{ResumeCommand, ResumeError, answers, prices};
use event::{SessionId, Time};
use journal::{EventHit, Journal, Order, Query, ReadError, Selection, SessionInfo};
use projection::status::StatusGroup;
use projection::{FactOrigin, Facts};
use segments::Zone;
use signal_hook::consts::SIGTERM;
use views::load_current;
use wire::Status;

use super::status::{age, condition, last_part};
use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::{CliOutput, escape_controls, format_money, format_several, one_line};
use crate::statuses::{Statuses, doing, group, since, urgency, why};
use crate::world;
use paint::{Theme, paint_screen};
use screen::{Input, Screen};
use state::{Detail, HitLines, SessionRow, TopAction, TopState, TopView, Weight};
use transcript::{TranscriptLine, TranscriptView, transcript_lines};

/// How often all sessions are checked.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often an open session is read.
const READ_EVERY: Duration = Duration::from_millis(250);

/// Events of a session read at a time.
const EVENTS: u64 = 300;

/// Lines of a session held in memory. `hansard show` prints longer ones.
const LINES_MAX: usize = 20_000;

/// The most search hits.
const FINDINGS: usize = 100;

/// Characters of a line in the details.
const DETAIL_CHARS_MAX: usize = 400;

/// Show the status live, on the full screen.
#[derive(Args)]
pub(crate) struct TopArgs {
    /// All sessions, also old ones and those that have exited
    #[arg(long)]
    all: bool,
    /// Use the mouse; selecting text in the terminal then needs Shift
    #[arg(long)]
    mouse: bool,
    /// Ring the terminal's bell when another session needs you
    #[arg(long)]
    bell: bool,
}

impl TopArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        // With JSON or a pipe there is no screen to draw on.
        if output.json() || !output.is_terminal() || !std::io::stdin().is_terminal() {
            return Err(CliError::new("no_terminal", "`hansard top` needs a terminal")
                .hint("`hansard status --watch` prints what has changed"));
        }
        let journal = world::journal_to_read(global, output)?;
        let statuses = Statuses::open(&journal)?;
        let has_ended = Arc::new(AtomicBool::new(false));
        // SIGHUP keeps its default: when the terminal is gone there is nothing to restore.
        signal_hook::flag::register(SIGTERM, Arc::clone(&has_ended))?;
        let theme = Theme { has_colors: output.has_colors() };
        let state = TopState::new(world::now());
        let zone = output.zone().clone();
        let mut top_loop = TopLoop { all: self.all, journal, statuses, state, zone };
        // Before the screen opens: an error is then printed on the normal one.
        top_loop.refresh_rows()?;
        let mut screen = Screen::enter(output.writer(), self.mouse)?;
        top_loop.run(&mut screen, &theme, self.bell, &has_ended)?;
        Ok(Completion::Success)
    }
}

/// The sessions being watched, and the screen's state.
struct TopLoop {
    all: bool,
    journal: Journal,
    statuses: Statuses,
    state: TopState,
    zone: Zone,
}

impl TopLoop {
    fn run(
        &mut self,
        screen: &mut Screen<'_>,
        theme: &Theme,
        has_bell: bool,
        has_ended: &AtomicBool,
    ) -> Result<(), CliError> {
        let mut looked = Instant::now();
        while !has_ended.load(Ordering::Relaxed) {
            self.refresh_usage()?;
            // The state learns what fit, so that a page key knows the size of a page.
            self.state.shown = screen.draw(|frame| paint_screen(&self.state, theme, frame))?;
            // Waits at most until an open session has to be read again.
            if let Some(Input::Key(key)) = screen.next(READ_EVERY)? {
                match self.state.press(key) {
                    Some(TopAction::Quit) => return Ok(()),
                    Some(act) => self.perform_action(act),
                    None => {}
                }
            }
            if looked.elapsed() >= LOOK_EVERY {
                let before = self.state.needing_user();
                self.refresh_rows()?;
                looked = Instant::now();
                // Only for sessions that did not need the user at the last look.
                if has_bell && !self.state.needing_user().is_subset(&before) {
                    screen.ring_bell()?;
                }
            }
            self.read_new_events()?;
        }
        Ok(())
    }

    /// Checks all sessions.
    fn refresh_rows(&mut self) -> Result<(), CliError> {
        let now = world::now();
        let mut listed = if self.all { self.statuses.all()? } else { self.statuses.recent()? };
        listed.sort_by_key(urgency);
        let row = |status: &Status| session_row(status, &self.statuses, &self.zone, now);
        let mut rows: Vec<SessionRow> = listed.iter().map(row).collect();
        // `--all` alone shows sessions that have exited.
        rows.retain(|row| self.all || row.group != StatusGroup::Exited);
        self.state.set_rows(rows, condition(&self.journal), now);
        Ok(())
    }

    /// Looks up model, tokens and cost of the selected session, unless they are known.
    fn refresh_usage(&mut self) -> Result<(), CliError> {
        let Some(id) = self.state.selected_row().map(|row| row.id.clone()) else { return Ok(()) };
        if self.state.used.as_ref().is_some_and(|(known, _)| *known == id) {
            return Ok(());
        }
        let used = match self.journal.stat(&id) {
            Ok(info) => self.title_and_cost(&info)?.1,
            // It was deleted meanwhile.
            Err(ReadError::SessionNotFound(_)) => String::new(),
            Err(error) => return Err(error.into()),
        };
        self.state.used = Some((id, used));
        Ok(())
    }

    /// Reads new events of the open session.
    fn read_new_events(&mut self) -> Result<(), CliError> {
        let TopView::Transcript(transcript) = &self.state.view else { return Ok(()) };
        // Long sessions end here: memory would grow with every event.
        if transcript.spoken.len() >= LINES_MAX {
            return Ok(());
        }
        let (id, after) = (transcript.id.clone(), transcript.to_seq);
        let (lines, last) = match self.journal.stat(&id) {
            // At most one page: a session that grew by thousands of events is read in several
            // rounds.
            Ok(info) if info.tail_seq > after => self.read_lines(&id, after + 1, after + EVENTS)?,
            Ok(_) => return Ok(()),
            // It was deleted meanwhile.
            Err(ReadError::SessionNotFound(_)) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        self.state.append_lines(lines, last);
        Ok(())
    }

    /// Performs the action of a key, and shows its error.
    fn perform_action(&mut self, act: TopAction) {
        let done = match act {
            TopAction::Quit => Ok(()),
            TopAction::Open { id, at } => self.open_session(&id, at),
            TopAction::Earlier => self.read_earlier(),
            TopAction::Search(words) => self.search_all(words),
            TopAction::Resume(id) => self.show_resume(&id),
            TopAction::Jump(id) => self.jump_to_pane(&id),
        };
        if let Err(error) = done {
            // Shown instead of returned: one failed key must not end the program.
            self.state.note = Some(one_line(error.message(), DETAIL_CHARS_MAX));
        }
    }

    fn open_session(&mut self, id: &SessionId, at: Option<u64>) -> Result<(), CliError> {
        let info = self.journal.stat(id)?;
        let from = match at {
            // A third of the page before the hit, so that its context is visible.
            Some(seq) => seq.saturating_sub(EVENTS / 3).max(1),
            None => (info.tail_seq + 1).saturating_sub(EVENTS).max(1),
        };
        let (lines, last) = self.read_lines(id, from, from + EVENTS - 1)?;
        let (title, about) = self.title_and_cost(&info)?;
        let mut transcript =
            TranscriptView::new(id.clone(), lines, from, last).with_title(title, about);
        if let Some(seq) = at {
            transcript.scroll_to_event(seq);
        }
        self.state.open_transcript(transcript);
        Ok(())
    }

    /// Returns a session's title, and its model, tokens and cost.
    fn title_and_cost(&self, info: &SessionInfo) -> Result<(String, String), CliError> {
        let facts: Facts = load_current(&self.journal, info)?;
        let session = answers::session(info, &facts, &prices(&self.journal)?);
        let title = one_line(session.title.as_deref().unwrap_or(info.id.as_str()), 200);
        let model = session.model.as_deref().map(|model| one_line(model, 40));
        let tokens = session.tokens.map(|it| it.input + it.output + it.cache_creation);
        // Zero tokens mean that the agent reports none, not that it was free.
        let tokens = tokens.filter(|count| *count > 0);
        let money = tokens.and(session.usd).map(|usd| format_money(Some(usd)));
        let tokens = tokens.map(|count| format_several(count, "token"));
        let used: Vec<String> = [model, tokens, money].into_iter().flatten().collect();
        Ok((title, used.join("  ")))
    }

    fn read_earlier(&mut self) -> Result<(), CliError> {
        let TopView::Transcript(transcript) = &self.state.view else { return Ok(()) };
        if transcript.spoken.len() >= LINES_MAX {
            self.state.note = Some("`hansard show` prints the rest".to_owned());
            return Ok(());
        }
        // `from_seq` is at least 2 here: the first event asks for nothing earlier.
        let (id, to) = (transcript.id.clone(), transcript.from_seq - 1);
        let from = (to + 1).saturating_sub(EVENTS).max(1);
        let (lines, _) = self.read_lines(&id, from, to)?;
        self.state.prepend_lines(lines, from);
        Ok(())
    }

    /// Returns the lines of a range of events, and the last `seq` read.
    fn read_lines(
        &self,
        id: &SessionId,
        from: u64,
        to: u64,
    ) -> Result<(Vec<TranscriptLine>, u64), CliError> {
        let selection = Selection { from_seq: from, to_seq: to, ..Selection::default() };
        // Without an event the range counts as read up to its beginning.
        let (mut lines, mut last) = (Vec::new(), from.saturating_sub(1));
        for event in self.journal.events(id, selection)? {
            let event = event?;
            last = event.seq;
            lines.extend(transcript_lines(&event));
        }
        Ok((lines, last))
    }

    fn search_all(&mut self, words: String) -> Result<(), CliError> {
        let query = Query { order: Order::Best, limit: FINDINGS, ..Query::new(&words) };
        let found = self.journal.search(&query)?;
        let hits = found.hits.iter().map(|hit| hit_lines(hit, &self.zone)).collect();
        // The words were typed by the user, but a paste may hold control characters.
        self.state.show_hits(escape_controls(&words), hits);
        Ok(())
    }

    fn show_resume(&mut self, id: &SessionId) -> Result<(), CliError> {
        let info = self.journal.stat(id)?;
        let line = match ResumeCommand::for_session(&self.journal, info) {
            Ok(way) => way.line(),
            Err(ResumeError::Read(error)) => return Err(error.into()),
            Err(refusal) => refusal.to_string(),
        };
        self.state.note = Some(escape_controls(&line));
        Ok(())
    }

    fn jump_to_pane(&mut self, id: &SessionId) -> Result<(), CliError> {
        let status = self.statuses.explain(id.as_str())?;
        self.state.note = Some(pane::switch_to_terminal(status.pid));
        Ok(())
    }
}

/// Builds the list row of a session.
fn session_row(status: &Status, statuses: &Statuses, zone: &Zone, now: Time) -> SessionRow {
    let place = statuses.place(status);
    let title = status.title.as_deref().or(status.summary.last_prompt.as_deref()).unwrap_or("");
    SessionRow {
        id: status.session_id.clone(),
        group: group(status),
        provider: one_line(&status.provider, 20),
        place: one_line(last_part(place.as_deref()), 40),
        since: since(status),
        why: why(status),
        doing: one_line(&doing(status), 200),
        title: one_line(title, 200),
        detail: detail_lines(status, place.as_deref(), zone, now),
    }
}

/// Builds the details: why it needs the user, status, recent work, last prompt and evidence.
fn detail_lines(status: &Status, place: Option<&str>, zone: &Zone, now: Time) -> Vec<Detail> {
    let mut lines = Vec::new();
    let mut add = |weight, text: String| {
        lines.push(Detail { weight, text: one_line(&text, DETAIL_CHARS_MAX) });
    };
    let Status { reason, confidence, summary, .. } = status;
    let told = |at: Time| format!("since {}, {}", zone.hour_and_minute(at), age(at, now));
    if let Some(attention) = &status.attention
        && group(status) == StatusGroup::NeedsYou
    {
        let want = attention.want.replace('_', " ");
        add(Weight::Head, format!("needs you: {want} ({})", told(attention.since)));
        // The current activity stands below.
        if attention.what != summary.current {
            add(Weight::Plain, attention.what.clone());
        }
    }
    let (doing, reason) = (status.status.replace('_', " "), reason.replace('_', " "));
    let head = format!("{doing}, {reason} ({}), {confidence} confidence", told(status.since));
    add(Weight::Head, head);
    add(Weight::Plain, format!("now: {}", summary.current));
    if let Some(recent) = &summary.recent {
        let by = if summary.recent_origin.as_deref() == Some(FactOrigin::Model.as_str()) {
            " (by a model)"
        } else {
            ""
        };
        add(Weight::Plain, format!("lately{by}: {recent}"));
    }
    if let Some(prompt) = &summary.last_prompt {
        add(Weight::Plain, format!("asked: {prompt}"));
    }
    for evidence in &status.evidence {
        let at = age(evidence.at, now);
        add(Weight::Aside, format!("because {} [{}, {at} ago]", evidence.what, evidence.source));
    }
    add(Weight::Aside, format!("{} in {}", status.session_id, place.unwrap_or("-")));
    lines
}

fn hit_lines(hit: &EventHit, zone: &Zone) -> HitLines {
    let mut snippet = Vec::new();
    let mut at = 0;
    let piece = |from: usize, to: usize| {
        // `get`, not an index: a range that does not fit shows nothing instead of a panic.
        escape_controls(hit.snippet.get(from..to).unwrap_or_default()).replace(['\n', '\t'], " ")
    };
    for range in &hit.highlights {
        snippet.push((piece(at, range.start), false));
        snippet.push((piece(range.start, range.end), true));
        at = range.end;
    }
    snippet.push((piece(at, hit.snippet.len()), false));
    let at = zone.date_and_minute(hit.created_at);
    let head = format!("{at}  {}  {}", hit.kind, one_line(hit.session_id.as_str(), 60));
    HitLines { id: hit.session_id.clone(), seq: hit.seq, head, snippet }
}
