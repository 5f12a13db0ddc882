//! Everything that is printed: answers on stdout, everything else on stderr.
//!
//! Transcripts are hostile text. Whatever comes from one goes through [`plain`] before it meets
//! a terminal.

use std::borrow::Cow;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use event::Cost;
use serde::Serialize;

use crate::command::Global;
use crate::error::CliError;

/// Where a command's words go.
pub(crate) struct Output {
    stdout: BufWriter<Stdout>,
    json: bool,
    quiet: bool,
    color: bool,
    is_terminal: bool,
    shown_progress: Option<Instant>,
}

/// Where a part of the program that runs by itself says what a person may want to know.
#[derive(Clone, Copy)]
pub(crate) struct Log {
    is_quiet: bool,
}

impl Log {
    pub(crate) fn say(self, text: impl AsRef<str>) {
        if !self.is_quiet {
            // Nobody to tell: a closed stderr is no reason to fail.
            let _ = writeln!(io::stderr(), "{}", plain(text.as_ref()));
        }
    }
}

/// How a piece of text looks on a terminal. The words alone carry the meaning.
#[derive(Clone, Copy)]
pub(crate) enum Style {
    Plain,
    Bold,
    Dim,
    Match,
}

/// Time between two lines of progress on a terminal.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

impl Output {
    pub(crate) fn new(global: &Global) -> Output {
        let is_terminal = io::stdout().is_terminal();
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Output {
            stdout: BufWriter::new(io::stdout()),
            json: global.json,
            quiet: global.quiet,
            is_terminal,
            color: is_terminal && !no_color && !dumb && !global.no_color && !global.json,
            shown_progress: None,
        }
    }

    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// One value as one line of JSON.
    pub(crate) fn json_line(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        serde_json::to_writer(&mut self.stdout, value).map_err(io::Error::from)?;
        self.stdout.write_all(b"\n")?;
        Ok(())
    }

    /// One line of text.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) -> Result<(), CliError> {
        self.stdout.write_all(text.as_ref().as_bytes())?;
        self.stdout.write_all(b"\n")?;
        Ok(())
    }

    /// One line that some program has printed: harmless on a terminal, as it was for a pipe.
    pub(crate) fn printed_line(&mut self, text: &str) -> Result<(), CliError> {
        let text = printed(text, self.is_terminal);
        self.line(text)
    }

    /// Begins a new picture: on an empty screen, or behind an empty line where there is none.
    pub(crate) fn clear_screen(&mut self) -> Result<(), CliError> {
        let begin: &[u8] = if self.is_terminal { b"\x1b[H\x1b[2J" } else { b"\n" };
        Ok(self.stdout.write_all(begin)?)
    }

    /// Bytes as they are: for bundles.
    pub(crate) fn writer(&mut self) -> &mut dyn Write {
        &mut self.stdout
    }

    /// Text in a style, if this terminal has styles.
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

    /// Whether this terminal has colours.
    pub(crate) fn has_colors(&self) -> bool {
        self.color
    }

    /// Notes of a part that runs by itself.
    pub(crate) fn log(&self) -> Log {
        Log { is_quiet: self.quiet }
    }

    /// Something a person may want to know, on stderr.
    pub(crate) fn note(&mut self, text: impl AsRef<str>) {
        if !self.quiet && !self.json {
            self.clear_progress();
            // Nobody to tell: a closed stderr is no reason to fail.
            let _ = writeln!(io::stderr(), "{}", text.as_ref());
        }
    }

    /// Something a person has to know, on stderr, however quiet the rest is.
    pub(crate) fn warn(&mut self, text: impl AsRef<str>) {
        self.clear_progress();
        let _ = writeln!(io::stderr(), "{}", plain(text.as_ref()));
    }

    /// How far long work has got, on stderr, at a bearable pace; only for people.
    pub(crate) fn progress(&mut self, text: impl FnOnce() -> String) {
        if self.quiet || self.json || !io::stderr().is_terminal() {
            return;
        }
        if self.shown_progress.is_some_and(|at| at.elapsed() < PROGRESS_EVERY) {
            return;
        }
        self.shown_progress = Some(Instant::now());
        let _ = write!(io::stderr(), "\r\x1b[K{}", text());
    }

    fn clear_progress(&mut self) {
        if self.shown_progress.take().is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    /// Ends a command that failed: says so and gives the exit code.
    pub(crate) fn fail(mut self, error: &CliError) -> ExitCode {
        self.clear_progress();
        // Whoever closed the pipe has seen enough: that is a good end.
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

/// What a program has printed: on a terminal it commands nothing.
fn printed(text: &str, is_terminal: bool) -> Cow<'_, str> {
    if is_terminal { Cow::Owned(plain(text)) } else { Cow::Borrowed(text) }
}

/// The text with everything that could command a terminal or turn its letters around shown as
/// an escape. Line breaks and tabs stay.
pub(crate) fn plain(text: &str) -> String {
    text.chars()
        .map(|letter| match letter {
            '\n' | '\t' => letter.to_string(),
            letter if is_hostile(letter) => letter.escape_unicode().to_string(),
            letter => letter.to_string(),
        })
        .collect()
}

/// Money for people: cents, or a dash where nothing is known.
pub(crate) fn money(usd: Option<Cost>) -> String {
    match usd {
        None => "-".to_owned(),
        Some(cost) => format!("${:.2}", cost.nanos() as f64 / 1e9),
    }
}

/// The text on one line, cut to `max` letters.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    let text = plain(text);
    let mut words = text.split_whitespace();
    let mut line = words.next().unwrap_or_default().to_owned();
    for word in words {
        if line.chars().count() > max {
            break;
        }
        line.push(' ');
        line.push_str(word);
    }
    if line.chars().count() <= max {
        return line;
    }
    let cut: String = line.chars().take(max.saturating_sub(1)).collect();
    format!("{cut}…")
}

/// Letters that command a terminal, reorder others or hide them.
pub(crate) fn is_hostile(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
        '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_task_printed_commands_no_terminal() {
        let hostile = "a\u{1b}]0;title\u{7}b\u{1b}[2J\u{202e}c\u{9b}31m";
        let shown = printed(hostile, true);
        assert!(!shown.contains(|c: char| c.is_control() || c == '\u{202e}'), "{shown:?}");
        assert!(shown.contains('a') && shown.contains('b') && shown.contains('c'), "{shown:?}");
        assert_eq!(printed(hostile, false), hostile, "a pipe gets it as it was");
    }
}
