//! What a corpus turned out to be.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use event::{Draft, Kind, SessionId};

/// Counts and sizes of the events that were shown to it.
#[derive(Default)]
pub struct Description {
    sizes: Vec<u32>,
    bytes: u64,
    kinds: BTreeMap<Kind, Share>,
    sessions: BTreeSet<SessionId>,
}

#[derive(Default)]
struct Share {
    events: u64,
    bytes: u64,
}

impl Description {
    /// Takes in an event with `size` bytes of JSON.
    pub fn add_draft(&mut self, draft: &Draft, size: usize) {
        self.sizes.push(u32::try_from(size).unwrap_or(u32::MAX));
        self.bytes += size as u64;
        let share = self.kinds.entry(draft.kind.clone()).or_default();
        share.events += 1;
        share.bytes += size as u64;
        // Looked up first: an id is cloned once for a session, not once for an event.
        if !self.sessions.contains(&draft.session_id) {
            self.sessions.insert(draft.session_id.clone());
        }
    }

    pub fn events(&self) -> usize {
        self.sizes.len()
    }

    /// Bytes of the events' JSON text.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// The size that so many of a thousand events stay below.
    pub fn size_at(&self, permille: usize) -> u32 {
        let mut sizes = self.sizes.clone();
        let Some(last) = sizes.len().checked_sub(1) else { return 0 };
        let at = (sizes.len() * permille / 1_000).min(last);
        *sizes.select_nth_unstable(at).1
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let events = self.events();
        let mb = self.bytes as f64 / 1e6;
        writeln!(f, "{events} events in {} sessions, {mb:.1} MB of JSON", self.sessions())?;
        write!(f, "sizes in bytes:")?;
        for (name, permille) in [("p50", 500), ("p90", 900), ("p99", 990), ("p99.9", 999)] {
            write!(f, " {name} {},", self.size_at(permille))?;
        }
        let large = self.sizes.iter().filter(|size| **size > 100_000).count();
        writeln!(f, " largest {}, {large} over 100 KB", self.size_at(1_000))?;
        write!(f, "share of events and bytes:")?;
        let mut kinds: Vec<_> = self.kinds.iter().collect();
        kinds.sort_by_key(|(_, share)| std::cmp::Reverse(share.bytes));
        for (index, (kind, share)) in kinds.into_iter().enumerate() {
            let part = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
            let comma = if index > 0 { "," } else { "" };
            let of_events = part(share.events, events as u64);
            let of_bytes = part(share.bytes, self.bytes);
            write!(f, "{comma} {kind} {of_events:.1} % {of_bytes:.1} %")?;
        }
        Ok(())
    }
}
