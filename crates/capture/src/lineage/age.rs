//! Which of several sources that share a beginning was begun first, by the times of their files.

/// When a file was changed last and when it was made, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FileTimes {
    pub changed: i64,
    /// Absent where the system does not know.
    pub made: Option<i64>,
}

/// When the members of a family were begun, as far as their files tell. Equal times are a tie: the
/// clock of a file system has coarse ticks.
///
/// A fork begins with the same record as its parent, but its file is the younger one, also when the
/// agent later went on in the parent. So the time a file was made counts. Where all members are
/// copies that kept their times (a restored backup), the order of copying says nothing, and the
/// last change counts instead.
pub(crate) fn file_ages(family: &[FileTimes]) -> Vec<Option<i64>> {
    // No file is changed before it is made, unless a tool copied it and kept its time.
    let is_copy = |times: &FileTimes| times.made.is_some_and(|made| times.changed < made);
    let are_copies = family.iter().all(is_copy);
    let begun = |times: &FileTimes| if are_copies { Some(times.changed) } else { times.made };
    family.iter().map(begun).collect()
}
