//! What a rule compares an action with: one kind of pattern for each class of tools.

mod command; // words and flags of a command line
mod flag; // short flags as sets, long ones by their names
mod path; // globs over paths
mod server; // tools of MCP servers and their arguments
mod text; // words anywhere in a text

pub(crate) use command::{CommandPattern, RawText};
pub(crate) use path::{PathPattern, ResolvedPath};
pub(crate) use server::{ServerCall, ServerPattern};
pub(crate) use text::{TextPattern, words_of};

use crate::glob::{Case, Glob};
use crate::tool_class::ToolClass;

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Pattern {
    Command(CommandPattern),
    Path(PathPattern),
    Server(ServerPattern),
    Host(Glob),
    Text(TextPattern),
}

/// Why a pattern cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadPattern {
    #[error("the pattern is empty")]
    Empty,
    #[error("a quote in the pattern has no end")]
    OpenQuote,
    #[error("`{0}` stands between commands: a pattern is one command, so write one rule for each")]
    Operator(char),
    #[error("the glob `{0}` is broken: {1}")]
    Glob(String, &'static str),
    #[error("`{0}` is no argument: write `name=glob` behind `server/tool`")]
    Argument(String),
}

impl Pattern {
    pub(crate) fn parse(class: ToolClass, text: &str) -> Result<Pattern, BadPattern> {
        Ok(match class {
            ToolClass::Shell => Pattern::Command(CommandPattern::parse(text)?),
            ToolClass::Edit | ToolClass::Read => {
                Pattern::Path(PathPattern::parse(&unquoted(text)?)?)
            }
            ToolClass::Mcp => Pattern::Server(ServerPattern::parse(text)?),
            ToolClass::Web => Pattern::Host(host_pattern(&unquoted(text)?)?),
            ToolClass::Task | ToolClass::Any => {
                Pattern::Text(TextPattern::parse(&unquoted(text)?)?)
            }
        })
    }

    /// A word that everything has that this matches, in lower case: an index over many rules finds
    /// the rule by it. None if there is no such word.
    pub(crate) fn key(&self) -> Option<String> {
        match self {
            Pattern::Command(pattern) => pattern.key(),
            Pattern::Path(pattern) => pattern.key(),
            Pattern::Server(pattern) => pattern.key(),
            Pattern::Host(glob) => glob.as_literal().map(|host| host.to_lowercase()),
            Pattern::Text(pattern) => pattern.key(),
        }
    }
}

fn host_pattern(text: &str) -> Result<Glob, BadPattern> {
    // An address as people copy it.
    let host = text.split_once("://").map_or(text, |(_, rest)| rest);
    let host = host.split('/').next().unwrap_or_default();
    if host.is_empty() {
        return Err(BadPattern::Empty);
    }
    Ok(Glob::parse(&host.to_lowercase()))
}

pub(crate) fn matches_host(glob: &Glob, host: &str) -> bool {
    glob.matches(host, Case::Any)
}

/// A pattern that may stand in quotes as a whole.
fn unquoted(text: &str) -> Result<String, BadPattern> {
    let text = text.trim();
    let quote = text.chars().next().filter(|c| *c == '"' || *c == '\'');
    let text = match quote {
        Some(quote) => {
            let inside = &text[1..];
            inside.strip_suffix(quote).ok_or(BadPattern::OpenQuote)?
        }
        None => text,
    };
    if text.trim().is_empty() { Err(BadPattern::Empty) } else { Ok(text.to_owned()) }
}
