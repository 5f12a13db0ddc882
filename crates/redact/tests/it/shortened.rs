//! Texts that were cut and end in `…`.

use proptest::prelude::*;

use crate::given::{chance, key_block};
use crate::{check, check_unchanged, redacted};

#[test]
fn beginning_of_a_cut_secret_is_redacted() {
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
fn long_cut_secret_leaves_no_beginning() {
    for len in [65, 100, 400, 1_900] {
        let token = chance(3, len);
        check(&format!("curl -d {token}…"), "curl -d [redacted:cut]…");
        // The text before it stays if it reads like words.
        check(
            &format!("GET https://example.org/archive/{token}…"),
            "GET https://example.org/archive/[redacted:cut]…",
        );
    }
    let claims = format!("eyJ{}", chance(4, 120));
    let token = format!("eyJ{}.{claims}", chance(5, 33));
    check(&format!("sent {token}…"), "sent [redacted:cut]…");
}

#[test]
fn cut_key_is_redacted_after_its_header() {
    let key = key_block("\n");
    for len in (40..key.len()).step_by(7) {
        let left = redacted(&format!("cat key: {}…", &key[..len]));
        let key_left = left.replace("-----BEGIN RSA PRIVATE KEY-----", "").len();
        assert!(
            key_left < "cat key: [redacted:private_key:000000][redacted:cut]…".len() + 5,
            "{left}"
        );
    }
}

#[test]
fn long_cut_path_stays() {
    let path = "crates/capture/src/agent/codex/".repeat(8);
    check_unchanged(&format!("Read {path}lib.rs…"));
}

#[test]
fn cut_words_stay() {
    check_unchanged("Make the greeting frien…");
    check_unchanged("Read crates/capture/src/agent/claude_co…");
    check_unchanged("Since 2026-03-02 we wait…");
    check_unchanged("用户…");
    check_unchanged("…");
    check_unchanged("and so on … and so fo…");
}

proptest! {
    #[test]
    fn any_cut_leaves_little_of_a_secret(
        begin in prop::sample::select(vec!["ghp_", "sk-ant-api03-", "AKIA", "xoxb-", "glpat-", ""]),
        seed in 0..10_000u64,
        len in 9..40usize,
    ) {
        let begun = chance(seed, len);
        let left = redacted(&format!("use {begin}{begun}…"));
        prop_assert!(!left.contains(&begun[..8]), "{left}");
    }
}
