//! What people have set about recording: which sessions are left out, and how long originals are
//! kept.

use std::fmt;

use capture::Admission;
use serde::Deserialize;

/// What is recorded, and for how long originals are kept.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecordingPolicy {
    pub capture: CaptureRules,
    pub originals: Retention,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CaptureRules {
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

/// How long originals are kept. An absent limit means forever.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
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

impl CaptureRules {
    /// How many rules leave out sessions.
    pub fn len(&self) -> usize {
        self.off.len()
    }

    pub fn is_empty(&self) -> bool {
        self.off.is_empty()
    }

    /// Whether a rule names nothing, and would leave out every session.
    pub fn has_empty_rule(&self) -> bool {
        self.off.iter().any(Rule::is_empty)
    }

    /// How much of a session is recorded, as far as these say.
    pub(crate) fn admits(
        &self,
        session: &str,
        cwd: Option<&str>,
        project: Option<&str>,
    ) -> Admission {
        // All rules are asked, not the first that fits: the order in the file has no meaning.
        strictest(self.off.iter().map(|rule| match rule.fit(session, cwd, project) {
            Fit::No => Admission::All,
            Fit::ByFolder => Admission::ByFolder,
            Fit::Yes => match rule.keep {
                Keep::Nothing => Admission::Nothing,
                Keep::Status => Admission::Status,
            },
        }))
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

/// Returns the admission that records least: a user's wish to leave out wins over any other rule.
pub(crate) fn strictest(admissions: impl Iterator<Item = Admission>) -> Admission {
    let strictness = |admission: &Admission| match admission {
        Admission::All => 0,
        Admission::Status => 1,
        // A rule that leaves out the whole session needs no folder.
        Admission::ByFolder => 2,
        Admission::Nothing => 3,
    };
    admissions.max_by_key(strictness).unwrap_or_default()
}

impl Rule {
    fn is_empty(&self) -> bool {
        let Rule { agent, session, project, path, keep: _ } = self;
        [agent, session, project, path].into_iter().all(Option::is_none)
    }

    fn fit(&self, session: &str, cwd: Option<&str>, project: Option<&str>) -> Fit {
        // A session id is `agent:id`.
        let agent = session.split_once(':').map_or(session, |(agent, _)| agent);
        let is = |rule: &Option<String>, is: Option<&str>| {
            // A rule that names no agent, session or project fits any.
            rule.as_deref().is_none_or(|rule| Some(rule) == is)
        };
        if !is(&self.agent, Some(agent)) || !is(&self.session, Some(session)) {
            return Fit::No;
        }
        let Some(cwd) = cwd else {
            // The project is that of the folder.
            let names_folder = self.path.is_some() || self.project.is_some();
            return if names_folder { Fit::ByFolder } else { Fit::Yes };
        };
        let is_below = self.path.as_ref().is_none_or(|pattern| is_at_or_below(pattern, cwd));
        if is_below && is(&self.project, project) { Fit::Yes } else { Fit::No }
    }
}

/// Whether a session is one that a rule leaves out.
enum Fit {
    Yes,
    No,
    /// Its folder decides, which is not known.
    ByFolder,
}

/// Whether a path is what a pattern names, or lies below it.
fn is_at_or_below(pattern: &str, path: &str) -> bool {
    // Double slashes and one at the end mean nothing in a path.
    let parts = |path| str::split(path, '/').filter(|part| !part.is_empty()).collect::<Vec<_>>();
    fits_parts(&parts(pattern), &parts(path))
}

fn fits_parts(pattern: &[&str], path: &[&str]) -> bool {
    match pattern {
        // The pattern is used up: the rest of the path lies below it.
        [] => true,
        // `**` stands for no folder, too.
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
                // Remembered: what follows the star, and where in the name the star may still end.
                star = Some((at + 1, in_name));
                at += 1;
            }
            Some(byte) if *byte == name[in_name] => {
                at += 1;
                in_name += 1;
            }
            _ => {
                // The last star takes one more byte. Earlier stars need not be tried again:
                // whatever they could match, the last one can reach too.
                let Some((behind, from)) = star else { return false };
                star = Some((behind, from + 1));
                (at, in_name) = (behind, from + 1);
            }
        }
    }
    // A star at the end also fits nothing.
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Policy {
        capture: CaptureRules,
    }

    fn check_rules(rules: &str, session: &str, cwd: &str, project: &str) -> Admission {
        let policy: Policy = toml::from_str(rules).expect("it is understood");
        policy.capture.admits(session, Some(cwd), Some(project))
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
                check_rules(rules, session, cwd, project),
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
}
