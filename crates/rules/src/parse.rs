//! One line of text to a [`Rule`].
//!
//! `[severity] tool: pattern [SEP reason] [@tags]`, SEP a dash with spaces on both sides.

use std::str::FromStr;

use event::Time;

use crate::pattern::{BadPattern, Pattern, TextPattern};
use crate::rule::{Exception, Rule, Severity, Until};
use crate::tool_class::{ToolClass, ToolName};

/// Bytes of one rule. A longer line is refused: it is no rule.
const LINE_BYTES_MAX: usize = 4_096;

/// Exceptions of one rule. Each is compared with everything that the rule matches.
const EXCEPTIONS_MAX: usize = 50;

/// Why a line is no rule.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadRule {
    #[error("it has more than {LINE_BYTES_MAX} bytes, or more than one line")]
    TooLong,
    #[error("no `tool:` begins it; a rule is `block shell: rm -rf * — reason`")]
    NoTool,
    #[error(
        "`{0}` is no class (shell, edit, read, web, mcp, task, any) and no tool of a known agent"
    )]
    UnknownTool(String),
    #[error(transparent)]
    Pattern(#[from] BadPattern),
    #[error("`@{0}` is no tag")]
    UnknownTag(String),
    #[error("`@{0}` stands in the middle; tags end the line")]
    MisplacedTag(String),
    #[error("the value of `@{0}` is missing or not understood")]
    BadTag(String),
    #[error("an allow rule names its tool; `any` would allow too much")]
    AllowsAnything,
    #[error("`@{0}` cannot stand in a rule of this severity")]
    TagOfOtherSeverity(String),
    #[error("it has more than {EXCEPTIONS_MAX} exceptions")]
    TooManyExceptions,
}

impl FromStr for Rule {
    type Err = BadRule;

    fn from_str(line: &str) -> Result<Rule, BadRule> {
        let line = line.trim();
        if line.len() > LINE_BYTES_MAX || line.contains(['\n', '\r', '\0']) {
            return Err(BadRule::TooLong);
        }
        let (severity, rest) = split_severity(line);
        let (tool, rest) = rest.split_once(':').ok_or(BadRule::NoTool)?;
        let tool = tool.trim();
        if tool.is_empty() || tool.contains(char::is_whitespace) {
            return Err(BadRule::NoTool);
        }
        let tool = ToolName::parse(tool).ok_or_else(|| BadRule::UnknownTool(tool.to_owned()))?;
        let (pattern_text, behind) = split_reason(rest)?;
        let (reason, tags, pattern_text) = match behind {
            Some(behind) => {
                let (reason, tags) = split_tags(behind, false)?;
                (reason, tags, pattern_text)
            }
            None => {
                let (pattern, tags) = split_tags(pattern_text, true)?;
                ("", tags, pattern)
            }
        };
        if behind.is_some() {
            refuse_tags(pattern_text, true)?;
        }
        let pattern_text = pattern_text.trim();
        let class = tool.class;
        let mut rule = Rule {
            severity: Severity::Warn,
            tool,
            pattern_text: pattern_text.to_owned(),
            pattern: Pattern::parse(class, pattern_text)?,
            reason: Some(reason.trim()).filter(|reason| !reason.is_empty()).map(str::to_owned),
            agents: Vec::new(),
            projects: Vec::new(),
            sessions: Vec::new(),
            exceptions: Vec::new(),
            until: None,
            denies_on_timeout: false,
            is_dry: false,
        };
        let mut tagged = None;
        for tag in tags {
            apply_tag(&mut rule, &mut tagged, tag)?;
        }
        rule.severity = severity.or(tagged).unwrap_or(Severity::Warn);
        check(&rule)?;
        Ok(rule)
    }
}

/// What only the whole rule tells.
fn check(rule: &Rule) -> Result<(), BadRule> {
    let is_allow = rule.severity == Severity::Allow;
    if is_allow && rule.tool.class == ToolClass::Any {
        return Err(BadRule::AllowsAnything);
    }
    if is_allow && rule.is_dry {
        return Err(BadRule::TagOfOtherSeverity("dry".to_owned()));
    }
    if rule.denies_on_timeout && rule.severity != Severity::Ask {
        return Err(BadRule::TagOfOtherSeverity("on_timeout".to_owned()));
    }
    let is_empty_text = |pattern: &Pattern| matches!(pattern, Pattern::Text(text) if TextPattern::matches_everything(text));
    // `any: *` would stop every call of every agent for one typing error.
    if rule.tool.class == ToolClass::Any && is_empty_text(&rule.pattern) {
        return Err(BadRule::Pattern(BadPattern::Empty));
    }
    Ok(())
}

fn split_severity(line: &str) -> (Option<Severity>, &str) {
    let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let severity = match first.to_ascii_lowercase().as_str() {
        "block" => Severity::Block,
        "ask" | "confirm" => Severity::Ask,
        "warn" => Severity::Warn,
        "allow" => Severity::Allow,
        _ => return (None, line),
    };
    (Some(severity), rest)
}

/// Splits at the first dash with spaces on both sides, outside of quotes.
fn split_reason(text: &str) -> Result<(&str, Option<&str>), BadRule> {
    let mut outside = Outside::default();
    for (at, c) in text.char_indices() {
        if !outside.step(c) || !matches!(c, '—' | '–' | '-') {
            continue;
        }
        let behind = &text[at + c.len_utf8()..];
        // `cat -` ends in a word of the command.
        let is_between = text[..at].ends_with([' ', '\t'])
            && (behind.starts_with([' ', '\t']) || (behind.is_empty() && c != '-'));
        if is_between {
            return Ok((&text[..at], Some(behind)));
        }
    }
    if outside.quote.is_some() {
        return Err(BadRule::Pattern(BadPattern::OpenQuote));
    }
    Ok((text, None))
}

/// Follows quotes and backslashes.
#[derive(Default)]
struct Outside {
    quote: Option<char>,
    is_escaped: bool,
}

impl Outside {
    /// Whether this character stands outside of quotes.
    fn step(&mut self, c: char) -> bool {
        if std::mem::take(&mut self.is_escaped) {
            return false;
        }
        match (self.quote, c) {
            (Some(quote), c) if c == quote => self.quote = None,
            (Some(_), _) => return false,
            (None, '"' | '\'') => self.quote = Some(c),
            (None, '\\') => {
                self.is_escaped = true;
                return false;
            }
            (None, _) => return true,
        }
        false
    }
}

struct Tag<'t> {
    name: &'t str,
    value: Option<String>,
}

const TAGS: &[&str] = &[
    "project",
    "agent",
    "session",
    "except",
    "on_timeout",
    "until",
    "dry",
    "block",
    "confirm",
    "warn",
];

/// Splits the tags from the end of a text. In a pattern quotes protect an `@`.
fn split_tags(text: &str, is_pattern: bool) -> Result<(&str, Vec<Tag<'_>>), BadRule> {
    for at in tag_places(text, is_pattern) {
        if let Some(tags) = read_tags(&text[at..])? {
            return Ok((&text[..at], tags));
        }
        let name = tag_name(&text[at + 1..]);
        if TAGS.contains(&name) {
            return Err(BadRule::MisplacedTag(name.to_owned()));
        }
    }
    Ok((text, Vec::new()))
}

fn refuse_tags(text: &str, is_pattern: bool) -> Result<(), BadRule> {
    for at in tag_places(text, is_pattern) {
        let name = tag_name(&text[at + 1..]);
        if TAGS.contains(&name) {
            return Err(BadRule::MisplacedTag(name.to_owned()));
        }
    }
    Ok(())
}

/// The places of each `@` that begins a word.
fn tag_places(text: &str, is_pattern: bool) -> Vec<usize> {
    let mut outside = Outside::default();
    let mut places = Vec::new();
    for (at, c) in text.char_indices() {
        let is_outside = outside.step(c) || !is_pattern;
        let begins_word = text[..at].chars().next_back().is_none_or(char::is_whitespace);
        if c == '@' && is_outside && begins_word {
            places.push(at);
        }
    }
    places
}

fn tag_name(text: &str) -> &str {
    let length = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..length]
}

/// Reads a text that consists of tags; none if it does not.
fn read_tags(text: &str) -> Result<Option<Vec<Tag<'_>>>, BadRule> {
    let mut tags = Vec::new();
    let mut rest = text.trim_start();
    while let Some(behind) = rest.strip_prefix('@') {
        let name = tag_name(behind);
        let behind = &behind[name.len()..];
        let (value, behind) = match behind.strip_prefix(':') {
            Some(behind) => match read_value(behind) {
                Some((value, behind)) => (Some(value), behind),
                None => return Err(BadRule::BadTag(name.to_owned())),
            },
            None => (None, behind),
        };
        let ends_word = behind.is_empty() || behind.starts_with(char::is_whitespace);
        if !ends_word {
            return Ok(None);
        }
        if !TAGS.contains(&name) {
            // `@scope/name` and `@dev` are text; `@agnet:codex` is a mistake.
            let is_meant = value.is_some() && !name.is_empty();
            return if is_meant { Err(BadRule::UnknownTag(name.to_owned())) } else { Ok(None) };
        }
        tags.push(Tag { name, value });
        rest = behind.trim_start();
    }
    Ok(rest.is_empty().then_some(tags))
}

/// A value up to the next blank, or in quotes.
fn read_value(text: &str) -> Option<(String, &str)> {
    match text.chars().next()? {
        quote @ ('"' | '\'') => {
            let (value, behind) = text[1..].split_once(quote)?;
            Some((value.to_owned(), behind))
        }
        _ => {
            let length = text.find(char::is_whitespace).unwrap_or(text.len());
            let value = &text[..length];
            let is_value = length > 0 && !value.contains(['"', '\'']);
            is_value.then(|| (value.to_owned(), &text[length..]))
        }
    }
}

fn apply_tag(
    rule: &mut Rule,
    severity: &mut Option<Severity>,
    tag: Tag<'_>,
) -> Result<(), BadRule> {
    let bad = || BadRule::BadTag(tag.name.to_owned());
    let list = |value: &Option<String>| {
        let names = value.as_deref().unwrap_or_default().split(',').map(str::trim);
        let names: Vec<String> = names.map(str::to_owned).collect();
        let is_name = |name: &String| !name.is_empty() && !name.contains(char::is_whitespace);
        if names.iter().all(is_name) { Ok(names) } else { Err(bad()) }
    };
    match (tag.name, &tag.value) {
        ("agent", value) => rule.agents.extend(list(value)?),
        ("project", value) => rule.projects.extend(list(value)?),
        ("session", value) => rule.sessions.extend(list(value)?),
        ("except", Some(text)) => {
            let pattern = Pattern::parse(rule.tool.class, text)?;
            rule.exceptions.push(Exception { text: text.clone(), pattern });
            if rule.exceptions.len() > EXCEPTIONS_MAX {
                return Err(BadRule::TooManyExceptions);
            }
        }
        ("until", Some(text)) if rule.until.is_none() => {
            let end = parse_end(text).ok_or_else(bad)?;
            rule.until = Some(Until { text: text.clone(), end });
        }
        ("on_timeout", Some(value)) if value == "deny" => rule.denies_on_timeout = true,
        ("dry", None) => rule.is_dry = true,
        ("block", None) => *severity = Some(Severity::Block),
        ("confirm", None) => *severity = severity.or(Some(Severity::Ask)),
        ("warn", None) => *severity = severity.or(Some(Severity::Warn)),
        _ => return Err(bad()),
    }
    Ok(())
}

/// A day is over at its end, in UTC; an instant ends at itself.
fn parse_end(text: &str) -> Option<Time> {
    const DAY_NANOS: i128 = 86_400 * 1_000_000_000;
    if let Ok(time) = text.parse::<Time>() {
        return Some(time);
    }
    let day = format!("{text}T00:00:00Z").parse::<Time>().ok()?;
    Some(Time::from_nanos(day.nanos() + DAY_NANOS))
}
