//! What the user decided in advance.
//!
//! A rule is one line: `block shell: rm -rf * — use trash`. A [`RuleSet`] is many of them,
//! [`CompiledRules`] the form that a hook loads in microseconds, and [`CompiledRules::judge`] says
//! what they decide about an [`Action`]: a [`Verdict`] with everything that led to it.
//!
//! Restricting rules (block, ask, warn) look through everything that shells and agents
//! offer to write a command in another way, and search the text where they cannot judge. Rules
//! that allow something take everything as it is written, have to cover every part, and never hold
//! for what cannot be judged. The strongest rule wins.
//!
//! Not here: files, clocks, the journal, what an agent is told, and links in the file system.

mod rule; // one rule
mod parse; // a line of text to a rule
mod tool_class; // one name for the tools of all agents
mod rule_set; // many rules, their ids and errors
mod action; // what an agent wants to do, taken apart
mod compiled; // the form that is loaded, with its index
mod judge; // rules against an action
mod allow; // whether allow rules cover all of it
mod verdict; // the answer
mod pattern; // what rules compare with
mod command_line; // everything that a command line runs
mod command_words; // the words of a command line, for people and tests
mod unwrap; // commands inside commands
mod wrapper; // programs that run programs: a table
mod shell; // command lines as a shell reads them
mod expand; // words as the arguments they become
mod braces; // `{a,b}`
mod output; // what commands print, where the text tells
mod escape; // backslash escapes
mod glob; // `*` and `?`
mod server; // names and arguments of MCP tools
mod resolve; // paths without `..`

pub use action::Action;
pub use command_words::CommandWords;
pub use compiled::{BadCompiledRules, CompiledRules};
pub use parse::BadRule;
pub use pattern::BadPattern;
pub use rule::{Rule, Severity};
pub use rule_set::{HubAllows, LineError, Origin, RuleEntry, RuleSet};
pub use tool_class::{ToolClass, ToolName};
pub use verdict::{RuleMatch, Verdict};
