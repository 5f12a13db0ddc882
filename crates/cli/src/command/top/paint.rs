//! Draws the state with plain text in a few styles, readable with 16 colors or none.

use projection::status::StatusGroup;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph};

use super::state::{Detail, HitLines, SessionRow, TopState, TopView, Typing, VisibleLines, Weight};
use super::transcript::{Speaker, TranscriptLine, TranscriptView};
use crate::columns::{pad_to, text_width, truncate, wrap_text};
use crate::command::status::{WHY_COLUMNS, WHY_FROM_COLUMNS, age};
use crate::session_counts::{SessionCounts, group_name};

/// From this width on, the details are beside the list.
const WIDE: u16 = 140;

/// Rows of the details below the list, and rows that the list needs besides.
const DETAIL_ROWS: u16 = 9;
const LIST_ROWS_MIN: u16 = 10;

/// Rows of a note: a command with a long path fits 80 columns.
const NOTE_ROWS_MAX: usize = 6;

/// Columns of the speaker's name.
const VOICE_COLUMNS: usize = 8;

/// Columns before the current activity: agent, project, age.
const AGENT_COLUMNS: usize = 9;
const PLACE_COLUMNS: usize = 16;
const AGE_COLUMNS: usize = 4;

const KEYS_LIST: &str =
    "⏎ open  n needs you  / filter  s search  r resume  t terminal  ? help  q quit";
const KEYS_TALK: &str =
    "↑↓ scroll  f follow  g begin  s search  r resume  t terminal  ? help  q back";
const KEYS_FOUND: &str = "↑↓ move  ⏎ open  s search again  ? help  q back";

const HELP: [(&str, &str); 13] = [
    ("↑ ↓ k j", "move or scroll"),
    ("PgUp PgDn space", "a page"),
    ("Home End g G", "go to the beginning or the end"),
    ("Enter", "open a session or a match"),
    ("n", "select the next session that needs you"),
    ("/", "filter sessions by words"),
    ("s", "search all sessions"),
    ("f", "follow new events"),
    ("r", "show the command that resumes it"),
    ("t", "switch to its terminal (tmux)"),
    ("Esc q", "back or quit"),
    ("?", "this help"),
    ("Ctrl-C", "quit"),
];

/// The styles.
pub(super) struct Theme {
    pub has_colors: bool,
}

impl Theme {
    fn group_style(&self, group: StatusGroup) -> Style {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        match group {
            // Color only adds to the name of the group, which stands there too.
            StatusGroup::NeedsYou => self.colored(bold, Color::Yellow),
            StatusGroup::Running => self.colored(bold, Color::Green),
            _ => bold,
        }
    }

    fn speaker_style(&self, voice: Speaker) -> Style {
        let plain = Style::new();
        match voice {
            Speaker::You => self.colored(plain.add_modifier(Modifier::BOLD), Color::Cyan),
            Speaker::Agent => plain,
            Speaker::Tool => self.colored(plain, Color::Blue),
            Speaker::Failed => self.colored(plain, Color::Red),
            Speaker::Thought | Speaker::Printed | Speaker::Note => {
                plain.add_modifier(Modifier::DIM)
            }
        }
    }

    fn match_style(&self) -> Style {
        self.colored(Style::new().add_modifier(Modifier::BOLD), Color::Yellow)
    }

    fn colored(&self, style: Style, color: Color) -> Style {
        if self.has_colors { style.fg(color) } else { style }
    }
}

fn dim_style() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn bold_style() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn selected_style() -> Style {
    Style::new().add_modifier(Modifier::REVERSED)
}

/// Draws everything; returns what fit on the screen.
pub(super) fn paint_screen(state: &TopState, theme: &Theme, frame: &mut Frame<'_>) -> VisibleLines {
    // The foot first: its height depends on the note, and the body takes the rest.
    let foot_lines = footer_lines(state, frame.area().width as usize);
    let foot_rows = Constraint::Length(foot_lines.len() as u16);
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(1), foot_rows])
            .areas(frame.area());
    frame.render_widget(header_line(state, theme, head.width as usize), head);
    let shown = match &state.view {
        TopView::List => draw_list(state, theme, body, frame),
        TopView::Transcript(transcript) => draw_transcript(transcript, theme, body, frame),
        TopView::Hits { findings, selected, .. } => {
            draw_hits(findings, *selected, theme, body, frame)
        }
    };
    frame.render_widget(Paragraph::new(foot_lines), foot);
    // Last, over everything else.
    if state.has_help {
        draw_help(frame);
    }
    shown
}

fn header_line(state: &TopState, theme: &Theme, width: usize) -> Line<'static> {
    let mut spans = vec![Span::styled("hansard", bold_style()), Span::raw("  ")];
    match &state.view {
        TopView::List => {
            let counts: SessionCounts = state.rows.iter().map(|row| row.group).collect();
            let mut is_first = true;
            for group in StatusGroup::ALL {
                if let Some(words) = counts.in_words(group) {
                    spans.push(Span::raw(if is_first { "" } else { " · " }));
                    spans.push(Span::styled(words, theme.group_style(group)));
                    is_first = false;
                }
            }
        }
        TopView::Transcript(transcript) => {
            // No scroll position means that the end is shown as it grows.
            let place = if transcript.scroll_position().is_none() { "  following" } else { "" };
            let about = if transcript.about.is_empty() { "" } else { "  " };
            let about = format!("{about}{}{place}", transcript.about);
            // The title gives way: model and cost are short and always shown.
            let room = width.saturating_sub("hansard  ".len() + text_width(&about));
            spans.push(Span::styled(truncate(&transcript.title, room), bold_style()));
            spans.push(Span::styled(about, dim_style()));
        }
        TopView::Hits { words, findings, .. } => {
            spans.push(Span::raw(format!("{} found for ", findings.len())));
            spans.push(Span::styled(words.clone(), bold_style()));
        }
    }
    if let Some(trouble) = &state.trouble {
        spans.push(Span::styled(format!("  {trouble}"), theme.match_style()));
    }
    Line::from(spans)
}

/// Returns the footer: one line, or as many as a note needs, so that a command can be copied whole.
fn footer_lines(state: &TopState, width: usize) -> Vec<Line<'static>> {
    let line = match (state.typing, &state.note) {
        (Some(Typing::Filter), _) => Line::from(format!("/{}_", state.filter)),
        (Some(Typing::Search), _) => Line::from(format!("search: {}_", state.words)),
        (None, Some(note)) => {
            let lines = wrap_text(note, width).into_iter().take(NOTE_ROWS_MAX);
            return lines.map(|line| Line::styled(line, bold_style())).collect();
        }
        (None, None) if matches!(state.view, TopView::List) && !state.filter.is_empty() => {
            Line::from(format!("/{}   Esc shows all again", state.filter))
        }
        (None, None) => Line::styled(
            match state.view {
                TopView::List => KEYS_LIST,
                TopView::Transcript(_) => KEYS_TALK,
                TopView::Hits { .. } => KEYS_FOUND,
            },
            dim_style(),
        ),
    };
    vec![line]
}

/// Draws the sessions by group, and details where there is room.
fn draw_list(state: &TopState, theme: &Theme, area: Rect, frame: &mut Frame<'_>) -> VisibleLines {
    // Beside the list where it is wide, below it where it is high, else not at all.
    let is_wide = area.width >= WIDE;
    let is_high = area.height >= LIST_ROWS_MIN + DETAIL_ROWS;
    let (listed_at, detail_at) = if is_wide {
        let [list, detail] =
            Layout::horizontal([Constraint::Percentage(60), Constraint::Percentage(40)])
                .areas(area);
        (list, Some(detail))
    } else if is_high {
        let [list, detail] =
            Layout::vertical([Constraint::Min(1), Constraint::Length(DETAIL_ROWS)]).areas(area);
        (list, Some(detail))
    } else {
        (area, None)
    };
    let listed = state.listed();
    if listed.is_empty() {
        let words = match state.filter.is_empty() {
            true => "no session was active in the last day; `hansard top --all` shows all",
            false => "no session matches; Esc shows all again",
        };
        frame.render_widget(Line::styled(words, dim_style()), listed_at);
        return VisibleLines::default();
    }
    let lines = listed_lines(&listed, state, theme, listed_at.width as usize);
    // Headings are lines too, so the index in the list is not the line.
    let at = lines.iter().position(|(_, place)| *place == state.place()).unwrap_or(0);
    let room = listed_at.height as usize;
    // Keep the selection in the middle where possible.
    let first = at.saturating_sub(room / 2).min(lines.len().saturating_sub(room));
    let mut shown = VisibleLines { first, count: room, clickable: Vec::new() };
    for (row, (line, place)) in lines.into_iter().skip(first).take(room).enumerate() {
        let y = listed_at.y + row as u16;
        frame.render_widget(line, Rect { y, height: 1, ..listed_at });
        // Headings have no session and cannot be clicked.
        shown.clickable.extend(place.map(|place| (y, place)));
    }
    if let (Some(area), Some(row)) = (detail_at, state.selected_row()) {
        let borders = if is_wide { Borders::LEFT } else { Borders::TOP };
        let block = Block::new().borders(borders).border_style(dim_style());
        let inner = block.inner(area);
        frame.render_widget(block, area);
        // The usage of the former selection may still be there.
        let used = state.used.as_ref().filter(|(id, _)| *id == row.id).map(|(_, used)| used);
        frame.render_widget(Paragraph::new(detail_lines(row, used, inner.width as usize)), inner);
    }
    shown
}

/// Returns headings and sessions; each session comes with its index in the list.
fn listed_lines(
    listed: &[&SessionRow],
    state: &TopState,
    theme: &Theme,
    width: usize,
) -> Vec<(Line<'static>, Option<usize>)> {
    let mut lines = Vec::new();
    let selected = state.place();
    for group in StatusGroup::ALL {
        let members: Vec<_> =
            listed.iter().enumerate().filter(|(_, row)| row.group == group).collect();
        if members.is_empty() {
            continue;
        }
        lines.push((
            Line::styled(
                format!("{} ({})", group_name(group), members.len()),
                theme.group_style(group),
            ),
            None,
        ));
        for (place, row) in members {
            let line = session_line(row, state, width);
            let line = if selected == Some(place) { line.style(selected_style()) } else { line };
            lines.push((line, Some(place)));
        }
    }
    lines
}

fn session_line(row: &SessionRow, state: &TopState, width: usize) -> Line<'static> {
    let why = match width >= WHY_FROM_COLUMNS {
        true => format!("{}  ", pad_to(&row.why, WHY_COLUMNS)),
        false => String::new(),
    };
    let head = format!(
        " {} {} {:>AGE_COLUMNS$}  {why}",
        pad_to(&row.provider, AGENT_COLUMNS),
        pad_to(&row.place, PLACE_COLUMNS),
        age(row.since, state.now),
    );
    let rest = width.saturating_sub(text_width(&head));
    // The current activity comes first, and the title gets the rest.
    let current = truncate(&row.doing, rest);
    let left = rest.saturating_sub(text_width(&current) + 2);
    // Fewer than ten columns of a title say nothing.
    let title = if left < 10 { String::new() } else { format!("  {}", truncate(&row.title, left)) };
    let used = text_width(&current) + text_width(&title);
    Line::from(vec![
        Span::raw(head),
        Span::raw(current),
        Span::styled(title, dim_style()),
        // Fill the row, so that the highlight reaches the edge.
        Span::raw(" ".repeat(rest.saturating_sub(used))),
    ])
}

fn detail_lines(row: &SessionRow, used: Option<&String>, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let used = used.filter(|used| !used.is_empty());
    let used = used.map(|used| Detail { text: format!("used: {used}"), weight: Weight::Plain });
    // First the status and the work, then the evidence.
    let reasons = row.detail.iter().position(|detail| detail.weight == Weight::Aside);
    let (told, reasons) = row.detail.split_at(reasons.unwrap_or(row.detail.len()));
    for detail in told.iter().chain(&used).chain(reasons) {
        let style = match detail.weight {
            Weight::Head => bold_style(),
            Weight::Plain => Style::new(),
            Weight::Aside => dim_style(),
        };
        lines.extend(
            wrap_text(&detail.text, width).into_iter().map(|line| Line::styled(line, style)),
        );
    }
    lines
}

/// Draws a session, from where it is scrolled to, or up to its end.
fn draw_transcript(
    transcript: &TranscriptView,
    theme: &Theme,
    area: Rect,
    frame: &mut Frame<'_>,
) -> VisibleLines {
    let (room, width) = (area.height as usize, area.width as usize);
    let rows = |spoken: &TranscriptLine| {
        wrap_text(&spoken.text, width.saturating_sub(VOICE_COLUMNS)).len()
    };
    let first = transcript.scroll_position().unwrap_or_else(|| {
        // Following: count lines from the end, until the next would not fit whole.
        let mut left = room;
        let fits = |spoken: &&TranscriptLine| {
            // A following view shows whole lines only: half of the newest would be worse than a gap
            // above.
            let rows = rows(spoken);
            let fits = rows <= left;
            left = left.saturating_sub(rows);
            fits
        };
        transcript.spoken.len() - transcript.spoken.iter().rev().take_while(fits).count()
    });
    let mut lines: Vec<Line<'static>> = Vec::new();
    let mut count = 0;
    for spoken in &transcript.spoken[first.min(transcript.spoken.len())..] {
        if lines.len() >= room {
            break;
        }
        // Counted in lines of the transcript, not in rows: scrolling moves by these.
        count += 1;
        let style = theme.speaker_style(spoken.voice);
        let pieces = wrap_text(&spoken.text, width.saturating_sub(VOICE_COLUMNS));
        for (number, piece) in pieces.into_iter().enumerate() {
            // The speaker stands only before the first row of its first line.
            let is_first = number == 0 && spoken.is_first;
            let word = if is_first { spoken.voice.word() } else { "" };
            let word = format!("{word:>width$}  ", width = VOICE_COLUMNS - 2);
            lines.push(Line::from(vec![
                Span::styled(word, dim_style()),
                Span::styled(piece, style),
            ]));
        }
    }
    if lines.is_empty() {
        lines.push(Line::styled("no messages yet", dim_style()));
    }
    frame.render_widget(Paragraph::new(lines), area);
    VisibleLines { first, count, clickable: Vec::new() }
}

/// Draws search hits, two lines each.
fn draw_hits(
    findings: &[HitLines],
    selected: usize,
    theme: &Theme,
    area: Rect,
    frame: &mut Frame<'_>,
) -> VisibleLines {
    // At least one, also in a window of a single row.
    let room = (area.height as usize / 2).max(1);
    let first = selected.saturating_sub(room / 2).min(findings.len().saturating_sub(room));
    let mut lines = Vec::new();
    for (place, finding) in findings.iter().enumerate().skip(first).take(room) {
        let head = format!(" {}", finding.head);
        let head = truncate(&head, area.width as usize);
        let style = if place == selected { selected_style() } else { bold_style() };
        lines.push(Line::styled(head, style));
        let pieces = finding.snippet.iter().map(|(text, is_found)| {
            Span::styled(text.clone(), if *is_found { theme.match_style() } else { Style::new() })
        });
        lines.push(Line::from(std::iter::once(Span::raw("   ")).chain(pieces).collect::<Vec<_>>()));
    }
    if lines.is_empty() {
        lines.push(Line::styled("no matches", dim_style()));
    }
    frame.render_widget(Paragraph::new(lines), area);
    VisibleLines { first, count: room, clickable: Vec::new() }
}

fn draw_help(frame: &mut Frame<'_>) {
    let width = HELP.iter().map(|(_, what)| text_width(what)).max().unwrap_or(0) + 22;
    let area = frame.area();
    let (width, height) =
        ((width as u16).min(area.width), (HELP.len() as u16 + 2).min(area.height));
    let at = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    let lines = HELP.map(|(keys, what)| {
        Line::from(vec![Span::styled(format!(" {keys:<17} "), bold_style()), Span::raw(what)])
    });
    // Without it the list would show through.
    frame.render_widget(Clear, at);
    let block = Block::new().borders(Borders::ALL).title(" keys ");
    frame.render_widget(Paragraph::new(lines.to_vec()).block(block), at);
}
