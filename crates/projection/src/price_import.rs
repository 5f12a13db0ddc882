//! Reads price tables of other projects: LiteLLM's, and the one of models.dev.
//!
//! Taken are the models under the names of their makers. A host that resells a model has another price for
//! it, and the record of an agent does not say which host was paid.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use event::{Cost, Raw};
use serde::Deserialize;

use crate::model_name::bare_name;
use crate::price_list::{BadPrices, Price, PriceAbove, PriceList};
use crate::usage::CONTEXT_STEPS;

/// The makers of models, by the names of both tables.
const MAKERS: &[&str] = &[
    "alibaba",
    "anthropic",
    "dashscope",
    "deepseek",
    "gemini",
    "google",
    "mistral",
    "moonshot",
    "moonshotai",
    "openai",
    "xai",
    "zai",
];

/// What models people talk and code with are called in LiteLLM's table.
const LITELLM_MODES: &[&str] = &["chat", "responses"];

/// Modes with a price of their own, and how LiteLLM's table writes them behind a field.
const LITELLM_SUFFIXES: &[(&str, &str)] = &[
    ("batch", "_batches"),
    ("flex", "_flex"),
    ("priority", "_priority"),
    ("fast", "_priority"),
    ("ultrafast", "_ultrafast"),
];

const TOKENS_PER_PRICE: i64 = 1_000_000;

/// A list that was read from a file, and what of the file is not in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportedPrices {
    pub list: PriceList,
    pub form: PriceForm,
    /// Entries of hosts, of other kinds of models, or without a price by token.
    pub skipped: u64,
    /// Models with a price above a size of context that is not told apart. The price is left out.
    pub other_bands: Vec<String>,
}

/// Whose form a file has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PriceForm {
    Own,
    LiteLlm,
    ModelsDev,
}

impl PriceForm {
    pub fn as_str(self) -> &'static str {
        match self {
            PriceForm::Own => "own",
            PriceForm::LiteLlm => "litellm",
            PriceForm::ModelsDev => "models.dev",
        }
    }
}

impl ImportedPrices {
    /// Reads a file in any of the three forms; the error names the entry that is wrong.
    pub fn parse(json: &str) -> Result<ImportedPrices, BadPrices> {
        let entries: BTreeMap<String, Raw> =
            serde_json::from_str(json).map_err(|error| BadPrices::Json(error.to_string()))?;
        if entries.contains_key("version") && entries.contains_key("models") {
            let list = PriceList::parse(json)?;
            let form = PriceForm::Own;
            return Ok(ImportedPrices { list, form, skipped: 0, other_bands: Vec::new() });
        }
        let has_field = |entry: &Raw, wanted: &[&str]| {
            entry.fields().any(|field| wanted.contains(&&*field.name))
        };
        let mut reader = ImportReader::default();
        if entries.values().any(|entry| has_field(entry, &["models"])) {
            reader.read_models_dev(entries)?;
            return Ok(reader.finish(PriceForm::ModelsDev));
        }
        if entries.values().any(|entry| has_field(entry, &["litellm_provider"])) {
            reader.read_litellm(entries)?;
            return Ok(reader.finish(PriceForm::LiteLlm));
        }
        Err(BadPrices::UnknownForm)
    }
}

/// What was read so far.
#[derive(Default)]
struct ImportReader {
    /// With what the name had around it, the plainest first.
    models: BTreeMap<String, ((bool, bool), Price)>,
    skipped: u64,
    other_bands: Vec<String>,
}

impl ImportReader {
    fn read_litellm(&mut self, entries: BTreeMap<String, Raw>) -> Result<(), BadPrices> {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Head {
            litellm_provider: Option<String>,
            mode: Option<String>,
            provider_specific_entry: Option<BTreeMap<String, Raw>>,
        }
        for (key, entry) in entries {
            let bad = |reason: String| BadPrices::Entry { model: key.clone(), reason };
            let head: Head = entry.read().map_err(|error| bad(error.to_string()))?;
            let is_of = |named: &Option<String>, list: &[&str]| {
                named.as_deref().is_some_and(|named| list.contains(&named))
            };
            if !is_of(&head.litellm_provider, MAKERS) || !is_of(&head.mode, LITELLM_MODES) {
                self.skipped += 1;
                continue;
            }
            let fields = Fields::from_entry(&entry);
            let Some(mut price) = fields.price("", &bad)? else {
                self.skipped += 1;
                continue;
            };
            for (mode, suffix) in LITELLM_SUFFIXES {
                // Anthropic's table has another word for what OpenAI calls priority.
                let is_made_fast = head.litellm_provider.as_deref() == Some("openai");
                if let Some(percent) = fields.percent(suffix, &price, &bad)?
                    && (*mode != "fast" || is_made_fast)
                {
                    price.modes.insert((*mode).to_owned(), percent);
                }
            }
            let fast = head.provider_specific_entry.as_ref().and_then(|entry| entry.get("fast"));
            if let Some(times) = fast.and_then(|times| times.read::<Cost>().ok()) {
                price.modes.insert("fast".to_owned(), percent_of(times, Cost::from_nanos(NANOS)));
            }
            // `us/…` and `fast/…` are prices of a region and of a mode, which no record shows.
            let maker = key.split_once('/').map(|(prefix, _)| prefix);
            if maker.is_some() && maker != head.litellm_provider.as_deref() {
                self.skipped += 1;
                continue;
            }
            self.read_bands(&key, &fields, &mut price, &bad)?;
            self.take(&key, price)?;
        }
        Ok(())
    }

    /// Reads the prices above sizes of context.
    fn read_bands(
        &mut self,
        key: &str,
        fields: &Fields,
        price: &mut Price,
        bad: &dyn Fn(String) -> BadPrices,
    ) -> Result<(), BadPrices> {
        for step in CONTEXT_STEPS {
            let above = fields.above(step, &format!("_above_{}k_tokens", step / 1_000), bad)?;
            price.above.extend(above);
        }
        let steps = CONTEXT_STEPS.map(|step| format!("above_{}k_tokens", step / 1_000));
        let is_other = |name: &String| {
            let band = name.split_once("_above_").map(|(_, band)| format!("above_{band}"));
            band.is_some_and(|band| {
                band.ends_with("k_tokens")
                    && !steps.iter().any(|step| band.ends_with(step.as_str()))
            })
        };
        if fields.0.keys().any(is_other) {
            self.other_bands.push(key.to_owned());
        }
        Ok(())
    }

    fn read_models_dev(&mut self, entries: BTreeMap<String, Raw>) -> Result<(), BadPrices> {
        #[derive(Deserialize)]
        struct Provider {
            #[serde(default)]
            models: BTreeMap<String, Model>,
        }
        #[derive(Deserialize)]
        struct Model {
            cost: Option<ModelCost>,
        }
        #[derive(Deserialize)]
        struct ModelCost {
            input: Cost,
            output: Cost,
            cache_read: Option<Cost>,
            cache_write: Option<Cost>,
            context_over_200k: Option<Box<ModelCost>>,
        }
        for (provider, entry) in entries {
            let told = entry.read::<Provider>().map_err(|error| BadPrices::Entry {
                model: provider.clone(),
                reason: error.to_string(),
            })?;
            for (name, model) in told.models {
                let Some(cost) = model.cost.filter(|_| MAKERS.contains(&provider.as_str())) else {
                    self.skipped += 1;
                    continue;
                };
                let above = cost.context_over_200k.map(|above| PriceAbove {
                    context_tokens: 200_000,
                    input: Some(above.input),
                    output: Some(above.output),
                    cache_read: above.cache_read,
                    cache_write_5m: above.cache_write,
                    cache_write_1h: None,
                });
                let price = Price {
                    input: cost.input,
                    output: cost.output,
                    cache_read: cost.cache_read,
                    cache_write_5m: cost.cache_write,
                    above: above.into_iter().collect(),
                    ..Price::default()
                };
                self.take(&name, price)?;
            }
        }
        Ok(())
    }

    /// Keeps one price by model: that of the plain name, else of the name with the maker before it
    /// or a date behind it.
    fn take(&mut self, key: &str, price: Price) -> Result<(), BadPrices> {
        price.check(key)?;
        let whole = key.to_lowercase();
        let name = whole.rsplit('/').next().unwrap_or(&whole);
        let bare = bare_name(name);
        let rank = (name != bare, name != whole);
        match self.models.entry(bare) {
            Entry::Vacant(place) => _ = place.insert((rank, price)),
            Entry::Occupied(mut known) if rank < known.get().0 => _ = known.insert((rank, price)),
            Entry::Occupied(_) => {}
        }
        Ok(())
    }

    fn finish(self, form: PriceForm) -> ImportedPrices {
        let models = self.models.into_iter().map(|(model, (_, price))| (model, price));
        let list = PriceList::new(String::new(), models.collect());
        ImportedPrices { list, form, skipped: self.skipped, other_bands: self.other_bands }
    }
}

const NANOS: i64 = 1_000_000_000;

/// The fields of an entry in LiteLLM's table, which has dollars for one token.
struct Fields(BTreeMap<String, String>);

impl Fields {
    fn from_entry(entry: &Raw) -> Fields {
        Fields(
            entry.fields().map(|field| (field.name.to_string(), field.json.to_owned())).collect(),
        )
    }

    /// Dollars for a million tokens.
    fn rate(
        &self,
        name: &str,
        bad: &dyn Fn(String) -> BadPrices,
    ) -> Result<Option<Cost>, BadPrices> {
        let Some(json) = self.0.get(name).filter(|json| *json != "null") else { return Ok(None) };
        let wrong = || bad(format!("`{name}` is no number: {json}"));
        // Moved by six digits as text: a price of one token is smaller than a nano-dollar.
        let text = json.trim_matches('"');
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().map_err(|_| wrong())?),
            None => (text, 0),
        };
        let digits = i64::from(TOKENS_PER_PRICE.ilog10());
        let moved = format!("{mantissa}e{}", exponent.saturating_add(digits));
        moved.parse().map(Some).map_err(|_| wrong())
    }

    /// The price with a suffix behind each field; `None` without input and output.
    fn price(
        &self,
        suffix: &str,
        bad: &dyn Fn(String) -> BadPrices,
    ) -> Result<Option<Price>, BadPrices> {
        let rate = |name: &str| self.rate(&format!("{name}{suffix}"), bad);
        let (Some(input), Some(output)) =
            (rate("input_cost_per_token")?, rate("output_cost_per_token")?)
        else {
            return Ok(None);
        };
        Ok(Some(Price {
            input,
            output,
            cache_read: rate("cache_read_input_token_cost")?,
            cache_write_5m: rate("cache_creation_input_token_cost")?,
            cache_write_1h: rate("cache_creation_input_token_cost_above_1hr")?,
            ..Price::default()
        }))
    }

    fn above(
        &self,
        step: u64,
        suffix: &str,
        bad: &dyn Fn(String) -> BadPrices,
    ) -> Result<Option<PriceAbove>, BadPrices> {
        let rate = |name: &str| self.rate(&format!("{name}{suffix}"), bad);
        let above = PriceAbove {
            context_tokens: step,
            input: rate("input_cost_per_token")?,
            output: rate("output_cost_per_token")?,
            cache_read: rate("cache_read_input_token_cost")?,
            cache_write_5m: rate("cache_creation_input_token_cost")?,
            cache_write_1h: rate("cache_creation_input_token_cost_above_1hr")?,
        };
        let is_there = above != PriceAbove { context_tokens: step, ..PriceAbove::default() };
        Ok(is_there.then_some(above))
    }

    /// What a mode costs in percent. The fields of a mode relate to the usual ones all alike.
    fn percent(
        &self,
        suffix: &str,
        usual: &Price,
        bad: &dyn Fn(String) -> BadPrices,
    ) -> Result<Option<u32>, BadPrices> {
        let rate = self.rate(&format!("output_cost_per_token{suffix}"), bad)?;
        Ok(rate.filter(|_| usual.output > Cost::ZERO).map(|rate| percent_of(rate, usual.output)))
    }
}

/// Rounded to a whole percent.
fn percent_of(part: Cost, whole: Cost) -> u32 {
    let percent = (i128::from(part.nanos()) * 100 + i128::from(whole.nanos()) / 2)
        / i128::from(whole.nanos()).max(1);
    u32::try_from(percent).unwrap_or(u32::MAX)
}
