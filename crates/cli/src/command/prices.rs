//! `hansard prices`: what models cost, and where each price comes from.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use daemon::{own_prices_path, prices, spending};
use event::Cost;
use journal::{Journal, SessionFilter};
use projection::{
    AppliedPrice, Grouping, ImportedPrices, Price, PriceChange, PriceSource, PriceTable,
};
use segments::{Zone, write_atomic};
use serde::Serialize;

use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::{CliOutput, Style, escape_controls, format_count, one_line};
use crate::world;

/// The largest file of prices that is read; LiteLLM's has three megabytes. A larger one is refused.
const FILE_BYTES_MAX: u64 = 64_000_000;

/// Changes that are listed; the rest is counted, and `--json` has all of them.
const CHANGES_SHOWN: usize = 40;

/// List what models cost, and take newer prices from a file.
#[derive(Args)]
pub(crate) struct PricesArgs {
    #[command(subcommand)]
    command: PricesCommand,
}

#[derive(Subcommand)]
enum PricesCommand {
    /// List the price of each recorded model, and where it comes from
    List(ListArgs),
    /// Take prices from a file: our own form, LiteLLM's or models.dev's
    Update(UpdateArgs),
}

#[derive(Args)]
struct ListArgs {
    /// Only models with this in their name
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// List every price, also of models that were never used
    #[arg(long)]
    all: bool,
}

#[derive(Args)]
struct UpdateArgs {
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// A model with its price.
#[derive(Serialize)]
struct PriceShape<'a> {
    model: String,
    /// Requests that were recorded.
    requests: u64,
    usd: Option<Cost>,
    /// `own`, `shipped` or `family`; null for a model without a price.
    source: Option<&'static str>,
    /// The entry of the table, another model's for `family`.
    priced_as: Option<&'a str>,
    price: Option<&'a Price>,
}

#[derive(Serialize)]
struct ListShape<'a> {
    /// The month of the shipped prices.
    as_of: &'a str,
    own_file: Option<PathBuf>,
    prices: Vec<PriceShape<'a>>,
}

#[derive(Serialize)]
struct UpdateShape<'a> {
    form: &'static str,
    file: &'a Path,
    own_file: &'a Path,
    written: bool,
    changes: Vec<ChangeShape<'a>>,
    aliases: &'a BTreeMap<String, String>,
    unchanged: u64,
    skipped: u64,
    other_bands: &'a [String],
}

#[derive(Serialize)]
struct ChangeShape<'a> {
    model: &'a str,
    before: Option<&'a Price>,
    after: &'a Price,
}

impl PricesArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let journal = world::journal_to_read(global, output)?;
        match &self.command {
            PricesCommand::List(list) => list.run(&journal, output)?,
            PricesCommand::Update(update) => update.run(&journal, output)?,
        }
        output.flush()?;
        Ok(Completion::Success)
    }
}

impl ListArgs {
    fn run(&self, journal: &Journal, output: &mut CliOutput) -> Result<(), CliError> {
        let table = prices(journal)?;
        let mut shapes = recorded_models(journal, &table)?;
        if self.all {
            let unused = |entry: &AppliedPrice<'_>| !shapes.iter().any(|it| it.model == entry.name);
            let unused: Vec<_> = table.entries().filter(unused).map(unused_model).collect();
            shapes.extend(unused);
        }
        if let Some(name) = &self.name {
            shapes.retain(|shape| shape.model.contains(&name.to_lowercase()));
        }
        if output.json() {
            let own_file = table.own().and_then(|_| own_prices_path(journal));
            let shape = ListShape { as_of: table.as_of(), own_file, prices: shapes };
            return output.json_line(&shape);
        }
        if shapes.is_empty() {
            let none = match &self.name {
                Some(_) => "no recorded model has this name; `--all` lists every price",
                None => "no recorded session names a model; `--all` lists every price",
            };
            output.note(none);
            return Ok(());
        }
        print_prices(&shapes, &table, output)
    }
}

/// The models of all sessions, each under one name.
fn recorded_models<'a>(
    journal: &Journal,
    table: &'a PriceTable,
) -> Result<Vec<PriceShape<'a>>, CliError> {
    let spending = spending(journal, &SessionFilter::default(), Grouping::Model, &Zone::UTC)?;
    let shapes = spending.rows().filter_map(|row| {
        let model = row.key?;
        let applied = table.find(&model);
        Some(PriceShape {
            requests: row.spent.tokens.requests,
            usd: row.spent.money.usd,
            source: applied.map(|applied| applied.source.as_str()),
            priced_as: applied.map(|applied| applied.name),
            price: applied.map(|applied| applied.price),
            model,
        })
    });
    Ok(shapes.collect())
}

fn unused_model(entry: AppliedPrice<'_>) -> PriceShape<'_> {
    PriceShape {
        model: entry.name.to_owned(),
        requests: 0,
        usd: Some(Cost::ZERO),
        source: Some(entry.source.as_str()),
        priced_as: Some(entry.name),
        price: Some(entry.price),
    }
}

fn print_prices(
    shapes: &[PriceShape<'_>],
    table: &PriceTable,
    output: &mut CliOutput,
) -> Result<(), CliError> {
    let head = format!(
        "{:<30} {:>8} {:>9} {:>9} {:>10} {:>9} {:>9}  {}",
        "model", "requests", "input", "output", "cache read", "write 5m", "write 1h", "price from"
    );
    output.line(output.styled(Style::Dim, head))?;
    for shape in shapes {
        let rates = match shape.price {
            Some(price) => price.rates(0).map(format_rate),
            None => std::array::from_fn(|_| "-".to_owned()),
        };
        let [input, written, read, write_5m, write_1h] = rates;
        output.line(format!(
            "{:<30} {:>8} {input:>9} {written:>9} {read:>10} {write_5m:>9} {write_1h:>9}  {}",
            one_line(&shape.model, 30),
            format_count(shape.requests),
            price_origin(shape)
        ))?;
    }
    // Before the note, which goes to stderr.
    output.flush()?;
    output.note(format!(
        "dollars for a million tokens; shipped prices of {}; \
         `*` costs more above some context, `--json` has all of it",
        table.as_of()
    ));
    Ok(())
}

/// Where the price of a model comes from, in words.
fn price_origin(shape: &PriceShape<'_>) -> String {
    let Some(price) = shape.price else {
        // Without a price there is money only where the agent named it.
        let is_reported = shape.usd.is_some();
        return if is_reported { "reported by the agent" } else { "no price" }.to_owned();
    };
    let mark = if price.above.is_empty() { "" } else { " *" };
    let source = match (shape.source, shape.priced_as) {
        (Some(source), Some(name)) if source == PriceSource::Family.as_str() => {
            format!("estimated, as {}", escape_controls(name))
        }
        (Some(source), _) if source == PriceSource::Own.as_str() => "your prices.json".to_owned(),
        _ => "shipped".to_owned(),
    };
    source + mark
}

/// With as many digits as a cheap model needs.
fn format_rate(rate: Cost) -> String {
    let dollars = rate.nanos() as f64 / 1e9;
    let text = format!("{dollars:.4}");
    let cut = text.trim_end_matches('0');
    // At least cents, as money is written.
    let digits = cut.rsplit_once('.').map_or(0, |(_, fraction)| fraction.len()).max(2);
    format!("${dollars:.digits$}")
}

impl UpdateArgs {
    fn run(&self, journal: &Journal, output: &mut CliOutput) -> Result<(), CliError> {
        let Some(own_file) = own_prices_path(journal) else {
            return Err(CliError::new("no_folder", "this journal has no folder to write to"));
        };
        let imported = ImportedPrices::parse(&self.read_file()?).map_err(|error| {
            let file = escape_controls(&self.file.display().to_string());
            CliError::new(
                "bad_prices",
                format!("`{file}`: {}", escape_controls(&error.to_string())),
            )
            .hint("nothing was changed; correct the entry, or take it out")
        })?;
        let update = prices(journal)?.update(&imported.list);
        let is_written = !self.dry_run && update.is_news();
        if is_written {
            let text = serde_json::to_vec_pretty(&update.own).expect("prices always encode");
            let folder = own_file.parent().expect("the file lies in the journal's folder");
            write_atomic(folder, "prices.json", &text)?;
        }
        if output.json() {
            let changes = update.changes.iter().map(|change| ChangeShape {
                model: &change.model,
                before: change.before.as_ref(),
                after: &change.after,
            });
            return output.json_line(&UpdateShape {
                form: imported.form.as_str(),
                file: &self.file,
                own_file: &own_file,
                written: is_written,
                changes: changes.collect(),
                aliases: &update.aliases,
                unchanged: update.unchanged,
                skipped: imported.skipped,
                other_bands: &imported.other_bands,
            });
        }
        for change in update.changes.iter().take(CHANGES_SHOWN) {
            output.line(change_line(change))?;
        }
        if let Some(more) = update.changes.len().checked_sub(CHANGES_SHOWN + 1) {
            output.line(format!("… and {} more", more + 1))?;
        }
        for (alias, model) in &update.aliases {
            let (alias, model) = (one_line(alias, 34), escape_controls(model));
            output.line(format!("= {alias:<34} as {model}"))?;
        }
        for model in &imported.other_bands {
            output.warn(format!(
                "`{}` has a price above a size of context that is not told apart; it was left out",
                escape_controls(model)
            ));
        }
        let verb = if is_written { "changed" } else { "would change" };
        output.note(format!(
            "{} {verb}, {} as before, {} left out (hosts, and models without a price by token)",
            update.changes.len(),
            update.unchanged,
            imported.skipped
        ));
        if is_written {
            output
                .note(format!("written to `{}`", escape_controls(&own_file.display().to_string())));
        }
        Ok(())
    }

    fn read_file(&self) -> Result<String, CliError> {
        let name = || escape_controls(&self.file.display().to_string());
        let failed = |error: std::io::Error| {
            CliError::new("io", format!("cannot read `{}`: {error}", name()))
        };
        let mut text = String::new();
        let file = File::open(&self.file).map_err(failed)?;
        file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > FILE_BYTES_MAX {
            let told = format!("`{}` is larger than {FILE_BYTES_MAX} bytes", name());
            return Err(CliError::new("too_large", told));
        }
        Ok(text)
    }
}

fn change_line(change: &PriceChange) -> String {
    let words = |price: &Price| {
        format!("{} in, {} out", format_rate(price.input), format_rate(price.output))
    };
    let model = one_line(&change.model, 34);
    match &change.before {
        None => format!("+ {model:<34} {}", words(&change.after)),
        Some(before) => {
            format!("~ {model:<34} {}, was {}", words(&change.after), words(before))
        }
    }
}
