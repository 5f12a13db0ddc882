//! How often the same alert is repeated: at once, then ever more rarely.

use std::time::Duration;

use crate::clock::Moment;

/// The first delay until an alert is repeated. It doubles up to `LAST`.
const FIRST: Duration = Duration::from_secs(60);
const LAST: Duration = Duration::from_secs(3_600);

/// When an alert is due next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Alert {
    next: Option<(Moment, Duration)>,
}

impl Alert {
    /// Returns whether the alert is due; if so, it counts as sent now.
    pub(crate) fn is_due(&mut self, now: Moment) -> bool {
        match self.next {
            Some((at, _)) if now < at => false,
            Some((_, wait)) => {
                let wait = (wait * 2).min(LAST);
                self.next = Some((now + wait, wait));
                true
            }
            None => {
                self.next = Some((now + FIRST, FIRST));
                true
            }
        }
    }

    /// Resets the delays, because the cause is gone.
    pub(crate) fn clear(&mut self) {
        self.next = None;
    }
}
