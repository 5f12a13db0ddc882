//! What people have set: `config.toml` in the journal's folder, read once into one struct.
//!
//! A file that cannot be understood stops capture: to record what somebody does not want recorded
//! is worse than to record nothing.

use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use capture::Admission;
use serde::Deserialize;

use crate::notifications::Notifications;

/// The name of the file.
const NAME: &str = "config.toml";

/// Everything that can be set.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    pub(crate) capture: Capture,
    pub(crate) originals: Retention,
    pub(crate) http: Http,
    pub(crate) notifications: Notifications,
    /// Absent is none: nothing leaves this machine.
    pub(crate) model: Option<model::Settings>,
}

/// The door for pages and programs on this machine.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Http {
    pub enabled: bool,
    /// An address of this machine alone.
    pub listen: IpAddr,
    /// Absent is the usual one, or any other if that is taken.
    pub port: Option<u16>,
}

impl Default for Http {
    fn default() -> Http {
        Http { enabled: true, listen: IpAddr::V4(Ipv4Addr::LOCALHOST), port: None }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Capture {
    /// What is left out.
    off: Vec<Rule>,
}

/// Leaves out the sessions that everything in it fits.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Rule {
    agent: Option<String>,
    session: Option<String>,
    project: Option<String>,
    /// A folder and everything below; `*` stands for any part of a name, `**` for any folders.
    path: Option<String>,
    keep: Keep,
}

/// What is still recorded of a session that is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Keep {
    #[default]
    Nothing,
    Status,
}

/// How long something is kept. Absent is for ever.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Retention {
    /// Whether it is kept at all.
    pub keep: bool,
    pub days: Option<u32>,
    pub bytes: Option<u64>,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention { keep: true, days: None, bytes: None }
    }
}

/// What is kept as it was written, and what leaves this machine, in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Switches {
    pub kept: String,
    pub leaves: String,
}

/// The file says something that is not understood.
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
    Model { path: PathBuf, source: model::SettingsError },
}

impl Settings {
    /// The settings of the journal in this folder; the usual ones if it has none.
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
                let at = error.span().map_or(0, |span| span.start.min(text.len()));
                let line = 1 + text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count();
                let why = error.message().to_owned();
                return Err(SettingsError::NotUnderstood { path, line, why });
            }
        };
        if settings.capture.off.iter().any(Rule::is_empty) {
            return Err(SettingsError::Everything { path });
        }
        let listen = settings.http.listen;
        if !listen.is_loopback() {
            return Err(SettingsError::NotLoopback { path, listen });
        }
        if let Some(model) = &settings.model {
            let path = || path.clone();
            model.check().map_err(|source| SettingsError::Model { path: path(), source })?;
        }
        Ok(settings)
    }

    /// The switches that decide about people's words.
    pub fn switches(&self) -> Switches {
        let left_out = match self.capture.off.len() {
            0 => String::new(),
            1 => "; one rule leaves out sessions".to_owned(),
            rules => format!("; {rules} rules leave out sessions"),
        };
        let model = self.model.as_ref().map(|model| {
            format!("`{}` at {} is asked, without secrets", model.name, model.endpoint())
        });
        let command = self.notifications.command.as_ref().and_then(|command| command.first());
        let command = command.map(|command| format!("`{command}` is told of sessions"));
        let leaves: Vec<String> = [model, command].into_iter().flatten().collect();
        Switches {
            kept: self.originals.to_string() + &left_out,
            leaves: match leaves.is_empty() {
                true => "nothing is sent anywhere".to_owned(),
                false => leaves.join("; "),
            },
        }
    }

    /// How much of a session is recorded, as far as these say.
    pub(crate) fn admits(
        &self,
        session: &str,
        cwd: Option<&str>,
        project: Option<&str>,
    ) -> Admission {
        let fits = self.capture.off.iter().filter(|rule| rule.fits(session, cwd, project));
        let kept = fits.map(|rule| match rule.keep {
            Keep::Nothing => Admission::Nothing,
            Keep::Status => Admission::Status,
        });
        strictest(kept)
    }
}

impl fmt::Display for Retention {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Retention { keep: false, .. } => out.write_str("originals are not kept"),
            Retention { days: None, bytes: None, .. } => out.write_str("originals are kept"),
            Retention { days: Some(days), bytes: None, .. } => {
                write!(out, "originals are kept for {days} days")
            }
            Retention { days: None, bytes: Some(bytes), .. } => {
                write!(out, "originals are kept up to {bytes} bytes")
            }
            Retention { days: Some(days), bytes: Some(bytes), .. } => {
                write!(out, "originals are kept for {days} days, up to {bytes} bytes")
            }
        }
    }
}

/// Whoever wants less recorded has their way.
pub(crate) fn strictest(admissions: impl Iterator<Item = Admission>) -> Admission {
    let strictness = |admission: &Admission| match admission {
        Admission::All => 0,
        Admission::Status => 1,
        Admission::Nothing => 2,
    };
    admissions.max_by_key(strictness).unwrap_or_default()
}

impl Rule {
    fn is_empty(&self) -> bool {
        let Rule { agent, session, project, path, keep: _ } = self;
        [agent, session, project, path].into_iter().all(Option::is_none)
    }

    fn fits(&self, session: &str, cwd: Option<&str>, project: Option<&str>) -> bool {
        let agent = session.split_once(':').map_or(session, |(agent, _)| agent);
        let is = |rule: &Option<String>, is: Option<&str>| {
            rule.as_deref().is_none_or(|rule| Some(rule) == is)
        };
        let is_below = |pattern: &String| cwd.is_some_and(|cwd| is_at_or_below(pattern, cwd));
        is(&self.agent, Some(agent))
            && is(&self.session, Some(session))
            && is(&self.project, project)
            && self.path.as_ref().is_none_or(is_below)
    }
}

/// Whether a path is what a pattern names, or lies below it.
fn is_at_or_below(pattern: &str, path: &str) -> bool {
    let parts = |path| str::split(path, '/').filter(|part| !part.is_empty()).collect::<Vec<_>>();
    fits_parts(&parts(pattern), &parts(path))
}

fn fits_parts(pattern: &[&str], path: &[&str]) -> bool {
    match pattern {
        [] => true,
        ["**", rest @ ..] => (0..=path.len()).any(|skipped| fits_parts(rest, &path[skipped..])),
        [first, rest @ ..] => path.split_first().is_some_and(|(part, below)| {
            fits_part(first.as_bytes(), part.as_bytes()) && fits_parts(rest, below)
        }),
    }
}

/// Whether a name fits a pattern with stars. Goes back to the last star only, so that the work
/// stays within pattern times name.
fn fits_part(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut in_name) = (0, 0);
    let mut star = None;
    while in_name < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at + 1, in_name));
                at += 1;
            }
            Some(byte) if *byte == name[in_name] => {
                at += 1;
                in_name += 1;
            }
            _ => {
                let Some((behind, from)) = star else { return false };
                star = Some((behind, from + 1));
                (at, in_name) = (behind, from + 1);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admits(rules: &str, session: &str, cwd: &str, project: &str) -> Admission {
        let settings: Settings = toml::from_str(rules).expect("it is understood");
        settings.admits(session, Some(cwd), Some(project))
    }

    #[test]
    fn a_rule_leaves_out_what_all_of_it_fits() {
        let rules = r#"
            [capture]
            off = [
                { agent = "goose" },
                { session = "claude:s1" },
                { project = "org/secret", keep = "status" },
                { agent = "codex", path = "/home/dev/*/private" },
            ]"#;
        for (session, cwd, project, admission) in [
            ("goose:1", "/", "x", Admission::Nothing),
            ("claude:s1", "/", "x", Admission::Nothing),
            ("claude:s10", "/", "x", Admission::All),
            ("claude:s2", "/", "org/secret", Admission::Status),
            ("claude:s2", "/", "org/secret2", Admission::All),
            ("goose:2", "/", "org/secret", Admission::Nothing),
            ("codex:1", "/home/dev/x/private/app", "x", Admission::Nothing),
            ("codex:1", "/home/dev/x/privately", "x", Admission::All),
            ("claude:3", "/home/dev/x/private", "x", Admission::All),
        ] {
            assert_eq!(
                admits(rules, session, cwd, project),
                admission,
                "{session} {cwd} {project}"
            );
        }
    }

    #[test]
    fn patterns_name_folders() {
        for (pattern, path, fits) in [
            ("/a/b", "/a/b", true),
            ("/a/b/", "/a/b/c", true),
            ("/a/b", "/a/bc", false),
            ("/a/*/c", "/a/b/c/d", true),
            ("/a/*/c", "/a/b/x/c", false),
            ("/a/**/c", "/a/b/x/c", true),
            ("/a/**/c", "/a/c", true),
            ("**/secret-*", "/home/dev/secret-app", true),
            ("**/secret-*", "/home/dev/app", false),
            ("/a/x*y*z", "/a/xyyyzz", true),
            ("/a/x*y*z", "/a/xyyy", false),
        ] {
            assert_eq!(is_at_or_below(pattern, path), fits, "{pattern} {path}");
        }
    }

    #[test]
    fn what_is_not_understood_stops_capture() {
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
            ("[model]\nname = \"x\"\n", "missing field `kind`"),
            ("[model]\nkind = \"openai\"\nname = \" \"\n", "`model.name` is empty"),
        ] {
            fs::write(dir.path().join(NAME), text).expect("it can be written");
            let error = Settings::load(dir.path()).expect_err("it is not understood");
            assert!(error.to_string().contains(told), "{text}: {error}");
        }
    }
}
