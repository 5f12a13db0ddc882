//! The address of the page: a host name and a port.
//!
//! Browsers keep bookmarks, preferences and permissions by name and port. A browser also sends a
//! cookie to every port of a host, so the page has a name of its own, under which no other server of
//! this machine is opened by accident.

use std::fs;
use std::path::PathBuf;

use crate::token::{TokenError, random_secret, write_private};

/// What the name begins with, so that people recognise the address.
const PREFIX: &str = "hansard-";

/// Random hexadecimal digits behind it: 48 bits, too many to be tried out by a page.
const DIGITS: usize = 12;

/// How long the address of the page and the logins of browsers last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressLife {
    /// As long as the journal: for a machine that one person uses.
    Journal,
    /// Until the next start: for a machine that other people use, too. While the daemon is down, any
    /// of them can listen at its port. A script that was loaded from there would still run under the
    /// address when the daemon is back, with the login of the browser.
    Start,
}

/// The name and the port of a journal's page, in a file that only its owner can read.
pub(crate) struct PageOrigin {
    path: PathBuf,
    name: String,
    /// The port of the first start. Absent before it.
    port: Option<u16>,
}

impl PageOrigin {
    /// Loads the address, or makes one. A file that cannot be parsed counts as missing.
    pub(crate) fn load(path: PathBuf) -> PageOrigin {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let mut words = text.split_ascii_whitespace();
        let name = words.next().filter(|name| is_name(name)).map_or_else(make_name, str::to_owned);
        let port = words.next().and_then(|port| port.parse().ok()).filter(|port| *port != 0);
        PageOrigin { path, name, port }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn port(&self) -> Option<u16> {
        self.port
    }

    /// Remembers the port for the next start.
    pub(crate) fn keep(&mut self, port: u16) -> Result<(), TokenError> {
        self.port = Some(port);
        write_private(&self.path, &format!("{} {port}", self.name))
    }

    /// Gives the page another name. What browsers have stored under the former one is not used any
    /// more.
    pub(crate) fn rename(&mut self) {
        self.name = make_name();
    }
}

fn make_name() -> String {
    format!("{PREFIX}{}", &random_secret()[..DIGITS])
}

fn is_name(text: &str) -> bool {
    let digits = text.strip_prefix(PREFIX).unwrap_or_default();
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    digits.len() == DIGITS && digits.bytes().all(is_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_outlives_its_server() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("http.origin");
        let mut first = PageOrigin::load(path.clone());
        assert_eq!(first.port(), None);
        first.keep(4267).unwrap();
        let second = PageOrigin::load(path.clone());
        assert_eq!((second.name(), second.port()), (first.name(), Some(4267)));
        for damaged in ["", "evil.example 4267", "hansard-short 1", "hansard-ABCDEF012345 1"] {
            fs::write(&path, damaged).unwrap();
            let made = PageOrigin::load(path.clone());
            assert!(is_name(made.name()) && made.name() != first.name(), "{damaged:?}");
        }
    }
}
