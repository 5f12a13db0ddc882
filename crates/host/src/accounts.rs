//! Whether other people have an account on this machine.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::geteuid;

/// User ids of people. System services have lower ones, and the highest mean no user at all.
#[cfg(target_os = "macos")]
const PEOPLE: std::ops::Range<u32> = 501..60_000;
#[cfg(not(target_os = "macos"))]
const PEOPLE: std::ops::Range<u32> = 1_000..60_000;

/// Where homes are. Accounts of a directory service are in no file, but have one.
const HOMES: [&str; 2] = ["/home", "/Users"];

/// Homes that are looked at. More of them belong to a machine that is shared in any case.
const HOMES_MAX: usize = 256;

/// Returns whether a person other than this program's user can log in here.
pub fn has_other_people() -> bool {
    let own = geteuid().as_raw();
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    lists_other_person(&passwd, own)
        || HOMES.iter().any(|folder| has_other_home(Path::new(folder), own))
}

fn has_other_home(folder: &Path, own: u32) -> bool {
    let Ok(homes) = fs::read_dir(folder) else { return false };
    homes.flatten().take(HOMES_MAX).any(|home| {
        home.metadata().is_ok_and(|home| home.is_dir() && is_other_person(home.uid(), own))
    })
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
    uid != own && PEOPLE.contains(&uid)
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
            ("torn:x\n::::::\n".to_owned(), 1_000, false),
        ] {
            assert_eq!(lists_other_person(&passwd, own_uid), has_others, "{passwd}");
        }
    }
}
