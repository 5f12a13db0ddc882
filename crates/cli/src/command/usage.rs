//! `hansard usage`: tokens and cost.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use daemon::{answers, spending};
use projection::{Grouping, Spending, Spent};

use super::session_filter::SessionFilterArgs;
use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::{CliOutput, Style, format_money, one_line};
use crate::world;

#[derive(Args)]
pub(crate) struct UsageArgs {
    /// How to group the rows
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
        let spending = spending(&journal, &self.which.filter(), self.by)?;
        print_spending(&spending, output)?;
        output.flush()?;
        Ok(Completion::Success)
    }
}

fn print_spending(spending: &Spending, output: &mut CliOutput) -> Result<(), CliError> {
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
        output.line(spent_line(key, &row.spent))?;
    }
    output.line(output.styled(Style::Bold, spent_line("total", spending.total())))?;
    output.note("costs marked ~ are estimated from list prices, ? are incomplete");
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
        tokens.requests,
        tokens.input,
        tokens.output,
        tokens.cache_read,
        tokens.cache_creation,
        format_money(spent.money.usd)
    )
}
