//! Bytes as a line of the log. Every run of the tests tries some; here a fuzzer looks for more:
//! `fuzz/run`, or `cargo fuzz run -s none decode`.

#![no_main]

#[path = "../../crates/event/tests/it/hostile/decode.rs"]
mod decode;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| decode::check(bytes));
