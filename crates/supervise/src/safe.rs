//! Names from messages as parts of paths: made harmless, and opened without following links.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Bytes of a name in a path.
const NAME_MAX: usize = 100;

/// Returns the name with only letters, digits, `.`, `_` and `-`, without a leading dot, and bounded.
/// A changed name gets eight digits of a hash, so that different names stay different.
pub fn safe_form(name: &str) -> String {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let is_safe = name.chars().all(is_fine)
        && !name.starts_with('.')
        && !name.is_empty()
        && name.len() <= NAME_MAX;
    if is_safe {
        return name.to_owned();
    }
    // Without the hash `a/b` and `a_b` would share a file.
    let hash = format!("_{:08x}", crc32fast::hash(name.as_bytes()));
    let letters = name.chars().map(|c| if is_fine(c) { c } else { '_' });
    let mut safe: String = letters.take(NAME_MAX - hash.len()).collect();
    if safe.starts_with('.') {
        safe.replace_range(..1, "_");
    }
    safe + &hash
}

/// Opens a folder below another, name by name, and creates missing ones. A link on the way is an
/// error, because it could lead anywhere.
pub fn folder_below(top: &Path, names: &[&str]) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut folder = rustix::fs::open(top, flags, Mode::empty())?;
    for name in names {
        let flags = flags | OFlags::NOFOLLOW;
        folder = match rustix::fs::openat(&folder, *name, flags, Mode::empty()) {
            Ok(folder) => folder,
            Err(rustix::io::Errno::NOENT) => {
                match rustix::fs::mkdirat(&folder, *name, Mode::RWXU) {
                    // Another thread may create the same folder at this moment.
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

/// Opens a private file in a folder for appending, never through a link.
pub(crate) fn append_in(folder: &File, name: &str) -> io::Result<File> {
    let flags =
        OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?;
    Ok(File::from(file))
}

/// Makes a link in a folder, replacing an earlier one in one step.
pub(crate) fn link_in(folder: &File, name: &str, target: &str) -> io::Result<()> {
    // A link cannot be replaced, but another can be renamed over it. A reader always finds one of
    // them.
    let beside = format!(".{name}.{}", std::process::id());
    match rustix::fs::unlinkat(folder, &beside, rustix::fs::AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    rustix::fs::symlinkat(target, folder, &beside)?;
    Ok(rustix::fs::renameat(folder, &beside, folder, name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_names_stay_distinct() {
        for name in ["a", "1739440800123", "import.codex", "A-b_c.1", &"x".repeat(100)] {
            assert_eq!(safe_form(name), name);
        }
        let hostile = ["", ".", "..", ".x", "a/b", "a_b/", "a\0b", "\u{e9}", "../../x"];
        let long = ["x".repeat(101), "x".repeat(300), "\u{e9}".repeat(300)];
        let mut seen = std::collections::HashSet::new();
        for name in hostile.into_iter().chain(long.iter().map(String::as_str)) {
            let safe = safe_form(name);
            let is_fine = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            assert!(safe.chars().all(is_fine) && !safe.starts_with('.'), "{safe}");
            assert!(safe.len() <= 100 && !safe.is_empty(), "{safe}");
            assert!(seen.insert(safe), "{name} looks like another");
        }
    }
}
