//! Steps 4 to 8: answers put together, results brought to their calls, everything in order.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use event::payload::Content;

use super::{HistoryPiece, PieceBody};
use crate::view::{
    Contribution, HistoryEntry, Repair, Replaced, Role, ToolNote, Why, joins_answer,
    result_content, with_text,
};

/// The history, by where its entries stand.
#[derive(Default)]
pub(super) struct Arranged {
    pub(super) base_prefix: Vec<Arc<HistoryEntry>>,
    pub(super) prefix: Vec<Arc<HistoryEntry>>,
    pub(super) rest: Vec<Arc<HistoryEntry>>,
}

/// Turns the stream into entries.
pub(super) fn arrange_stream(stream: &[HistoryPiece<'_>], repairs: &mut Vec<Repair>) -> Arranged {
    let items: Vec<PairItem> = stream.iter().map(PairItem::from_piece).collect();
    let answers = gather_answers(&items);
    let pairs = pair_results(&items, stream, &answers, repairs);
    let mut arranged = Arranged::default();
    for (at, (item, piece)) in items.iter().zip(stream).enumerate() {
        let mut note = |why| repairs.push(Repair { seq: piece.event.seq, why });
        if let PieceBody::Inline(inline) = &piece.body {
            inline.repair().into_iter().for_each(&mut note);
        }
        match item {
            PairItem::Prompt(Err(why)) | PairItem::Broken(why) => note(why.clone()),
            PairItem::Prompt(Ok(entry))
            | PairItem::Context(entry)
            | PairItem::InFull(Some(entry)) => {
                if !entry.has_substance() {
                    note(Why::Empty);
                    continue;
                }
                if matches!(item, PairItem::Context(_)) && !entry.is_prefix() {
                    // An answer is shown in one piece. Context that came before its last part or
                    // result therefore moves behind it.
                    let joined_later = pairs.last_joined.get(&answers.stretch_of[at]);
                    if joined_later.is_some_and(|last| *last > at) {
                        note(Why::Moved);
                    }
                }
                let entry = Arc::new(entry.clone());
                match (entry.is_prefix(), piece.in_base) {
                    (true, true) => arranged.base_prefix.push(entry),
                    (true, false) => arranged.prefix.push(entry),
                    (false, _) => arranged.rest.push(entry),
                }
            }
            PairItem::Part(_) => {
                let parts = &answers.parts[answers.answer_of[&at]];
                // The part came after other talk and still names this answer.
                let is_late = answers.stretch_of[at] != answers.stretch_of[parts[0]];
                if is_late && !piece.dormant {
                    note(Why::LatePart);
                }
                // The whole answer with its results is shown where its first part stands.
                if parts[0] == at {
                    let answer = AnswerAt { items: &items, stream, pairs: &pairs, parts };
                    arranged.rest.extend(answer.history_entries(repairs).into_iter().map(Arc::new));
                }
            }
            // Results come with their answers. Starts only fill gaps in the note of a result.
            PairItem::Result(_)
            | PairItem::Started(_)
            | PairItem::InFull(None)
            | PairItem::Nothing => {}
        }
    }
    arranged
}

/// What a piece is to the steps below.
enum PairItem {
    /// Closes what is open, also if it cannot be read.
    Prompt(Result<HistoryEntry, Why>),
    Context(HistoryEntry),
    /// An answer or result that a base gives in full; `None` for one without anything left.
    InFull(Option<HistoryEntry>),
    Part(Contribution),
    Started(event::payload::ToolStarted),
    Result(event::payload::ToolResult),
    Broken(Why),
    Nothing,
}

impl PairItem {
    fn from_piece(piece: &HistoryPiece<'_>) -> PairItem {
        let replaced = match &piece.body {
            PieceBody::Event(replaced) => replaced.as_ref(),
            PieceBody::Inline(inline) => {
                return match inline.history_entry() {
                    Some(Ok(entry)) if entry.context_kind.is_some() => PairItem::Context(entry),
                    Some(Ok(entry)) if entry.role == Role::User => PairItem::Prompt(Ok(entry)),
                    Some(Ok(entry)) => PairItem::InFull(Some(entry)),
                    Some(Err(why)) => PairItem::Broken(why),
                    None => PairItem::InFull(None),
                };
            }
        };
        match Contribution::from_event(piece.event) {
            Contribution::Prompt(content) => {
                let entry =
                    HistoryEntry::from_speech(piece.event, piece.place, Role::User, content);
                PairItem::Prompt(Ok(entry.with_replaced(replaced)))
            }
            // The user did speak, so what was open before is over although the words are lost.
            Contribution::Unreadable(error) if piece.event.kind == event::Kind::UserPrompt => {
                PairItem::Prompt(Err(Why::Unreadable(error)))
            }
            Contribution::Unreadable(error) => PairItem::Broken(Why::Unreadable(error)),
            Contribution::Unknown => PairItem::Broken(Why::UnknownRecord),
            Contribution::Context(context) => {
                let entry = HistoryEntry::from_context(piece.event, piece.place, context);
                PairItem::Context(entry.with_replaced(replaced))
            }
            Contribution::Result(result) => PairItem::Result(result),
            Contribution::Started(started) => PairItem::Started(started),
            Contribution::Nothing => PairItem::Nothing,
            said @ (Contribution::Message(_)
            | Contribution::Thinking(_)
            | Contribution::Call(_)) => PairItem::Part(said),
        }
    }
}

/// Which items make up which answer.
struct Answers {
    /// By answer, its parts as they came.
    parts: Vec<Vec<usize>>,
    /// By part, its answer.
    answer_of: HashMap<usize, usize>,
    /// By item, the stretch of the talk in which no prompt and no other answer comes.
    stretch_of: Vec<usize>,
}

fn gather_answers(items: &[PairItem]) -> Answers {
    let mut answers =
        Answers { parts: Vec::new(), answer_of: HashMap::new(), stretch_of: Vec::new() };
    let mut by_id: HashMap<&str, usize> = HashMap::new();
    let mut stretch = 0;
    let mut open: Option<(&str, usize)> = None;
    let mut has_result = false;
    for (at, item) in items.iter().enumerate() {
        match item {
            PairItem::Prompt(_) | PairItem::InFull(_) => {
                stretch += 1;
                open = None;
            }
            PairItem::Part(said) => {
                let id = said.message_id().unwrap_or_default();
                let answer = match open {
                    // Providers stream one message as several events; these share its id.
                    Some((open, answer)) if joins_answer(open, has_result, id) => answer,
                    _ => {
                        stretch += 1;
                        has_result = false;
                        // A known id brings a late part back to its answer, in a stretch of its
                        // own.
                        by_id.get(id).copied().unwrap_or(answers.parts.len())
                    }
                };
                if answer == answers.parts.len() {
                    answers.parts.push(Vec::new());
                }
                // A blank id names nothing and must not gather unrelated answers.
                if !id.is_empty() {
                    by_id.insert(id, answer);
                }
                answers.parts[answer].push(at);
                answers.answer_of.insert(at, answer);
                open = Some((id, answer));
            }
            PairItem::Result(_) => has_result = true,
            _ => {}
        }
        answers.stretch_of.push(stretch);
    }
    answers
}

/// Which result and which start belong to which call.
#[derive(Default)]
struct Pairs {
    result_of: HashMap<usize, usize>,
    start_of: HashMap<usize, usize>,
    /// By stretch, the last item that went to its answer.
    last_joined: HashMap<usize, usize>,
}

fn pair_results(
    items: &[PairItem],
    stream: &[HistoryPiece<'_>],
    answers: &Answers,
    repairs: &mut Vec<Repair>,
) -> Pairs {
    let mut pairs = Pairs::default();
    // Keyed by stretch too: a result never answers a call from before the talk moved on. The queues
    // give the first result to the first of several calls with one id.
    let mut unanswered: HashMap<(usize, &str), VecDeque<usize>> = HashMap::new();
    let mut unstarted = unanswered.clone();
    for (at, item) in items.iter().enumerate() {
        let stretch = answers.stretch_of[at];
        match item {
            PairItem::Part(said) => {
                if let Contribution::Call(call) = said
                    && !call.call_id.trim().is_empty()
                {
                    unanswered.entry((stretch, &call.call_id)).or_default().push_back(at);
                    unstarted.entry((stretch, &call.call_id)).or_default().push_back(at);
                }
                pairs.last_joined.insert(stretch, at);
            }
            PairItem::Started(started) => {
                let calls = unstarted.get_mut(&(stretch, started.call_id.as_str()));
                if let Some(call) = calls.and_then(VecDeque::pop_front) {
                    pairs.start_of.insert(call, at);
                }
            }
            PairItem::Result(result) => {
                let calls = unanswered.get_mut(&(stretch, result.call_id.as_str()));
                // An emptied queue stays in the map, which tells a second result from one without a
                // call.
                let why = if calls.is_some() { Why::SecondResult } else { Why::NoCall };
                match calls.and_then(VecDeque::pop_front) {
                    Some(call) => {
                        pairs.result_of.insert(call, at);
                        pairs.last_joined.insert(stretch, at);
                    }
                    // The base covers this result. Its absence is no repair of the history.
                    None if stream[at].dormant => {}
                    None => repairs.push(Repair { seq: stream[at].event.seq, why }),
                }
            }
            _ => {}
        }
    }
    pairs
}

/// One answer with all that belongs to it.
struct AnswerAt<'t> {
    items: &'t [PairItem],
    stream: &'t [HistoryPiece<'t>],
    pairs: &'t Pairs,
    /// As they came.
    parts: &'t [usize],
}

impl AnswerAt<'_> {
    /// The answer and its results, as far as anything is left of it.
    fn history_entries(&self, repairs: &mut Vec<Repair>) -> Vec<HistoryEntry> {
        // Everything of this answer is covered by the base and no later result brings it back.
        if !self.is_awake() {
            return Vec::new();
        }
        let first = &self.stream[self.parts[0]];
        let mut answer = HistoryEntry::from_speech(
            first.event,
            first.place,
            Role::Assistant,
            Content::default(),
        );
        answer.sources = self.parts.iter().map(|at| self.stream[*at].place).collect();
        let mut content = Vec::new();
        let mut results = Vec::new();
        let mut has_calls = false;
        for at in self.in_block_order() {
            match self.contribution(at) {
                Contribution::Message(message) => {
                    let replaced = self.replaced(at);
                    answer.replaced.extend(replaced.cloned());
                    let said = match replaced {
                        Some(replaced) => with_text(&message.content, &replaced.text),
                        None => message.content.clone(),
                    };
                    content.extend(Some(said).filter(Content::has_substance).unwrap_or_default().0);
                }
                Contribution::Thinking(thinking) if thinking.has_substance() => {
                    answer.thinking.push(Arc::new(thinking.clone()));
                }
                Contribution::Call(call) => {
                    has_calls = true;
                    match self.pairs.result_of.get(&at) {
                        Some(result) => {
                            answer.calls.push(Arc::new(call.clone()));
                            results.push(self.result_entry(at, *result));
                        }
                        None => repairs
                            .push(Repair { seq: self.stream[at].event.seq, why: Why::NoResult }),
                    }
                }
                _ => {}
            }
        }
        answer.content = Arc::new(Content(content));
        if answer.content.0.is_empty() && answer.thinking.is_empty() && answer.calls.is_empty() {
            // The calls that were left out are repairs already; a second one would count them
            // twice.
            if !has_calls {
                repairs.push(Repair { seq: first.event.seq, why: Why::Empty });
            }
            return Vec::new();
        }
        results.insert(0, answer);
        results
    }

    /// A covered answer returns only together with a part or result that the base does not cover.
    fn is_awake(&self) -> bool {
        self.parts.iter().any(|at| {
            let result = self.pairs.result_of.get(at);
            !self.stream[*at].dormant || result.is_some_and(|result| !self.stream[*result].dormant)
        })
    }

    fn in_block_order(&self) -> Vec<usize> {
        let mut parts = self.parts.to_vec();
        parts.sort_by_key(|at| match self.contribution(*at) {
            Contribution::Message(message) => message.block,
            Contribution::Thinking(thinking) => thinking.block,
            Contribution::Call(call) => call.block,
            _ => 0,
        });
        parts
    }

    fn contribution(&self, at: usize) -> &Contribution {
        match &self.items[at] {
            PairItem::Part(said) => said,
            _ => &Contribution::Nothing,
        }
    }

    fn replaced(&self, at: usize) -> Option<&Replaced> {
        match &self.stream[at].body {
            PieceBody::Event(replaced) => replaced.as_ref(),
            PieceBody::Inline(_) => None,
        }
    }

    fn result_entry(&self, call_at: usize, at: usize) -> HistoryEntry {
        let (Contribution::Call(call), PairItem::Result(result)) =
            (self.contribution(call_at), &self.items[at])
        else {
            // `pair_results` fills `result_of` from calls to results only.
            unreachable!("only results are paired with calls");
        };
        let start_at = self.pairs.start_of.get(&call_at).copied();
        let start = start_at.and_then(|start_at| match &self.items[start_at] {
            PairItem::Started(started) => Some(started),
            _ => None,
        });
        let piece = &self.stream[at];
        let content = result_content(result, self.replaced(at));
        let mut entry = HistoryEntry::from_speech(piece.event, piece.place, Role::Tool, content);
        entry.note = Some(ToolNote::new(call, start, result));
        entry.replaced.extend(self.replaced(at).cloned());
        if let Some(start_at) = start_at {
            entry.sources.push(self.stream[start_at].place);
            // A start stands before its result in the log, and sources are in log order.
            entry.sources.sort_unstable();
        }
        entry
    }
}
