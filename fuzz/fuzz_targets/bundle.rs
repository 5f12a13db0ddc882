//! Bytes as a bundle of sessions. Every run of the tests tries some; here a fuzzer looks for
//! more: `fuzz/run`, or `cargo fuzz run -s none bundle`.

#![no_main]

#[path = "../../crates/session/tests/it/bundles/hostile.rs"]
mod hostile;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile::check(bytes));
