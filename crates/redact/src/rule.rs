//! The form of rules as data.

use serde::{Deserialize, Serialize};

use crate::BadRule;

/// A rule that finds one kind of secret. It has either `keywords` and a `pattern`, or `names`.
///
/// If two rules find the same secret, the earlier one gives the kind.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The kind in the mark, such as `github_token`.
    pub kind: String,
    /// Texts, in any case. Every match contains one of them; elsewhere the pattern is not tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    /// A regular expression over bytes that begins where the keyword begins. Its first group is
    /// the secret; without a group, the whole match is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The number of bytes before the keyword at which a match may begin.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lead: usize,
    #[serde(default, skip_serializing_if = "is_default")]
    pub begins: Begins,
    #[serde(default, skip_serializing_if = "is_default")]
    pub continues: Continues,
    /// Parts of the names of secrets, in any case: `NAME=value`, `"name": "value"`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub check: Check,
}

/// Where a match may begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Begins {
    /// At the beginning of a word.
    #[default]
    Word,
    /// Also in the middle of a word: for prefixes that no other text has.
    Anywhere,
    /// At the first line of the key that the match ends. Without such a line there is no match.
    KeyBlock,
}

/// How a secret continues after the match.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Continues {
    /// With token characters, if the match reached the end of its window.
    #[default]
    Token,
    /// With further lines of a key, up to its end marker.
    KeyBlock,
}

/// The form that a value must have to count as a secret. A placeholder never does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// Any form: the pattern is specific enough.
    #[default]
    Any,
    /// Random: letters and digits mixed, no word, no path, no date.
    Random,
    /// A password that a person could choose: not code, and not a common word of a form.
    Password,
    /// A password that may contain blanks.
    Phrase,
}

impl Rule {
    /// Reads a list of rules from JSON.
    pub fn parse_list(json: &str) -> Result<Vec<Rule>, BadRule> {
        serde_json::from_str(json).map_err(BadRule::Json)
    }
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
