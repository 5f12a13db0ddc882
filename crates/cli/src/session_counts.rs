//! How many sessions are in each group: the same numbers in every command.

use projection::status::StatusGroup;
use wire::Status;

use crate::output::format_count;
use crate::statuses::group;

/// Sessions per group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SessionCounts([usize; StatusGroup::ALL.len()]);

impl SessionCounts {
    pub(crate) fn count(statuses: &[Status]) -> SessionCounts {
        statuses.iter().map(group).collect()
    }

    pub(crate) fn of(&self, group: StatusGroup) -> usize {
        // The order of `ALL` is that of the variants.
        self.0[group as usize]
    }

    /// The count of a group in words: `1 needs you`, `3 running`; `None` if it is empty.
    pub(crate) fn in_words(&self, group: StatusGroup) -> Option<String> {
        let words = match (group, self.of(group)) {
            (_, 0) => return None,
            (StatusGroup::NeedsYou, 1) => "needs you",
            (StatusGroup::NeedsYou, _) => "need you",
            (group, _) => group_name(group),
        };
        Some(format!("{} {words}", format_count(self.of(group) as u64)))
    }
}

impl FromIterator<StatusGroup> for SessionCounts {
    fn from_iter<I: IntoIterator<Item = StatusGroup>>(groups: I) -> SessionCounts {
        let mut counts = SessionCounts::default();
        for group in groups {
            counts.0[group as usize] += 1;
        }
        counts
    }
}

/// The name of a group as a heading.
pub(crate) fn group_name(group: StatusGroup) -> &'static str {
    match group {
        StatusGroup::NeedsYou => "needs you",
        other => other.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_told_in_words() {
        let groups = [StatusGroup::NeedsYou, StatusGroup::Idle, StatusGroup::Idle];
        let counts: SessionCounts = groups.into_iter().collect();
        let words = StatusGroup::ALL.map(|group| counts.in_words(group));
        let idle = Some("2 idle".to_owned());
        assert_eq!(words, [Some("1 needs you".to_owned()), None, None, idle, None, None]);
        let two: SessionCounts = [StatusGroup::NeedsYou; 2].into_iter().collect();
        assert_eq!(two.in_words(StatusGroup::NeedsYou).as_deref(), Some("2 need you"));
    }
}
