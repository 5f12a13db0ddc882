//! Tools of MCP servers: `db/drop_*`, `db/query sql=*DROP*`.

use super::BadPattern;
use crate::glob::{Case, Glob};

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ServerPattern {
    server: Glob,
    tool: Glob,
    arguments: Vec<(String, Glob)>,
}

/// A call of a tool, as one of the ways to read its name says.
pub(crate) struct ServerCall<'c> {
    pub server: &'c str,
    pub tool: &'c str,
    /// Arguments as text, by name.
    pub arguments: &'c [(String, String)],
}

impl ServerPattern {
    pub(crate) fn parse(text: &str) -> Result<ServerPattern, BadPattern> {
        let mut words = split_words(text)?.into_iter();
        let name = words.next().ok_or(BadPattern::Empty)?;
        let (server, tool) = name.split_once('/').unwrap_or((&name, "*"));
        let arguments = words.map(|word| match word.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), Glob::parse(value))),
            _ => Err(BadPattern::Argument(word)),
        });
        Ok(ServerPattern {
            server: Glob::parse(server),
            tool: Glob::parse(if tool.is_empty() { "*" } else { tool }),
            arguments: arguments.collect::<Result<_, _>>()?,
        })
    }

    pub(crate) fn key(&self) -> Option<String> {
        self.server.as_literal().map(|server| server.to_lowercase())
    }

    pub(crate) fn matches(&self, call: &ServerCall<'_>, case: Case) -> bool {
        let has_argument = |(name, value): &(String, Glob)| {
            let is_it = |(there, text): &&(String, String)| {
                case.is_equal_text(there, name) && value.matches(text, case)
            };
            call.arguments.iter().any(|argument| is_it(&argument))
        };
        self.server.matches(call.server, case)
            && self.tool.matches(call.tool, case)
            && self.arguments.iter().all(has_argument)
    }
}

/// Words split at blanks; quotes keep blanks inside.
fn split_words(text: &str) -> Result<Vec<String>, BadPattern> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in text.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(BadPattern::OpenQuote);
    }
    words.extend(word.take());
    Ok(words)
}
