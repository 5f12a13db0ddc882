//! What models cost, from a table that ships with the program or from a user's own.
//!
//! Money is counted in whole nano-dollars; no floating point touches a sum. A model that is not
//! in the table has no price, which is not the same as being free.

use std::collections::BTreeMap;

use event::Cost;
use serde::Deserialize;

use crate::tokens::TokenTotals;
use crate::usage::CONTEXT_STEPS;

/// The table this program was built with.
const SHIPPED: &str = include_str!("../prices.json");

/// The format of the table. Fields may be added to it.
const VERSION: u32 = 1;

const TOKENS_PER_PRICE: i128 = 1_000_000;

/// Prices by model.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct PriceTable {
    version: u32,
    /// The month the prices were looked up.
    #[serde(default)]
    as_of: String,
    models: BTreeMap<String, Price>,
    /// Other names, each with a name in `models`.
    #[serde(default)]
    aliases: BTreeMap<String, String>,
}

/// Dollars for a million tokens of one model.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
struct Price {
    input: Cost,
    output: Cost,
    /// As `input` where it is missing.
    cache_read: Option<Cost>,
    /// As `input` where it is missing: a provider that does not name it charges nothing extra.
    cache_write_5m: Option<Cost>,
    /// As `cache_write_5m` where it is missing.
    cache_write_1h: Option<Cost>,
    /// Prices of requests that exceed some context, in any order.
    #[serde(default)]
    above: Vec<PriceAbove>,
}

/// What is different for requests with more context than `context_tokens`.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
struct PriceAbove {
    context_tokens: u64,
    input: Option<Cost>,
    output: Option<Cost>,
    cache_read: Option<Cost>,
    cache_write_5m: Option<Cost>,
    cache_write_1h: Option<Cost>,
}

/// A text that is no price table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPrices {
    #[error("the price table cannot be read: {0}")]
    Json(String),
    #[error("the price table has format {0}; this program reads {VERSION}")]
    Version(u32),
    #[error(
        "`{model}` has a price above {context_tokens} tokens of context; told apart are {CONTEXT_STEPS:?}"
    )]
    Context { model: String, context_tokens: u64 },
    #[error("`{alias}` stands for `{model}`, which has no price")]
    Alias { alias: String, model: String },
    #[error("`{model}` has a price below zero")]
    Negative { model: String },
}

impl PriceTable {
    /// The table that ships with the program.
    pub fn shipped() -> PriceTable {
        PriceTable::parse(SHIPPED).expect("a test reads the table that is shipped")
    }

    /// Reads a table in the format of the shipped one.
    pub fn parse(json: &str) -> Result<PriceTable, BadPrices> {
        let table: PriceTable =
            serde_json::from_str(json).map_err(|error| BadPrices::Json(error.to_string()))?;
        if table.version != VERSION {
            return Err(BadPrices::Version(table.version));
        }
        for (model, price) in &table.models {
            price.check_rates(model)?;
        }
        for (alias, model) in &table.aliases {
            if !table.models.contains_key(model) {
                return Err(BadPrices::Alias { alias: alias.clone(), model: model.clone() });
            }
        }
        Ok(table)
    }

    /// The month the prices were looked up, as the table says.
    pub fn as_of(&self) -> &str {
        &self.as_of
    }

    /// What tokens of one model cost, or `None` where the model has no price.
    ///
    /// `context_above` is the step of context their requests exceeded, or 0.
    pub fn cost(
        &self,
        model: Option<&str>,
        context_above: u64,
        tokens: &TokenTotals,
    ) -> Option<Cost> {
        // Nothing used costs nothing, also for a model without a price.
        if *tokens == (TokenTotals { requests: tokens.requests, ..TokenTotals::default() }) {
            return Some(Cost::ZERO);
        }
        Some(self.find_price(model?)?.cost(context_above, tokens))
    }

    /// The price of a model by any of the names providers give it.
    fn find_price(&self, model: &str) -> Option<&Price> {
        lookup_names(model).iter().find_map(|name| {
            let name = self.aliases.get(name).unwrap_or(name);
            self.models.get(name)
        })
    }
}

impl Price {
    fn check_rates(&self, model: &str) -> Result<(), BadPrices> {
        // Use is stored by these steps, so a price above any other size could never apply.
        for above in &self.above {
            if !CONTEXT_STEPS.contains(&above.context_tokens) {
                let context_tokens = above.context_tokens;
                return Err(BadPrices::Context { model: model.to_owned(), context_tokens });
            }
        }
        // The rates are checked as they apply, with what each step inherits.
        let steps = self.above.iter().map(|above| above.context_tokens).chain([0]);
        let is_negative = |rates: [Cost; 5]| rates.into_iter().any(|rate| rate < Cost::ZERO);
        if steps.map(|step| self.rates(step)).any(is_negative) {
            return Err(BadPrices::Negative { model: model.to_owned() });
        }
        Ok(())
    }

    fn cost(&self, context_above: u64, tokens: &TokenTotals) -> Cost {
        let [input, output, cache_read, cache_write_5m, cache_write_1h] = self.rates(context_above);
        // `cache_creation` includes the part for an hour, which has a price of its own.
        let written_5m = tokens.cache_creation.saturating_sub(tokens.cache_creation_1h);
        let millionths: i128 = [
            (input, tokens.input),
            (output, tokens.output),
            (cache_read, tokens.cache_read),
            (cache_write_5m, written_5m),
            (cache_write_1h, tokens.cache_creation_1h),
        ]
        .into_iter()
        .map(|(rate, tokens)| i128::from(rate.nanos()).saturating_mul(i128::from(tokens)))
        .sum();
        // Rounded once, at the end.
        let nanos = (millionths + TOKENS_PER_PRICE / 2) / TOKENS_PER_PRICE;
        Cost::from_nanos(nanos.clamp(0, i128::from(i64::MAX)) as i64)
    }

    /// Input, output, cache read, cache write for five minutes and for an hour.
    fn rates(&self, context_above: u64) -> [Cost; 5] {
        // A table of a user may have its steps in any order; the largest that was exceeded counts.
        let exceeded = self.above.iter().filter(|above| above.context_tokens <= context_above);
        let above = exceeded.max_by_key(|above| above.context_tokens);
        let told = |of: fn(&PriceAbove) -> Option<Cost>| above.and_then(of);
        let input = told(|above| above.input).unwrap_or(self.input);
        let write_5m = told(|above| above.cache_write_5m).or(self.cache_write_5m).unwrap_or(input);
        [
            input,
            told(|above| above.output).unwrap_or(self.output),
            told(|above| above.cache_read).or(self.cache_read).unwrap_or(input),
            write_5m,
            told(|above| above.cache_write_1h).or(self.cache_write_1h).unwrap_or(write_5m),
        ]
    }
}

/// The names a model may stand under in a table, the most exact first.
///
/// Hosts put a vendor before a model, and a version, a date or a variant behind it.
fn lookup_names(model: &str) -> Vec<String> {
    let whole = model.trim().to_lowercase();
    // `openrouter/anthropic/claude-…` and `us.anthropic.claude-…` are one model.
    let mut name = whole.rsplit('/').next().unwrap_or_default();
    if let Some((vendor, rest)) = name.split_once("anthropic.")
        && vendor.len() <= VENDOR_LEN_MAX
    {
        name = rest;
    }
    let mut names = vec![whole.clone(), name.to_owned()];
    while let Some(shorter) = without_last_mark(name) {
        name = shorter;
        names.push(name.to_owned());
    }
    // Some hosts write the version of a Claude model with a dot.
    if name.starts_with("claude") && name.contains('.') {
        names.push(name.replace('.', "-"));
    }
    names
}

/// Regions such as `us.` and `global.` before a vendor's name.
const VENDOR_LEN_MAX: usize = 8;

/// The name without the last thing that only tells one release of a model from another.
fn without_last_mark(name: &str) -> Option<&str> {
    // `:free`, `@20251101`, `[1m]`: a variant, a date or a size of context.
    for mark in [':', '@', '['] {
        if let Some((name, _)) = name.split_once(mark) {
            return Some(name);
        }
    }
    let ends = ["-latest", "-preview", "-exp", "-v1", "-v2", "-thinking", "-beta"];
    if let Some(name) = ends.iter().find_map(|end| name.strip_suffix(end)) {
        return Some(name);
    }
    // -20251101, -2025-08-07, -09-2025, -05-06
    let (rest, last) = name.rsplit_once('-')?;
    let is_number = |text: &str, len| text.len() == len && text.bytes().all(|b| b.is_ascii_digit());
    if is_number(last, 8) {
        return Some(rest);
    }
    // The rest are dates in two or three parts. A name such as `gpt-4-32k` has none.
    if !is_number(last, 2) && !is_number(last, 4) {
        return None;
    }
    let (rest, month) = rest.rsplit_once('-')?;
    if !is_number(month, 2) {
        return None;
    }
    if is_number(last, 4) {
        return Some(rest);
    }
    match rest.rsplit_once('-') {
        Some((rest, year)) if is_number(year, 4) => Some(rest),
        // `-05-06` is a date only behind `-preview`; `claude-opus-4-5` has none.
        Some((_, "preview" | "exp")) => Some(rest),
        _ => None,
    }
}
