//! The answer to an action, with everything that led to it.

use std::fmt::Write;

use crate::rule::Severity;
use crate::rule_set::Origin;

/// What the rules say about an action.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verdict {
    /// What holds: the strongest of all rules that match. None if no rule does; then the agent
    /// asks or runs as if there were no rules.
    pub decision: Option<Severity>,
    /// Every rule that matches, the strongest first, rules of equal strength in their order. An
    /// allow rule is here only if allow rules together cover the whole action.
    pub matches: Vec<RuleMatch>,
    /// Whether an approval of this action is denied if it gets no answer in time.
    pub denies_on_timeout: bool,
    /// What the action was taken apart into: commands, files, hosts, tools of servers.
    pub parts: Vec<String>,
    /// Why allow rules do not hold; empty if there is none that could, or if they do.
    pub not_allowed: Vec<String>,
}

/// One rule that matches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleMatch {
    /// The id of the rule in its set.
    pub id: String,
    pub origin: Origin,
    pub severity: Severity,
    /// The whole rule as text.
    pub rule: String,
    pub reason: Option<String>,
    /// The first part of the action that it matches.
    pub part: String,
    /// Whether the part could not be judged, so that its text was searched.
    pub is_searched: bool,
    /// A dry rule is noted. It decides nothing, and the agent is not told.
    pub is_dry: bool,
}

impl Verdict {
    /// The rule that decides.
    pub fn winner(&self) -> Option<&RuleMatch> {
        let decision = self.decision?;
        self.matches.iter().find(|found| !found.is_dry && found.severity == decision)
    }

    /// The verdict for people: what the action was split into, each match, the winner, and why an
    /// allow rule does not hold.
    pub fn explain(&self) -> String {
        let mut text = String::new();
        let mut line = |line: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{line}");
        };
        for part in &self.parts {
            line(format!("part     {part}"));
        }
        for found in &self.matches {
            let how = match (found.is_dry, found.is_searched) {
                (true, _) => "dry      ",
                (false, true) => "searched ",
                (false, false) => "match    ",
            };
            line(format!("{how}{} (rule {}) by `{}`", found.rule, found.id, found.part));
        }
        for why in &self.not_allowed {
            line(format!("no allow {why}"));
        }
        match self.winner() {
            Some(winner) => line(format!("verdict  {} (rule {})", winner.severity, winner.id)),
            None => line("verdict  none".to_owned()),
        }
        text
    }
}
