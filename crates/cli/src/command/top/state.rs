//! The state of the screen, and what keys do to it.
//!
//! Pure: data comes in through methods, and actions that need IO are returned as [`TopAction`].
//!
//! ```text
//!            Enter                     Enter
//!   List ───────────► Transcript ◄─────────── Hits
//!     ▲                    │                    ▲ │
//!     └──────Esc, q────────┴──────Esc, q────────┼─┘
//!     any view ── s, words, Enter ──────────────┘
//! ```
//!
//! Two modes lie over every view: the help, which the next key closes, and the input line of the
//! filter or the search, which takes all letters until Enter or Esc.

use std::collections::BTreeSet;

use event::{SessionId, Time};
use projection::status::StatusGroup;

use super::transcript::{TranscriptLine, TranscriptView};
use crate::session_counts::group_name;

/// Characters of the input line.
const TYPED_MAX: usize = 200;

/// One session in the list.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct SessionRow {
    pub id: SessionId,
    pub group: StatusGroup,
    pub provider: String,
    pub place: String,
    pub since: Time,
    /// What it needs from the user, else the reason of its status.
    pub why: String,
    pub doing: String,
    pub title: String,
    /// The lines of the details.
    pub detail: Vec<Detail>,
}

/// A line of the details.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Detail {
    pub text: String,
    pub weight: Weight,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Weight {
    Head,
    Plain,
    Aside,
}

/// A search hit.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct HitLines {
    pub id: SessionId,
    pub seq: u64,
    pub head: String,
    /// Pieces of the snippet, and whether each is a match.
    pub snippet: Vec<(String, bool)>,
}

/// The present view.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum TopView {
    List,
    Transcript(TranscriptView),
    Hits { words: String, findings: Vec<HitLines>, selected: usize },
}

/// What the input line is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Typing {
    Filter,
    Search,
}

/// A key, independent of the terminal's encoding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    Letter(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Back,
    Erase,
    /// A click on a row of the screen.
    Click(u16),
    Interrupt,
}

/// An action that needs IO.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum TopAction {
    Quit,
    /// Read a session, at its end or around an event.
    Open {
        id: SessionId,
        at: Option<u64>,
    },
    /// Read the events before the first line.
    Earlier,
    Search(String),
    /// Show the command that resumes it.
    Resume(SessionId),
    /// Switch to the terminal it runs in.
    Jump(SessionId),
}

/// Everything on the screen.
pub(super) struct TopState {
    pub rows: Vec<SessionRow>,
    pub selected: Option<SessionId>,
    pub filter: String,
    pub view: TopView,
    pub typing: Option<Typing>,
    /// The search words typed so far.
    pub words: String,
    pub has_help: bool,
    /// A note, until the next key.
    pub note: Option<String>,
    /// Model, tokens and cost of the selected session, once looked up.
    pub used: Option<(SessionId, String)>,
    /// Why the list may be incomplete.
    pub trouble: Option<String>,
    pub now: Time,
    /// What the last frame showed.
    pub shown: VisibleLines,
}

/// What fit on the screen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct VisibleLines {
    /// The first line shown of the present view, and how many.
    pub first: usize,
    pub count: usize,
    /// The list index of the session on each row of the screen.
    pub clickable: Vec<(u16, usize)>,
}

impl TopState {
    pub(super) fn new(now: Time) -> TopState {
        TopState {
            rows: Vec::new(),
            selected: None,
            filter: String::new(),
            view: TopView::List,
            typing: None,
            words: String::new(),
            has_help: false,
            note: None,
            used: None,
            trouble: None,
            now,
            shown: VisibleLines::default(),
        }
    }

    /// Takes a new list. The selection stays with its session, not with its row.
    pub(super) fn set_rows(&mut self, rows: Vec<SessionRow>, trouble: Option<String>, now: Time) {
        self.rows = rows;
        // Counts of the former list; looked up again for the selection.
        self.used = None;
        self.trouble = trouble;
        self.now = now;
        self.ensure_selection();
    }

    /// Returns the sessions that match the filter, in order.
    pub(super) fn listed(&self) -> Vec<&SessionRow> {
        // Compared without case, as users type.
        let wanted = self.filter.to_lowercase();
        let words: Vec<&str> = wanted.split_whitespace().collect();
        let fits = |row: &&SessionRow| {
            let SessionRow { provider, place, why, doing, title, id, .. } = row;
            // All that the row shows, so that any visible word filters.
            let group = group_name(row.group);
            let all =
                format!("{group} {provider} {place} {why} {doing} {title} {id}").to_lowercase();
            words.iter().all(|word| all.contains(word))
        };
        self.rows.iter().filter(fits).collect()
    }

    /// Returns the sessions that need the user.
    pub(super) fn needing_user(&self) -> BTreeSet<SessionId> {
        let needs = self.rows.iter().filter(|row| row.group == StatusGroup::NeedsYou);
        needs.map(|row| row.id.clone()).collect()
    }

    /// Returns the index of the selection in the list.
    pub(super) fn place(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.listed().iter().position(|row| row.id == *selected)
    }

    pub(super) fn selected_row(&self) -> Option<&SessionRow> {
        self.place().and_then(|place| self.listed().get(place).copied())
    }

    /// Returns the session that keys act on.
    fn target_session(&self) -> Option<SessionId> {
        match &self.view {
            TopView::List => self.selected_row().map(|row| row.id.clone()),
            TopView::Transcript(transcript) => Some(transcript.id.clone()),
            TopView::Hits { findings, selected, .. } => {
                findings.get(*selected).map(|finding| finding.id.clone())
            }
        }
    }

    /// Shows a session.
    pub(super) fn open_transcript(&mut self, transcript: TranscriptView) {
        self.view = TopView::Transcript(transcript);
    }

    /// Adds earlier lines to the open session.
    pub(super) fn prepend_lines(&mut self, spoken: Vec<TranscriptLine>, from_seq: u64) {
        if let TopView::Transcript(transcript) = &mut self.view {
            transcript.prepend(spoken, from_seq);
        }
    }

    /// Adds new lines to the open session.
    pub(super) fn append_lines(&mut self, spoken: Vec<TranscriptLine>, to_seq: u64) {
        if let TopView::Transcript(transcript) = &mut self.view {
            transcript.append(spoken, to_seq);
        }
    }

    pub(super) fn show_hits(&mut self, words: String, findings: Vec<HitLines>) {
        self.view = TopView::Hits { words, findings, selected: 0 };
    }

    /// Handles a key; returns the action it needs.
    pub(super) fn press(&mut self, key: Key) -> Option<TopAction> {
        // A note answers the last key, so the next one removes it.
        self.note = None;
        if key == Key::Interrupt {
            return Some(TopAction::Quit);
        }
        // Order: help and the input line take keys before the view does, or `q` in a filter would
        // quit.
        if self.has_help {
            self.has_help = false;
            return None;
        }
        if let Some(typing) = self.typing {
            return self.press_in_input(typing, key);
        }
        match key {
            Key::Letter('?') => self.has_help = true,
            Key::Letter('s') => {
                self.words.clear();
                self.typing = Some(Typing::Search);
            }
            Key::Letter('r') => return self.target_session().map(TopAction::Resume),
            Key::Letter('t') => return self.target_session().map(TopAction::Jump),
            _ => {
                return match &self.view {
                    TopView::List => self.press_in_list(key),
                    TopView::Transcript(_) => self.press_in_transcript(key),
                    TopView::Hits { .. } => self.press_in_hits(key),
                };
            }
        }
        None
    }

    /// Handles a key while the input line is open.
    fn press_in_input(&mut self, typing: Typing, key: Key) -> Option<TopAction> {
        let line = match typing {
            Typing::Filter => &mut self.filter,
            Typing::Search => &mut self.words,
        };
        match key {
            // Bounded: a paste may hold megabytes.
            Key::Letter(letter) if line.chars().count() < TYPED_MAX => line.push(letter),
            Key::Erase => drop(line.pop()),
            Key::Enter => {
                self.typing = None;
                let words = self.words.trim().to_owned();
                return (typing == Typing::Search && !words.is_empty())
                    .then_some(TopAction::Search(words));
            }
            // Esc takes the filter back as well, so one key leads to the whole list.
            Key::Back => {
                line.clear();
                self.typing = None;
            }
            _ => {}
        }
        // The filter may have hidden the selected session.
        self.ensure_selection();
        None
    }

    fn press_in_list(&mut self, key: Key) -> Option<TopAction> {
        let place = self.place().unwrap_or(0);
        match key {
            Key::Letter('q') => return Some(TopAction::Quit),
            // Esc first removes the filter, and quits only when none is left.
            Key::Back if self.filter.is_empty() => return Some(TopAction::Quit),
            Key::Back => self.filter.clear(),
            Key::Letter('/') => self.typing = Some(Typing::Filter),
            Key::Letter('n') => self.select_next_needing(),
            Key::Enter => {
                return self.target_session().map(|id| TopAction::Open { id, at: None });
            }
            Key::Click(row) => {
                let clicked = self.shown.clickable.iter().find(|(at, _)| *at == row).copied();
                if let Some((_, clicked)) = clicked {
                    // A second click on the selected session opens it.
                    if clicked == place {
                        return self.target_session().map(|id| TopAction::Open { id, at: None });
                    }
                    self.select(clicked);
                }
            }
            key => {
                if let Some(place) = target_index(key, place, self.shown.count, self.listed().len())
                {
                    self.select(place);
                }
            }
        }
        self.ensure_selection();
        None
    }

    fn press_in_transcript(&mut self, key: Key) -> Option<TopAction> {
        // Copied: the view is borrowed mutably below.
        let shown = self.shown.clone();
        let TopView::Transcript(transcript) = &mut self.view else { return None };
        match key {
            Key::Back | Key::Letter('q') => self.view = TopView::List,
            Key::Letter('f') => transcript.follow(),
            Key::End | Key::Letter('G') => transcript.follow(),
            key => {
                // For a transcript the index is that of the first line on the screen.
                let first = target_index(key, shown.first, shown.count, transcript.spoken.len())?;
                // Scrolling down to the end turns following on. Scrolling up never does, even where the last
                // line is visible.
                let is_end = first + shown.count >= transcript.spoken.len() && first > shown.first;
                match is_end {
                    true => transcript.follow(),
                    false => transcript.scroll_to(first),
                }
                // The top of what is loaded: ask for earlier events.
                if first == 0 && transcript.from_seq > 1 {
                    return Some(TopAction::Earlier);
                }
            }
        }
        None
    }

    fn press_in_hits(&mut self, key: Key) -> Option<TopAction> {
        let count = self.shown.count;
        let TopView::Hits { findings, selected, .. } = &mut self.view else { return None };
        match key {
            Key::Back | Key::Letter('q') => self.view = TopView::List,
            Key::Enter => {
                let finding = findings.get(*selected)?;
                return Some(TopAction::Open { id: finding.id.clone(), at: Some(finding.seq) });
            }
            key => {
                if let Some(place) = target_index(key, *selected, count, findings.len()) {
                    *selected = place;
                }
            }
        }
        None
    }

    fn select(&mut self, place: usize) {
        self.selected = self.listed().get(place).map(|row| row.id.clone());
    }

    /// Selects the next session that needs the user, wrapping around.
    fn select_next_needing(&mut self) {
        let listed = self.listed();
        // From behind the selection, so that repeated keys go through all of them.
        let here = self.place().map_or(0, |place| place + 1);
        let (before, behind) = listed.split_at(here.min(listed.len()));
        let next = behind.iter().chain(before).find(|row| row.group == StatusGroup::NeedsYou);
        let next = next.map(|row| row.id.clone());
        match next {
            Some(id) => self.selected = Some(id),
            None => self.note = Some("no session needs you".to_owned()),
        }
    }

    /// Selects the first session if the selected one is gone.
    fn ensure_selection(&mut self) {
        if self.place().is_none() {
            self.select(0);
        }
    }
}

/// Returns the index that a key moves to; `None` for other keys.
fn target_index(key: Key, place: usize, page: usize, count: usize) -> Option<usize> {
    // Before the first frame nothing is shown, and a page would move nowhere.
    let page = page.max(1);
    let last = count.saturating_sub(1);
    let moved = match key {
        Key::Up | Key::Letter('k') => place.saturating_sub(1),
        Key::Down | Key::Letter('j') => place + 1,
        Key::PageUp => place.saturating_sub(page),
        Key::PageDown | Key::Letter(' ') => place + page,
        Key::Home | Key::Letter('g') => 0,
        Key::End | Key::Letter('G') => last,
        _ => return None,
    };
    Some(moved.min(last))
}

#[cfg(test)]
mod tests {
    use StatusGroup::{Idle, NeedsYou, Running};

    use super::super::transcript::Speaker;
    use super::*;

    fn row(id: &str, group: StatusGroup) -> SessionRow {
        SessionRow {
            id: SessionId::new(id).expect("a plain id"),
            group,
            provider: "claude".to_owned(),
            place: "app".to_owned(),
            since: Time::from_millis(0),
            why: "turn".to_owned(),
            doing: "writes".to_owned(),
            title: format!("title of {id}"),
            detail: Vec::new(),
        }
    }

    fn state(rows: &[(&str, StatusGroup)]) -> TopState {
        let mut state = TopState::new(Time::from_millis(0));
        state.set_rows(rows.iter().map(|(id, group)| row(id, *group)).collect(), None, state.now);
        state.shown.count = 10;
        state
    }

    fn selected(state: &TopState) -> &str {
        state.selected.as_ref().map_or("-", |id| id.as_str())
    }

    fn press(state: &mut TopState, keys: &str) -> Option<TopAction> {
        keys.chars().map(|key| state.press(Key::Letter(key))).last().flatten()
    }

    #[test]
    fn selection_stays_with_its_session() {
        let mut state = state(&[("a", Running), ("b", Running), ("c", Idle)]);
        assert_eq!(selected(&state), "a");
        press(&mut state, "j");
        assert_eq!(selected(&state), "b");
        let rows = vec![row("c", Running), row("b", Idle), row("d", Idle)];
        state.set_rows(rows, None, state.now);
        assert_eq!(selected(&state), "b");
        state.set_rows(vec![row("d", Idle)], None, state.now);
        assert_eq!(selected(&state), "d");
        state.set_rows(Vec::new(), None, state.now);
        assert_eq!(selected(&state), "-");
    }

    #[test]
    fn filter_applies_while_typing() {
        let mut state = state(&[("a", Running), ("bc", Idle), ("bd", Idle)]);
        press(&mut state, "/title bd");
        assert_eq!(selected(&state), "bd");
        assert_eq!(state.listed().len(), 1);
        state.press(Key::Enter);
        // A letter is a key again.
        press(&mut state, "?");
        assert!(state.has_help);
        state.press(Key::Back);
        assert_eq!(state.press(Key::Back), None);
        assert_eq!(state.listed().len(), 3);
        assert_eq!(state.press(Key::Back), Some(TopAction::Quit));
    }

    #[test]
    fn one_key_cycles_through_needy_sessions() {
        let mut state = state(&[("a", NeedsYou), ("b", NeedsYou), ("c", Idle)]);
        press(&mut state, "n");
        assert_eq!(selected(&state), "b");
        press(&mut state, "n");
        assert_eq!(selected(&state), "a");
        let mut calm = self::state(&[("c", Idle)]);
        press(&mut calm, "n");
        assert!(calm.note.is_some());
    }

    #[test]
    fn search_runs_on_enter() {
        let mut state = state(&[("a", Idle)]);
        assert_eq!(press(&mut state, "sparser q"), None);
        assert_eq!(state.press(Key::Enter), Some(TopAction::Search("parser q".to_owned())));
        let finding = |id: &str, seq| HitLines {
            id: SessionId::new(id).expect("a plain id"),
            seq,
            head: String::new(),
            snippet: Vec::new(),
        };
        state.show_hits("parser q".to_owned(), vec![finding("x", 3), finding("y", 7)]);
        press(&mut state, "jj");
        let id = SessionId::new("y").expect("a plain id");
        assert_eq!(state.press(Key::Enter), Some(TopAction::Open { id, at: Some(7) }));
    }

    #[test]
    fn scrolling_turns_following_off_and_on() {
        let mut state = state(&[("a", Running)]);
        let line = |seq| {
            let text = format!("line {seq}");
            TranscriptLine { seq, voice: Speaker::Agent, is_first: true, text }
        };
        let id = SessionId::new("a").expect("a plain id");
        state.open_transcript(TranscriptView::new(id, (1..=50).map(line).collect(), 40, 50));
        state.shown = VisibleLines { first: 40, count: 10, clickable: Vec::new() };
        let first = |state: &TopState| match &state.view {
            TopView::Transcript(transcript) => {
                transcript.scroll_position().unwrap_or(transcript.spoken.len() - 10)
            }
            _ => panic!("it is not shown"),
        };
        assert_eq!(first(&state), 40);
        press(&mut state, "k");
        assert_eq!(first(&state), 39);
        // New lines do not move the view.
        state.append_lines((51..60).map(line).collect(), 59);
        assert_eq!(first(&state), 39);
        press(&mut state, "G");
        assert_eq!(first(&state), 49);
        assert_eq!(press(&mut state, "g"), Some(TopAction::Earlier));
        state.prepend_lines((30..40).map(line).collect(), 30);
        assert_eq!(first(&state), 10, "what was on the screen stays there");
    }
}
