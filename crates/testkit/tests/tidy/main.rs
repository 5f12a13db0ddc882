//! The rules of the house that a machine can check, each with its reason.
//!
//! A rule is a plain function from text to findings, so that beside every test that the tree keeps
//! it stands one that shows what it catches.
//!
//! Not here: what the compiler and clippy can see by themselves. Their rules are in the root
//! `Cargo.toml` and in `clippy.toml`; `silence` finds places that turn them off.

mod finding; // one violation of a rule
mod tree; // the files git knows
mod code; // Rust without its comments and strings
mod manifest; // what cargo knows of packages

mod arrows; // which crate may use which
mod packages; // what may stand in the lock file
mod licence; // under which terms it may come
mod silence; // where a lint may be turned off
mod source; // what a Rust file looks like, and what it keeps out of
mod names; // what things are not called
mod leftovers; // notes and paths committed by mistake
mod prose; // documents that lead somewhere
mod voice; // what is printed names its subject
mod sample; // events a newcomer can import
