//! Bytes as a rule and a command. Every run of the tests tries some; here a fuzzer looks for more:
//! `fuzz/run`, or `cargo fuzz run -s none rules`.

#![no_main]

#[path = "../../crates/rules/tests/it/hostile/rules.rs"]
mod hostile;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile::check(bytes));
