//! The terminal in full-screen mode, restored however the program ends.

use std::io::{self, Write};
use std::time::Duration;

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{
    self, DisableMouseCapture, EnableMouseCapture, Event, KeyCode, KeyEvent, KeyEventKind,
    KeyModifiers, MouseButton, MouseEventKind,
};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use ratatui::{Frame, Terminal};

use super::state::Key;

/// The terminal in full-screen mode.
pub(super) struct Screen<'a> {
    terminal: Terminal<CrosstermBackend<&'a mut dyn Write>>,
}

/// Input from the terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Input {
    Key(Key),
    /// The size has changed.
    Resized,
}

impl<'a> Screen<'a> {
    pub(super) fn enter(writer: &'a mut dyn Write, has_mouse: bool) -> io::Result<Screen<'a>> {
        // Built before raw mode starts, so that its `drop` restores the terminal after any error.
        let mut screen = Screen { terminal: Terminal::new(CrosstermBackend::new(writer))? };
        enable_raw_mode()?;
        execute!(screen.terminal.backend_mut(), EnterAlternateScreen)?;
        if has_mouse {
            execute!(screen.terminal.backend_mut(), EnableMouseCapture)?;
        }
        Ok(screen)
    }

    pub(super) fn draw<T: Default>(
        &mut self,
        paint: impl FnOnce(&mut Frame<'_>) -> T,
    ) -> io::Result<T> {
        let mut shown = T::default();
        // Terminals with synchronized updates show the whole frame at once.
        execute!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        self.terminal.draw(|frame| shown = paint(frame))?;
        // Also sent to terminals that do not know it: they ignore it.
        execute!(self.terminal.backend_mut(), EndSynchronizedUpdate)?;
        Ok(shown)
    }

    /// Rings the bell.
    pub(super) fn ring_bell(&mut self) -> io::Result<()> {
        let backend = self.terminal.backend_mut();
        backend.write_all(b"\x07")?;
        io::Write::flush(backend)
    }

    /// Waits for the next input up to a limit.
    pub(super) fn next(&self, limit: Duration) -> io::Result<Option<Input>> {
        if !event::poll(limit)? {
            return Ok(None);
        }
        Ok(match event::read()? {
            // Some terminals report the release of a key as well.
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                translate_key(key).map(Input::Key)
            }
            Event::Mouse(mouse) => match mouse.kind {
                MouseEventKind::ScrollUp => Some(Input::Key(Key::Up)),
                MouseEventKind::ScrollDown => Some(Input::Key(Key::Down)),
                MouseEventKind::Down(MouseButton::Left) => Some(Input::Key(Key::Click(mouse.row))),
                _ => None,
            },
            Event::Resize(..) => Some(Input::Resized),
            _ => None,
        })
    }
}

impl Drop for Screen<'_> {
    fn drop(&mut self) {
        // Errors are ignored: a terminal that is gone needs no restoring.
        let backend = self.terminal.backend_mut();
        // Also without the mouse: switching it off twice does no harm.
        let _ = execute!(backend, DisableMouseCapture, LeaveAlternateScreen);
        let _ = disable_raw_mode();
        let _ = self.terminal.show_cursor();
    }
}

fn translate_key(key: KeyEvent) -> Option<Key> {
    let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c') if has_control => Key::Interrupt,
        KeyCode::Char('d') if has_control => Key::PageDown,
        KeyCode::Char('u') if has_control => Key::PageUp,
        // Other control keys are not letters.
        KeyCode::Char(letter) if !has_control => Key::Letter(letter),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Enter | KeyCode::Right => Key::Enter,
        KeyCode::Esc | KeyCode::Left => Key::Back,
        KeyCode::Backspace => Key::Erase,
        _ => return None,
    })
}
