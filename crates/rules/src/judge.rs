//! Rules against an action.

use std::collections::BTreeSet;

use event::Time;

use crate::action::{Action, Inspection, texts_of};
use crate::allow::Allowance;
use crate::command_line::{CommandLine, FileAccess, Part};
use crate::compiled::CompiledRules;
use crate::glob::Case;
use crate::pattern::{CommandPattern, Pattern, ServerCall, matches_host, words_of};
use crate::rule::{Exception, Rule, Severity};
use crate::rule_set::RuleEntry;
use crate::tool_class::ToolClass;
use crate::unwrap::program_name;
use crate::verdict::{RuleMatch, Verdict};

/// Parts that are listed in a verdict. Rules see all of them.
const PARTS_LISTED_MAX: usize = 100;

impl CompiledRules {
    /// Says what the rules decide about an action at a time.
    ///
    /// The strongest rule that matches wins, whatever its age and origin. The time is used for
    /// `@until` only.
    pub fn judge(&self, action: &Action<'_>, now: Time) -> Verdict {
        let inspection = Inspection::of(action);
        let wants_text = self.has_class(ToolClass::Any) || self.has_class(ToolClass::Task);
        let text = if wants_text { texts_of(action.input) } else { String::new() };
        let mut verdict = Verdict { parts: parts(&inspection), ..Verdict::default() };
        let mut allowance = Allowance::new(&inspection);
        for number in self.candidates(&inspection, &text) {
            let Some(entry) = self.entry(number) else { continue };
            if !is_in_scope(&entry.rule, action, now) {
                continue;
            }
            if entry.rule.severity == Severity::Allow {
                allowance.add(entry, action.tool);
            } else if let Some((part, is_searched)) = find_match(&entry.rule, &inspection, &text) {
                verdict.matches.push(rule_match(entry, part, is_searched));
            }
        }
        verdict.not_allowed = allowance.refusals();
        if verdict.not_allowed.is_empty() {
            let matches = allowance.into_matches().into_iter();
            verdict.matches.extend(matches.map(|(entry, part)| rule_match(entry, part, false)));
        }
        // The sort is stable: rules of equal strength keep their order.
        verdict.matches.sort_by_key(|found| found.severity);
        verdict.decision =
            verdict.matches.iter().find(|found| !found.is_dry).map(|found| found.severity);
        verdict.denies_on_timeout = verdict.decision == Some(Severity::Ask)
            && verdict.matches.iter().any(|found| {
                let rule = found.rule.parse::<Rule>();
                !found.is_dry && rule.is_ok_and(|rule| rule.denies_on_timeout)
            });
        verdict
    }

    /// The numbers of the rules that could match, in order.
    fn candidates(&self, inspection: &Inspection, text: &str) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        if let Some(command) = &inspection.command {
            self.find_commands(command, inspection, &mut found);
        }
        for file in &inspection.files {
            let class = match file.access {
                FileAccess::Read => ToolClass::Read,
                FileAccess::Write => ToolClass::Edit,
            };
            let path = &file.path;
            let names = [&path.absolute, &path.in_folder, &path.in_home];
            let names: Vec<String> =
                names.into_iter().flatten().flatten().map(|name| name.to_lowercase()).collect();
            self.find(class, names.iter().map(String::as_str), &mut found);
        }
        for reading in &inspection.servers {
            let server = reading.server.to_lowercase();
            self.find(ToolClass::Mcp, [server.as_str()], &mut found);
        }
        let is_web = inspection.class == Some(ToolClass::Web);
        if is_web || !inspection.hosts.is_empty() {
            self.find(ToolClass::Web, inspection.hosts.iter().map(String::as_str), &mut found);
        }
        if self.has_class(ToolClass::Any) {
            self.find(ToolClass::Any, words_of(text), &mut found);
        }
        if inspection.class == Some(ToolClass::Task) {
            self.find(ToolClass::Task, words_of(text), &mut found);
        }
        found
    }

    fn find_commands(
        &self,
        command: &CommandLine,
        inspection: &Inspection,
        found: &mut BTreeSet<usize>,
    ) {
        let programs = command.parts.iter().filter_map(|part| part.args.first());
        for program in programs {
            if program.glob.is_some() {
                // `/bin/r?` may be any program.
                return self.find_all(ToolClass::Shell, found);
            }
            let name = program_name(&program.text);
            self.find(ToolClass::Shell, [name.as_str()], found);
        }
        for text in &inspection.raw_texts {
            let names: BTreeSet<String> =
                text.words.iter().map(|word| program_name(&word.text)).collect();
            self.find(ToolClass::Shell, names.iter().map(String::as_str), found);
        }
    }
}

fn rule_match(entry: RuleEntry, part: String, is_searched: bool) -> RuleMatch {
    RuleMatch {
        severity: entry.rule.severity,
        rule: entry.rule.to_string(),
        reason: entry.rule.reason.clone(),
        is_dry: entry.rule.is_dry,
        id: entry.id,
        origin: entry.origin,
        part,
        is_searched,
    }
}

fn is_in_scope(rule: &Rule, action: &Action<'_>, now: Time) -> bool {
    let is_for = |names: &[String], name: Option<&str>, case: Case| {
        names.is_empty()
            || name.is_some_and(|name| names.iter().any(|wanted| case.is_equal_text(wanted, name)))
    };
    rule.until.as_ref().is_none_or(|until| now < until.end)
        && is_for(&rule.agents, Some(action.agent), Case::Any)
        && is_for(&rule.projects, action.project, Case::Exact)
        && is_for(&rule.sessions, Some(action.session), Case::Exact)
}

/// The first part that a restricting rule matches, and whether it was found by a search
/// of the text.
fn find_match(rule: &Rule, inspection: &Inspection, text: &str) -> Option<(String, bool)> {
    let exceptions = rule.exceptions.as_slice();
    match (&rule.pattern, rule.tool.class) {
        (Pattern::Command(pattern), _) => find_command(pattern, exceptions, inspection),
        (Pattern::Path(pattern), class) => {
            let access =
                if class == ToolClass::Edit { FileAccess::Write } else { FileAccess::Read };
            let is_excepted = |exception: &Exception, file: &crate::action::File| matches!(&exception.pattern, Pattern::Path(pattern) if pattern.covers(&file.path));
            let file = inspection.files.iter().find(|file| {
                file.access == access
                    && pattern.matches(&file.path)
                    && !exceptions.iter().any(|exception| is_excepted(exception, file))
            });
            file.map(|file| (file.text.clone(), false))
        }
        (Pattern::Server(pattern), _) => {
            let matched = inspection.servers.iter().find(|reading| {
                let call = ServerCall {
                    server: &reading.server,
                    tool: &reading.tool,
                    arguments: &inspection.arguments,
                };
                let is_excepted = |exception: &Exception| {
                    matches!(
                        &exception.pattern,
                        Pattern::Server(pattern) if pattern.matches(&call, Case::Exact)
                    )
                };
                pattern.matches(&call, Case::Any) && !exceptions.iter().any(is_excepted)
            });
            matched.map(|reading| (format!("{}/{}", reading.server, reading.tool), false))
        }
        (Pattern::Host(glob), _) => {
            let is_excepted = |host: &str| {
                exceptions.iter().any(|exception| {
                    matches!(&exception.pattern, Pattern::Host(glob) if matches_host(glob, host))
                })
            };
            // A search of the web has no host.
            let is_search = inspection.hosts.is_empty() && inspection.class == Some(ToolClass::Web);
            if is_search && glob.is_lone_star() {
                return Some(("a search of the web".to_owned(), false));
            }
            let host =
                inspection.hosts.iter().find(|host| matches_host(glob, host) && !is_excepted(host));
            host.map(|host| (host.clone(), false))
        }
        (Pattern::Text(pattern), class) => {
            let is_of_class = class == ToolClass::Any || inspection.class == Some(ToolClass::Task);
            let is_excepted = exceptions.iter().any(|exception| {
                matches!(&exception.pattern, Pattern::Text(pattern) if pattern.matches(text))
            });
            let is_matched = is_of_class && pattern.matches(text) && !is_excepted;
            is_matched.then(|| ("the text of the input".to_owned(), false))
        }
    }
}

fn find_command(
    pattern: &CommandPattern,
    exceptions: &[Exception],
    inspection: &Inspection,
) -> Option<(String, bool)> {
    let command = inspection.command.as_ref()?;
    let is_excepted = |part: &Part| {
        is_plain(command, part)
            && exceptions.iter().any(|exception| {
                matches!(
                    &exception.pattern,
                    Pattern::Command(pattern) if pattern.excepts(&part.args, &part.assignments)
                )
            })
    };
    let matched = command
        .parts
        .iter()
        .find(|part| pattern.matches(&part.args, &part.assignments) && !is_excepted(part));
    if let Some(part) = matched {
        return Some((part.text(), false));
    }
    let searched = inspection.raw_texts.iter().any(|text| pattern.is_in_text(text));
    searched.then(|| ("a text that cannot be judged".to_owned(), true))
}

/// Whether a part is what it looks like: no file behind a redirection, and nothing around it that
/// changes what it does.
fn is_plain(command: &CommandLine, part: &Part) -> bool {
    let mut outer = part.outer;
    while let Some((index, _)) = outer {
        let Some(around) = command.parts.get(index) else { return false };
        if !around.is_transparent || !around.assignments.is_empty() || around.has_files {
            return false;
        }
        outer = around.outer;
    }
    !part.has_files && !part.is_guess
}

fn parts(inspection: &Inspection) -> Vec<String> {
    let commands = inspection.command.iter().flat_map(|command| &command.parts).map(Part::text);
    let files = inspection.files.iter().map(|file| match file.access {
        FileAccess::Read => format!("read {}", file.text),
        FileAccess::Write => format!("edit {}", file.text),
    });
    let servers = inspection.servers.iter().filter(|reading| reading.is_certain);
    let servers = servers.map(|reading| format!("mcp {}/{}", reading.server, reading.tool));
    let hosts = inspection.hosts.iter().map(|host| format!("web {host}"));
    commands.chain(files).chain(servers).chain(hosts).take(PARTS_LISTED_MAX).collect()
}
