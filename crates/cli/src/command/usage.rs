//! `hansard usage`: tokens and cost.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use daemon::{answers, spending};
use event::SessionId;
use journal::{Journal, ReadError};
use projection::{Grouping, Spending, Spent};

use super::session_filter::{SessionFilterArgs, nothing_listed};
use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::{CliOutput, Style, format_count, format_money, one_line};
use crate::world;

/// Show tokens and cost by day, month, session, model or project.
#[derive(Args)]
pub(crate) struct UsageArgs {
    /// How to group the rows; days, weeks and months are those of UTC
    #[arg(value_parser = grouping_parser(), default_value = "daily")]
    by: Grouping,
    #[command(flatten)]
    which: SessionFilterArgs,
}

/// Takes the words of [`Grouping`] and shows them in the help.
fn grouping_parser() -> impl TypedValueParser<Value = Grouping> {
    PossibleValuesParser::new(Grouping::ALL.map(Grouping::as_str))
        .map(|word| Grouping::parse(&word).expect("only these words are possible"))
}

impl UsageArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let journal = world::journal_to_read(global, output)?;
        let filter = self.which.filter(world::now(), output.zone());
        let spending = spending(&journal, &filter, self.by)?;
        if spending.rows().next().is_none() && !output.json() {
            output.note(nothing_listed(&self.which, "tokens"));
            return Ok(Completion::Success);
        }
        print_spending(&journal, &spending, self.by, output)?;
        output.flush()?;
        Ok(Completion::Success)
    }
}

fn print_spending(
    journal: &Journal,
    spending: &Spending,
    by: Grouping,
    output: &mut CliOutput,
) -> Result<(), CliError> {
    if output.json() {
        return output.json_line(&answers::usage(spending));
    }
    let head = format!(
        "{:<34} {:>8} {:>12} {:>12} {:>14} {:>14} {:>12}",
        "", "requests", "input", "output", "cache read", "cache write", "cost"
    );
    output.line(output.styled(Style::Dim, head))?;
    for row in spending.rows() {
        let key = row.key.as_deref().unwrap_or("unknown");
        let short = match by {
            Grouping::Session => {
                world::short_id(journal, &SessionId::new(key).map_err(ReadError::from)?)?
            }
            _ => key.to_owned(),
        };
        output.line(spent_line(&short, &row.spent))?;
    }
    output.line(output.styled(Style::Bold, spent_line("total", spending.total())))?;
    // Before the note, which goes to stderr.
    output.flush()?;
    output.note("~ is estimated from list prices, ? is incomplete: some tokens have no price");
    Ok(())
}

fn spent_line(key: &str, spent: &Spent) -> String {
    let tokens = &spent.tokens;
    // A mark besides the number: an estimate must not be read as a bill.
    let mark = match spent.basis().as_str() {
        "exact" => ' ',
        "estimated" => '~',
        _ => '?',
    };
    format!(
        "{:<34} {:>8} {:>12} {:>12} {:>14} {:>14} {mark}{:>11}",
        one_line(key, 34),
        format_count(tokens.requests),
        format_count(tokens.input),
        format_count(tokens.output),
        format_count(tokens.cache_read),
        format_count(tokens.cache_creation),
        format_money(spent.money.usd)
    )
}
