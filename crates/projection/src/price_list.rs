//! A list of prices in the form it is shipped and stored in, read and checked entry by entry.
//!
//! Money is counted in whole nano-dollars; no floating point touches a sum.

use std::collections::BTreeMap;

use event::{Cost, Raw};
use serde::{Deserialize, Serialize};

use crate::price::is_shipped;
use crate::tokens::TokenTotals;
use crate::usage::CONTEXT_STEPS;

/// The format of the list. Fields may be added to it.
const VERSION: u32 = 1;

const TOKENS_PER_PRICE: i128 = 1_000_000;

/// What a request costs that shows no mode, in percent of the price.
const USUAL_PERCENT: u32 = 100;

/// Prices by model, as one file has them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PriceList {
    version: u32,
    /// The month the prices were looked up.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub as_of: String,
    pub models: BTreeMap<String, Price>,
    /// Other names, each of a model in `models` or in the list that is shipped.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub aliases: BTreeMap<String, String>,
}

/// Dollars for a million tokens of one model.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Price {
    pub input: Cost,
    pub output: Cost,
    /// As `input` where it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<Cost>,
    /// As `input` where it is missing: a provider that does not name it charges nothing extra.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_5m: Option<Cost>,
    /// As `cache_write_5m` where it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_1h: Option<Cost>,
    /// What requests in a mode such as `batch` or `fast` cost, in percent of the prices.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub modes: BTreeMap<String, u32>,
    /// Prices of requests that exceed some context, in any order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub above: Vec<PriceAbove>,
}

/// What is different for requests with more context than `context_tokens`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PriceAbove {
    pub context_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Cost>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Cost>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<Cost>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_5m: Option<Cost>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_1h: Option<Cost>,
}

/// What one request, or many of its kind, were made with beside the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Terms<'a> {
    /// The step of [`CONTEXT_STEPS`] the requests exceeded, or 0.
    pub context_above: u64,
    /// A mode with a price of its own, such as `batch`; none for the usual one.
    pub mode: Option<&'a str>,
}

/// A text that is no list of prices.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPrices {
    #[error("the price table cannot be read: {0}")]
    Json(String),
    #[error("the price table has format {0}; this program reads {VERSION}")]
    Version(u32),
    #[error("the entry `{model}` cannot be read: {reason}")]
    Entry { model: String, reason: String },
    #[error(
        "`{model}` has a price above {context_tokens} tokens of context; told apart are {CONTEXT_STEPS:?}"
    )]
    Context { model: String, context_tokens: u64 },
    #[error("`{alias}` stands for `{model}`, which has no price")]
    Alias { alias: String, model: String },
    #[error("`{model}` has a price below zero")]
    Negative { model: String },
    #[error(
        "this is none of the forms that are read: a `prices.json` of this program, the price table \
         of LiteLLM, or the one of models.dev"
    )]
    UnknownForm,
}

impl PriceList {
    pub fn new(as_of: String, models: BTreeMap<String, Price>) -> PriceList {
        PriceList { version: VERSION, as_of, models, aliases: BTreeMap::new() }
    }

    /// Reads a list; the error names the entry that is wrong.
    pub fn parse(json: &str) -> Result<PriceList, BadPrices> {
        #[derive(Deserialize)]
        struct Written {
            version: u32,
            #[serde(default)]
            as_of: String,
            models: BTreeMap<String, Raw>,
            #[serde(default)]
            aliases: BTreeMap<String, String>,
        }
        let written: Written =
            serde_json::from_str(json).map_err(|error| BadPrices::Json(error.to_string()))?;
        if written.version != VERSION {
            return Err(BadPrices::Version(written.version));
        }
        let mut models = BTreeMap::new();
        for (model, entry) in written.models {
            let price = entry.read::<Price>().map_err(|error| BadPrices::Entry {
                model: model.clone(),
                reason: error.to_string(),
            })?;
            price.check(&model)?;
            models.insert(model, price);
        }
        for (alias, model) in &written.aliases {
            if !models.contains_key(model) && !is_shipped(model) {
                return Err(BadPrices::Alias { alias: alias.clone(), model: model.clone() });
            }
        }
        let Written { as_of, aliases, .. } = written;
        Ok(PriceList { version: VERSION, as_of, models, aliases })
    }

    /// The entry of a model by one of its names, with the name it stands under.
    pub(crate) fn find(&self, names: &[String]) -> Option<(&str, &Price)> {
        names.iter().find_map(|name| {
            let name = self.aliases.get(name).unwrap_or(name);
            self.models.get_key_value(name).map(|(name, price)| (name.as_str(), price))
        })
    }
}

impl Price {
    /// Whether the price can be used; `model` names it in the error.
    pub(crate) fn check(&self, model: &str) -> Result<(), BadPrices> {
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

    /// Whether the price says what a request in this mode costs.
    pub(crate) fn knows_mode(&self, mode: Option<&str>) -> bool {
        mode.is_none_or(|mode| self.modes.contains_key(mode))
    }

    /// What tokens cost. A mode that the price does not name costs the usual.
    pub(crate) fn cost(&self, terms: Terms<'_>, tokens: &TokenTotals) -> Cost {
        let rates = self.rates(terms.context_above);
        let percent = terms.mode.and_then(|mode| self.modes.get(mode)).copied();
        let percent = i128::from(percent.unwrap_or(USUAL_PERCENT));
        // `cache_creation` includes the part for an hour, which has a price of its own.
        let written_5m = tokens.cache_creation.saturating_sub(tokens.cache_creation_1h);
        let [input, output, cache_read, cache_write_5m, cache_write_1h] = rates;
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
        let unit = TOKENS_PER_PRICE * i128::from(USUAL_PERCENT);
        let nanos = millionths.saturating_mul(percent).saturating_add(unit / 2) / unit;
        Cost::from_nanos(nanos.clamp(0, i128::from(i64::MAX)) as i64)
    }

    /// Input, output, cache read, cache write for five minutes and for an hour.
    pub fn rates(&self, context_above: u64) -> [Cost; 5] {
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
