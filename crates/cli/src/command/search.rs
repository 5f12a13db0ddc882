//! `hansard search`: searches all sessions.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use daemon::answers;
use event::Kind;
use journal::{EventHit, Journal, MatchMode, Order, Query, SearchPage};

use super::session_filter::nothing_recorded;
use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::{CliOutput, Style, escape_controls, format_count, one_line};
use crate::times::TimeArg;
use crate::world;

/// Search prompts, answers, tool calls and their output.
#[derive(Args)]
pub(crate) struct SearchArgs {
    /// Words in any order; "quotes" make a phrase; there is no other syntax
    #[arg(required = true)]
    words: Vec<String>,
    /// Only in this session, and in what it was forked from
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Only in sessions of this project or folder
    #[arg(long)]
    project: Option<String>,
    /// Only in sessions of this agent, for instance `claude`
    #[arg(long)]
    provider: Option<String>,
    /// Only events of this kind, for instance `user.prompt`; repeatable
    #[arg(long)]
    kind: Vec<String>,
    /// Only calls and results of this tool
    #[arg(long)]
    tool: Option<String>,
    /// Only events since this time: 7d, yesterday, 2026-11-01
    #[arg(long, value_name = "TIME")]
    since: Option<TimeArg>,
    /// Only events until this time; a day counts whole
    #[arg(long, value_name = "TIME")]
    until: Option<TimeArg>,
    /// Also match parts of words
    #[arg(long)]
    substring: bool,
    /// What comes first
    #[arg(long, value_parser = order_parser(), default_value = "best")]
    order: Order,
    /// Print at most N matches (up to 1000)
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Continue after an earlier page, with the cursor it printed
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
        let (now, zone) = (world::now(), output.zone());
        let query = Query {
            text: self.words.join(" "),
            mode: if self.substring { MatchMode::Substring } else { MatchMode::Words },
            session,
            project: self.project.clone(),
            provider: self.provider.clone(),
            kinds: self.kind.iter().map(|kind| Kind::from(kind.as_str())).collect(),
            tool: self.tool.clone(),
            after: self.since.as_ref().map(|time| time.begin(now, zone)),
            before: self.until.as_ref().map(|time| time.end(now, zone)),
            order: self.order,
            limit: self.limit,
            cursor: self.after.clone(),
        };
        let found = journal.search(&query)?;
        let any = !found.hits.is_empty();
        print_hits(&journal, found, output)?;
        output.flush()?;
        // As `grep` does: no match is a negative answer.
        Ok(if any { Completion::Success } else { Completion::Negative })
    }
}

fn print_hits(
    journal: &Journal,
    found: SearchPage,
    output: &mut CliOutput,
) -> Result<(), CliError> {
    if output.json() {
        return output.json_line(&answers::found(found));
    }
    for hit in &found.hits {
        let id = world::short_id(journal, &hit.session_id)?;
        let place = format!("{} #{}", one_line(&id, 46), format_count(hit.seq));
        let at = output.minute(hit.created_at);
        let head = format!("{at} · {} · {}", hit.kind, one_line(&hit.provider, 20));
        output.line(format!(
            "{}  {}",
            output.styled(Style::Bold, place),
            output.styled(Style::Dim, head)
        ))?;
        output.line(format!("    {}", highlighted(hit, output)))?;
    }
    // Before the notes, which go to stderr and would come first.
    output.flush()?;
    if found.hits.is_empty() && found.next.is_none() {
        output.note(match journal.session_count()? {
            0 => nothing_recorded("sessions"),
            _ => "no matches; try fewer words, or `--substring` for parts of words".to_owned(),
        });
        return Ok(());
    }
    // Counting stops at a limit.
    let more = if found.total_is_exact { "" } else { "at least " };
    let matches = if found.total == 1 { "match" } else { "matches" };
    output.note(format!("{more}{} {matches}", format_count(found.total as u64)));
    if !found.complete {
        output.note("not everything was searched; narrow the search or continue with --after");
    }
    if let Some(next) = found.next {
        output.note(format!("there are more: --after {next}"));
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
