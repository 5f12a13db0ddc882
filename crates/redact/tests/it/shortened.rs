//! Texts that end in `…`, because somebody has cut them.

use proptest::prelude::*;

use crate::given::chance;
use crate::{check, check_unchanged, redacted};

#[test]
fn the_beginning_of_a_secret_goes_with_it() {
    let token = format!("ghp_{}", chance(1, 36));
    for len in [9, 20, 39] {
        check(&format!("curl -d {}…", &token[..len]), "curl -d [redacted:cut]…");
    }
    // Also within a line of several.
    let line = format!("ran curl {}…, read notes.txt", &token[..20]);
    check(&line, "ran curl [redacted:cut]…, read notes.txt");
    check(&format!("postgres://app:{}…", chance(2, 12)), "postgres://app:[redacted:cut]…");
}

#[test]
fn words_that_were_cut_stay() {
    check_unchanged("Make the greeting frien…");
    check_unchanged("Read crates/capture/src/agent/claude_co…");
    check_unchanged("Since 2026-03-02 we wait…");
    check_unchanged("用户…");
    check_unchanged("…");
    check_unchanged("and so on … and so fo…");
}

proptest! {
    #[test]
    fn hardly_anything_is_left_of_a_secret_wherever_it_is_cut(
        begin in prop::sample::select(vec!["ghp_", "sk-ant-api03-", "AKIA", "xoxb-", "glpat-", ""]),
        seed in 0..10_000u64,
        len in 9..40usize,
    ) {
        let begun = chance(seed, len);
        let left = redacted(&format!("use {begin}{begun}…"));
        prop_assert!(!left.contains(&begun[..8]), "{left}");
    }
}
