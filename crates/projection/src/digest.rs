//! What is worth keeping of an epoch, found without a model: goals, decisions, work, problems and
//! their fixes, what is open, and facts.
//!
//! Facts are only ever added, each once, with the events they come from. They are made when an
//! epoch closes and when the caller asks ([`Digest::flush`]); a later part never changes an earlier
//! one. The caller can make a title and a summary from the list at any time. A session of three
//! lines has a digest too.
//!
//! Events a session inherited are digested where they were made. Secrets are taken out before.

mod sentence; // sentences, and the words that make one worth keeping
mod work; // files, commands, tests, commits
mod fixes; // what failed, and what made it work
mod summary; // a title and a few lines, made from facts
mod words; // what a model said, as facts

use event::payload::{
    AssistantMessage, Outcome, SessionStarted, SettingsChanged, ToolCall, ToolResult,
    TurnCompleted, UserPrompt,
};
use event::{Event, Kind, Time};
use serde::{Deserialize, Serialize};

use crate::epoch::EpochCount;
use crate::excerpt;
use crate::id_hash::IdHash;
use crate::ring_buffer::RingBuffer;
use crate::title::is_substantive;
use crate::tool::{ToolUse, has_failed};
use crate::torn::{EventNovelty, TornRecords};
use crate::turn_machine::TurnOutcome;
use fixes::Fixes;
use sentence::{SentenceCandidates, sentences};
use work::WorkSummary;

pub use summary::{find_title, summarize};
pub use words::Naming;
pub(crate) use words::facts_of;

/// Characters of a fact.
const FACT_CHARS_MAX: usize = 200;

/// Facts and decisions of one part; the best ones stay.
const BEST_MAX: usize = 15;

/// Asks of one part. When there are more the oldest is left out.
const ASKS_MAX: usize = 50;

/// Problems and fixes of one part. When there are more the oldest is left out.
const PROBLEMS_MAX: usize = 50;

/// Marks of facts that were told. When there are more the oldest is forgotten, and its fact may be
/// told again.
const TOLD_MAX: usize = 10_000;

/// Characters of the last answer that are looked at for what comes next; its end is kept.
const LAST_ANSWER_CHARS: usize = 4_000;

/// What a fact is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Topic {
    /// What the session is for.
    Goal,
    /// What else was asked.
    Ask,
    Decision,
    /// What a person wants from now on.
    Preference,
    Work,
    /// What failed, and what made it work.
    Problem,
    OpenEnd,
    /// A sentence with a value to look up: a number, a version, an address, a name, a path.
    Fact,
}

/// How a fact was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactOrigin {
    Heuristic,
    Model,
}

/// One thing worth keeping.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DigestFact {
    pub topic: Topic,
    pub text: String,
    pub epoch: u64,
    /// The events it comes from.
    pub from_seq: u64,
    pub to_seq: u64,
    /// When the last of them happened.
    pub at: Time,
    pub origin: FactOrigin,
    /// The names of facts found without a model that this one says better.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<String>,
}

impl DigestFact {
    /// What another fact calls it: its topic, its place and a mark of its text. A fact that is
    /// found in other words has another name.
    pub fn name(&self) -> String {
        let DigestFact { topic, text, from_seq, to_seq, .. } = self;
        format!("{}:{from_seq}-{to_seq}:{}", topic.as_str(), IdHash::from_id(text))
    }
}

impl Topic {
    pub const ALL: [Topic; 8] = [
        Topic::Goal,
        Topic::Ask,
        Topic::Decision,
        Topic::Preference,
        Topic::Work,
        Topic::Problem,
        Topic::OpenEnd,
        Topic::Fact,
    ];

    /// The word it goes by where it is stored and asked for.
    pub fn as_str(self) -> &'static str {
        match self {
            Topic::Goal => "goal",
            Topic::Ask => "ask",
            Topic::Decision => "decision",
            Topic::Preference => "preference",
            Topic::Work => "work",
            Topic::Problem => "problem",
            Topic::OpenEnd => "open_end",
            Topic::Fact => "fact",
        }
    }
}

impl FactOrigin {
    pub fn as_str(self) -> &'static str {
        match self {
            FactOrigin::Heuristic => "heuristic",
            FactOrigin::Model => "model",
        }
    }
}

/// The events a finding comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct SeqSpan {
    pub(crate) from_seq: u64,
    pub(crate) to_seq: u64,
    pub(crate) at: Time,
}

/// The digest of a session, told from its events in order.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Digest {
    seq: u64,
    torn: TornRecords,
    epochs: EpochCount,
    has_goal: bool,
    /// Facts that were found and not taken yet: a few dozen for each part.
    found: Vec<DigestFact>,
    told: RingBuffer<IdHash, TOLD_MAX>,
    part: DigestPart,
    work: WorkSummary,
    // What goes on from one part to the next.
    fixes: Fixes,
    branch: Option<String>,
    last_ask: Option<UserRequest>,
    last_answer: Option<(String, SeqSpan)>,
}

/// What was gathered since the last part.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct DigestPart {
    asks: Vec<(Topic, String, SeqSpan)>,
    choices: SentenceCandidates,
    facts: SentenceCandidates,
    problems: RingBuffer<(String, SeqSpan), PROBLEMS_MAX>,
}

/// A request of the user, and whether it was answered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct UserRequest {
    text: String,
    place: SeqSpan,
    is_answered: bool,
    /// The last thing that was tried for it went wrong.
    has_failed: bool,
}

impl SeqSpan {
    pub(crate) fn from_event(event: &Event) -> SeqSpan {
        SeqSpan { from_seq: event.seq, to_seq: event.seq, at: event.created_at }
    }

    /// From the beginning of this place to the end of another.
    pub(crate) fn up_to(self, last: SeqSpan) -> SeqSpan {
        SeqSpan { from_seq: self.from_seq.min(last.from_seq), ..last }
    }
}

impl Digest {
    /// Takes the next event. One that was applied before is left out.
    pub fn apply(&mut self, event: &Event) {
        if event.seq <= self.seq {
            return;
        }
        self.seq = event.seq;
        // A fork's inherited events are digested in the session they were made in, and an amendment
        // would tell a fact twice.
        let news = self.torn.inspect_event(event);
        if news == EventNovelty::Again || event.fork_origin().is_some() {
            return;
        }
        match event.kind {
            Kind::UserPrompt => self.apply_prompt(event),
            Kind::AssistantMessage => self.apply_answer(event),
            Kind::ToolCall => {
                let Some(call) = event.readable::<ToolCall>() else { return };
                let used = ToolUse::from_call(&call.tool, &call.input);
                let place = SeqSpan::from_event(event);
                // The call was made by a script of the model, which is taken back: its calls say
                // more.
                if let Some(program) = event.parent_id {
                    self.work.undo_program(program);
                }
                self.work.apply_call(&call, event.id, &used, place);
                self.fixes.apply_call(&call.call_id, used);
            }
            Kind::ToolResult => self.apply_result(event),
            Kind::SessionStarted => {
                let started = event.readable::<SessionStarted>();
                self.switch_branch(started.and_then(|started| started.branch), event);
            }
            Kind::SettingsChanged => {
                let changed = event.readable::<SettingsChanged>();
                self.switch_branch(changed.and_then(|changed| changed.branch), event);
            }
            Kind::TurnCompleted => self.turn_end(event),
            Kind::Error => self.ask_fails(true),
            // Before the epochs count this event: the facts belong to the epoch that ends with it.
            Kind::EpochClosed => self.flush(),
            _ => {}
        }
        self.epochs.apply(event);
    }

    /// Ends the present part: what was gathered becomes facts.
    pub fn flush(&mut self) {
        // The order below is the order in which a reader wants it: what for, what was chosen, what
        // was done, what failed, what is left.
        let work = self.work.take_lines();
        let mut part = std::mem::take(&mut self.part);
        for (topic, text, place) in part.asks {
            self.add_fact(topic, &text, place);
        }
        for choice in part.choices.take_best(BEST_MAX) {
            self.add_fact(choice.topic, &choice.text, choice.place);
        }
        for (text, place) in work {
            self.add_fact(Topic::Work, &text, place);
        }
        // Problems without a fix are not told here: they wait in `fixes` for a later part.
        for (text, place) in part.problems.drain(..) {
            self.add_fact(Topic::Problem, &text, place);
        }
        self.tell_open_ends();
        for fact in part.facts.take_best(BEST_MAX) {
            self.add_fact(Topic::Fact, &fact.text, fact.place);
        }
    }

    /// The facts that were found since this was last asked.
    pub fn take_new(&mut self) -> Vec<DigestFact> {
        std::mem::take(&mut self.found)
    }

    /// To go to another branch is work; to begin on one is not.
    fn switch_branch(&mut self, branch: Option<String>, event: &Event) {
        let Some(branch) = branch else { return };
        let branch = excerpt::beginning(&excerpt::one_line(&branch), FACT_CHARS_MAX);
        // The first branch a session names is where it began, and every start names it again.
        if let Some(before) = self.branch.replace(branch.clone())
            && before != branch
        {
            self.work.visit_branch(&branch, SeqSpan::from_event(event));
        }
    }

    fn apply_prompt(&mut self, event: &Event) {
        let Some(prompt) = event.readable::<UserPrompt>() else { return };
        let text = prompt.content.joined_text();
        let place = SeqSpan::from_event(event);
        // "Yes" and "go on" ask for nothing new, so the request before them stays the last one.
        if is_substantive(&text) {
            let topic = if self.has_goal { Topic::Ask } else { Topic::Goal };
            self.has_goal = true;
            let asked = excerpt::beginning(&excerpt::one_line(&text), FACT_CHARS_MAX);
            if self.part.asks.len() == ASKS_MAX {
                // The goal stays; it stands first in the part it was set in.
                let has_goal = self.part.asks[0].0 == Topic::Goal;
                self.part.asks.remove(usize::from(has_goal));
            }
            self.part.asks.push((topic, asked.clone(), place));
            self.last_ask =
                Some(UserRequest { text: asked, place, is_answered: false, has_failed: false });
        }
        // A new prompt takes up or drops what the last answer left open.
        self.last_answer = None;
        for sentence in sentences(&text) {
            // A choice often holds a value, too. It is kept once, as the choice.
            if let Some(topic) = sentence::choice_of_user(&sentence) {
                self.part.choices.add_sentence(topic, sentence, true, place);
            } else if sentence::has_value(&sentence) {
                self.part.facts.add_sentence(Topic::Fact, sentence, true, place);
            }
        }
    }

    fn apply_answer(&mut self, event: &Event) {
        let Some(answer) = event.readable::<AssistantMessage>() else { return };
        let text = answer.content.joined_text();
        if text.trim().is_empty() {
            return;
        }
        let place = SeqSpan::from_event(event);
        if let Some(ask) = &mut self.last_ask {
            ask.is_answered = true;
        }
        // Agents write what comes next at the end of their answer.
        self.last_answer = Some((excerpt::take_tail(&text, LAST_ANSWER_CHARS).to_owned(), place));
        for sentence in sentences(&text) {
            if sentence::is_choice_of_assistant(&sentence) {
                self.part.choices.add_sentence(Topic::Decision, sentence, false, place);
            } else if sentence::has_value(&sentence) {
                self.part.facts.add_sentence(Topic::Fact, sentence, false, place);
            }
        }
    }

    fn apply_result(&mut self, event: &Event) {
        let Some(result) = event.readable::<ToolResult>() else { return };
        let place = SeqSpan::from_event(event);
        let has_failed = has_failed(&result);
        self.work.apply_result(&result, has_failed, place);
        // A call that the user refused or stopped is no problem to be fixed.
        let is_problem = has_failed && matches!(result.outcome, Outcome::Error | Outcome::Ok);
        if let Some(problem) = self.fixes.apply_result(&result, has_failed, is_problem, place) {
            self.part.problems.push(problem);
        }
        // Only the last result counts: an agent that recovers from a failure has not failed.
        self.ask_fails(has_failed);
    }

    fn turn_end(&mut self, event: &Event) {
        let completed = event.readable::<TurnCompleted>().unwrap_or_default();
        if TurnOutcome::from_completed(&completed) != TurnOutcome::Done {
            self.ask_fails(true);
        }
    }

    fn ask_fails(&mut self, has_failed: bool) {
        if let Some(ask) = &mut self.last_ask {
            ask.has_failed = has_failed;
        }
    }

    fn tell_open_ends(&mut self) {
        // Cloned and not taken: the request may still be open when the next part ends.
        if let Some(ask) = self.last_ask.clone()
            && (ask.has_failed || !ask.is_answered)
        {
            self.add_fact(Topic::OpenEnd, &ask.text, ask.place);
        }
        if let Some((answer, place)) = self.last_answer.take() {
            for sentence in sentences(&answer).filter(|sentence| sentence::is_open_end(sentence)) {
                self.add_fact(Topic::OpenEnd, &sentence, place);
            }
        }
    }

    /// Adds a fact, unless it was told before.
    fn add_fact(&mut self, topic: Topic, text: &str, place: SeqSpan) {
        // The mark is made of the words alone, so that punctuation and case make no second fact.
        let text = excerpt::beginning(text, FACT_CHARS_MAX);
        let epoch = self.epochs.number();
        // The same work in another epoch is other work.
        let scope = if topic == Topic::Work { epoch } else { 0 };
        // What was the goal is not asked for again.
        let kind = if topic == Topic::Ask { Topic::Goal } else { topic };
        let mark = IdHash::from_id(&format!("{kind:?} {scope} {}", sentence::normalize(&text)));
        if text.is_empty() || self.told.contains(&mark) {
            return;
        }
        self.told.push(mark);
        let SeqSpan { from_seq, to_seq, at } = place;
        let (origin, replaces) = (FactOrigin::Heuristic, Vec::new());
        self.found.push(DigestFact { topic, text, epoch, from_seq, to_seq, at, origin, replaces });
    }
}
