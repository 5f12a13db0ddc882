//! What models cost: a user's own prices, the shipped ones, and for a model in neither the price
//! of the newest model of its family.
//!
//! A model without any of them has no price, which is not the same as being free.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use event::Cost;

use crate::model_name::{ModelFamily, Version, bare_name, lookup_names};
use crate::price_list::{Price, PriceList, Terms};
use crate::tokens::TokenTotals;

/// The list this program was built with.
static SHIPPED: LazyLock<PriceList> = LazyLock::new(|| {
    PriceList::parse(include_str!("../prices.json")).expect("a test reads the list that is shipped")
});

/// The prices that apply.
#[derive(Clone, Debug)]
pub struct PriceTable {
    own: Option<PriceList>,
    shipped: &'static PriceList,
    /// The newest model of each family.
    families: BTreeMap<Vec<String>, Newest>,
}

#[derive(Clone, Debug)]
struct Newest {
    version: Version,
    name: String,
}

/// Where a price comes from, the surest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PriceSource {
    /// The user's own file.
    Own,
    Shipped,
    /// The newest model of the same family: a guess.
    Family,
}

impl PriceSource {
    pub fn as_str(self) -> &'static str {
        match self {
            PriceSource::Own => "own",
            PriceSource::Shipped => "shipped",
            PriceSource::Family => "family",
        }
    }
}

/// The price that applies to a model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AppliedPrice<'a> {
    /// The entry of the table.
    pub name: &'a str,
    pub source: PriceSource,
    pub price: &'a Price,
}

/// What tokens cost by the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableCost {
    pub usd: Cost,
    /// The price is that of another model of the family, or of another mode.
    pub is_estimate: bool,
}

impl PriceTable {
    /// The table that ships with the program.
    pub fn shipped() -> PriceTable {
        PriceTable::layered(None)
    }

    /// The shipped table below a user's own list.
    pub fn with_own(own: PriceList) -> PriceTable {
        PriceTable::layered(Some(own))
    }

    fn layered(own: Option<PriceList>) -> PriceTable {
        let shipped = &*SHIPPED;
        let mut families = BTreeMap::<Vec<String>, Newest>::new();
        let names = own.iter().chain([shipped]).flat_map(|list| list.models.keys());
        for name in names {
            let ModelFamily { words, version } = ModelFamily::parse(name);
            // Not for an equal version: the user's own list comes first.
            if families.get(&words).is_none_or(|newest| newest.version < version) {
                families.insert(words, Newest { version, name: name.clone() });
            }
        }
        PriceTable { own, shipped, families }
    }

    /// The month the shipped prices were looked up.
    pub fn as_of(&self) -> &str {
        &self.shipped.as_of
    }

    /// The user's own list.
    pub fn own(&self) -> Option<&PriceList> {
        self.own.as_ref()
    }

    /// All entries with the list each one comes from, by name.
    pub fn entries(&self) -> impl Iterator<Item = AppliedPrice<'_>> {
        let mut entries = BTreeMap::new();
        let lists = [(PriceSource::Shipped, Some(self.shipped)), (PriceSource::Own, self.own())];
        for (source, list) in lists {
            for (name, price) in list.iter().flat_map(|list| &list.models) {
                entries.insert(name.as_str(), AppliedPrice { name, source, price });
            }
        }
        entries.into_values()
    }

    /// The price of a model by any of the names providers give it.
    pub fn find(&self, model: &str) -> Option<AppliedPrice<'_>> {
        let names = lookup_names(model);
        self.find_listed(&names).or_else(|| {
            let bare = names.last().expect("the list begins with the name itself");
            let newest = self.families.get(&ModelFamily::parse(bare).words)?;
            let listed = self.find_listed(std::slice::from_ref(&newest.name))?;
            Some(AppliedPrice { source: PriceSource::Family, ..listed })
        })
    }

    /// One name for all the names of a model, so that it has one row.
    pub fn model_name(&self, model: &str) -> String {
        let listed = self.find_listed(&lookup_names(model));
        listed.map_or_else(|| bare_name(model), |listed| listed.name.to_owned())
    }

    /// What tokens of one model cost, or `None` where the model has no price.
    pub fn cost(
        &self,
        model: Option<&str>,
        terms: Terms<'_>,
        tokens: &TokenTotals,
    ) -> Option<TableCost> {
        // Nothing used costs nothing, also for a model without a price.
        if tokens.is_empty() {
            return Some(TableCost { usd: Cost::ZERO, is_estimate: false });
        }
        let AppliedPrice { source, price, .. } = self.find(model?)?;
        Some(TableCost {
            usd: price.cost(terms, tokens),
            is_estimate: source == PriceSource::Family || !price.knows_mode(terms.mode),
        })
    }

    fn find_listed(&self, names: &[String]) -> Option<AppliedPrice<'_>> {
        // The user's aliases also stand for shipped models.
        let named = |name: &String| self.own()?.aliases.get(name).cloned();
        let names: Vec<String> =
            names.iter().map(|name| named(name).unwrap_or_else(|| name.clone())).collect();
        let lists = [(PriceSource::Own, self.own()), (PriceSource::Shipped, Some(self.shipped))];
        lists.into_iter().find_map(|(source, list)| {
            let (name, price) = list?.find(&names)?;
            Some(AppliedPrice { name, source, price })
        })
    }
}

/// Whether the list this program was built with has this model.
pub(crate) fn is_shipped(model: &str) -> bool {
    SHIPPED.models.contains_key(model)
}

/// What a list would change of the prices that apply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PriceUpdate {
    /// The user's own list afterwards: only what differs from the shipped prices.
    pub own: PriceList,
    pub changes: Vec<PriceChange>,
    /// Other names of models that are new, or that stood for another model.
    pub aliases: BTreeMap<String, String>,
    /// Prices that applied already.
    pub unchanged: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PriceChange {
    pub model: String,
    /// `None` for a model that was not in the table.
    pub before: Option<Price>,
    pub after: Price,
}

impl PriceTable {
    /// Puts a list above the prices that apply. What the list does not name stays.
    pub fn update(&self, list: &PriceList) -> PriceUpdate {
        let empty = || PriceList::new(String::new(), BTreeMap::new());
        let mut own = self.own.clone().unwrap_or_else(empty);
        let (mut changes, mut unchanged) = (Vec::new(), 0);
        for (model, after) in &list.models {
            let before = self.find_listed(std::slice::from_ref(model)).map(|it| it.price.clone());
            if before.as_ref() == Some(after) {
                unchanged += 1;
                continue;
            }
            changes.push(PriceChange { model: model.clone(), before, after: after.clone() });
            own.models.insert(model.clone(), after.clone());
        }
        // A later version of this program may ship a newer price, which a copy would hide.
        own.models.retain(|model, price| self.shipped.models.get(model) != Some(price));
        let mut aliases = list.aliases.clone();
        aliases.retain(|alias, model| own.aliases.get(alias) != Some(model));
        own.aliases.extend(aliases.clone());
        if !list.as_of.is_empty() {
            own.as_of.clone_from(&list.as_of);
        }
        PriceUpdate { own, changes, aliases, unchanged }
    }
}

impl PriceUpdate {
    /// Whether the list says anything new.
    pub fn is_news(&self) -> bool {
        !self.changes.is_empty() || !self.aliases.is_empty()
    }
}
