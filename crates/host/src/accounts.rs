//! Whether other people have an account on this machine.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::geteuid;

/// The lowest user id of a person. System services have lower ones.
const FIRST_PERSON: u32 = if cfg!(target_os = "macos") { 501 } else { 1_000 };

/// User ids that are given to services for a while, and those that mean no user at all.
const NO_PEOPLE: [std::ops::RangeInclusive<u32>; 2] = [61_184..=65_535, u32::MAX..=u32::MAX];

/// Where homes are. Accounts of a directory service are in no file, but have one.
const HOMES: [&str; 2] = ["/home", "/Users"];

/// Homes that are looked at. A machine with more of them counts as shared.
const HOMES_MAX: usize = 256;

/// Returns whether a person other than this program's user can log in here.
pub fn has_other_people() -> bool {
    let own = geteuid().as_raw();
    // Without the list it is not known, and the careful answer is that there are others.
    let Ok(passwd) = fs::read_to_string("/etc/passwd") else { return true };
    lists_other_person(&passwd, own)
        || HOMES.iter().any(|folder| has_other_home(Path::new(folder), own))
}

fn has_other_home(folder: &Path, own: u32) -> bool {
    let homes = match fs::read_dir(folder) {
        Ok(homes) => homes,
        Err(error) => return error.kind() != io::ErrorKind::NotFound,
    };
    let is_other = |home: fs::DirEntry| {
        home.metadata().is_ok_and(|home| home.is_dir() && is_other_person(home.uid(), own))
    };
    homes.flatten().enumerate().any(|(number, home)| number >= HOMES_MAX || is_other(home))
}

/// Reads the third and the last of the seven fields of each line: the id and the shell.
fn lists_other_person(passwd: &str, own: u32) -> bool {
    passwd.lines().any(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let (Some(uid), Some(shell)) = (fields.get(2), fields.get(6)) else { return false };
        let can_log_in = !shell.ends_with("/nologin") && !shell.ends_with("/false");
        can_log_in && uid.parse().is_ok_and(|uid| is_other_person(uid, own))
    })
}

fn is_other_person(uid: u32, own: u32) -> bool {
    uid != own && uid >= FIRST_PERSON && !NO_PEOPLE.iter().any(|range| range.contains(&uid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn only_people_who_can_log_in_count() {
        let own = "dev:x:1000:1000::/home/dev:/bin/bash\n";
        let services = "root:x:0:0::/root:/bin/bash\nwww-data:x:33:33::/var/www:/usr/sbin/nologin\n\
                        nobody:x:65534:65534::/:/usr/sbin/nologin\n";
        let robot = "robot:x:1002:1002::/srv:/usr/sbin/nologin\n";
        for (passwd, own_uid, has_others) in [
            (format!("{services}{own}"), 1_000, false),
            (format!("{services}{own}{robot}"), 1_000, false),
            (format!("{services}{own}ann:x:1001:1001::/home/ann:/bin/zsh\n"), 1_000, true),
            (format!("{services}{own}"), 0, true),
            (format!("{own}ann:x:200001:1::/home/CORP/ann:/bin/bash\n"), 1_000, true),
            ("torn:x\n::::::\n".to_owned(), 1_000, false),
        ] {
            assert_eq!(lists_other_person(&passwd, own_uid), has_others, "{passwd}");
        }
    }
}
