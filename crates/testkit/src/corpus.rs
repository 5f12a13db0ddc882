//! Sessions as coding agents write them: generated, and the same on every run.
//!
//! An endless stream of drafts in which several sessions are alive at once, turn by turn: prompts,
//! thinking, answers, calls with their input, results full of code and logs, costs. Sizes, words
//! and repetition follow recorded sessions; [`Description`] says what came out.
//!
//! Not here: events that a journal should refuse or repair; tests write those by hand.

mod random; // numbers that look random
mod language; // words and prose
mod template; // text with gaps
mod project; // what the agents work on
mod output; // what tools print
mod life; // one session, turn by turn
mod description; // what a corpus turned out to be

use std::collections::VecDeque;
use std::sync::Arc;

use event::Draft;

pub use description::Description;

use language::Language;
use life::Life;
use project::Project;
use random::Random;

/// Words that stand in about one prompt or answer of a hundred and one result of a thousand: rare
/// in any number of events, and never absent from a thousand turns.
pub const NEEDLES: &[&str] = &["palimpsest", "foo-bar.rs", "amber lantern harbour"];

/// Sessions that are alive at once.
const LIVES: usize = 4;

const PROJECTS: u64 = 24;

/// An endless, deterministic stream of drafts, in the order they happen.
pub struct Corpus {
    world: Arc<World>,
    random: Random,
    shape: SessionLength,
    lives: Vec<Life>,
    begun: u64,
    now_ms: i64,
    ready: VecDeque<Draft>,
}

/// What all sessions of a corpus share.
struct World {
    language: Language,
    projects: Vec<Project>,
}

/// How long sessions are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SessionLength {
    /// As people work: mostly a few turns, sometimes a hundred.
    AsRecorded,
    /// One session that never ends.
    One,
    /// A question, an answer, and the next session.
    Brief,
}

impl Corpus {
    /// Sessions as people leave them behind.
    pub fn new(seed: u64) -> Corpus {
        Corpus::with_shape(seed, SessionLength::AsRecorded)
    }

    /// Everything in one session.
    pub fn one_session(seed: u64) -> Corpus {
        Corpus::with_shape(seed, SessionLength::One)
    }

    /// Very many sessions of [`Corpus::BRIEF_EVENTS`] events each.
    pub fn brief_sessions(seed: u64) -> Corpus {
        Corpus::with_shape(seed, SessionLength::Brief)
    }

    /// Events in each session of [`Corpus::brief_sessions`].
    pub const BRIEF_EVENTS: usize = 4;

    fn with_shape(seed: u64, shape: SessionLength) -> Corpus {
        let random = Random::new(seed);
        let language = Language::new(random.branch(1));
        let projects = (0..PROJECTS)
            // Branches of the seed instead of one stream: a change in one part does not change the
            // others.
            .map(|number| Project::new(random.branch(2).branch(number), &language))
            .collect();
        Corpus {
            world: Arc::new(World { language, projects }),
            random: random.branch(3),
            shape,
            lives: Vec::new(),
            begun: 0,
            now_ms: 1_772_442_840_000,
            ready: VecDeque::new(),
        }
    }

    /// The first `count` events.
    pub fn events(self, count: usize) -> impl Iterator<Item = Draft> {
        self.take(count)
    }

    fn play_next(&mut self) {
        // Several at once, so that the events of a batch go to different sessions, as on a real
        // machine.
        let lives = if self.shape == SessionLength::AsRecorded { LIVES } else { 1 };
        while self.lives.len() < lives {
            let life = Life::new(self.random.branch(self.begun), &self.world, self.shape);
            self.lives.push(life);
            self.begun += 1;
        }
        let index = self.random.below(self.lives.len() as u64) as usize;
        let life = &mut self.lives[index];
        life.play_turn(&self.world, &mut self.now_ms, &mut self.ready);
        if life.is_over() {
            self.lives.swap_remove(index);
        }
    }
}

impl Iterator for Corpus {
    type Item = Draft;

    fn next(&mut self) -> Option<Draft> {
        // A turn is played as a whole and handed out event by event.
        while self.ready.is_empty() {
            self.play_next();
        }
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests;
