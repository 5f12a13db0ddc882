//! What a client has missed, until it is told.

use std::fmt::Write;

use crate::class::Class;
use crate::outbox::Lost;
use crate::tape::Mark;

#[derive(Default)]
pub(crate) struct Gap {
    /// The tape went past the client: it is told before anything else.
    pub(crate) passed: bool,
    /// What was kept for it has been given up too.
    pub(crate) is_stalled: bool,
    by: [u64; Class::ALL.len()],
    lifecycle_lost: u64,
    since: Option<u64>,
    until: u64,
    /// From where the journal has what is missing.
    position: Option<u64>,
    /// What this client has missed in its life.
    total: [u64; Class::ALL.len()],
}

impl Gap {
    pub(crate) fn drop_line(&mut self, mark: &Mark) {
        self.by[mark.class as usize] += 1;
        self.total[mark.class as usize] += 1;
        self.since.get_or_insert(mark.ts);
        self.until = mark.ts;
        if mark.position > 0 {
            self.position.get_or_insert(mark.position - 1);
        }
    }

    pub(crate) fn lose_lifecycle(&mut self, count: u64) {
        self.lifecycle_lost += count;
        self.total[Class::Lifecycle as usize] += count;
    }

    /// What was kept is given up.
    pub(crate) fn stall(&mut self, lost: Lost) {
        self.is_stalled = true;
        self.lose_lifecycle(lost.lifecycle);
        self.by[Class::Status as usize] += lost.status;
        self.total[Class::Status as usize] += lost.status;
    }

    /// Whether the client has to be told now. While only bulk is skipped for it, it is told once
    /// it has come near.
    pub(crate) fn is_due(&self, is_near: bool) -> bool {
        self.dropped() > 0 && (self.passed || is_near)
    }

    /// The line that tells it, and a new beginning.
    pub(crate) fn take(&mut self, now_ms: u64) -> Vec<u8> {
        let mut line = String::from(r#"{"tract":"callosum","event":"lagged","dropped":"#);
        // Writing into a text does not fail.
        let _ = write!(line, "{},\"by\":{{", self.dropped());
        let counts = Class::ALL.iter().map(|class| (class, self.by[*class as usize]));
        let counts: Vec<String> = counts
            .filter(|(_, count)| *count > 0)
            .map(|(class, count)| format!("\"{}\":{count}", class.word()))
            .collect();
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

    /// What was missed so far, by class.
    pub(crate) fn total(&self) -> impl Iterator<Item = (Class, u64)> {
        Class::ALL.into_iter().map(|class| (class, self.total[class as usize]))
    }

    fn dropped(&self) -> u64 {
        self.by.iter().sum::<u64>() + self.lifecycle_lost
    }
}
