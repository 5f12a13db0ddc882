//! Rules in the form that a hook loads: one block of bytes with an index.
//!
//! The rules stand in it as text. Only those that the index names for an action are parsed, so
//! that many rules cost about as much as few. The bytes are checked as a whole when they are
//! loaded: a file that is torn or from a newer program is refused.

mod format; // the bytes: header, tables, texts

use std::collections::BTreeSet;

use crate::rule_set::{HubAllows, RuleEntry, RuleSet};
use crate::tool_class::ToolClass;

pub use format::BadCompiledRules;
use format::{RuleTable, TableBuilder};

/// A set of rules with an index by class and word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompiledRules {
    table: RuleTable,
}

impl CompiledRules {
    /// Compiles rules. `position` says up to which position of the journal the set is complete, so
    /// that a reader notices a file that is older than the journal's rules.
    pub fn compile(rules: &RuleSet, position: u64) -> CompiledRules {
        let mut builder = TableBuilder::new(position);
        for entry in rules.entries() {
            let class = entry.rule.tool.class;
            builder.push(entry, &key(class, entry.rule.pattern.key().as_deref()));
        }
        CompiledRules { table: builder.finish() }
    }

    /// Checks bytes that [`CompiledRules::as_bytes`] gave, and takes them over.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<CompiledRules, BadCompiledRules> {
        Ok(CompiledRules { table: RuleTable::from_bytes(bytes)? })
    }

    /// The rules as bytes for a file. Equal rules give equal bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.table.as_bytes()
    }

    /// Up to which position of the journal the set is complete.
    pub fn position(&self) -> u64 {
        self.table.position()
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every rule, as it was compiled.
    pub fn to_rule_set(&self) -> Result<RuleSet, HubAllows> {
        let mut rules = RuleSet::new();
        for number in 0..self.len() {
            if let Some(RuleEntry { id, origin, rule }) = self.entry(number) {
                rules.push(id, origin, rule)?;
            }
        }
        Ok(rules)
    }

    pub(crate) fn entry(&self, number: usize) -> Option<RuleEntry> {
        self.table.entry(number)
    }

    /// Adds the rules of a class that a word brings into question, and those without a word.
    pub(crate) fn find<'w>(
        &self,
        class: ToolClass,
        words: impl IntoIterator<Item = &'w str>,
        found: &mut BTreeSet<usize>,
    ) {
        found.extend(self.table.find(&key(class, None)));
        for word in words {
            if !word.is_empty() {
                found.extend(self.table.find(&key(class, Some(word))));
            }
        }
    }

    /// Adds all rules of a class.
    pub(crate) fn find_all(&self, class: ToolClass, found: &mut BTreeSet<usize>) {
        found.extend(self.table.find_beginning(&key(class, None)));
    }

    pub(crate) fn has_class(&self, class: ToolClass) -> bool {
        self.table.find_beginning(&key(class, None)).next().is_some()
    }
}

fn key(class: ToolClass, word: Option<&str>) -> String {
    format!("{class}:{}", word.unwrap_or_default())
}
