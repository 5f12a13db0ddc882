//! Bytes as the settings of an agent. Every run of the tests tries some; here a fuzzer looks for more:
//! `fuzz/run`, or `cargo fuzz run -s none settings`.

#![no_main]

#[path = "../../crates/hooks/tests/it/hostile/settings.rs"]
mod hostile;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile::check(bytes));
