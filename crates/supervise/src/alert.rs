//! How often somebody is told the same thing: at once, then ever more rarely.

use std::time::Duration;

use crate::clock::Moment;

/// Time until it is told again; it doubles up to the last.
const FIRST: Duration = Duration::from_secs(60);
const LAST: Duration = Duration::from_secs(3_600);

/// When to tell next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Alert {
    next: Option<(Moment, Duration)>,
}

impl Alert {
    /// Whether it is time to tell; if so, it was told now.
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

    /// It is over: the next time is the first again.
    pub(crate) fn clear(&mut self) {
        self.next = None;
    }
}
