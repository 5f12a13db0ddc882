//! `hansard usage`: tokens and cost.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use daemon::{Settings, answers, budget_uses, spending};
use event::{Cost, SessionId};
use journal::{Journal, ReadError};
use projection::{Basis, BudgetScope, BudgetUse, Grouping, Spending, Spent};
use segments::Zone;

use super::session_filter::{SessionFilterArgs, nothing_listed};
use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::{CliOutput, Style, escape_controls, format_count, format_money, one_line};
use crate::world;

/// Show tokens and cost by day, month, session, model or project.
#[derive(Args)]
pub(crate) struct UsageArgs {
    /// How to group the rows; days, weeks and months are local, or those of UTC with `--utc`
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
        let zone = output.zone();
        let filter = self.which.filter_whole_days(world::now(), zone);
        let spending = spending(&journal, &filter, self.by, zone)?;
        if spending.rows().next().is_none() && !output.json() {
            output.note(nothing_listed(&self.which, "tokens"));
            return Ok(Completion::Success);
        }
        let budgets = today_budgets(&journal, output)?;
        print_spending(&journal, &spending, &budgets, self.by, output)?;
        output.flush()?;
        Ok(Completion::Success)
    }
}

/// What is used of the budgets today. Settings that cannot be read are only warned of.
pub(super) fn today_budgets(
    journal: &Journal,
    output: &mut CliOutput,
) -> Result<Vec<BudgetUse>, CliError> {
    let Some(folder) = journal.dir() else { return Ok(Vec::new()) };
    match Settings::load(folder) {
        // A limit is for the user's day, however the rows are shown.
        Ok(settings) => {
            Ok(budget_uses(journal, settings.budgets(), world::now(), &Zone::system())?)
        }
        Err(error) => {
            output.warn(format!(
                "the budgets are not known: {}",
                escape_controls(&error.to_string())
            ));
            Ok(Vec::new())
        }
    }
}

/// A budget in words.
pub(super) fn budget_line(used: &BudgetUse) -> String {
    let scope = match used.scope {
        BudgetScope::Day => "today".to_owned(),
        BudgetScope::Project => format!("today in {}", one_line(&used.name, 40)),
        BudgetScope::Session => format!("session {}", one_line(&used.name, 40)),
    };
    let (spent, limit) = (format_money(Some(used.spent)), format_money(Some(used.limit)));
    let over = if used.is_exceeded() { ", over budget" } else { "" };
    format!("budget, {scope}: {spent} of {limit} ({} %{over})", used.percent())
}

fn print_spending(
    journal: &Journal,
    spending: &Spending,
    budgets: &[BudgetUse],
    by: Grouping,
    output: &mut CliOutput,
) -> Result<(), CliError> {
    if output.json() {
        return output.json_line(&answers::usage(spending, budgets));
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
    for used in budgets {
        output.line(budget_line(used))?;
    }
    // Before the note, which goes to stderr.
    output.flush()?;
    output.note(
        "no mark: reported by the agent; ~ list prices; * partly the price of a similar model; \
         ? incomplete: some tokens have no price",
    );
    Ok(())
}

fn spent_line(key: &str, spent: &Spent) -> String {
    let tokens = &spent.tokens;
    // A mark besides the number: an estimate must not be read as a bill.
    let mark = match spent.basis() {
        Basis::Exact => ' ',
        Basis::Estimated if spent.money.parts.estimated > Cost::ZERO => '*',
        Basis::Estimated => '~',
        Basis::Incomplete => '?',
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
