//! What a client has missed and has not been told yet.

use std::fmt::Write;

use crate::class::Class;
use crate::outbox::DiscardedLines;
use crate::tape::LineMeta;

#[derive(Default)]
pub(crate) struct Gap {
    /// The tape dropped a chunk before the client read it. The report goes out before all else.
    pub(crate) passed: bool,
    /// The bus also dropped what it had retained for the client.
    pub(crate) is_stalled: bool,
    by: [u64; Class::ALL.len()],
    lifecycle_lost: u64,
    since: Option<u64>,
    until: u64,
    /// The journal position behind which the missed messages can be read.
    position: Option<u64>,
    /// Everything this client has missed since it connected.
    total: [u64; Class::ALL.len()],
}

impl Gap {
    pub(crate) fn drop_line(&mut self, meta: &LineMeta) {
        self.by[meta.class as usize] += 1;
        self.total[meta.class as usize] += 1;
        self.since.get_or_insert(meta.ts);
        self.until = meta.ts;
        if meta.position > 0 {
            // The client reads on behind this position, so it is the one before the first missed
            // line.
            self.position.get_or_insert(meta.position - 1);
        }
    }

    pub(crate) fn lose_lifecycle(&mut self, count: u64) {
        self.lifecycle_lost += count;
        self.total[Class::Lifecycle as usize] += count;
    }

    /// Counts retained lines that the bus dropped.
    pub(crate) fn mark_stalled(&mut self, lost: DiscardedLines) {
        self.is_stalled = true;
        self.lose_lifecycle(lost.lifecycle);
        self.by[Class::Status as usize] += lost.status;
        self.total[Class::Status as usize] += lost.status;
    }

    /// Returns whether the report is due. While the bus skips only bulk lines, the report waits
    /// until the client has nearly caught up, so that one report covers the whole gap.
    pub(crate) fn is_due(&self, is_near: bool) -> bool {
        self.dropped_count() > 0 && (self.passed || is_near)
    }

    /// Returns the `callosum.lagged` line and starts counting anew.
    pub(crate) fn take_report(&mut self, now_ms: u64) -> Vec<u8> {
        let mut line = String::from(r#"{"tract":"callosum","event":"lagged","dropped":"#);
        // Writing into a string cannot fail.
        let _ = write!(line, "{},\"by\":{{", self.dropped_count());
        let counts = Class::ALL.iter().map(|class| (class, self.by[*class as usize]));
        let counts: Vec<String> = counts
            .filter(|(_, count)| *count > 0)
            .map(|(class, count)| format!("\"{}\":{count}", class.word()))
            .collect();
        // Replies and retained lines are counted without a time. If only those are missing, it is
        // now.
        let (since, until) =
            (self.since.unwrap_or(now_ms), self.until.max(self.since.unwrap_or(now_ms)));
        let _ = write!(line, "{}}},\"since\":{since},\"until\":{until}", counts.join(","));
        if let Some(position) = self.position {
            let _ = write!(line, ",\"position\":{position}");
        }
        if self.lifecycle_lost > 0 {
            let _ = write!(line, ",\"lifecycle_lost\":{}", self.lifecycle_lost);
        }
        let _ = writeln!(line, ",\"ts\":{now_ms}}}");
        *self = Gap { total: self.total, ..Gap::default() };
        line.into_bytes()
    }

    /// Returns what the client missed since it connected, by class.
    pub(crate) fn lifetime_counts(&self) -> impl Iterator<Item = (Class, u64)> {
        Class::ALL.into_iter().map(|class| (class, self.total[class as usize]))
    }

    fn dropped_count(&self) -> u64 {
        self.by.iter().sum::<u64>() + self.lifecycle_lost
    }
}
