//! The settings: `config.toml` in the journal's folder, read into one struct.
//!
//! A file that cannot be parsed stops capture: to record what the user has excluded is worse than to
//! record nothing.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use event::Cost;
use ingest::{CaptureRules, RecordingPolicy, Retention};
use projection::Budgets;
use serde::Deserialize;
use serde::de::{self, Deserializer};

use crate::notify::NotificationSettings;

/// The name of the file.
const NAME: &str = "config.toml";

/// All settings.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    pub(crate) capture: CaptureRules,
    pub(crate) originals: Retention,
    pub(crate) http: HttpSettings,
    pub(crate) notifications: NotificationSettings,
    pub(crate) budget: BudgetSettings,
    pub(crate) rules: RuleSettings,
    /// Absent means no model: nothing leaves this machine.
    pub(crate) model: Option<model::ModelSettings>,
}

/// What hooks do about rules.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RuleSettings {
    /// Whether tool calls are refused while the rules cannot be read.
    pub fail_closed: bool,
}

/// The limits of spending, in dollars.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(from = "WrittenBudgets")]
pub(crate) struct BudgetSettings(Budgets);

/// The section `budget` as it is written.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WrittenBudgets {
    day: Option<Dollars>,
    project: Option<Dollars>,
    session: Option<Dollars>,
    projects: BTreeMap<String, Dollars>,
}

/// A sum of money above zero.
#[derive(Clone, Copy)]
struct Dollars(Cost);

impl<'de> Deserialize<'de> for Dollars {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Dollars, D::Error> {
        let number = f64::deserialize(deserializer)?;
        let cost = number.to_string().parse().ok().filter(|cost| *cost > Cost::ZERO);
        cost.map(Dollars).ok_or_else(|| de::Error::custom(format!("`{number}` is no limit")))
    }
}

impl From<WrittenBudgets> for BudgetSettings {
    fn from(written: WrittenBudgets) -> BudgetSettings {
        let WrittenBudgets { day, project, session, projects } = written;
        let cost = |dollars: Option<Dollars>| dollars.map(|Dollars(cost)| cost);
        BudgetSettings(Budgets {
            day: cost(day),
            project: cost(project),
            session: cost(session),
            projects: projects.into_iter().map(|(name, Dollars(cost))| (name, cost)).collect(),
        })
    }
}

/// The HTTP server for pages and programs on this machine.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct HttpSettings {
    pub enabled: bool,
    /// A loopback address.
    pub listen: IpAddr,
    /// Absent means the default port, or any free one if that is taken.
    pub port: Option<u16>,
    /// Whether other people use this machine. Absent means that the accounts decide.
    pub shared_machine: Option<bool>,
}

impl Default for HttpSettings {
    fn default() -> HttpSettings {
        HttpSettings {
            enabled: true,
            listen: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: None,
            shared_machine: None,
        }
    }
}

/// What is stored unchanged and what leaves this machine, in words for `doctor`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Switches {
    pub kept: String,
    pub leaves: String,
}

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("cannot read `{path}`")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("`{path}`, line {line}: {why}")]
    NotUnderstood { path: PathBuf, line: usize, why: String },
    #[error("a rule in `{path}` names nothing and would leave out everything")]
    Everything { path: PathBuf },
    #[error("`{path}`: `{listen}` can be reached from other machines")]
    NotLoopback { path: PathBuf, listen: IpAddr },
    #[error("`{path}`: {source}")]
    Model { path: PathBuf, source: model::ModelSettingsError },
}

impl Settings {
    /// Loads the settings of the journal in this folder; the defaults if it has none.
    pub fn load(journal: &Path) -> Result<Settings, SettingsError> {
        let path = journal.join(NAME);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Settings::default()),
            Err(source) => return Err(SettingsError::Unreadable { path, source }),
        };
        let settings: Settings = match toml::from_str(&text) {
            Ok(settings) => settings,
            Err(error) => {
                // An error without a span, or with one behind the end, counts as the first line.
                let at = error.span().map_or(0, |span| span.start.min(text.len()));
                let line = 1 + text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count();
                let why = error.message().to_owned();
                return Err(SettingsError::NotUnderstood { path, line, why });
            }
        };
        // An empty `[[capture.off]]` fits every session. It is more likely a mistake than a wish.
        if settings.capture.has_empty_rule() {
            return Err(SettingsError::Everything { path });
        }
        let listen = settings.http.listen;
        // The server speaks plain HTTP: on a network its tokens could be read on the way.
        if !listen.is_loopback() {
            return Err(SettingsError::NotLoopback { path, listen });
        }
        // Checked at the start, not with the first question: a wrong name would fail hours later.
        if let Some(model) = &settings.model {
            let path = || path.clone();
            model.check().map_err(|source| SettingsError::Model { path: path(), source })?;
        }
        Ok(settings)
    }

    /// What capture records, and how long it stores originals.
    pub fn recording(&self) -> RecordingPolicy {
        RecordingPolicy { capture: self.capture.clone(), originals: self.originals }
    }

    /// How much may be spent.
    pub fn budgets(&self) -> &Budgets {
        &self.budget.0
    }

    /// The settings that decide about the user's data, in words.
    pub fn switches(&self) -> Switches {
        let left_out = match self.capture.len() {
            0 => String::new(),
            1 => "; one rule leaves out sessions".to_owned(),
            rules => format!("; {rules} rules leave out sessions"),
        };
        let model = self.model.as_ref().map(|model| {
            format!("`{}` at {} is asked, without secrets", model.name, model.endpoint())
        });
        let command = self.notifications.command.as_ref().and_then(|command| command.first());
        let command =
            command.map(|command| format!("`{command}` gets notifications about sessions"));
        let leaves: Vec<String> = [model, command].into_iter().flatten().collect();
        Switches {
            kept: self.originals.to_string() + &left_out,
            leaves: match leaves.is_empty() {
                true => "nothing is sent anywhere".to_owned(),
                false => leaves.join("; "),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_settings_are_refused() {
        let dir = tempfile::TempDir::new().expect("a folder can be made");
        assert_eq!(Settings::load(dir.path()).expect("there is none"), Settings::default());
        for (text, told) in [
            ("[capture\n", "line 1: "),
            ("[capture]\nof = []\n", "line 2: unknown field `of`"),
            ("[capture]\n[[capture.off]]\nagnet = \"x\"\n", "line 3: unknown field `agnet`"),
            ("[originals]\ndays = -1\n", "line 2: "),
            ("[[capture.off]]\n", "names nothing"),
            ("[http]\nlisten = \"0.0.0.0\"\n", "from other machines"),
            ("[http]\nport = 70000\n", "line 2: "),
            ("[budget]\nday = -1\n", "line 2: `-1` is no limit"),
            ("[budget]\nweek = 5\n", "line 2: unknown field `week`"),
            ("[model]\nname = \"x\"\n", "missing field `kind`"),
            ("[model]\nkind = \"openai\"\nname = \" \"\n", "`model.name` is empty"),
        ] {
            fs::write(dir.path().join(NAME), text).expect("it can be written");
            let error = Settings::load(dir.path()).expect_err("it is not understood");
            assert!(error.to_string().contains(told), "{text}: {error}");
        }
    }
}
