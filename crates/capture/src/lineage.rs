//! How a new source relates to the sessions that were read before: rules only, without IO, journal
//! or clock.
//!
//! Agents fork and resume sessions by copying history into a new file, and files appear in any
//! order. The same history has to give the same events and the same links, whichever file is read
//! first. The ingester gathers facts, asks [`decide`] and carries out the answer; facts that cost a
//! look at the disk or the journal are gathered only when the decision asks for them
//! ([`Decision::Needs`]).
//!
//! # Decision table
//!
//! The first row that fits counts. The *recorder* is the session in which the repeated beginning is
//! recorded; its *line* is the recorder and the sessions it was forked from. The *elders* are the
//! session that the source names as its parent, and the ones above it.
//!
//! | row | facts | decision |
//! |---|---|---|
//! | 1 | never read, gives no hint, and no recorded session refers to it | `New` |
//! | 2 | numbered, and the record before its first stands in an earlier file of its session | `Resume` |
//! | 3 | numbered, and that record stands in another session and is recorded | `Fork`, nothing is skipped |
//! | 4 | numbered, and that record is gone or not recorded | `New` |
//! | 5 | no record has an identity that a copy keeps; it may repeat others, shows nothing yet, and was written just now | `Defer` |
//! | 6 | no record has such an identity, otherwise | `New` |
//! | 7 | its first such identity is recorded nowhere | `New` |
//! | 8 | everything in it is recorded elsewhere, no source names it as parent, and it may still be written to | `Defer` |
//! | 9 | a session of the recorder's line comes from it | `Parent`, with the parent it names |
//! | 10 | it names the recorder as its parent | `Fork` |
//! | 11 | a session of the recorder's line comes from the parent that it names, too | `Parent`, with that session's link |
//! | 12 | forks of its agent always name their parent; the one it names has recorded nothing, and the line ends in a session without parent | `Fork` |
//! | 13 | forks of its agent always name their parent, otherwise | `Parent`, with the parent it names |
//! | 14 | it is older than the recorder, which is no elder | `Parent`; the last younger session of the line becomes its fork |
//! | 15 | it names a parent, and row 12's condition on the parent does not hold | `Parent`, with the parent it names |
//! | 16 | it names no parent, and neither it nor the recorder is older | `Tie`, with the recorder's link |
//! | 17 | otherwise | `Fork` |
//!
//! `Parent` never makes a cycle: a named parent that itself comes from the source is left out.
//!
//! Which of two sources is older (rows 14 and 16), where neither names the other. What records say
//! counts before the times of files:
//!
//! | row | facts | older is |
//! |---|---|---|
//! | a | the other's records call themselves by the source's session: it is a plain copy | the source |
//! | b | their first records have different times | the earlier one |
//! | c | one of them holds nothing beyond the common part: people fork a session and leave it | that one |
//! | d | the other's file is gone: it was recorded before the source appeared | the other |
//! | e | the files were begun at different times | the older file |
//! | f | the files were begun within one tick of the clock, or the system does not know when | neither |

mod age; // which of several sources was begun first
mod order; // which source is read before which
mod uuid_hint; // the hint of agents that give their records uuids

pub(crate) use age::FileTimes;
pub(crate) use order::{OrderFacts, ReadTurn, reading_order};
pub(crate) use uuid_hint::lineage_hint_by_uuid;

use event::payload::SessionMode;
use event::{SessionId, Time};

use self::age::file_ages;
use crate::agent::LineageHint;
use crate::thread_state::ParentLink;

/// How a source that is read for the first time relates to recorded sessions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Lineage {
    /// Nothing of it is recorded: it is read from its first record on.
    New,
    /// It may be a copy that is still being written: nothing is decided before the next poll.
    Defer,
    /// It goes on with its own session, which has an earlier file.
    Resume,
    /// It goes on with another session behind the event that `parent` shows.
    Fork { parent: ParentLink, copy: CopiedPart },
    /// Its beginning is recorded in a session that is not its parent: one of its own forks, or
    /// another fork of its parent, was read first.
    Parent {
        parent: Option<ParentLink>,
        /// The number of the session in the recorder's line that becomes a fork of the source: an
        /// event has to record that.
        heir: Option<usize>,
    },
    /// It and the recorder begin alike, and nothing tells which of them was forked from the other.
    /// Neither is called the fork: a guess could not be told from a fact later on.
    Tie {
        /// What the recorder was forked from: both come from there.
        parent: Option<ParentLink>,
    },
}

/// What a fork holds of its parent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CopiedPart {
    /// Nothing: the source holds only its own records.
    Nothing,
    /// Its beginning.
    Beginning,
    /// All of it so far, under an id of its own: the fork has begun and a note says so. A file that
    /// was merely copied calls itself by the original's id and counts as `Beginning`: nothing
    /// shows that it is a session before it goes on.
    Everything,
}

/// The answer of [`decide`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Decision {
    Settled(Lineage),
    /// This has to be known first.
    Needs(MissingFact),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MissingFact {
    History,
    Opening,
    Relatives,
    /// The files of the recorder's line.
    RelativeFiles,
}

/// Everything a decision depends on. Absent facts were not gathered yet.
pub(crate) struct LineageFacts<'a> {
    /// The provider's id of the source's session.
    pub session: &'a str,
    pub hint: &'a LineageHint,
    pub times: FileTimes,
    /// A checkpoint of it is recorded, though no event came of it.
    pub was_read: bool,
    /// Recorded sessions may hold a part of it.
    pub is_related: bool,
    /// Another source names it as its parent, so it is no copy.
    pub is_named_parent: bool,
    pub history: Option<HistoryPoint>,
    pub opening: Option<OpeningFacts>,
    pub relatives: Option<Relatives>,
}

/// Where the record before the first one of a numbered source stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum HistoryPoint {
    OwnSession,
    OtherSession {
        session: String,
        /// Its place in the journal, if it is recorded.
        seq: Option<u64>,
    },
    Missing,
}

/// What a source begins with, and how fresh it was when that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct OpeningFacts {
    pub opening: Opening,
    /// A copy that was begun has been made by now.
    pub is_settled: bool,
    /// Nothing was written for so long that nothing more is expected.
    pub is_quiet: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Opening {
    /// No record has an identity that a copy would keep.
    Unnamed {
        /// It has events that are shown to the user.
        has_spoken: bool,
    },
    /// Its first identity is recorded nowhere.
    Own,
    Repeated(RepeatedPart),
}

/// The part of a source that is recorded in other sessions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RepeatedPart {
    /// The session that recorded the last of it, and where.
    pub recorder: SessionId,
    pub seq: u64,
    /// The offset behind the last repeated record.
    pub end: u64,
    /// The newest time in it.
    pub last_at: Option<Time>,
    /// The source holds nothing else so far.
    pub is_all: bool,
    /// The session that the source names as its parent.
    pub named: Option<String>,
}

/// Recorded sessions that the source may be related to, youngest first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Relatives {
    /// The recorder of the repeated part, and the sessions it was forked from.
    pub line: Vec<Relative>,
    /// The session that the source names as its parent, and the sessions that one was forked from.
    pub elders: Vec<Relative>,
    /// The files of the line were looked at.
    pub has_files: bool,
}

/// A session that was read before.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Relative {
    /// The provider's id of the session.
    pub name: String,
    pub parent: Option<ParentLink>,
    /// Events of it are recorded.
    pub is_started: bool,
    pub last_at: Option<Time>,
    /// Absent for a file that is gone.
    pub file: Option<RelativeFile>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RelativeFile {
    pub hint: LineageHint,
    pub is_main: bool,
    pub times: FileTimes,
}

/// Applies the decision table.
pub(crate) fn decide(facts: &LineageFacts<'_>) -> Decision {
    use Decision::{Needs, Settled};

    let has_hint = *facts.hint != LineageHint::default();
    // Row 1: most sources end here, before anything of them is read.
    if !facts.was_read && !facts.is_related && !has_hint {
        return Settled(Lineage::New);
    }
    // Rows 2 to 4.
    if facts.hint.begins_at.is_some() {
        let Some(history) = &facts.history else { return Needs(MissingFact::History) };
        return Settled(continue_history(history));
    }
    let Some(OpeningFacts { opening, is_settled, is_quiet }) = &facts.opening else {
        return Needs(MissingFact::Opening);
    };
    match opening {
        // The agent may be in use and may never write an identity. A copy that takes longer than
        // the settling time is then recorded twice, which is better than a session that stays
        // invisible.
        Opening::Unnamed { has_spoken } => {
            let may_repeat = has_hint || facts.is_related;
            let is_open = may_repeat && !has_spoken && !is_settled;
            Settled(if is_open { Lineage::Defer } else { Lineage::New })
        }
        // Row 7.
        Opening::Own => Settled(Lineage::New),
        // Row 8: the copy may still be under way. Its own records will show where it leaves the
        // original.
        Opening::Repeated(part) if part.is_all && !facts.is_named_parent && !is_quiet => {
            Settled(Lineage::Defer)
        }
        Opening::Repeated(part) => match &facts.relatives {
            Some(relatives) => decide_repeated(facts, part, relatives),
            None => Needs(MissingFact::Relatives),
        },
    }
}

/// Rows 2 to 4.
fn continue_history(history: &HistoryPoint) -> Lineage {
    match history {
        HistoryPoint::OwnSession => Lineage::Resume,
        HistoryPoint::OtherSession { session, seq: Some(seq) } => Lineage::Fork {
            parent: ParentLink::behind_event(session, *seq),
            copy: CopiedPart::Nothing,
        },
        HistoryPoint::OtherSession { seq: None, .. } | HistoryPoint::Missing => Lineage::New,
    }
}

/// Rows 9 to 17: the source repeats what is recorded.
fn decide_repeated(
    facts: &LineageFacts<'_>,
    part: &RepeatedPart,
    relatives: &Relatives,
) -> Decision {
    let Relatives { line, elders, has_files } = relatives;
    let named = part.named.as_deref();
    let settled = |parent, heir| Decision::Settled(Lineage::Parent { parent, heir });
    let fork = || {
        Decision::Settled(Lineage::Fork {
            parent: part.parent_link(),
            copy: facts.copied_part(part),
        })
    };
    let comes_from_source = |line: &[Relative]| line.iter().any(|it| it.comes_from(facts.session));
    // A parent that comes from the source itself would make a cycle.
    let by_name = || named.filter(|_| !comes_from_source(elders)).map(ParentLink::unseen);

    // Row 9.
    if comes_from_source(line) {
        return settled(by_name(), None);
    }
    // Row 10.
    if named == Some(part.recorder_name()) {
        return fork();
    }
    // Both are forks of one session: the source shows as much of it as the fork that was read
    // first and so recorded the rest.
    if let Some(sibling) = named.and_then(|named| line.iter().find(|it| it.comes_from(named))) {
        return settled(sibling.forked_from().cloned().or_else(by_name), None);
    }
    // A named parent without events gives nothing to link to. The recorder does, unless its line
    // ends in a session with a parent, which could be the source.
    let is_parent_silent = named.is_some() && !elders.first().is_some_and(|it| it.is_started);
    let follows_recorder = is_parent_silent && line.last().is_some_and(|it| it.parent.is_none());
    // Rows 12 and 13: no need to look at files, because such an agent would have named the parent.
    if facts.hint.family.is_none() {
        return if follows_recorder { fork() } else { settled(by_name(), None) };
    }
    if !has_files {
        return Decision::Needs(MissingFact::RelativeFiles);
    }
    // An elder is never a fork of the source, whatever the ages of their files say.
    let is_elder = |it: &Relative| elders.iter().any(|elder| elder.name == it.name);
    let mut rivals = line.iter().take_while(|it| !is_elder(it));
    let younger =
        rivals.clone().take_while(|it| elder_of(facts, part, it) == Elder::Source).count();
    let tied = rivals.nth(younger).filter(|it| elder_of(facts, part, it) == Elder::Neither);
    // Rows 15 to 17: no session of the line is younger than the source.
    let Some(heir) = younger.checked_sub(1) else {
        return match (by_name().filter(|_| !follows_recorder), tied) {
            (Some(parent), _) => settled(Some(parent), None),
            (None, Some(tied)) if named.is_none() => {
                Decision::Settled(Lineage::Tie { parent: tied.forked_from().cloned() })
            }
            (None, _) => fork(),
        };
    };
    // The source takes a place within the line, or beside it: what the heir was forked from is then
    // its parent, or what that one was forked from if it may as well be younger than the source.
    let before = tied.unwrap_or(&line[heir]).forked_from().filter(|_| younger < line.len());
    // A session that knows its parent keeps it.
    let orphan = Some(heir).filter(|heir| line[*heir].parent.is_none());
    settled(by_name().or_else(|| before.cloned()), orphan)
}

/// Which of the source and a relative was there before the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Elder {
    Source,
    Relative,
    /// Nothing tells.
    Neither,
}

/// Rows a to f.
fn elder_of(facts: &LineageFacts<'_>, part: &RepeatedPart, relative: &Relative) -> Elder {
    let elder = |is_source: bool| if is_source { Elder::Source } else { Elder::Relative };
    let mut ages = None;
    if let Some(RelativeFile { hint, is_main, times }) = &relative.file {
        // Row a.
        if *is_main && hint.named.as_deref() == Some(facts.session) {
            return Elder::Source;
        }
        // Row b.
        if let (Some(own), Some(other)) = (facts.hint.since, hint.since)
            && own != other
        {
            return elder(own < other);
        }
        ages = Some(file_ages(&[facts.times, *times]));
    }
    let relative_goes_on = relative.last_at > part.last_at;
    let source_goes_on = !part.is_all;
    match (relative_goes_on, source_goes_on, ages.as_deref()) {
        // Row c.
        (true, false, _) => Elder::Source,
        (false, true, _) => Elder::Relative,
        // Rows d to f.
        (_, _, None) => Elder::Relative,
        (_, _, Some([Some(own), Some(other)])) if own != other => elder(own < other),
        (_, _, Some(_)) => Elder::Neither,
    }
}

impl LineageFacts<'_> {
    /// The part of the source that is recorded elsewhere, if its opening shows one.
    pub(crate) fn repeated_part(&self) -> Option<&RepeatedPart> {
        match self.opening.as_ref().map(|facts| &facts.opening) {
            Some(Opening::Repeated(part)) => Some(part),
            _ => None,
        }
    }

    fn copied_part(&self, part: &RepeatedPart) -> CopiedPart {
        let has_own_id = self.hint.named.as_deref() == Some(self.session);
        match part.is_all && has_own_id {
            true => CopiedPart::Everything,
            false => CopiedPart::Beginning,
        }
    }
}

impl RepeatedPart {
    /// The provider's id of the recorder.
    pub(crate) fn recorder_name(&self) -> &str {
        self.recorder.as_str().split_once(':').map_or("", |(_, session)| session)
    }

    fn parent_link(&self) -> ParentLink {
        ParentLink::behind_event(self.recorder_name(), self.seq)
    }
}

impl Relative {
    /// Whether it is a fork of this session, or works for it.
    fn comes_from(&self, session: &str) -> bool {
        self.parent.as_ref().is_some_and(|parent| parent.session == session)
    }

    pub(crate) fn forked_from(&self) -> Option<&ParentLink> {
        self.parent.as_ref().filter(|parent| parent.mode == SessionMode::Fork)
    }
}

impl LineageHint {
    /// The other session that the source says it repeats.
    pub(crate) fn fork_parent(&self, session: &str) -> Option<&String> {
        self.parent.as_ref().filter(|parent| *parent != session)
    }
}

/// The session that a source names as its parent: its records say so, else its first bytes, else
/// the id its records call themselves by. A file that was only copied calls itself by the id of
/// the original; a subagent's file calls itself by the id of the session it works for, which it
/// does not repeat.
pub(crate) fn named_parent(
    session: &str,
    is_main: bool,
    from_records: Option<&ParentLink>,
    hint: &LineageHint,
) -> Option<String> {
    let forked_from = from_records.filter(|parent| parent.mode == SessionMode::Fork);
    let called = hint.named.as_ref().filter(|_| is_main);
    let named = forked_from.map(|parent| &parent.session).or(hint.parent.as_ref()).or(called);
    named.filter(|named| **named != session).cloned()
}

/// What becomes of a record that says where its session comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ParentClaim {
    Ignored,
    /// The first event of the session will say so.
    Kept,
    /// The session has begun, so a change of its settings says so.
    Announced,
}

/// Judges such a record. A parent that the session works for counts more than one it repeats, and
/// has to be named before the session begins.
pub(crate) fn judge_claim(
    mode: &SessionMode,
    names_itself: bool,
    has_parent: bool,
    is_started: bool,
) -> ParentClaim {
    let is_fork = *mode == SessionMode::Fork;
    match (is_fork, is_started) {
        (true, _) if has_parent || names_itself => ParentClaim::Ignored,
        (_, false) => ParentClaim::Kept,
        (true, true) => ParentClaim::Announced,
        (false, true) => ParentClaim::Ignored,
    }
}

#[cfg(test)]
mod tests;
