//! Names from messages that become part of a path: made harmless, and folders opened step by step.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Bytes of a name in a path.
const NAME_MAX: usize = 100;

/// The name with letters, digits, `.`, `_` and `-` only, without a leading dot and not too long.
/// If anything had to change, eight digits of a hash tell it from others that look the same.
pub fn safe_form(name: &str) -> String {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let is_safe = name.chars().all(is_fine)
        && !name.starts_with('.')
        && !name.is_empty()
        && name.len() <= NAME_MAX;
    if is_safe {
        return name.to_owned();
    }
    let hash = format!("_{:08x}", crc32fast::hash(name.as_bytes()));
    let letters = name.chars().map(|c| if is_fine(c) { c } else { '_' });
    let mut safe: String = letters.take(NAME_MAX - hash.len()).collect();
    if safe.starts_with('.') {
        safe.replace_range(..1, "_");
    }
    safe + &hash
}

/// Opens a folder below another, name by name, making what is missing. A link on the way is an
/// error: it could lead anywhere.
pub(crate) fn folder_below(top: &Path, names: &[&str]) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut folder = rustix::fs::open(top, flags, Mode::empty())?;
    for name in names {
        let flags = flags | OFlags::NOFOLLOW;
        folder = match rustix::fs::openat(&folder, *name, flags, Mode::empty()) {
            Ok(folder) => folder,
            Err(rustix::io::Errno::NOENT) => {
                match rustix::fs::mkdirat(&folder, *name, Mode::RWXU) {
                    Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                rustix::fs::openat(&folder, *name, flags, Mode::empty())?
            }
            Err(error) => return Err(error.into()),
        };
    }
    Ok(File::from(folder))
}

/// Opens a file in a folder to append to it, for us alone, and never through a link.
pub(crate) fn append_in(folder: &File, name: &str) -> io::Result<File> {
    let flags =
        OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?;
    Ok(File::from(file))
}

/// Lets a name in a folder lead to a target, replacing what it led to in one step.
pub(crate) fn link_in(folder: &File, name: &str, target: &str) -> io::Result<()> {
    let beside = format!(".{name}.{}", std::process::id());
    match rustix::fs::unlinkat(folder, &beside, rustix::fs::AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    rustix::fs::symlinkat(target, folder, &beside)?;
    Ok(rustix::fs::renameat(folder, &beside, folder, name)?)
}
