//! Which of several sources that share a beginning was begun first.

use event::Time;

use crate::agent::LineageHint;

/// When a file was changed last and when it was made, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FileTimes {
    pub changed: i64,
    pub made: i64,
}

/// When a source was begun. The older source is the smaller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct SourceAge {
    /// The time in its own first bytes counts most.
    pub since: Option<Time>,
    file: i64,
}

/// The ages of the members of a family.
///
/// A fork begins with the same record as its parent, but its file is the younger one, also when the
/// agent later went on in the parent. So the time a file was made counts. Where all members are
/// copies that kept their times (a restored backup), the order of copying says nothing, and the
/// last change counts instead.
pub(crate) fn source_ages(family: &[(&LineageHint, FileTimes)]) -> Vec<SourceAge> {
    // No file is changed before it is made, unless a tool copied it and kept its time.
    let is_copy = |times: &FileTimes| times.changed < times.made;
    let are_copies = family.iter().all(|(_, times)| is_copy(times));
    let begun = |times: &FileTimes| if are_copies { times.changed } else { times.made };
    family.iter().map(|(hint, times)| SourceAge { since: hint.since, file: begun(times) }).collect()
}
