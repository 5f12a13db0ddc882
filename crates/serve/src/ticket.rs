//! How a page that is open finds its way in again after a restart of the daemon.
//!
//! While the daemon is down, anybody on this machine can listen at its port and is sent what
//! browsers send: the name they come in under, and their cookie. They can also be what a browser
//! loads when somebody reloads the page. So names and cookies are new with each start, and none
//! from before opens anything. Beside them a page has a ticket, which it was given while it was in,
//! keeps in memory and never sends; only what is made with it is sent:
//!
//! ```text
//! page    GET /return?ticket=ID&nonce=N            under the former name, HOST
//! daemon  {salt, sealed, proof}                    sealed = NAME xor mac("seal HOST N SALT")
//!                                                  proof = mac("page HOST N NAME")
//! page    GET /login?ticket=ID&nonce=N&code=C      at NAME.localhost; C = mac("login NAME N")
//! ```
//!
//! `HOST` has the port in it, and the daemon answers only for its own: whoever stands between a
//! page at the usual port and a daemon that found it taken passes on nothing that fits. Who hears
//! all of it learns neither the new name nor a way in. A ticket is good once, and for a week.

use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use crate::token::{TokenError, encode_hex, equals_secret, random_secret, write_private};

/// Pages that can come back; with more, the one that came first has to log in again.
const TICKETS_MAX: usize = 64;

/// How long a ticket is good.
const TICKET_FOR: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Digits of what a ticket is called. It is sent, and proves nothing.
const ID_DIGITS: usize = 32;

/// The tickets of a journal, in a file that only its owner can read.
pub(crate) struct Tickets {
    path: PathBuf,
    known: VecDeque<StoredTicket>,
}

struct StoredTicket {
    id: String,
    secret: String,
    made_at: Duration,
}

impl Tickets {
    /// Those in a file. What cannot be read there is not good any more.
    pub(crate) fn load(path: PathBuf) -> Tickets {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let known = text.lines().filter_map(StoredTicket::parse).collect();
        Tickets { path, known }
    }

    /// Makes one for a page that is in.
    pub(crate) fn issue_ticket(&mut self, now: SystemTime) -> Result<wire::Ticket, TokenError> {
        let made_at = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let ticket = StoredTicket {
            id: random_secret()[..ID_DIGITS].to_owned(),
            secret: random_secret(),
            made_at,
        };
        let given = wire::Ticket { id: ticket.id.clone(), secret: ticket.secret.clone() };
        if self.known.len() >= TICKETS_MAX {
            self.known.pop_front();
        }
        self.known.push_back(ticket);
        self.write()?;
        Ok(given)
    }

    /// What whoever has this ticket is told at `host`, and nobody else can read: the name that
    /// browsers come in under now.
    pub(crate) fn welcome(
        &self,
        id: &str,
        nonce: &str,
        host: &str,
        name: &str,
        now: SystemTime,
    ) -> Option<wire::Welcome> {
        let ticket = self.find_valid(id, now)?;
        // A new salt each time: sealed with the same key, two names would reveal their difference.
        let salt = random_secret();
        let seal = ticket.mac_of(&format!("seal {host} {nonce} {salt}"));
        // The seal is as long as the name: 32 bytes and 32 digits.
        let sealed: Vec<u8> = name.bytes().zip(seal).map(|(letter, seal)| letter ^ seal).collect();
        let proof = ticket.mac_of(&format!("page {host} {nonce} {name}"));
        Some(wire::Welcome { salt, sealed: encode_hex(&sealed), proof: encode_hex(&proof) })
    }

    /// Whether this was made with a ticket, for this name. Then the ticket is used up.
    pub(crate) fn use_ticket(
        &mut self,
        id: &str,
        nonce: &str,
        code: &str,
        name: &str,
        now: SystemTime,
    ) -> bool {
        let Some(ticket) = self.find_valid(id, now) else { return false };
        // A wrong code does not use the ticket up. Its id is sent in the open, and any listener
        // could spoil it that way.
        if !equals_secret(&encode_hex(&ticket.mac_of(&format!("login {name} {nonce}"))), code) {
            return false;
        }
        self.known.retain(|ticket| ticket.id != id);
        // One that could not be taken out of the file would be good again after a restart.
        self.write().is_ok()
    }

    /// None of them is good any more.
    pub(crate) fn clear(&mut self) {
        self.known.clear();
        let _ = fs::remove_file(&self.path);
    }

    fn find_valid(&self, id: &str, now: SystemTime) -> Option<&StoredTicket> {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let ticket = self.known.iter().find(|ticket| ticket.id == id)?;
        (now.saturating_sub(ticket.made_at) <= TICKET_FOR).then_some(ticket)
    }

    fn write(&self) -> Result<(), TokenError> {
        let lines: Vec<String> = self.known.iter().map(StoredTicket::file_line).collect();
        write_private(&self.path, &lines.join("\n"))
    }
}

impl StoredTicket {
    fn parse(line: &str) -> Option<StoredTicket> {
        let mut words = line.split(' ');
        let (id, secret, made_at) = (words.next()?, words.next()?, words.next()?);
        let made_at = Duration::from_secs(made_at.parse().ok()?);
        let is_whole = id.len() == ID_DIGITS && !secret.is_empty();
        is_whole.then(|| StoredTicket { id: id.to_owned(), secret: secret.to_owned(), made_at })
    }

    fn file_line(&self) -> String {
        format!("{} {} {}", self.id, self.secret, self.made_at.as_secs())
    }

    fn mac_of(&self, text: &str) -> [u8; 32] {
        hmac_sha256(self.secret.as_bytes(), text.as_bytes())
    }
}

/// HMAC with SHA-256, for keys of at most 64 bytes.
fn hmac_sha256(key: &[u8], text: &[u8]) -> [u8; 32] {
    // SHA-256 works in blocks of 64 bytes. A shorter key is filled up with zeros.
    let mut block = [0; 64];
    block.iter_mut().zip(key).for_each(|(byte, key)| *byte = *key);
    let padded = |pad: u8| block.map(|byte| byte ^ pad);
    // The two paddings are those of RFC 2104.
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_matches_rfc_4231() {
        // RFC 4231, test cases 1 and 2.
        let first = hmac_sha256(&[0x0b; 20], b"Hi There");
        assert_eq!(
            encode_hex(&first),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        );
        let second = hmac_sha256(b"Jefe", b"what do ya want for nothing?");
        assert_eq!(
            encode_hex(&second),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn ticket_is_valid_once_for_a_week() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("http.tickets");
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let later = now + TICKET_FOR + Duration::from_secs(1);
        let given = Tickets::load(path.clone()).issue_ticket(now).unwrap();
        let mut tickets = Tickets::load(path.clone());
        let code = |nonce: &str| {
            encode_hex(&hmac_sha256(
                given.secret.as_bytes(),
                format!("login name {nonce}").as_bytes(),
            ))
        };
        assert!(tickets.welcome(&given.id, "n", "host", "name", later).is_none());
        assert!(!tickets.use_ticket(&given.id, "n", &code("n"), "name", later));
        assert!(!tickets.use_ticket(&given.id, "n", &code("other"), "name", now));
        assert!(!tickets.use_ticket(&given.id, "n", &code("n"), "another", now));
        assert!(tickets.use_ticket(&given.id, "n", &code("n"), "name", now));
        assert!(!tickets.use_ticket(&given.id, "n", &code("n"), "name", now));
        assert!(!Tickets::load(path.clone()).use_ticket(&given.id, "n", &code("n"), "name", now));
        for _ in 0..TICKETS_MAX + 5 {
            tickets.issue_ticket(now).unwrap();
        }
        assert_eq!(Tickets::load(path.clone()).known.len(), TICKETS_MAX);
        tickets.clear();
        assert!(Tickets::load(path).known.is_empty());
    }
}
