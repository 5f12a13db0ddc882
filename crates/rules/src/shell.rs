//! Shell command lines as a shell reads them.
//!
//! [`parse`] is total: any text gives a [`Script`], in time linear in its length for each level of
//! nesting, with nesting and length bounded. What it cannot read is a doubt in the script.

mod syntax; // what a text is read as
mod parser; // lists, pipelines, compound commands
mod command; // one simple command with its redirections
mod word; // quotes and expansions in a word
mod heredoc; // here-documents

pub(crate) use parser::parse;
pub(crate) use syntax::{Assignment, Command, Direction, Operand, Piece, Redirect, Script, Word};
