//! The picture of a state: plain words in a few styles, so that 16 colours or none are enough.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph};
use unicode_width::UnicodeWidthChar;

use super::state::{Detail, Finding, Row, Shown, State, Typing, View, Weight};
use super::talk::{Spoken, Talk, Voice};
use crate::command::status::{GROUPS, age};

/// From this width on, the closer look is beside the list.
const WIDE: u16 = 140;

/// Rows of the closer look below the list, and those the list needs beside it.
const DETAIL_ROWS: u16 = 9;
const LIST_ROWS_MIN: u16 = 10;

/// Rows of what is said below: a command with a long folder in it fits 80 columns.
const NOTE_ROWS_MAX: usize = 6;

/// Columns of the word that says who speaks.
const VOICE_COLUMNS: usize = 8;

/// Columns before what a session does: mark, agent, project, age.
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
    ("Home End g G", "to the beginning, to the end"),
    ("Enter", "open a session, or what was found"),
    ("n", "the next session that needs you"),
    ("/", "show only sessions with these words"),
    ("s", "search everything ever said, done or printed"),
    ("f", "follow a session as it goes on"),
    ("r", "the command to go on with a session"),
    ("t", "go to the terminal it runs in (tmux)"),
    ("Esc q", "back, out"),
    ("?", "this"),
    ("Ctrl-C", "out"),
];

/// How things look.
pub(super) struct Looks {
    pub has_colors: bool,
}

impl Looks {
    fn of_group(&self, group: &str) -> Style {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        match group {
            "needs you" => self.colored(bold, Color::Yellow),
            "running" => self.colored(bold, Color::Green),
            _ => bold,
        }
    }

    fn of_voice(&self, voice: Voice) -> Style {
        let plain = Style::new();
        match voice {
            Voice::You => self.colored(plain.add_modifier(Modifier::BOLD), Color::Cyan),
            Voice::Agent => plain,
            Voice::Tool => self.colored(plain, Color::Blue),
            Voice::Failed => self.colored(plain, Color::Red),
            Voice::Thought | Voice::Printed | Voice::Note => plain.add_modifier(Modifier::DIM),
        }
    }

    fn found(&self) -> Style {
        self.colored(Style::new().add_modifier(Modifier::BOLD), Color::Yellow)
    }

    fn colored(&self, style: Style, color: Color) -> Style {
        if self.has_colors { style.fg(color) } else { style }
    }
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn chosen() -> Style {
    Style::new().add_modifier(Modifier::REVERSED)
}

/// Paints all of it; what had room.
pub(super) fn paint(state: &State, looks: &Looks, frame: &mut Frame<'_>) -> Shown {
    let foot_lines = footer(state, frame.area().width as usize);
    let foot_rows = Constraint::Length(foot_lines.len() as u16);
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(1), foot_rows])
            .areas(frame.area());
    frame.render_widget(header(state, looks, head.width as usize), head);
    let shown = match &state.view {
        View::List => list(state, looks, body, frame),
        View::Talk(talk) => said(talk, looks, body, frame),
        View::Found { findings, selected, .. } => found(findings, *selected, looks, body, frame),
    };
    frame.render_widget(Paragraph::new(foot_lines), foot);
    if state.has_help {
        help(frame);
    }
    shown
}

fn header(state: &State, looks: &Looks, width: usize) -> Line<'static> {
    let mut spans = vec![Span::styled("hansard", bold()), Span::raw("  ")];
    match &state.view {
        View::List => {
            let mut is_first = true;
            for (group, _) in GROUPS {
                let count = state.rows.iter().filter(|row| row.group == *group).count();
                if count > 0 {
                    spans.push(Span::raw(if is_first { "" } else { " · " }));
                    spans.push(Span::styled(format!("{count} {group}"), looks.of_group(group)));
                    is_first = false;
                }
            }
        }
        View::Talk(talk) => {
            let place = if talk.held().is_none() { "  following" } else { "" };
            let about = if talk.about.is_empty() { "" } else { "  " };
            let about = format!("{about}{}{place}", talk.about);
            let room = width.saturating_sub("hansard  ".len() + columns(&about));
            spans.push(Span::styled(cut(&talk.title, room), bold()));
            spans.push(Span::styled(about, dim()));
        }
        View::Found { words, findings, .. } => {
            spans.push(Span::raw(format!("{} found for ", findings.len())));
            spans.push(Span::styled(words.clone(), bold()));
        }
    }
    if let Some(trouble) = &state.trouble {
        spans.push(Span::styled(format!("  {trouble}"), looks.found()));
    }
    Line::from(spans)
}

/// One line; what is to be said has as many as it needs, so that a command can be taken from there.
fn footer(state: &State, width: usize) -> Vec<Line<'static>> {
    let line = match (state.typing, &state.note) {
        (Some(Typing::Filter), _) => Line::from(format!("/{}_", state.filter)),
        (Some(Typing::Search), _) => Line::from(format!("search: {}_", state.words)),
        (None, Some(note)) => {
            let lines = wrapped(note, width).into_iter().take(NOTE_ROWS_MAX);
            return lines.map(|line| Line::styled(line, bold())).collect();
        }
        (None, None) if matches!(state.view, View::List) && !state.filter.is_empty() => {
            Line::from(format!("/{}   Esc shows all again", state.filter))
        }
        (None, None) => Line::styled(
            match state.view {
                View::List => KEYS_LIST,
                View::Talk(_) => KEYS_TALK,
                View::Found { .. } => KEYS_FOUND,
            },
            dim(),
        ),
    };
    vec![line]
}

/// Sessions by group, and a closer look at one where there is room.
fn list(state: &State, looks: &Looks, area: Rect, frame: &mut Frame<'_>) -> Shown {
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
            true => "nothing was active lately; --all shows every session there is",
            false => "nothing fits",
        };
        frame.render_widget(Line::styled(words, dim()), listed_at);
        return Shown::default();
    }
    let lines = listed_lines(&listed, state, looks, listed_at.width as usize);
    let at = lines.iter().position(|(_, place)| *place == state.place()).unwrap_or(0);
    let room = listed_at.height as usize;
    // The selection is in the middle where that is possible.
    let first = at.saturating_sub(room / 2).min(lines.len().saturating_sub(room));
    let mut shown = Shown { first, count: room, clickable: Vec::new() };
    for (row, (line, place)) in lines.into_iter().skip(first).take(room).enumerate() {
        let y = listed_at.y + row as u16;
        frame.render_widget(line, Rect { y, height: 1, ..listed_at });
        shown.clickable.extend(place.map(|place| (y, place)));
    }
    if let (Some(area), Some(row)) = (detail_at, state.selected_row()) {
        let borders = if is_wide { Borders::LEFT } else { Borders::TOP };
        let block = Block::new().borders(borders).border_style(dim());
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let used = state.used.as_ref().filter(|(id, _)| *id == row.id).map(|(_, used)| used);
        frame.render_widget(Paragraph::new(detail(row, used, inner.width as usize)), inner);
    }
    shown
}

/// Headings and sessions; with each session its place in the list.
fn listed_lines(
    listed: &[&Row],
    state: &State,
    looks: &Looks,
    width: usize,
) -> Vec<(Line<'static>, Option<usize>)> {
    let mut lines = Vec::new();
    let selected = state.place();
    for (group, _) in GROUPS {
        let members: Vec<_> =
            listed.iter().enumerate().filter(|(_, row)| row.group == *group).collect();
        if members.is_empty() {
            continue;
        }
        lines.push((
            Line::styled(format!("{group} ({})", members.len()), looks.of_group(group)),
            None,
        ));
        for (place, row) in members {
            let line = session(row, state, width);
            let line = if selected == Some(place) { line.style(chosen()) } else { line };
            lines.push((line, Some(place)));
        }
    }
    lines
}

fn session(row: &Row, state: &State, width: usize) -> Line<'static> {
    let head = format!(
        " {} {} {:>AGE_COLUMNS$}  ",
        fitted(&row.provider, AGENT_COLUMNS),
        fitted(&row.place, PLACE_COLUMNS),
        age(row.since, state.now),
    );
    let rest = width.saturating_sub(AGENT_COLUMNS + PLACE_COLUMNS + AGE_COLUMNS + 5);
    // What it does comes first; what it is called has what is left.
    let current = cut(&row.current, rest);
    let left = rest.saturating_sub(columns(&current) + 2);
    let title = if left < 10 { String::new() } else { format!("  {}", cut(&row.title, left)) };
    let used = columns(&current) + columns(&title);
    Line::from(vec![
        Span::raw(head),
        Span::raw(current),
        Span::styled(title, dim()),
        // A selection goes to the edge.
        Span::raw(" ".repeat(rest.saturating_sub(used))),
    ])
}

fn detail(row: &Row, used: Option<&String>, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let used = used.filter(|used| !used.is_empty());
    let used = used.map(|used| Detail { text: format!("used: {used}"), weight: Weight::Plain });
    // What it does and has done, then what that is known from.
    let reasons = row.detail.iter().position(|detail| detail.weight == Weight::Aside);
    let (told, reasons) = row.detail.split_at(reasons.unwrap_or(row.detail.len()));
    for detail in told.iter().chain(&used).chain(reasons) {
        let style = match detail.weight {
            Weight::Head => bold(),
            Weight::Plain => Style::new(),
            Weight::Aside => dim(),
        };
        lines
            .extend(wrapped(&detail.text, width).into_iter().map(|line| Line::styled(line, style)));
    }
    lines
}

/// A talk, from where it is held or up to its end.
fn said(talk: &Talk, looks: &Looks, area: Rect, frame: &mut Frame<'_>) -> Shown {
    let (room, width) = (area.height as usize, area.width as usize);
    let rows = |spoken: &Spoken| wrapped(&spoken.text, width.saturating_sub(VOICE_COLUMNS)).len();
    let first = talk.held().unwrap_or_else(|| {
        let mut left = room;
        let fits = |spoken: &&Spoken| {
            let rows = rows(spoken);
            let fits = rows <= left;
            left = left.saturating_sub(rows);
            fits
        };
        talk.spoken.len() - talk.spoken.iter().rev().take_while(fits).count()
    });
    let mut lines: Vec<Line<'static>> = Vec::new();
    let mut count = 0;
    for spoken in &talk.spoken[first.min(talk.spoken.len())..] {
        if lines.len() >= room {
            break;
        }
        count += 1;
        let style = looks.of_voice(spoken.voice);
        let pieces = wrapped(&spoken.text, width.saturating_sub(VOICE_COLUMNS));
        for (number, piece) in pieces.into_iter().enumerate() {
            let is_first = number == 0 && spoken.is_first;
            let word = if is_first { spoken.voice.word() } else { "" };
            let word = format!("{word:>width$}  ", width = VOICE_COLUMNS - 2);
            lines.push(Line::from(vec![Span::styled(word, dim()), Span::styled(piece, style)]));
        }
    }
    if lines.is_empty() {
        lines.push(Line::styled("nothing has been said yet", dim()));
    }
    frame.render_widget(Paragraph::new(lines), area);
    Shown { first, count, clickable: Vec::new() }
}

/// What was found: two lines each.
fn found(
    findings: &[Finding],
    selected: usize,
    looks: &Looks,
    area: Rect,
    frame: &mut Frame<'_>,
) -> Shown {
    let room = (area.height as usize / 2).max(1);
    let first = selected.saturating_sub(room / 2).min(findings.len().saturating_sub(room));
    let mut lines = Vec::new();
    for (place, finding) in findings.iter().enumerate().skip(first).take(room) {
        let at: String = finding.at.to_string().chars().take(16).collect();
        let head = format!(" {}  {}", at.replace('T', " "), finding.head);
        let head = cut(&head, area.width as usize);
        let style = if place == selected { chosen() } else { bold() };
        lines.push(Line::styled(head, style));
        let pieces = finding.snippet.iter().map(|(text, is_found)| {
            Span::styled(text.clone(), if *is_found { looks.found() } else { Style::new() })
        });
        lines.push(Line::from(std::iter::once(Span::raw("   ")).chain(pieces).collect::<Vec<_>>()));
    }
    if lines.is_empty() {
        lines.push(Line::styled("nothing was found", dim()));
    }
    frame.render_widget(Paragraph::new(lines), area);
    Shown { first, count: room, clickable: Vec::new() }
}

fn help(frame: &mut Frame<'_>) {
    let width = HELP.iter().map(|(_, what)| columns(what)).max().unwrap_or(0) + 22;
    let area = frame.area();
    let (width, height) =
        ((width as u16).min(area.width), (HELP.len() as u16 + 2).min(area.height));
    let at = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    let lines = HELP.map(|(keys, what)| {
        Line::from(vec![Span::styled(format!(" {keys:<17} "), bold()), Span::raw(what)])
    });
    frame.render_widget(Clear, at);
    let block = Block::new().borders(Borders::ALL).title(" keys ");
    frame.render_widget(Paragraph::new(lines.to_vec()).block(block), at);
}

/// Columns that a text takes.
fn columns(text: &str) -> usize {
    text.chars().filter_map(UnicodeWidthChar::width).sum()
}

/// A text that takes at most so many columns.
fn cut(text: &str, max: usize) -> String {
    if columns(text) <= max {
        return text.to_owned();
    }
    let mut left = max.saturating_sub(1);
    let fits = |letter: &char| {
        let width = letter.width().unwrap_or(0);
        let fits = width <= left;
        left = left.saturating_sub(width);
        fits
    };
    let kept: String = text.chars().take_while(fits).collect();
    if max == 0 { String::new() } else { format!("{kept}…") }
}

/// A text that takes exactly so many columns.
fn fitted(text: &str, width: usize) -> String {
    let text = cut(text, width);
    let left = width.saturating_sub(columns(&text));
    format!("{text}{}", " ".repeat(left))
}

/// A text in lines of at most so many columns, broken between words where that is possible.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_inclusive(' ') {
        let wide = columns(word.trim_end());
        if used > 0 && used + wide > width && wide <= width {
            lines.push(String::new());
            used = 0;
        }
        for letter in word.chars() {
            let wide = letter.width().unwrap_or(0);
            if used + wide > width {
                // The space between two lines is on neither.
                if letter == ' ' {
                    continue;
                }
                lines.push(String::new());
                used = 0;
            }
            if let Some(line) = lines.last_mut() {
                line.push(letter);
            }
            used += wide;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_broken_only_if_they_are_too_long() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrapped("", 4), [""]);
        assert_eq!(wrapped("針検索 a", 4), ["針検", "索 a"]);
    }

    #[test]
    fn a_cut_text_says_so_and_fits() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdef", 5), "abcd…");
        assert_eq!(cut("針検索", 5), "針検…");
        assert_eq!(cut("abc", 0), "");
        assert_eq!(columns(&fitted("針検索", 4)), 4);
    }
}
