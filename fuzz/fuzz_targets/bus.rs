//! Bytes as lines on the bus. Every run of the tests tries some; here a fuzzer looks for more:
//! `fuzz/run`, or `cargo fuzz run -s none bus`.

#![no_main]

#[path = "../../crates/bus/tests/it/hostile/bus.rs"]
mod hostile;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile::check(bytes));
