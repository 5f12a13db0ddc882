//! The bytes of compiled rules.
//!
//! ```text
//! magic 8 | version 4 | checksum 4 | length 8 | position 8 | rules 4 | keys 4
//! places of rules: rules × 4
//! keys, sorted: keys × (place 4, length 4, first number 4, count 4)
//! numbers of rules, by key: rules × 4
//! texts: keys, then for each rule its origin, its id and its line
//! ```
//!
//! Numbers are little-endian. The checksum covers everything behind it. Places are counted from
//! the beginning.

use std::collections::BTreeMap;

use crate::rule_set::{Origin, RuleEntry};

const MAGIC: &[u8; 8] = b"HANSRULE";

/// Raised when the bytes or the language of rules change their meaning.
const VERSION: u32 = 1;

const HEADER: usize = 40;
const CHECKED_FROM: usize = 16;

/// Why bytes are no compiled rules.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadCompiledRules {
    #[error("these are no compiled rules")]
    NotRules,
    #[error("the rules were compiled in format {found}; this program reads format {VERSION}")]
    OtherVersion { found: u32 },
    #[error("the compiled rules are cut off or damaged")]
    Damaged,
}

/// Bytes that were checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RuleTable {
    bytes: Vec<u8>,
    rules: usize,
    keys: usize,
}

impl RuleTable {
    pub(super) fn from_bytes(bytes: Vec<u8>) -> Result<RuleTable, BadCompiledRules> {
        if !bytes.starts_with(MAGIC) {
            return Err(BadCompiledRules::NotRules);
        }
        let found = number(&bytes, 8).ok_or(BadCompiledRules::Damaged)?;
        if found != VERSION {
            return Err(BadCompiledRules::OtherVersion { found });
        }
        let read = || {
            let checksum = number(&bytes, 12)?;
            let length = long_number(&bytes, 16)?;
            let is_whole = length == bytes.len() as u64
                && crc32fast::hash(bytes.get(CHECKED_FROM..)?) == checksum;
            let rules = number(&bytes, 32)? as usize;
            let keys = number(&bytes, 36)? as usize;
            // Tables beyond the end would be found by no lookup; better say so.
            let tables = rules.checked_mul(8)?.checked_add(keys.checked_mul(16)?)?;
            let has_tables = bytes.len() >= tables.checked_add(HEADER)?;
            (is_whole && has_tables).then_some((rules, keys))
        };
        let (rules, keys) = read().ok_or(BadCompiledRules::Damaged)?;
        Ok(RuleTable { bytes, rules, keys })
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn position(&self) -> u64 {
        long_number(&self.bytes, 24).unwrap_or_default()
    }

    pub(super) fn len(&self) -> usize {
        self.rules
    }

    pub(super) fn entry(&self, number_of_rule: usize) -> Option<RuleEntry> {
        if number_of_rule >= self.rules {
            return None;
        }
        let place = number(&self.bytes, HEADER + number_of_rule * 4)? as usize;
        let origin = match self.bytes.get(place)? {
            0 => Origin::User,
            _ => Origin::Hub,
        };
        let (id, place) = self.text(place + 1)?;
        let (line, _) = self.text(place)?;
        Some(RuleEntry { id: id.to_owned(), origin, rule: line.parse().ok()? })
    }

    /// The numbers of the rules under a key.
    pub(super) fn find(&self, key: &str) -> impl Iterator<Item = usize> + '_ {
        let place = self.first_key_from(key);
        let row = self.key_row(place).filter(|(there, ..)| *there == key.as_bytes());
        row.into_iter().flat_map(|(_, first, count)| self.numbers(first, count))
    }

    /// The numbers of the rules under all keys with a beginning.
    pub(super) fn find_beginning(&self, beginning: &str) -> impl Iterator<Item = usize> + '_ {
        let beginning = beginning.as_bytes().to_vec();
        let rows = (self.first_key_from_bytes(&beginning)..).map_while(|at| self.key_row(at));
        let rows = rows.take_while(move |(key, ..)| key.starts_with(&beginning));
        rows.flat_map(|(_, first, count)| self.numbers(first, count))
    }

    fn first_key_from(&self, key: &str) -> usize {
        self.first_key_from_bytes(key.as_bytes())
    }

    /// The place of the first key that is not smaller.
    fn first_key_from_bytes(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.keys);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.key_row(middle) {
                Some((there, ..)) if there < key => low = middle + 1,
                _ => high = middle,
            }
        }
        low
    }

    /// A key, and where the numbers of its rules are.
    fn key_row(&self, at: usize) -> Option<(&[u8], usize, usize)> {
        if at >= self.keys {
            return None;
        }
        let row = HEADER + self.rules * 4 + at * 16;
        let field = |index: usize| number(&self.bytes, row + index * 4).map(|field| field as usize);
        let (place, length) = (field(0)?, field(1)?);
        Some((self.bytes.get(place..place.checked_add(length)?)?, field(2)?, field(3)?))
    }

    fn numbers(&self, first: usize, count: usize) -> impl Iterator<Item = usize> + '_ {
        let begin = HEADER + self.rules * 4 + self.keys * 16;
        let last = first.saturating_add(count).min(self.rules);
        (first..last).filter_map(move |at| Some(number(&self.bytes, begin + at * 4)? as usize))
    }

    fn text(&self, place: usize) -> Option<(&str, usize)> {
        let length = number(&self.bytes, place)? as usize;
        let begin = place + 4;
        let end = begin.checked_add(length)?;
        Some((std::str::from_utf8(self.bytes.get(begin..end)?).ok()?, end))
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(field.try_into().ok()?))
}

fn long_number(bytes: &[u8], at: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(field.try_into().ok()?))
}

pub(super) struct TableBuilder {
    position: u64,
    by_key: BTreeMap<String, Vec<u32>>,
    entries: Vec<Vec<u8>>,
}

impl TableBuilder {
    pub(super) fn new(position: u64) -> TableBuilder {
        TableBuilder { position, by_key: BTreeMap::new(), entries: Vec::new() }
    }

    pub(super) fn push(&mut self, entry: &RuleEntry, key: &str) {
        let mut bytes = vec![u8::from(entry.origin == Origin::Hub)];
        for text in [&entry.id, &entry.rule.to_string()] {
            bytes.extend((text.len() as u32).to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        self.by_key.entry(key.to_owned()).or_default().push(self.entries.len() as u32);
        self.entries.push(bytes);
    }

    pub(super) fn finish(self) -> RuleTable {
        let (rules, keys) = (self.entries.len(), self.by_key.len());
        let mut place = HEADER + rules * 8 + keys * 16;
        let mut key_rows = Vec::new();
        let mut numbers = Vec::new();
        let mut texts = Vec::new();
        for (key, of_key) in &self.by_key {
            let first = numbers.len() / 4;
            for field in [place, key.len(), first, of_key.len()] {
                key_rows.extend((field as u32).to_le_bytes());
            }
            numbers.extend(of_key.iter().flat_map(|number| number.to_le_bytes()));
            texts.extend(key.as_bytes());
            place += key.len();
        }
        let mut places = Vec::new();
        for entry in &self.entries {
            places.extend((place as u32).to_le_bytes());
            texts.extend(entry);
            place += entry.len();
        }
        let mut checked = Vec::new();
        checked.extend((place as u64).to_le_bytes());
        checked.extend(self.position.to_le_bytes());
        checked.extend((rules as u32).to_le_bytes());
        checked.extend((keys as u32).to_le_bytes());
        for table in [places, key_rows, numbers, texts] {
            checked.extend(table);
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(crc32fast::hash(&checked).to_le_bytes());
        bytes.extend(checked);
        RuleTable { bytes, rules, keys }
    }
}
