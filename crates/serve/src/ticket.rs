//! How an open page logs in again after a restart of the daemon.
//!
//! While the daemon is down, any program on this machine can listen at its port. It then receives
//! what browsers send, the host name and the cookie, and it serves the page when the user reloads
//! it. So the daemon makes new host names and cookies at each start, and refuses older ones. A page
//! that is logged in also has a ticket. It keeps the ticket in memory and never sends it; it sends
//! only codes that it computes with the ticket:
//!
//! ```text
//! page    GET /return?ticket=ID&nonce=N            under the former name, HOST
//! daemon  {salt, sealed, proof}                    sealed = NAME xor mac("seal HOST N SALT")
//!                                                  proof = mac("page HOST N NAME")
//! page    GET /login?ticket=ID&nonce=N&code=C      at NAME.localhost; C = mac("login NAME N")
//! ```
//!
//! `HOST` includes the port, and the daemon answers only for its own. A program that took the usual
//! port and relays between the page and a daemon on another port therefore gets no valid answer. A
//! listener that reads all messages learns neither the new name nor a valid code. A ticket is valid
//! once, and for a week.

use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use crate::token::{TokenError, encode_hex, equals_secret, random_secret, write_private};

/// Tickets that are kept. One more drops the oldest, and its page has to log in again.
const TICKETS_MAX: usize = 64;

/// How long a ticket is valid.
const TICKET_FOR: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Digits of a ticket's id. The id is sent in the open and proves nothing.
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
    /// Loads the tickets in a file. A line that cannot be parsed is no valid ticket.
    pub(crate) fn load(path: PathBuf) -> Tickets {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let known = text.lines().filter_map(StoredTicket::parse).collect();
        Tickets { path, known }
    }

    /// Issues a ticket to a page that is logged in.
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

    /// Encrypts the present host name of the page for the owner of a ticket that asked at `host`.
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

    /// Returns whether the code was computed with this ticket for this host name. If so, the ticket
    /// is used up.
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
        // A ticket that stays in the file would be valid again after a restart.
        self.write().is_ok()
    }

    /// Revokes all tickets.
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
