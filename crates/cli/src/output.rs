//! All printing: results on stdout, everything else on stderr.
//!
//! Transcripts are hostile text. All of it goes through [`escape_controls`] before it reaches a
//! terminal.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use event::{Cost, Time};
use ratatui::crossterm::terminal;
use segments::Zone;
use serde::Serialize;

use crate::columns::{text_width, truncate};
use crate::command::Global;
use crate::error::CliError;

/// The output of a command.
pub(crate) struct CliOutput {
    stdout: BufWriter<Stdout>,
    json: bool,
    quiet: bool,
    color: bool,
    is_terminal: bool,
    shown_progress: Option<Instant>,
    is_utc: bool,
    /// Looked up with the first time that is printed: it costs a read of the zone's file.
    zone: OnceCell<Zone>,
}

/// Lets a thread of its own, such as the daemon's, print notes.
#[derive(Clone, Copy)]
pub(crate) struct StderrLog {
    is_quiet: bool,
}

impl StderrLog {
    pub(crate) fn say(self, text: impl AsRef<str>) {
        if !self.is_quiet {
            // A closed stderr is no reason to fail.
            let _ = writeln!(io::stderr(), "{}", escape_controls(text.as_ref()));
        }
    }
}

/// The style of a piece of text. No meaning may depend on it alone.
#[derive(Clone, Copy)]
pub(crate) enum Style {
    Plain,
    Bold,
    Dim,
    Match,
}

/// The time between two progress lines.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Prints the answer of a hook in one write, so that an agent that ends the hook has all of it or
/// nothing.
pub(crate) fn answer_agent(line: &str) {
    // An agent that has closed its end does not wait for an answer.
    let _ = rustix::io::write(io::stdout(), format!("{line}\n").as_bytes());
}

/// Whether a person sees what is printed.
pub(crate) fn is_on_terminal() -> bool {
    io::stdout().is_terminal()
}

impl CliOutput {
    pub(crate) fn new(global: &Global) -> CliOutput {
        let is_terminal = io::stdout().is_terminal();
        // An empty `NO_COLOR` counts as unset, as no-color.org asks.
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        CliOutput {
            // Buffered: a session may print thousands of lines.
            stdout: BufWriter::new(io::stdout()),
            json: global.json,
            quiet: global.quiet,
            is_terminal,
            color: is_terminal && !no_color && !dumb && !global.no_color && !global.json,
            shown_progress: None,
            is_utc: global.utc,
            zone: OnceCell::new(),
        }
    }

    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// Prints a value as one line of JSON.
    pub(crate) fn json_line(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        // Straight to the buffer: a value may be megabytes long.
        serde_json::to_writer(&mut self.stdout, value).map_err(io::Error::from)?;
        self.stdout.write_all(b"\n")?;
        Ok(())
    }

    /// Prints one line.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) -> Result<(), CliError> {
        self.stdout.write_all(text.as_ref().as_bytes())?;
        self.stdout.write_all(b"\n")?;
        Ok(())
    }

    /// Prints a line of another program: escaped for a terminal, unchanged for a pipe.
    pub(crate) fn printed_line(&mut self, text: &str) -> Result<(), CliError> {
        // In a pipe the next program gets the same bytes that were printed.
        let text = safe_for_terminal(text, self.is_terminal);
        self.line(text)
    }

    /// Starts a new frame: clears the screen, or prints an empty line if stdout is no terminal.
    pub(crate) fn clear_screen(&mut self) -> Result<(), CliError> {
        // The cursor goes to the upper left, so that the frame begins at the first row.
        let begin: &[u8] = if self.is_terminal { b"\x1b[H\x1b[2J" } else { b"\n" };
        Ok(self.stdout.write_all(begin)?)
    }

    /// Returns the raw writer, for bundles.
    pub(crate) fn writer(&mut self) -> &mut dyn Write {
        &mut self.stdout
    }

    /// Styles a text, if the terminal has styles.
    pub(crate) fn styled(&self, style: Style, text: impl AsRef<str>) -> String {
        let text = text.as_ref();
        let code = match style {
            Style::Bold => "1",
            Style::Dim => "2",
            Style::Match => "1;33",
            Style::Plain => return text.to_owned(),
        };
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Returns whether the terminal has colors.
    pub(crate) fn has_colors(&self) -> bool {
        self.color
    }

    /// Returns the columns of the terminal; `None` for a pipe, which takes lines of any length.
    pub(crate) fn columns(&self) -> Option<usize> {
        let (columns, _) = self.is_terminal.then(|| terminal::size().ok()).flatten()?;
        // Some terminals without a size call it zero.
        Some(usize::from(columns)).filter(|columns| *columns > 0)
    }

    /// Joins styled pieces to a line that fits the terminal; a pipe gets all of it.
    pub(crate) fn fitted(&self, pieces: &[(Style, String)]) -> String {
        let mut left = self.columns().unwrap_or(usize::MAX);
        let mut line = String::new();
        for (style, text) in pieces {
            let shown = truncate(text, left);
            line.push_str(&self.styled(*style, &shown));
            if shown != *text {
                break;
            }
            left -= text_width(&shown);
        }
        line.trim_end().to_owned()
    }

    /// Returns the user's time zone: that of the machine, or UTC with `--utc`.
    pub(crate) fn zone(&self) -> &Zone {
        self.zone.get_or_init(|| if self.is_utc { Zone::UTC } else { Zone::system() })
    }

    /// Formats a time to the minute, for lists.
    pub(crate) fn minute(&self, at: Time) -> String {
        self.zone().date_and_minute(at)
    }

    /// Formats a time to the second.
    pub(crate) fn second(&self, at: Time) -> String {
        self.zone().date_and_second(at)
    }

    /// Returns a log for threads.
    pub(crate) fn log(&self) -> StderrLog {
        StderrLog { is_quiet: self.quiet }
    }

    /// Prints a note on stderr, unless `--quiet` or `--json`.
    pub(crate) fn note(&mut self, text: impl AsRef<str>) {
        if !self.quiet && !self.json {
            // Or the note would stand behind the progress on its line.
            self.clear_progress();
            // A closed stderr is no reason to fail.
            let _ = writeln!(io::stderr(), "{}", text.as_ref());
        }
    }

    /// Prints a warning on stderr, even with `--quiet`.
    pub(crate) fn warn(&mut self, text: impl AsRef<str>) {
        self.clear_progress();
        // Warnings may quote files and texts of agents.
        let _ = writeln!(io::stderr(), "{}", escape_controls(text.as_ref()));
    }

    /// Shows progress on stderr, at most every `PROGRESS_EVERY`; only on a terminal.
    pub(crate) fn progress(&mut self, text: impl FnOnce() -> String) {
        // Redirected to a file, progress would be thousands of lines.
        if self.quiet || self.json || !io::stderr().is_terminal() {
            return;
        }
        if self.shown_progress.is_some_and(|at| at.elapsed() < PROGRESS_EVERY) {
            return;
        }
        self.shown_progress = Some(Instant::now());
        // Back to the start of the line and cleared: the next text may be shorter.
        let _ = write!(io::stderr(), "\r\x1b[K{}", text());
    }

    fn clear_progress(&mut self) {
        if self.shown_progress.take().is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    /// Ends a failed command: prints the error and returns the exit code.
    pub(crate) fn fail(mut self, error: &CliError) -> ExitCode {
        self.clear_progress();
        // A closed pipe, as in `hansard sessions | head`, is a successful end.
        if error.is_closed_pipe() || self.flush().is_err_and(|error| error.is_closed_pipe()) {
            return ExitCode::SUCCESS;
        }
        let text = if self.json { error.to_json() } else { error.to_text() };
        let _ = writeln!(io::stderr(), "{text}");
        error.exit_code()
    }

    pub(crate) fn flush(&mut self) -> Result<(), CliError> {
        self.clear_progress();
        self.stdout.flush()?;
        Ok(())
    }
}

/// Makes another program's output safe for a terminal.
fn safe_for_terminal(text: &str, is_terminal: bool) -> Cow<'_, str> {
    if is_terminal { Cow::Owned(escape_controls(text)) } else { Cow::Borrowed(text) }
}

/// Escapes all characters that could control a terminal or reorder its text. Line breaks and tabs
/// stay.
pub(crate) fn escape_controls(text: &str) -> String {
    text.chars()
        .map(|letter| match letter {
            '\n' | '\t' => letter.to_string(),
            letter if is_hostile(letter) => letter.escape_unicode().to_string(),
            letter => letter.to_string(),
        })
        .collect()
}

/// Formats money in cents; `-` if unknown.
pub(crate) fn format_money(usd: Option<Cost>) -> String {
    match usd {
        None => "-".to_owned(),
        Some(cost) => {
            let text = format!("{:.2}", cost.nanos() as f64 / 1e9);
            let (dollars, cents) = text.split_once('.').expect("two decimals were asked for");
            format!("${}.{cents}", grouped(dollars))
        }
    }
}

/// Formats a count with its digits in groups: `12,345`.
pub(crate) fn format_count(count: u64) -> String {
    grouped(&count.to_string())
}

/// Puts a comma before each group of three digits.
fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (place, digit) in digits.char_indices() {
        let is_first = text.is_empty() || text == "-";
        if !is_first && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number of things: `1 event`, `12,345 events`.
pub(crate) fn format_several(count: u64, one: &str) -> String {
    format!("{} {one}{}", format_count(count), if count == 1 { "" } else { "s" })
}

/// Puts a text on one line and cuts it to `max` characters.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    // Escaped first: an escape takes more columns than the character.
    let text = escape_controls(text);
    let mut words = text.split_whitespace();
    let mut line = words.next().unwrap_or_default().to_owned();
    for word in words {
        // Stop early: a transcript may put megabytes into one text.
        if line.chars().count() > max {
            break;
        }
        line.push(' ');
        line.push_str(word);
    }
    if line.chars().count() <= max {
        return line;
    }
    // One character for the ellipsis.
    let cut: String = line.chars().take(max.saturating_sub(1)).collect();
    format!("{cut}…")
}

/// Returns whether a character controls a terminal, reorders text or is invisible.
pub(crate) fn is_hostile(letter: char) -> bool {
    letter.is_control()
        // Beyond control characters (C0 and C1): the soft hyphen, zero-width and direction marks,
        // line and paragraph separators, direction overrides, invisible operators, the byte order
        // mark, annotations, and tags, which spell out a text that is not seen.
        || matches!(letter,
        '\u{AD}' | '\u{61C}' | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_shown() {
        let hidden = "a\u{61c}b\u{ad}c\u{e0041}\u{e007f}d\u{85}\u{9b}e\u{fff9}";
        let shown = r"a\u{61c}b\u{ad}c\u{e0041}\u{e007f}d\u{85}\u{9b}e\u{fff9}";
        assert_eq!(escape_controls(hidden), shown);
    }

    #[test]
    fn digits_are_grouped() {
        for (count, shown) in
            [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345, "12,345"), (1_234_567, "1,234,567")]
        {
            assert_eq!(format_count(count), shown);
        }
        assert_eq!(format_money(Some(Cost::from_nanos(1_234_567_890_000))), "$1,234.57");
        assert_eq!(format_several(1, "event"), "1 event");
        assert_eq!(format_several(2_000, "event"), "2,000 events");
    }

    #[test]
    fn printed_lines_cannot_control_the_terminal() {
        let hostile = "a\u{1b}]0;title\u{7}b\u{1b}[2J\u{202e}c\u{9b}31m";
        let shown = safe_for_terminal(hostile, true);
        assert!(!shown.contains(|c: char| c.is_control() || c == '\u{202e}'), "{shown:?}");
        assert!(shown.contains('a') && shown.contains('b') && shown.contains('c'), "{shown:?}");
        assert_eq!(safe_for_terminal(hostile, false), hostile, "a pipe gets it as it was");
    }
}
