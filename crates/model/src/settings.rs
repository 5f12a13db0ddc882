//! `[model]` of `config.toml`: the model, its endpoint and the rate of requests.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::{Dialect, Secret};

/// The maximum of `requests_per_minute`. The model is asked in the background, so no user waits
/// for a faster rate.
const REQUESTS_MAX: u32 = 600;

/// The maximum of `timeout_seconds`.
const SECONDS_MAX: u64 = 600;

/// The model that the user has set up.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSettings {
    pub kind: Dialect,
    /// The endpoint's name for the model.
    pub name: String,
    /// If absent, the default of the dialect.
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

/// The settings are not valid.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ModelSettingsError {
    #[error("`model.name` is empty")]
    NoName,
    #[error("`model.endpoint`: `{0}` is not an address that begins with https:// or http://")]
    NoAddress(String),
    #[error("`model.endpoint`: `{0}` would send the key over the network without encryption")]
    InTheClear(String),
    #[error("`model` has more than one of `key_env`, `key_file` and `key`")]
    ManyKeys,
    #[error("`model.{name}` is {value}; it can be 1 to {max}")]
    OutOfRange { name: &'static str, value: u64, max: u64 },
}

impl ModelSettings {
    /// Checks every value and that the key is never sent in the clear.
    pub fn check(&self) -> Result<(), ModelSettingsError> {
        if self.name.trim().is_empty() {
            return Err(ModelSettingsError::NoName);
        }
        let keys = [self.key_env.is_some(), self.key_file.is_some(), self.key.is_some()];
        let keys = keys.into_iter().filter(|is_given| *is_given).count();
        if keys > 1 {
            return Err(ModelSettingsError::ManyKeys);
        }
        let endpoint = self.endpoint();
        let address = endpoint.strip_prefix("https://").map(|rest| (rest, true));
        let address = address.or(endpoint.strip_prefix("http://").map(|rest| (rest, false)));
        let no_address = || ModelSettingsError::NoAddress(endpoint.to_owned());
        let (rest, is_sealed) = address.ok_or_else(no_address)?;
        let host = rest.split('/').next().unwrap_or_default();
        // A user name before the host would be a credential in the wrong place.
        if host.is_empty() || host.contains('@') || rest.contains(['?', '#', ' ']) {
            return Err(no_address());
        }
        if keys > 0 && !is_sealed && !self.is_on_this_machine() {
            return Err(ModelSettingsError::InTheClear(endpoint.to_owned()));
        }
        check_range("requests_per_minute", self.requests_per_minute.into(), REQUESTS_MAX.into())?;
        check_range("timeout_seconds", self.timeout_seconds, SECONDS_MAX)
    }

    /// Returns the endpoint without a slash at the end.
    pub fn endpoint(&self) -> &str {
        self.endpoint.as_deref().unwrap_or(self.kind.usual_endpoint()).trim_end_matches('/')
    }

    pub(crate) fn is_on_this_machine(&self) -> bool {
        // "http://[::1]:8080/v1" split at '/':  "http:"  ""  "[::1]:8080"  "v1"
        // An IPv6 address has colons of its own, so it stands in brackets.
        let host = self.endpoint().split('/').nth(2).unwrap_or_default();
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host.split(':').next().unwrap_or_default(),
        };
        name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// Returns how long a request may take, from the first byte sent.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds)
    }

    /// Whether the file contains the key itself, so that every reader of the file sees it.
    pub fn has_key_inside(&self) -> bool {
        self.key.is_some()
    }
}

fn check_range(name: &'static str, value: u64, max: u64) -> Result<(), ModelSettingsError> {
    let fits = (1..=max).contains(&value);
    fits.then_some(()).ok_or(ModelSettingsError::OutOfRange { name, value, max })
}
