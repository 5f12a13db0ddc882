//! Bytes as what any agent writes, in any form, or as how far it was read. Every run of the tests
//! tries some; here a fuzzer looks for more: `fuzz/run`, or `cargo fuzz run -s none transcript`.
//!
//! `HANSARD_FUZZ_FORM` says as which agent's, or `position`; without it the first byte does.
//! `HANSARD_FUZZ_SEEDS` names a folder: then what fuzzing begins with is written there, and that
//! is all.

#![no_main]

#[path = "../../crates/capture/tests/it/hostile/home.rs"]
mod home;
#[path = "../../crates/capture/tests/it/hostile/position.rs"]
mod position;
#[path = "../../crates/capture/tests/it/hostile/rows.rs"]
mod rows;
#[path = "transcript/seeds.rs"]
mod seeds;
#[path = "../../crates/capture/tests/it/hostile/transcript.rs"]
mod transcript;

use std::path::Path;
use std::sync::LazyLock;

use transcript::FORMS;

type Check = Box<dyn Fn(&[u8]) + Send + Sync>;

static CHECK: LazyLock<Check> = LazyLock::new(|| {
    let Ok(name) = std::env::var("HANSARD_FUZZ_FORM") else { return Box::new(transcript::check) };
    if name == "position" {
        return Box::new(position::check);
    }
    let form = FORMS.iter().find(|form| form.name == name).expect("a form has this name");
    Box::new(|bytes| transcript::check_as(form, bytes))
});

libfuzzer_sys::fuzz_target!(
    init: {
        if let Some(corpus) = std::env::var_os("HANSARD_FUZZ_SEEDS") {
            seeds::write(Path::new(&corpus));
            std::process::exit(0);
        }
    },
    |bytes: &[u8]| CHECK(bytes)
);
