//! `[model]` of `config.toml`: which model is asked, where, and how often.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::{Dialect, Secret};

/// Requests in a minute that may be wished for. A model is asked in the background: nobody waits
/// for more.
const REQUESTS_MAX: u32 = 600;

/// Seconds an answer may be waited for.
const SECONDS_MAX: u64 = 600;

/// A model that somebody has set up.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub kind: Dialect,
    /// What the endpoint calls the model.
    pub name: String,
    /// Absent is the one of those who made that kind.
    endpoint: Option<String>,
    pub(crate) key_env: Option<String>,
    pub(crate) key_file: Option<PathBuf>,
    pub(crate) key: Option<Secret>,
    #[serde(default = "requests_usual")]
    pub requests_per_minute: u32,
    #[serde(default = "seconds_usual")]
    timeout_seconds: u64,
}

fn requests_usual() -> u32 {
    6
}

fn seconds_usual() -> u64 {
    60
}

/// What cannot be so.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("`model.name` is empty")]
    NoName,
    #[error("`model.endpoint`: `{0}` is no address that begins with https:// or http://")]
    NoAddress(String),
    #[error("`model.endpoint`: `{0}` would carry the key over the network for all to read")]
    InTheClear(String),
    #[error("`model` has more than one of `key_env`, `key_file` and `key`")]
    ManyKeys,
    #[error("`model.{name}` is {value}; it can be 1 to {max}")]
    OutOfRange { name: &'static str, value: u64, max: u64 },
}

impl Settings {
    /// Whether all of it can be so.
    pub fn check(&self) -> Result<(), SettingsError> {
        if self.name.trim().is_empty() {
            return Err(SettingsError::NoName);
        }
        let keys = [self.key_env.is_some(), self.key_file.is_some(), self.key.is_some()];
        let keys = keys.into_iter().filter(|is_given| *is_given).count();
        if keys > 1 {
            return Err(SettingsError::ManyKeys);
        }
        let endpoint = self.endpoint();
        let address = endpoint.strip_prefix("https://").map(|rest| (rest, true));
        let address = address.or(endpoint.strip_prefix("http://").map(|rest| (rest, false)));
        let no_address = || SettingsError::NoAddress(endpoint.to_owned());
        let (rest, is_sealed) = address.ok_or_else(no_address)?;
        let host = rest.split('/').next().unwrap_or_default();
        // A name before the host would be a key in the wrong place.
        if host.is_empty() || host.contains('@') || rest.contains(['?', '#', ' ']) {
            return Err(no_address());
        }
        if keys > 0 && !is_sealed && !self.is_on_this_machine() {
            return Err(SettingsError::InTheClear(endpoint.to_owned()));
        }
        within("requests_per_minute", self.requests_per_minute.into(), REQUESTS_MAX.into())?;
        within("timeout_seconds", self.timeout_seconds, SECONDS_MAX)
    }

    /// Where it is asked, without a slash at the end.
    pub fn endpoint(&self) -> &str {
        self.endpoint.as_deref().unwrap_or(self.kind.usual_endpoint()).trim_end_matches('/')
    }

    pub(crate) fn is_on_this_machine(&self) -> bool {
        let host = self.endpoint().split('/').nth(2).unwrap_or_default();
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host.split(':').next().unwrap_or_default(),
        };
        name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// How long an answer may take, from the first byte that goes out.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds)
    }

    /// Whether the key itself stands in the file, for everybody who is shown it.
    pub fn has_key_inside(&self) -> bool {
        self.key.is_some()
    }
}

fn within(name: &'static str, value: u64, max: u64) -> Result<(), SettingsError> {
    let fits = (1..=max).contains(&value);
    fits.then_some(()).ok_or(SettingsError::OutOfRange { name, value, max })
}
