//! What rules look like, as data.

use serde::{Deserialize, Serialize};

use crate::BadRule;

/// One thing to look for. It has either `keywords` and a `pattern`, or `names`.
///
/// Of two rules that find the same, the earlier one gives the kind.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What the mark says: `github_token`.
    pub kind: String,
    /// Texts, in any case, one of which every match contains at its place. Nothing is tried where
    /// none of them stands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    /// A regular expression over bytes that begins where the keyword begins. What its first group
    /// matched is the secret; without a group, all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// How many bytes before the keyword a match may begin.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lead: usize,
    #[serde(default, skip_serializing_if = "is_default")]
    pub begins: Begins,
    #[serde(default, skip_serializing_if = "is_default")]
    pub continues: Continues,
    /// Parts of names, in any case, whose value is a secret: `NAME=value`, `"name": "value"`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub check: Check,
}

/// Where a match may begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Begins {
    /// Where a word begins.
    #[default]
    Word,
    /// In the middle of a word too: for beginnings that nothing else has.
    Anywhere,
}

/// How a secret goes on behind what the pattern saw of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Continues {
    /// With characters of a token, if the pattern reached the end of its window.
    #[default]
    Token,
    /// With further lines of a key, up to the line that ends it.
    KeyBlock,
}

/// What a value has to look like to be taken for a secret. A placeholder never is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// The pattern says enough.
    #[default]
    Any,
    /// As if by chance: letters and digits mixed, no word, no path, no date.
    Random,
    /// Anything that people choose, if it is neither code nor a word of every form.
    Password,
    /// The same, and it may have blanks.
    Phrase,
}

impl Rule {
    /// Reads a list of rules from JSON.
    pub fn list(json: &str) -> Result<Vec<Rule>, BadRule> {
        serde_json::from_str(json).map_err(BadRule::Json)
    }
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
