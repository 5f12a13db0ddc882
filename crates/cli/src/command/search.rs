//! `hansard search`: searches all sessions.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use daemon::answers;
use event::{Kind, Time};
use journal::{EventHit, MatchMode, Order, Query, SearchPage};

use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::{CliOutput, Style, escape_controls, one_line};
use crate::world;

#[derive(Args)]
pub(crate) struct SearchArgs {
    /// Words in any order; quotes make a phrase; there is no other syntax
    #[arg(required = true)]
    words: Vec<String>,
    /// Only in this session and what it inherited
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    #[arg(long)]
    project: Option<String>,
    #[arg(long)]
    provider: Option<String>,
    /// Only events of this kind, for instance `user.prompt`; repeatable
    #[arg(long)]
    kind: Vec<String>,
    /// Only calls and results of this tool
    #[arg(long)]
    tool: Option<String>,
    /// Only events since this time (RFC 3339)
    #[arg(long, value_name = "TIME")]
    since: Option<Time>,
    /// Only events before this time (RFC 3339)
    #[arg(long, value_name = "TIME")]
    until: Option<Time>,
    /// Also match parts of words
    #[arg(long)]
    substring: bool,
    #[arg(long, value_parser = order_parser(), default_value = "best")]
    order: Order,
    /// The most hits to print (up to 1000)
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Continue behind an earlier page, with its cursor
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
}

/// Takes the words of [`Order`] and shows them in the help.
fn order_parser() -> impl TypedValueParser<Value = Order> {
    PossibleValuesParser::new(Order::ALL.map(Order::as_str)).try_map(|word| word.parse::<Order>())
}

impl SearchArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let journal = world::journal_to_read(global, output)?;
        let session = match &self.session {
            // A beginning of an id will do, as everywhere.
            Some(prefix) => Some(journal.resolve(prefix)?.id),
            None => None,
        };
        let query = Query {
            text: self.words.join(" "),
            mode: if self.substring { MatchMode::Substring } else { MatchMode::Words },
            session,
            project: self.project.clone(),
            provider: self.provider.clone(),
            kinds: self.kind.iter().map(|kind| Kind::from(kind.as_str())).collect(),
            tool: self.tool.clone(),
            after: self.since,
            before: self.until,
            order: self.order,
            limit: self.limit,
            cursor: self.after.clone(),
        };
        let found = journal.search(&query)?;
        let any = !found.hits.is_empty();
        print_hits(found, output)?;
        output.flush()?;
        // As `grep` does: no match is a negative answer.
        Ok(if any { Completion::Success } else { Completion::Negative })
    }
}

fn print_hits(found: SearchPage, output: &mut CliOutput) -> Result<(), CliError> {
    if output.json() {
        return output.json_line(&answers::found(found));
    }
    for hit in &found.hits {
        let place = format!("{} #{}", one_line(hit.session_id.as_str(), 36), hit.seq);
        let head = format!("{} · {} · {}", hit.created_at, hit.kind, one_line(&hit.provider, 20));
        output.line(format!(
            "{}  {}",
            output.styled(Style::Bold, place),
            output.styled(Style::Dim, head)
        ))?;
        output.line(format!("    {}", highlighted(hit, output)))?;
    }
    // Counting stops at a limit.
    let more = if found.total_is_exact { "" } else { "at least " };
    output.note(format!("{more}{} found", found.total));
    if !found.complete {
        output.note("not everything was searched; narrow the search or continue with --after");
    }
    if let Some(next) = found.next {
        output.note(format!("more with --after {next}"));
    }
    Ok(())
}

/// Returns the snippet on one line, with the matches highlighted.
fn highlighted(hit: &EventHit, output: &CliOutput) -> String {
    let mut text = String::new();
    let mut at = 0;
    let piece = |from: usize, to: usize| {
        // `get`, not an index: a range that does not fit shows nothing instead of a panic.
        escape_controls(hit.snippet.get(from..to).unwrap_or_default()).replace(['\n', '\t'], " ")
    };
    for range in &hit.highlights {
        text.push_str(&piece(at, range.start));
        text.push_str(&output.styled(Style::Match, piece(range.start, range.end)));
        at = range.end;
    }
    text.push_str(&piece(at, hit.snippet.len()));
    text
}
