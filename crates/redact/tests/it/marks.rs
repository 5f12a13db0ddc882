//! Equal marks for equal secrets.

use redact::{Redactor, Stream};

use crate::given::chance;
use crate::{check, redacted};

fn token(seed: u64) -> String {
    format!("gh{}_{}", "p", chance(seed, 36))
}

#[test]
fn equal_secrets_have_equal_marks() {
    let (a, b) = (token(1), token(2));
    check(
        &format!("{a} {b} {a}"),
        "[redacted:github_token] [redacted:github_token:2] [redacted:github_token]",
    );
}

#[test]
fn secret_keeps_its_mark_elsewhere() {
    let key = chance(3, 32);
    check(
        &format!("bearer {key}\nAPI_KEY={key}"),
        "bearer [redacted:bearer_token]\nAPI_KEY=[redacted:bearer_token]",
    );
}

#[test]
fn marks_last_as_long_as_the_redactor() {
    let mut redactor = Redactor::new();
    assert_eq!(redactor.redact(&token(1)), "[redacted:github_token]");
    let mut out = String::new();
    let mut stream = Stream::new();
    redactor.push(&mut stream, &token(2), &mut out);
    redactor.finish(stream, &mut out);
    assert_eq!(out, "[redacted:github_token:2]");
    assert_eq!(redactor.redact(&token(1)), "[redacted:github_token]");
    assert_eq!(Redactor::new().redact(&token(2)), "[redacted:github_token]");
}

#[test]
fn overlapping_findings_are_one_secret() {
    let token = token(1);
    check(&format!("TOKEN={token}"), "TOKEN=[redacted:github_token]");
    check(&format!("TOKEN=prefix1-{token}"), "TOKEN=[redacted:github_token]");
    check(
        &format!("https://oauth2:{token}@example.org"),
        "https://oauth2:[redacted:github_token]@example.org",
    );
}

#[test]
fn ten_thousand_secrets_have_own_marks() {
    let mut redactor = Redactor::new();
    for seed in 1..=10_000 {
        redactor.redact(&token(seed));
    }
    assert_eq!(redactor.redact(&token(10_000)), "[redacted:github_token:10000]");
    assert_eq!(redactor.redact(&token(10_001)), "[redacted:github_token]");
    assert_eq!(redactor.redact(&token(2)), "[redacted:github_token:2]");
}

#[test]
fn marks_are_not_secrets() {
    let text = format!("password=hunter2 Authorization: Bearer {}", chance(4, 40));
    let once = redacted(&text);
    check(&once, &once);
}
