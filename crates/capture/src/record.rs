//! One complete record, and where it stands in its source.

use std::borrow::Cow;

use serde::Deserialize;

/// A line, a row or an entry of a document.
#[derive(Clone, Debug)]
pub struct SourceRecord<'a> {
    /// The record as text; what was no UTF-8, and every half of a surrogate pair, is replaced.
    pub text: Cow<'a, str>,
    /// Where it begins in its source.
    pub offset: u64,
    /// Its length in its source, the line end included.
    pub length: u64,
    /// 0, 1, 2 … within its source.
    pub number: u64,
    /// What tells it from all others of its source, where its place does not: a row can be read
    /// again at another one.
    pub key: &'a str,
}

impl SourceRecord<'_> {
    /// The record as `T`, which may borrow from it. Every agent's records are objects.
    pub fn read<'r, T: Deserialize<'r>>(&'r self) -> Result<T, serde_json::Error> {
        // serde would fill a struct from a list, too, member by member.
        if !self.text.starts_with('{') {
            return Err(serde::de::Error::custom("it is not an object"));
        }
        serde_json::from_str(&self.text)
    }
}

/// A string of a record, copied only where it has escapes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct RecordText<'a>(#[serde(borrow)] Cow<'a, str>);

impl RecordText<'_> {
    pub fn into_owned(self) -> String {
        self.0.into_owned()
    }
}

impl std::ops::Deref for RecordText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}
