//! A view beside the log, so that opening a session does not read all of it.
//!
//! It holds no text and no entry, only what leads to them: where the path goes, what the
//! history is based on. It may be deleted at any time, and a damaged one is built again.

use std::io::{Read, Write};

use event::{EventId, Time};
use serde::{Deserialize, Serialize};

use super::amends::Amends;
use super::base::{Base, Bases};
use super::path::{Path, Rewind};
use super::{EventLog, View, ViewError, ViewOptions};

/// The form written here. Others are not read: the view is made again.
const VERSION: u32 = 2;

/// Good for what is small and mostly numbers; more costs time and gains nothing.
const ZSTD_LEVEL: i32 = 3;

/// Bytes of a saved view when unpacked. Some 30 per rewind, so this is millions of them; what
/// claims to be larger is damaged.
const UNPACKED_MAX: u64 = 256 * 1024 * 1024;

/// A [`View`] without its entries.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SavedView {
    version: u32,
    up_to_seq: u64,
    last_id: Option<EventId>,
    /// Per rewind: how far its prompt is from the one before, and how far it goes back. Small
    /// numbers pack well.
    rewinds: Vec<(u64, u64)>,
    /// Per amendment: the distance from the one before, and the distance back to its place.
    amends: Vec<(u64, u64)>,
    bases: Vec<Base>,
    mattering_seq: u64,
    shown_seq: u64,
    uncovered_at: Option<Time>,
}

impl SavedView {
    /// The newest event it knows of.
    pub fn up_to_seq(&self) -> u64 {
        self.up_to_seq
    }

    /// The view of a fork that begins here: all of it is by number, and a fork keeps the numbers.
    pub(crate) fn inherit(&self, shown: &dyn Fn(EventId) -> EventId) -> SavedView {
        SavedView { last_id: self.last_id.map(shown), ..self.clone() }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let json = serde_json::to_vec(self).expect("numbers and names always encode");
        compress(&json).expect("memory takes every write")
    }

    /// Reads what [`SavedView::to_bytes`] wrote; nothing if it is damaged or of another version.
    pub fn from_bytes(bytes: &[u8]) -> Option<SavedView> {
        let mut json = Vec::new();
        let packed = zstd::Decoder::new(bytes).ok()?;
        // Bounded while unpacking: a few damaged bytes may claim to unpack to terabytes.
        packed.take(UNPACKED_MAX).read_to_end(&mut json).ok()?;
        let saved: SavedView = serde_json::from_slice(&json).ok()?;
        (saved.version == VERSION).then_some(saved)
    }
}

/// Compresses with a checksum, so that no flipped bit is taken for a number.
fn compress(json: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut packer = zstd::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
    packer.include_checksum(true)?;
    packer.write_all(json)?;
    packer.finish()
}

impl View {
    /// What to keep beside the log.
    pub fn save(&self) -> SavedView {
        let rewinds = self.path.rewinds().iter();
        SavedView {
            version: VERSION,
            up_to_seq: self.up_to_seq,
            last_id: self.last_id,
            rewinds: to_distances(rewinds.map(|rewind| (rewind.prompt_seq, rewind.parent_seq))),
            amends: to_distances(self.amends.pairs()),
            bases: self.bases.all().to_vec(),
            mattering_seq: self.mattering_seq,
            shown_seq: self.shown_seq,
            uncovered_at: self.uncovered_at,
        }
    }

    /// The view that was saved, to go on from; nothing if it is not of this log.
    ///
    /// Its entries are read on request.
    pub fn restore(
        saved: &SavedView,
        options: ViewOptions,
        log: &dyn EventLog,
    ) -> Result<Option<View>, ViewError> {
        let last = log.event(saved.up_to_seq)?.map(|event| event.id);
        // A log that was replaced since has another event under this number.
        if saved.up_to_seq == 0 || last.is_none() || last != saved.last_id {
            return Ok(None);
        }
        let Some(rewinds) = from_distances(&saved.rewinds, saved.up_to_seq) else {
            return Ok(None);
        };
        let Some(amended) = from_distances(&saved.amends, saved.up_to_seq) else { return Ok(None) };
        let rewinds = rewinds.into_iter();
        let path = Path::new(
            rewinds.map(|(prompt_seq, parent_seq)| Rewind { prompt_seq, parent_seq }).collect(),
        );
        let mut amends = Amends::default();
        amended.into_iter().for_each(|(seq, place)| amends.add_amend(seq, place));
        let bases = Bases::new(saved.bases.clone());
        // The choice follows from path and bases, so it is made again instead of being saved.
        let chosen = bases.choose_base(&path, saved.up_to_seq);
        Ok(Some(View {
            options,
            up_to_seq: saved.up_to_seq,
            last_id: saved.last_id,
            path,
            amends,
            bases,
            chosen,
            mattering_seq: saved.mattering_seq,
            shown_seq: saved.shown_seq,
            uncovered_at: saved.uncovered_at,
            loaded: None,
        }))
    }
}

/// Pairs of an event and an earlier one, as distances.
fn to_distances(pairs: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut before = 0;
    pairs
        .map(|(seq, earlier)| {
            // Both are positive: pairs come in log order, and each names an earlier event.
            let step = (seq - before, seq - earlier);
            before = seq;
            step
        })
        .collect()
}

/// The reverse of [`to_distances`]; nothing if they lead out of the log.
fn from_distances(steps: &[(u64, u64)], up_to_seq: u64) -> Option<Vec<(u64, u64)>> {
    let mut seq = 0u64;
    let mut pairs = Vec::with_capacity(steps.len());
    for (forward, back) in steps {
        // The checksum catches flipped bits; these checks keep numbers that were written wrongly
        // from leading out of the log.
        seq = seq.checked_add(*forward).filter(|seq| *forward > 0 && *seq <= up_to_seq)?;
        let earlier = seq.checked_sub(*back).filter(|earlier| *back > 0 && *earlier > 0)?;
        pairs.push((seq, earlier));
    }
    Some(pairs)
}
