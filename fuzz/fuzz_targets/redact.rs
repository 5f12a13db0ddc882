//! Bytes as a text to redact. Every run of the tests tries some; here a fuzzer looks for more:
//! `fuzz/run`, or `cargo fuzz run -s none redact`.

#![no_main]

#[path = "../../crates/redact/tests/it/hostile/redact.rs"]
mod hostile;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile::check(bytes));
