//! Which folders are on this machine, as far as the system tells without being asked for them.

use std::path::{Path, PathBuf};

/// File systems that depend on another machine, which may not answer.
const REMOTE: &[&str] = &[
    "afs",
    "autofs",
    "ceph",
    "cifs",
    "davfs",
    "fuse.glusterfs",
    "fuse.rclone",
    "fuse.s3fs",
    "fuse.sshfs",
    "glusterfs",
    "lustre",
    "nfs",
    "nfs4",
    "smb3",
    "smbfs",
];

/// The places where file systems of others begin, and those where ours begin again below.
pub(super) struct Mounts(Vec<(PathBuf, bool)>);

impl Mounts {
    /// What the system tells now; nothing on one that does not tell.
    pub(super) fn read() -> Mounts {
        Mounts::parse(&std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
    }

    /// Parses Linux' list: the fifth word of a line is the place, the one behind ` - ` the kind.
    pub(super) fn parse(list: &str) -> Mounts {
        let mounts = list.lines().filter_map(|line| {
            let place = line.split(' ').nth(4)?;
            let kind = line.split_once(" - ")?.1.split(' ').next()?;
            // The list writes a space as `\040`.
            Some((PathBuf::from(place.replace("\\040", " ")), REMOTE.contains(&kind)))
        });
        Mounts(mounts.collect())
    }

    /// Whether a folder lies on a file system of another machine.
    pub(super) fn is_remote(&self, folder: &Path) -> bool {
        let above = self.0.iter().filter(|(place, _)| folder.starts_with(place));
        // The deepest mount above the folder decides: a local disk may be mounted below a network
        // one.
        above.max_by_key(|(place, _)| place.components().count()).is_some_and(|(_, is)| *is)
    }
}
