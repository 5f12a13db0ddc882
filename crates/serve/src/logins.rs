//! The browsers that are logged in, also across restarts of the daemon.
//!
//! While the daemon is down, any program on this machine can listen at its port, and receives the
//! cookies of browsers that come. So a cookie alone is not enough: a login of an earlier start is
//! accepted only over a connection of the journal's own user, which such a program does not have
//! unless it can read the journal anyway. And what such a program stored in the browser is cleared
//! with the first visit after each start. Where other people use the machine, that is not enough
//! ([`AddressLife`](crate::AddressLife)).
//!
//! The file has a digest of each cookie, so that a copy of it lets no browser in.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use crate::peer::PeerUser;
use crate::token::{
    TokenError, encode_hex, equals_secret, random_secret, remove_unfinished, write_private,
};

/// Logins that are kept. One more drops the one that was not used for the longest time, and its
/// browser has to log in again.
const LOGINS_MAX: usize = 64;

/// How long a login is valid after its last use.
pub(crate) const LOGIN_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How exactly the last use is written down: a file that is written with every request would wear
/// the disk.
const USE_EXACT_TO: Duration = Duration::from_secs(24 * 60 * 60);

/// Digits of a digest.
const DIGEST_DIGITS: usize = 64;

/// The logins of a journal.
pub(crate) struct Logins {
    path: PathBuf,
    /// The digest of the token that they belong to: a new token ends them, also while no daemon
    /// runs.
    token: String,
    /// In the order of their last use.
    known: VecDeque<StoredLogin>,
    /// Digests of cookies that were made, or seen and accepted, since the start.
    met: BTreeSet<String>,
}

struct StoredLogin {
    digest: String,
    used_at: Duration,
}

/// A browser that may come in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Visit {
    /// The browser comes for the first time since the start, with a login of an earlier one.
    pub(crate) is_return: bool,
    /// The login is valid for longer from now on, and so is the cookie.
    pub(crate) is_prolonged: bool,
}

impl Logins {
    /// Loads the logins that belong to a token, for the one daemon that writes them. A line that
    /// cannot be parsed is no login.
    pub(crate) fn load(path: PathBuf, token: &str) -> Logins {
        // Of a daemon that was killed while a browser signed in.
        remove_unfinished(&path);
        let token = digest_of(token);
        let text = fs::read_to_string(&path).unwrap_or_default();
        let mut lines = text.lines();
        let is_ours = lines.next() == Some(token.as_str());
        let known = lines.filter(|_| is_ours).filter_map(StoredLogin::parse);
        Logins { path, known: known.take(LOGINS_MAX).collect(), met: BTreeSet::new(), token }
    }

    /// Returns whether a cookie belongs to one of the logins.
    pub(crate) fn has(&self, cookie: &str) -> bool {
        self.place_of(&digest_of(cookie)).is_some()
    }

    /// Logs a browser in; returns its cookie.
    pub(crate) fn issue_cookie(&mut self, now: SystemTime) -> Result<String, TokenError> {
        let cookie = random_secret();
        let digest = digest_of(&cookie);
        let dropped = (self.known.len() >= LOGINS_MAX).then(|| self.known.pop_front()).flatten();
        self.known.push_back(StoredLogin { digest: digest.clone(), used_at: since_epoch(now) });
        if let Err(error) = self.write() {
            self.known.pop_back();
            dropped.into_iter().for_each(|login| self.known.push_front(login));
            return Err(error);
        }
        if let Some(dropped) = dropped {
            self.met.remove(&dropped.digest);
        }
        self.met.insert(digest);
        Ok(cookie)
    }

    /// Returns whether a browser with this cookie, of this user, may come in. The first response after
    /// a start has to be one that can clear what the browser has stored.
    pub(crate) fn admit(
        &mut self,
        cookie: &str,
        user: PeerUser,
        can_clear: bool,
        now: SystemTime,
    ) -> Option<Visit> {
        let (now, digest) = (since_epoch(now), digest_of(cookie));
        let found = self.place_of(&digest)?;
        let login = &self.known[found];
        let is_return = !self.met.contains(&digest);
        let is_allowed = match user {
            PeerUser::Own => true,
            PeerUser::Other(_) | PeerUser::Closing => false,
            // Without knowing the user, a login is not older than the daemon.
            PeerUser::Unknown => !is_return,
        };
        // A WebSocket alone would let a planted script go on that the next answer removes.
        let is_cleared = can_clear || !is_return;
        if !is_allowed || !is_cleared || now.saturating_sub(login.used_at) > LOGIN_FOR {
            return None;
        }
        self.met.insert(digest.clone());
        let is_prolonged = now.saturating_sub(login.used_at) > USE_EXACT_TO;
        if is_prolonged {
            self.known.remove(found);
            self.known.push_back(StoredLogin { digest, used_at: now });
            // A failed write only makes the login end earlier.
            let _ = self.write();
        }
        Some(Visit { is_return, is_prolonged })
    }

    /// Ends all logins. Those that are made from now on belong to this token.
    pub(crate) fn clear(&mut self, token: &str) {
        self.token = digest_of(token);
        self.known.clear();
        self.met.clear();
        // A file that stays behind belongs to another token, or its name to nothing any more.
        let _ = fs::remove_file(&self.path);
    }

    /// All are compared, so that the time does not reveal which one matched.
    fn place_of(&self, digest: &str) -> Option<usize> {
        self.known.iter().enumerate().fold(None, |found, (at, login)| {
            if equals_secret(&login.digest, digest) { Some(at) } else { found }
        })
    }

    fn write(&self) -> Result<(), TokenError> {
        let logins = self.known.iter().map(StoredLogin::file_line);
        let lines: Vec<String> = std::iter::once(self.token.clone()).chain(logins).collect();
        write_private(&self.path, &lines.join("\n"))
    }
}

impl StoredLogin {
    fn parse(line: &str) -> Option<StoredLogin> {
        let (digest, used_at) = line.split_once(' ')?;
        let used_at = Duration::from_secs(used_at.trim().parse().ok()?);
        (digest.len() == DIGEST_DIGITS).then(|| StoredLogin { digest: digest.to_owned(), used_at })
    }

    fn file_line(&self) -> String {
        format!("{} {}", self.digest, self.used_at.as_secs())
    }
}

fn digest_of(cookie: &str) -> String {
    encode_hex(&Sha256::digest(cookie.as_bytes()))
}

fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Visit = Visit { is_return: false, is_prolonged: false };
    const RETURN: Visit = Visit { is_return: true, is_prolonged: false };
    const TOKEN: &str = "a token";

    fn begin() -> (tempfile::TempDir, PathBuf, SystemTime) {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("http.logins");
        (dir, path, UNIX_EPOCH + Duration::from_secs(1_800_000_000))
    }

    #[test]
    fn leftovers_of_a_killed_daemon_are_removed() {
        let (dir, path, now) = begin();
        let cookie = Logins::load(path.clone(), TOKEN).issue_cookie(now).unwrap();
        let beside = ["http.logins.17-3.tmp", "http.token.17-3.tmp"].map(|it| dir.path().join(it));
        beside.iter().for_each(|path| fs::write(path, "half").unwrap());
        let mut logins = Logins::load(path, TOKEN);
        assert!(logins.admit(&cookie, PeerUser::Own, true, now).is_some());
        assert_eq!(beside.map(|path| path.exists()), [false, true], "only its own");
    }

    #[test]
    fn login_outlives_the_daemon_for_its_own_user() {
        let (_dir, path, now) = begin();
        let mut logins = Logins::load(path.clone(), TOKEN);
        let cookie = logins.issue_cookie(now).unwrap();
        for user in [PeerUser::Own, PeerUser::Unknown] {
            assert_eq!(logins.admit(&cookie, user, true, now), Some(FIRST), "{user:?}");
        }
        assert_eq!(logins.admit(&cookie, PeerUser::Other(65_534), true, now), None);
        assert!(!fs::read_to_string(&path).unwrap().contains(&cookie));
        let mut other = Logins::load(path.clone(), "another token");
        assert_eq!(other.admit(&cookie, PeerUser::Own, true, now), None);
        let mut next = Logins::load(path, TOKEN);
        for user in [PeerUser::Other(65_534), PeerUser::Closing, PeerUser::Unknown] {
            assert_eq!(next.admit(&cookie, user, true, now), None, "{user:?}");
        }
        for (can_clear, visit) in [(false, None), (true, Some(RETURN)), (false, Some(FIRST))] {
            assert_eq!(next.admit(&cookie, PeerUser::Own, can_clear, now), visit);
        }
        assert_eq!(next.admit("", PeerUser::Own, true, now), None);
    }

    #[test]
    fn login_ends_thirty_days_after_its_last_use() {
        let (_dir, path, now) = begin();
        let cookie = Logins::load(path.clone(), TOKEN).issue_cookie(now).unwrap();
        let later = now + LOGIN_FOR;
        // Each daemon reads the file anew.
        let admit = |at| {
            Logins::load(path.clone(), TOKEN).admit(&cookie, PeerUser::Own, true, at).is_some()
        };
        assert!(admit(later));
        assert!(admit(later + LOGIN_FOR));
        assert!(!admit(later + LOGIN_FOR + LOGIN_FOR + Duration::from_secs(1)));
    }

    #[test]
    fn oldest_login_gives_way() {
        let (_dir, path, now) = begin();
        let mut logins = Logins::load(path.clone(), TOKEN);
        let oldest = logins.issue_cookie(now).unwrap();
        let newest = (0..LOGINS_MAX).map(|_| logins.issue_cookie(now).unwrap()).last().unwrap();
        let mut logins = Logins::load(path.clone(), TOKEN);
        assert_eq!(logins.known.len(), LOGINS_MAX);
        assert_eq!(logins.admit(&oldest, PeerUser::Own, true, now), None);
        assert_eq!(logins.admit(&newest, PeerUser::Own, true, now), Some(RETURN));
        logins.clear(TOKEN);
        assert_eq!(logins.admit(&newest, PeerUser::Own, true, now), None);
        assert!(Logins::load(path, TOKEN).known.is_empty());
    }
}
