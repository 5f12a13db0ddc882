//! Steps 2 and 3: the base, and the entries it puts in place of the beginning.

use std::collections::{BTreeMap, HashMap};

use event::payload::{SavedEntry, Snapshot};
use event::{BadPayload, Event, EventId, Kind};

use super::{HistoryPiece, IndexedLog, PieceBody};
use crate::view::{
    BaseEntry, BasePayload, Contribution, FileLists, InlineEntry, Repair, Replaced, Why,
    joins_answer, pair_inline,
};

/// What the history stands on: a compaction, a snapshot on top of it, either or none.
pub(super) struct Chosen {
    compaction: Option<Base>,
    snapshot: Option<Base>,
}

/// A compaction or snapshot with a cutoff on the path.
struct Base {
    seq: u64,
    is_snapshot: bool,
    cutoff_seq: u64,
    entries: Vec<SavedEntry>,
    files: FileLists,
    fault: Option<Box<BadPayload>>,
}

impl Chosen {
    fn newest(&self) -> Option<&Base> {
        self.snapshot.as_ref().or(self.compaction.as_ref())
    }

    pub(super) fn seq(&self) -> Option<u64> {
        self.newest().map(|base| base.seq)
    }

    pub(super) fn cutoff_seq(&self) -> u64 {
        self.newest().map_or(0, |base| base.cutoff_seq)
    }
}

impl<'a> IndexedLog<'a> {
    /// The newest usable compaction on the path, and the newest usable snapshot on top of it.
    pub(super) fn choose_base(&self, repairs: &mut Vec<Repair>) -> Chosen {
        let mut chosen = Chosen { compaction: None, snapshot: None };
        // Newest first: the first usable compaction stands, and those skipped on the way are
        // repairs.
        for event in self.on_path_back(Kind::Compaction) {
            match self.usable_base(event) {
                Ok(base) => {
                    chosen.compaction = Some(base);
                    break;
                }
                Err(why) => repairs.push(Repair { seq: event.seq, why }),
            }
        }
        let compaction = chosen.compaction.as_ref();
        let (below_seq, below_cutoff) =
            compaction.map_or((0, 0), |base| (base.seq, base.cutoff_seq));
        // A snapshot older than the compaction shows the history that the compaction replaced.
        for event in self.on_path_back(Kind::Snapshot).filter(|event| event.seq > below_seq) {
            let found = match event.payload::<Snapshot>() {
                // Taken on another base, for example on a compaction of a path that was left since.
                Ok(Some(snapshot)) if snapshot.base_seq.unwrap_or(0) != below_seq => {
                    Err(Why::StaleSnapshot)
                }
                _ => self.usable_base(event),
            };
            match found {
                // A snapshot that covers less than the compaction would bring back events that it
                // removed.
                Ok(base) if base.cutoff_seq >= below_cutoff => {
                    chosen.snapshot = Some(base);
                    break;
                }
                Ok(_) => repairs.push(Repair { seq: event.seq, why: Why::StaleSnapshot }),
                Err(why) => repairs.push(Repair { seq: event.seq, why }),
            }
        }
        chosen
    }

    fn on_path_back(&self, kind: Kind) -> impl Iterator<Item = &'a Event> {
        self.events
            .iter()
            .rev()
            .copied()
            .filter(move |event| event.kind == kind && self.is_on_path(event.seq))
    }

    /// The base, if it has an entry.
    fn usable_base(&self, event: &Event) -> Result<Base, Why> {
        let base = self.readable(event)?;
        if base.entries.is_empty() { Err(Why::NoEntries) } else { Ok(base) }
    }

    /// The base, if its payload can be read and its cutoff is on the path before it.
    fn readable(&self, event: &Event) -> Result<Base, Why> {
        let payload =
            BasePayload::from_event(event).map_err(|error| Why::Unreadable(Box::new(error)))?;
        let cutoff = self.resolve_cutoff(payload.cutoff_seq, payload.cutoff_event_id);
        // A base can only cover what was there before it.
        let cutoff = cutoff.filter(|cutoff_seq| *cutoff_seq < event.seq);
        if let Some(fault) = &payload.fault
            && payload.is_unreadable(cutoff.is_some())
        {
            return Err(Why::Unreadable(fault.clone()));
        }
        let cutoff_seq = cutoff.ok_or(Why::CutoffNotFound)?;
        if !self.is_on_path(cutoff_seq) {
            return Err(Why::CutoffOffPath);
        }
        Ok(Base {
            seq: event.seq,
            is_snapshot: event.kind == Kind::Snapshot,
            cutoff_seq,
            entries: payload.entries,
            files: payload.files,
            fault: payload.fault,
        })
    }

    /// The cutoff by number and by id; they may not contradict each other.
    fn resolve_cutoff(&self, seq: u64, id: Option<EventId>) -> Option<u64> {
        let by_id = match id {
            // An id that is not in the log is no cutoff, whatever the number says.
            Some(id) => *self.seq_of.get(&id)?,
            None => seq,
        };
        (by_id > 0 && (seq == 0 || seq == by_id)).then_some(by_id)
    }

    /// The entries of the base as pieces, none of them twice, and the files it names.
    pub(super) fn expand_base(
        &self,
        chosen: &Chosen,
        repairs: &mut Vec<Repair>,
    ) -> (Vec<HistoryPiece<'a>>, FileLists) {
        let Some(top) = chosen.newest() else { return (Vec::new(), FileLists::default()) };
        let mut expansion = Expansion {
            session: self,
            pieces: Vec::new(),
            placed: HashMap::new(),
            expanded: BTreeMap::new(),
            repairs: Vec::new(),
        };
        expansion.place_base(top);
        if let Some(compaction) = &chosen.compaction {
            // The snapshot on top may not refer to the compaction. Its files count all the same.
            expansion.take_up(compaction);
        }
        repairs.append(&mut expansion.repairs);
        let oldest_first = expansion.expanded.values();
        let files = oldest_first.fold(FileLists::default(), |all, files| all.merge_with(files));
        (expansion.pieces, files)
    }

    /// The places of the answer that waits for results at the cutoff, with the results it has.
    fn open_answer_at(&self, cutoff_seq: u64) -> Vec<u64> {
        let mut open: Option<(String, bool)> = None;
        let mut places = Vec::new();
        let mut waiting: Vec<String> = Vec::new();
        for place in self.path_places(0, cutoff_seq) {
            let event = self.speaker_at(place);
            let said = Contribution::from_event(event);
            if event.kind == Kind::UserPrompt {
                // A prompt ends the exchange: calls without results stay without.
                (open, places, waiting) = (None, Vec::new(), Vec::new());
            } else if let Some(id) = said.message_id() {
                if !open.as_ref().is_some_and(|(open, answered)| joins_answer(open, *answered, id))
                {
                    (open, places, waiting) =
                        (Some((id.to_owned(), false)), Vec::new(), Vec::new());
                }
                places.push(place);
                if let Contribution::Call(call) = &said
                    // A result cannot name a call without an id, so such a call does not wait.
                    && !call.call_id.trim().is_empty()
                {
                    waiting.push(call.call_id.clone());
                }
            } else if let Some((_, answered)) = &mut open {
                match said {
                    Contribution::Result(result) => {
                        *answered = true;
                        places.push(place);
                        // One result answers one call, also where an answer uses an id twice.
                        if let Some(at) = waiting.iter().position(|id| *id == result.call_id) {
                            waiting.remove(at);
                        }
                    }
                    Contribution::Started(_) => places.push(place),
                    _ => {}
                }
            }
        }
        if waiting.is_empty() { Vec::new() } else { places }
    }
}

/// The pieces of a base on the way to being complete.
struct Expansion<'a, 's> {
    session: &'s IndexedLog<'a>,
    pieces: Vec<HistoryPiece<'a>>,
    /// By place, where in `pieces` it stands.
    placed: HashMap<u64, usize>,
    /// The bases taken up so far, and the files they name.
    expanded: BTreeMap<u64, FileLists>,
    repairs: Vec<Repair>,
}

/// A base in the middle of being taken up, entry by entry.
struct BaseFrame {
    seq: u64,
    is_snapshot: bool,
    cutoff_seq: u64,
    entries: std::vec::IntoIter<BaseEntry>,
    /// Nothing was taken up yet.
    is_untouched: bool,
}

impl<'a> Expansion<'a, '_> {
    /// Takes up a base and those it refers to. A stack instead of a recursion: a log may nest
    /// bases as deep as it likes.
    ///
    /// The working set stands behind the prefix context of `leader`: of the base, or of the one
    /// below a snapshot that begins with it and only adds what came later.
    fn place_base(&mut self, top: &Base) {
        let mut leader = top.seq;
        let mut frames = vec![BaseFrame::from_base(top)];
        self.take_up(top);
        while let Some(frame) = frames.last_mut() {
            let (seq, cutoff_seq) = (frame.seq, frame.cutoff_seq);
            // Only the first entry can hand the lead down: a snapshot that begins with texts of its
            // own keeps it.
            let can_lead = seq == leader && frame.is_untouched && frame.is_snapshot;
            frame.is_untouched = false;
            if let Some(entry) = frame.entries.next() {
                if let Some(below) = self.take_entry(entry, seq, cutoff_seq) {
                    leader = if can_lead { below.seq } else { leader };
                    frames.push(below);
                }
                continue;
            }
            // All entries of the frame are placed, so `reenter_answer` can tell what the base shows
            // of the answer.
            self.reenter_answer(cutoff_seq);
            if seq == leader {
                // The pieces so far are those of the leader and of what it refers to.
                self.pieces.iter_mut().for_each(|piece| piece.in_base = true);
            }
            frames.pop();
        }
    }

    /// Takes up one entry; one that refers to a base answers with that base.
    fn take_entry(
        &mut self,
        entry: BaseEntry,
        base_seq: u64,
        cutoff_seq: u64,
    ) -> Option<BaseFrame> {
        let saved = &entry.saved;
        let named = saved.event_id.and_then(|id| self.session.seq_of.get(&id).copied());
        match (saved.seq, saved.to_seq) {
            (Some(from_seq), Some(to_seq)) => {
                // A range that runs backwards holds no place; the loop below finds none.
                if from_seq > to_seq {
                    self.add_repair(base_seq, Why::EntryNotFound);
                }
                if to_seq > cutoff_seq {
                    self.add_repair(base_seq, Why::EntryBeyondCutoff);
                }
                let after_seq = from_seq.saturating_sub(1);
                for place in self.session.path_places(after_seq, to_seq.min(cutoff_seq)) {
                    self.place_event(place, None, false);
                }
                None
            }
            // A text given in full. An event id beside it only says where the text comes from.
            (None, _) if saved.is_in_full() => {
                // The entry cannot come from an event behind its base.
                let named = named.filter(|seq| *seq < base_seq);
                if named.is_some_and(|seq| seq > cutoff_seq) {
                    self.add_repair(base_seq, Why::EntryBeyondCutoff);
                } else {
                    let base = self.session.event_at(base_seq);
                    let inline = InlineEntry::new(entry, named, base_seq, base.id);
                    self.pieces.push(HistoryPiece {
                        event: base,
                        place: base_seq,
                        body: PieceBody::Inline(Box::new(inline)),
                        dormant: false,
                        in_base: false,
                    });
                }
                None
            }
            (seq, _) => {
                let seq = seq.or(named).unwrap_or(0);
                self.take_reference(seq, entry.saved, base_seq, cutoff_seq)
            }
        }
    }

    fn take_reference(
        &mut self,
        seq: u64,
        entry: SavedEntry,
        base_seq: u64,
        cutoff_seq: u64,
    ) -> Option<BaseFrame> {
        // A reference to an amendment means the place that the amendment speaks at.
        let place = self.session.place_of.get(&seq).copied().unwrap_or(seq);
        // Hostile or damaged payloads refer to later events, to themselves or to a path that was
        // left.
        if seq >= base_seq || !self.session.is_on_path(place) {
            self.add_repair(base_seq, Why::EntryNotFound);
            return None;
        }
        let event = self.session.event_at(place);
        if matches!(event.kind, Kind::Compaction | Kind::Snapshot) {
            let Ok(base) = self.session.readable(event) else {
                self.add_repair(base_seq, Why::EntryNotFound);
                return None;
            };
            if base.cutoff_seq > cutoff_seq {
                self.add_repair(base_seq, Why::EntryBeyondCutoff);
                return None;
            }
            // Two references to one base expand it once. This also ends cycles.
            return self.take_up(&base).then(|| BaseFrame::from_base(&base));
        }
        if place > cutoff_seq {
            self.add_repair(base_seq, Why::EntryBeyondCutoff);
            return None;
        }
        let artifact = entry.artifact;
        let replaced = entry.shown.map(|text| Replaced { seq: place, text, artifact });
        self.place_event(place, replaced, false);
        None
    }

    /// Puts an event at the end, unless it is there already; a replaced text counts either way.
    fn place_event(&mut self, place: u64, replaced: Option<Replaced>, dormant: bool) {
        if let Some(at) = self.placed.get(&place) {
            if replaced.is_some() {
                self.pieces[*at].body = PieceBody::Event(replaced);
            }
            return;
        }
        self.placed.insert(place, self.pieces.len());
        self.pieces.push(HistoryPiece {
            event: self.session.speaker_at(place),
            place,
            body: PieceBody::Event(replaced),
            dormant,
            in_base: false,
        });
    }

    /// An answer that was open at the cutoff comes back behind the base, for its later results;
    /// not if the base shows any part of it.
    fn reenter_answer(&mut self, cutoff_seq: u64) {
        let places = self.session.open_answer_at(cutoff_seq);
        let is_shown = places.iter().any(|place| {
            self.session.speaker_at(*place).kind.is_answer() && self.placed.contains_key(place)
        });
        if !is_shown {
            places.into_iter().for_each(|place| self.place_event(place, None, true));
        }
    }

    /// Notes the files of a base and what of it cannot be read; `false` if that was done before.
    fn take_up(&mut self, base: &Base) -> bool {
        if let Some(fault) = &base.fault {
            self.add_repair(base.seq, Why::Unreadable(fault.clone()));
        }
        self.expanded.insert(base.seq, base.files.clone()).is_none()
    }

    fn add_repair(&mut self, seq: u64, why: Why) {
        let repair = Repair { seq, why };
        // A base with a thousand bad entries has one fault, told once.
        if !self.repairs.contains(&repair) {
            self.repairs.push(repair);
        }
    }
}

impl BaseFrame {
    fn from_base(base: &Base) -> BaseFrame {
        BaseFrame {
            seq: base.seq,
            is_snapshot: base.is_snapshot,
            cutoff_seq: base.cutoff_seq,
            entries: pair_inline(base.entries.clone()).into_iter(),
            is_untouched: true,
        }
    }
}
