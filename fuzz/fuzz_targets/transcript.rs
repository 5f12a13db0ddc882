//! Bytes as a transcript of any agent. Every run of the tests tries some; here a fuzzer looks for
//! more: `cargo fuzz run -s none transcript`.

#![no_main]

#[path = "../../crates/capture/tests/it/hostile/transcript.rs"]
mod transcript;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| transcript::check(bytes));
