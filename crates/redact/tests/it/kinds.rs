//! One secret of each kind.

use proptest::prelude::*;

use crate::given::{chance, harmless, key_block, packed, secret};
use crate::{check_kinds as check, redacted};

#[test]
fn tokens_are_known_by_their_form() {
    let token = format!("gh{}_{}", "p", chance(1, 36));
    check(&format!("use {token}."), "use [redacted:github_token].");
    let key = format!("sk-{}-api03-{}", "ant", chance(2, 80));
    check(&format!("({key})"), "([redacted:anthropic_key])");
    let key = format!("AK{}{}", "IA", "Q3ZXR7PLM2KTW5VN");
    check(&format!("id {key}\n"), "id [redacted:aws_access_key_id]\n");
    let token = format!("12345678{}{}", ":AA", chance(3, 33));
    check(&format!("bot{token}/x"), "bot[redacted:telegram_token]/x");
}

#[test]
fn web_token_of_any_length_is_redacted() {
    let (head, body, signature) = (chance(1, 20), chance(2, 3_000), chance(3, 43));
    let token = format!("ey{0}{head}.ey{0}{body}.{signature}", "J");
    check(&format!("jwt {token} end"), "jwt [redacted:jwt] end");
}

#[test]
fn key_is_redacted_with_all_lines() {
    for line_break in ["\n", "\r\n", "\\n", "\n     7→"] {
        let block = key_block(line_break);
        check(&format!("a\n{block}\nb"), "a\n[redacted:private_key]\nb");
    }
}

#[test]
fn cut_key_is_redacted_to_its_end() {
    let block = key_block("\n");
    let cut = &block[..400];
    check(&format!("{cut}\n(cut here)"), "[redacted:private_key]\n(cut here)");
}

#[test]
fn key_behind_places_is_redacted() {
    for place in ["server.pem:7:", "server.pem-7-", "deploy/a-b/server.pem:7:", "7:", "> ", "+"] {
        let block = key_block(&format!("\n{place}"));
        check(&format!("a\n{place}{block}\nb"), &format!("a\n{place}[redacted:private_key]\nb"));
    }
}

#[test]
fn key_without_its_first_line_is_redacted() {
    for line_break in ["\n", "\r\n", "\\n", "\n     7→", "\nserver.pem:7:"] {
        let block = key_block(line_break);
        let (_, rest) = block.split_once(line_break).expect("a first line");
        check(&format!("a\n\n{rest}\nb"), "a\n\n[redacted:private_key]\nb");
    }
}

#[test]
fn certificate_before_a_key_stays() {
    let certificate = key_block("\n").replace("RSA PRIVATE KEY", "CERTIFICATE");
    let (_, key) = key_block("\n").split_once('\n').map(|(a, b)| (a.len(), b.to_owned())).unwrap();
    let text = format!("{certificate}\n{key}");
    check(&text, &format!("{certificate}\n[redacted:private_key]"));
}

#[test]
fn first_line_alone_is_not_a_key() {
    let line = format!("-----BEGIN {} KEY-----", "PRIVATE");
    check(&format!("grep -l '{line}' *.pem"), &format!("grep -l '{line}' *.pem"));
    check(&format!("{line} is how it begins"), &format!("{line} is how it begins"));
}

#[test]
fn headers_keep_their_scheme() {
    let token = chance(5, 40);
    check(
        &format!("Authorization: Bearer {token}"),
        "Authorization: Bearer [redacted:authorization]",
    );
    check(
        &format!("\"authorization\":\"token {token}\""),
        "\"authorization\":\"token [redacted:authorization]\"",
    );
    check(&format!("with bearer {token},"), "with bearer [redacted:bearer_token],");
    check(
        "Authorization: Basic YWRtaW46aHVudGVyMg==",
        "Authorization: Basic [redacted:authorization]",
    );
}

#[test]
fn passwords_in_addresses_are_redacted() {
    check(
        "postgres://app:s3cr3t%21x@db:5432/app?a=b",
        "postgres://app:[redacted:url_password]@db:5432/app?a=b",
    );
    check("redis://:p@ss@word@10.0.0.1", "redis://:[redacted:url_password]@10.0.0.1");
    check("curl -u dev:hunter22 https://x", "curl -u dev:[redacted:login_password] https://x");
}

proptest! {
    #[test]
    fn no_secret_survives(
        (secret, text) in secret().no_shrink(),
        packing in 0..6usize,
        before in harmless(),
        behind in harmless(),
    ) {
        let text = format!("{before} {}\n{behind}", packed(&text, packing));
        let redacted = redacted(&text);
        prop_assert!(!redacted.contains(&secret), "{secret:?} is still in {redacted:?}");
        prop_assert!(redacted.contains("[redacted:"), "{redacted:?}");
    }
}
