//! What is on the screen, and what a key does to it.
//!
//! Pure: what was seen and read is handed in, and what has to be done outside is asked for.

use std::collections::BTreeSet;

use event::{SessionId, Time};

use super::talk::{Spoken, Talk};

/// Letters that can be typed into a line.
const TYPED_MAX: usize = 200;

/// One session in the list.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Row {
    pub id: SessionId,
    pub group: &'static str,
    pub provider: String,
    pub place: String,
    pub since: Time,
    pub current: String,
    pub title: String,
    /// What a closer look shows, a line each.
    pub detail: Vec<Detail>,
}

/// A line of a closer look.
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

/// Something that was found.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Finding {
    pub id: SessionId,
    pub seq: u64,
    pub at: Time,
    pub head: String,
    /// Pieces of the text, and whether each is what was looked for.
    pub snippet: Vec<(String, bool)>,
}

/// What is looked at.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum View {
    List,
    Talk(Talk),
    Found { words: String, findings: Vec<Finding>, selected: usize },
}

/// What is being typed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Typing {
    Filter,
    Search,
}

/// A key, whatever the terminal calls it.
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
    /// A row of the screen was clicked on.
    Click(u16),
    Interrupt,
}

/// What has to be done outside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Act {
    Quit,
    /// Read the talk of a session, at its end or around an event.
    Open {
        id: SessionId,
        at: Option<u64>,
    },
    /// Read what was before the first line of the talk.
    Earlier,
    Search(String),
    /// Say how its agent goes on with it.
    Resume(SessionId),
    /// Go to the terminal it runs in.
    Jump(SessionId),
}

/// Everything that is on the screen.
pub(super) struct State {
    pub rows: Vec<Row>,
    pub selected: Option<SessionId>,
    pub filter: String,
    pub view: View,
    pub typing: Option<Typing>,
    /// What has been typed of a search.
    pub words: String,
    pub has_help: bool,
    /// Something to say, until the next key.
    pub note: Option<String>,
    /// What the selected session runs on and what it cost, once that was looked up.
    pub used: Option<(SessionId, String)>,
    /// What keeps us from knowing everything.
    pub trouble: Option<String>,
    pub now: Time,
    /// What the last picture showed.
    pub shown: Shown,
}

/// What a picture had room for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Shown {
    /// Lines of the present view, from this one on.
    pub first: usize,
    pub count: usize,
    /// The session on each row of the screen.
    pub clickable: Vec<(u16, usize)>,
}

impl State {
    pub(super) fn new(now: Time) -> State {
        State {
            rows: Vec::new(),
            selected: None,
            filter: String::new(),
            view: View::List,
            typing: None,
            words: String::new(),
            has_help: false,
            note: None,
            used: None,
            trouble: None,
            now,
            shown: Shown::default(),
        }
    }

    /// Takes what was seen now. The selection stays with its session.
    pub(super) fn seen(&mut self, rows: Vec<Row>, trouble: Option<String>, now: Time) {
        self.rows = rows;
        self.used = None;
        self.trouble = trouble;
        self.now = now;
        self.settle();
    }

    /// The sessions that fit the filter, in their order.
    pub(super) fn listed(&self) -> Vec<&Row> {
        let wanted = self.filter.to_lowercase();
        let words: Vec<&str> = wanted.split_whitespace().collect();
        let fits = |row: &&Row| {
            let Row { group, provider, place, current, title, id, .. } = row;
            let all = format!("{group} {provider} {place} {current} {title} {id}").to_lowercase();
            words.iter().all(|word| all.contains(word))
        };
        self.rows.iter().filter(fits).collect()
    }

    /// Those that need somebody.
    pub(super) fn in_need(&self) -> BTreeSet<SessionId> {
        let needs = self.rows.iter().filter(|row| row.group == "needs you");
        needs.map(|row| row.id.clone()).collect()
    }

    /// The place of the selection in the list.
    pub(super) fn place(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.listed().iter().position(|row| row.id == *selected)
    }

    pub(super) fn selected_row(&self) -> Option<&Row> {
        self.place().and_then(|place| self.listed().get(place).copied())
    }

    /// The session that keys are about.
    fn subject(&self) -> Option<SessionId> {
        match &self.view {
            View::List => self.selected_row().map(|row| row.id.clone()),
            View::Talk(talk) => Some(talk.id.clone()),
            View::Found { findings, selected, .. } => {
                findings.get(*selected).map(|finding| finding.id.clone())
            }
        }
    }

    /// A talk was read.
    pub(super) fn opened(&mut self, talk: Talk) {
        self.view = View::Talk(talk);
    }

    /// What was before it was read.
    pub(super) fn earlier(&mut self, spoken: Vec<Spoken>, from_seq: u64) {
        if let View::Talk(talk) = &mut self.view {
            talk.put_before(spoken, from_seq);
        }
    }

    /// What has been recorded of it since was read.
    pub(super) fn heard(&mut self, spoken: Vec<Spoken>, to_seq: u64) {
        if let View::Talk(talk) = &mut self.view {
            talk.put_behind(spoken, to_seq);
        }
    }

    pub(super) fn found(&mut self, words: String, findings: Vec<Finding>) {
        self.view = View::Found { words, findings, selected: 0 };
    }

    /// A key was pressed; what has to be done for it.
    pub(super) fn press(&mut self, key: Key) -> Option<Act> {
        self.note = None;
        if key == Key::Interrupt {
            return Some(Act::Quit);
        }
        if self.has_help {
            self.has_help = false;
            return None;
        }
        if let Some(typing) = self.typing {
            return self.typed(typing, key);
        }
        match key {
            Key::Letter('?') => self.has_help = true,
            Key::Letter('s') => {
                self.words.clear();
                self.typing = Some(Typing::Search);
            }
            Key::Letter('r') => return self.subject().map(Act::Resume),
            Key::Letter('t') => return self.subject().map(Act::Jump),
            _ => {
                return match &self.view {
                    View::List => self.press_in_list(key),
                    View::Talk(_) => self.press_in_talk(key),
                    View::Found { .. } => self.press_in_found(key),
                };
            }
        }
        None
    }

    /// A key while something is typed.
    fn typed(&mut self, typing: Typing, key: Key) -> Option<Act> {
        let line = match typing {
            Typing::Filter => &mut self.filter,
            Typing::Search => &mut self.words,
        };
        match key {
            Key::Letter(letter) if line.chars().count() < TYPED_MAX => line.push(letter),
            Key::Erase => drop(line.pop()),
            Key::Enter => {
                self.typing = None;
                let words = self.words.trim().to_owned();
                return (typing == Typing::Search && !words.is_empty())
                    .then_some(Act::Search(words));
            }
            Key::Back => {
                line.clear();
                self.typing = None;
            }
            _ => {}
        }
        self.settle();
        None
    }

    fn press_in_list(&mut self, key: Key) -> Option<Act> {
        let place = self.place().unwrap_or(0);
        match key {
            Key::Letter('q') => return Some(Act::Quit),
            Key::Back if self.filter.is_empty() => return Some(Act::Quit),
            Key::Back => self.filter.clear(),
            Key::Letter('/') => self.typing = Some(Typing::Filter),
            Key::Letter('n') => self.select_next_in_need(),
            Key::Enter => {
                return self.subject().map(|id| Act::Open { id, at: None });
            }
            Key::Click(row) => {
                let clicked = self.shown.clickable.iter().find(|(at, _)| *at == row).copied();
                if let Some((_, clicked)) = clicked {
                    if clicked == place {
                        return self.subject().map(|id| Act::Open { id, at: None });
                    }
                    self.select(clicked);
                }
            }
            key => {
                if let Some(place) = moved(key, place, self.shown.count, self.listed().len()) {
                    self.select(place);
                }
            }
        }
        self.settle();
        None
    }

    fn press_in_talk(&mut self, key: Key) -> Option<Act> {
        let shown = self.shown.clone();
        let View::Talk(talk) = &mut self.view else { return None };
        match key {
            Key::Back | Key::Letter('q') => self.view = View::List,
            Key::Letter('f') => talk.follow(),
            Key::End | Key::Letter('G') => talk.follow(),
            key => {
                let first = moved(key, shown.first, shown.count, talk.spoken.len())?;
                // The end is where it was, or further: it goes on as it is said.
                let is_end = first + shown.count >= talk.spoken.len() && first > shown.first;
                match is_end {
                    true => talk.follow(),
                    false => talk.stay(first),
                }
                if first == 0 && talk.from_seq > 1 {
                    return Some(Act::Earlier);
                }
            }
        }
        None
    }

    fn press_in_found(&mut self, key: Key) -> Option<Act> {
        let count = self.shown.count;
        let View::Found { findings, selected, .. } = &mut self.view else { return None };
        match key {
            Key::Back | Key::Letter('q') => self.view = View::List,
            Key::Enter => {
                let finding = findings.get(*selected)?;
                return Some(Act::Open { id: finding.id.clone(), at: Some(finding.seq) });
            }
            key => {
                if let Some(place) = moved(key, *selected, count, findings.len()) {
                    *selected = place;
                }
            }
        }
        None
    }

    fn select(&mut self, place: usize) {
        self.selected = self.listed().get(place).map(|row| row.id.clone());
    }

    /// Goes to the next session that needs a person, around the end.
    fn select_next_in_need(&mut self) {
        let listed = self.listed();
        let here = self.place().map_or(0, |place| place + 1);
        let (before, behind) = listed.split_at(here.min(listed.len()));
        let next = behind.iter().chain(before).find(|row| row.group == "needs you");
        let next = next.map(|row| row.id.clone());
        match next {
            Some(id) => self.selected = Some(id),
            None => self.note = Some("nothing needs you".to_owned()),
        }
    }

    /// Something is selected whenever there is something.
    fn settle(&mut self) {
        if self.place().is_none() {
            self.select(0);
        }
    }
}

/// Where a key leads among so many; `None` for a key that leads nowhere.
fn moved(key: Key, place: usize, page: usize, count: usize) -> Option<usize> {
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
    use super::super::talk::Voice;
    use super::*;

    fn row(id: &str, group: &'static str) -> Row {
        Row {
            id: SessionId::new(id).expect("a plain id"),
            group,
            provider: "claude".to_owned(),
            place: "app".to_owned(),
            since: Time::from_millis(0),
            current: "writes".to_owned(),
            title: format!("title of {id}"),
            detail: Vec::new(),
        }
    }

    fn state(rows: &[(&str, &'static str)]) -> State {
        let mut state = State::new(Time::from_millis(0));
        state.seen(rows.iter().map(|(id, group)| row(id, group)).collect(), None, state.now);
        state.shown.count = 10;
        state
    }

    fn selected(state: &State) -> &str {
        state.selected.as_ref().map_or("-", |id| id.as_str())
    }

    fn press(state: &mut State, keys: &str) -> Option<Act> {
        keys.chars().map(|key| state.press(Key::Letter(key))).last().flatten()
    }

    #[test]
    fn the_selection_stays_with_its_session_and_is_never_lost() {
        let mut state = state(&[("a", "running"), ("b", "running"), ("c", "idle")]);
        assert_eq!(selected(&state), "a");
        press(&mut state, "j");
        assert_eq!(selected(&state), "b");
        let rows = vec![row("c", "running"), row("b", "idle"), row("d", "idle")];
        state.seen(rows, None, state.now);
        assert_eq!(selected(&state), "b");
        state.seen(vec![row("d", "idle")], None, state.now);
        assert_eq!(selected(&state), "d");
        state.seen(Vec::new(), None, state.now);
        assert_eq!(selected(&state), "-");
    }

    #[test]
    fn what_is_typed_filters_at_once_and_can_be_taken_back() {
        let mut state = state(&[("a", "running"), ("bc", "idle"), ("bd", "idle")]);
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
        assert_eq!(state.press(Key::Back), Some(Act::Quit));
    }

    #[test]
    fn one_key_goes_around_those_that_need_somebody() {
        let mut state = state(&[("a", "needs you"), ("b", "needs you"), ("c", "idle")]);
        press(&mut state, "n");
        assert_eq!(selected(&state), "b");
        press(&mut state, "n");
        assert_eq!(selected(&state), "a");
        let mut calm = self::state(&[("c", "idle")]);
        press(&mut calm, "n");
        assert!(calm.note.is_some());
    }

    #[test]
    fn a_search_is_asked_for_when_it_is_typed() {
        let mut state = state(&[("a", "idle")]);
        assert_eq!(press(&mut state, "sparser q"), None);
        assert_eq!(state.press(Key::Enter), Some(Act::Search("parser q".to_owned())));
        let finding = |id: &str, seq| Finding {
            id: SessionId::new(id).expect("a plain id"),
            seq,
            at: Time::from_millis(0),
            head: String::new(),
            snippet: Vec::new(),
        };
        state.found("parser q".to_owned(), vec![finding("x", 3), finding("y", 7)]);
        press(&mut state, "jj");
        let id = SessionId::new("y").expect("a plain id");
        assert_eq!(state.press(Key::Enter), Some(Act::Open { id, at: Some(7) }));
    }

    #[test]
    fn a_talk_is_followed_until_somebody_scrolls_and_again_at_its_end() {
        let mut state = state(&[("a", "running")]);
        let line = |seq| {
            let text = format!("line {seq}");
            Spoken { seq, voice: Voice::Agent, is_first: true, text }
        };
        let id = SessionId::new("a").expect("a plain id");
        state.opened(Talk::new(id, (1..=50).map(line).collect(), 40, 50));
        state.shown = Shown { first: 40, count: 10, clickable: Vec::new() };
        let first = |state: &State| match &state.view {
            View::Talk(talk) => talk.held().unwrap_or(talk.spoken.len() - 10),
            _ => panic!("it is not shown"),
        };
        assert_eq!(first(&state), 40);
        press(&mut state, "k");
        assert_eq!(first(&state), 39);
        // What comes now moves nothing.
        state.heard((51..60).map(line).collect(), 59);
        assert_eq!(first(&state), 39);
        press(&mut state, "G");
        assert_eq!(first(&state), 49);
        assert_eq!(press(&mut state, "g"), Some(Act::Earlier));
        state.earlier((30..40).map(line).collect(), 30);
        assert_eq!(first(&state), 10, "what was on the screen stays there");
    }
}
