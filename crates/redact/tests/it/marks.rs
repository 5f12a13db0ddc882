//! Marks: derived from the secret, equal in every run.

use redact::{Redactor, Stream};

use crate::given::chance;
use crate::{check, redacted};

fn token(seed: u64) -> String {
    format!("gh{}_{}", "p", chance(seed, 36))
}

/// The tag in a mark such as `[redacted:github_token:9f3c1a]`.
fn tag(mark: &str) -> Option<&str> {
    let inside = mark.strip_prefix("[redacted:").and_then(|mark| mark.strip_suffix(']'));
    inside.and_then(|inside| inside.split_once(':')).map(|(_, tag)| tag)
}

#[test]
fn equal_secrets_have_equal_marks() {
    let (a, b) = (token(1), token(2));
    let (first, second) = (redacted(&a), redacted(&b));
    assert_ne!(first, second);
    assert_eq!(tag(&first).map(str::len), Some(6), "{first}");
    check(&format!("{a} {b} {a}"), &format!("{first} {second} {first}"));
}

#[test]
fn secret_keeps_its_tag_elsewhere() {
    let key = chance(3, 32);
    let text = redacted(&format!("bearer {key}\nAPI_KEY={key}"));
    let marks: Vec<&str> = text.split_whitespace().skip(1).collect();
    let key_mark = marks[1].trim_start_matches("API_KEY=");
    assert!(tag(marks[0]).is_some() && tag(marks[0]) == tag(key_mark), "{text}");
}

#[test]
fn mark_depends_on_the_secret_alone() {
    let mut redactor = Redactor::new();
    redactor.redact(&token(1));
    let mut out = String::new();
    let mut stream = Stream::new();
    redactor.push(&mut stream, &token(2), &mut out);
    redactor.finish(stream, &mut out);
    assert_eq!(out, redacted(&token(2)), "after another secret and in pieces");
}

#[test]
fn marks_are_the_same_in_every_run() {
    // Written out, because a hash that changed from build to build would pass every other test.
    check(&token(1), "[redacted:github_token:9176ed]");
}

#[test]
fn guessable_secrets_have_no_tag() {
    check("password=hunter2", "password=[redacted:password]");
    check("TOKEN=a8f3k2m9", "TOKEN=[redacted:token]");
    check("DB_PASSWORD=a-long-password-of-a-person", "DB_PASSWORD=[redacted:password]");
}

#[test]
fn overlapping_findings_are_one_secret() {
    let token = token(1);
    let mark = redacted(&token);
    check(&format!("TOKEN={token}"), &format!("TOKEN={mark}"));
    check(
        &format!("https://oauth2:{token}@example.org"),
        &format!("https://oauth2:{mark}@example.org"),
    );
    assert_eq!(redacted(&format!("TOKEN=prefix1-{token}")).matches("[redacted:").count(), 1);
}

#[test]
fn marks_are_not_secrets() {
    let text = format!("password=hunter2 Authorization: Bearer {}", chance(4, 40));
    let once = redacted(&text);
    check(&once, &once);
}
