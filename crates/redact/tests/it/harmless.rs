//! What only looks like a secret.

use std::borrow::Cow;

use proptest::prelude::*;
use redact::Redactor;

use crate::check_unchanged;
use crate::given::harmless;

#[test]
fn placeholders_stay() {
    for value in [
        "<your-token>",
        "your-token-here",
        "xxxx",
        "xxxxxxxx-xxxx",
        "****************",
        "$TOKEN",
        "${TOKEN}",
        "$(cat token)",
        "{{ token }}",
        "{token}",
        "%TOKEN%",
        "changeme",
        "example",
        "example-token-1234",
        "...",
        "null",
        "None",
        "string",
        "[redacted:token]",
    ] {
        check_unchanged(&format!("TOKEN={value}"));
        check_unchanged(&format!("{{\"password\": \"{value}\"}}"));
        check_unchanged(&format!("api_key: {value}"));
    }
    check_unchanged(&format!("ghp_{}", "x".repeat(36)));
    check_unchanged(&format!("AKIA{}EXAMPLE", "IOSFODNN7"));
    check_unchanged("postgres://user:password@localhost/app");
    check_unchanged("postgres://$USER:${PASSWORD}@localhost/app");
    check_unchanged("Authorization: Bearer $TOKEN");
}

#[test]
fn code_stays() {
    for code in [
        "token = next_token()",
        "let token = self.tokens.next();",
        "token: Token,",
        "password: String,",
        "def login(user: str, password: str = None):",
        "password = getpass.getpass()",
        "secret = os.environ[\"SECRET_NAME\"]",
        "token=token2",
        "if token == Token::Open {",
        "Token::Name(_) | Token::String(_)",
        "password := r.FormValue(\"password\")",
        "<input type=\"password\" name=\"password\">",
        "api_key = settings.api_key_v2",
        "tokenizer = \"cl100k_base2\"",
        "next_page_token: \"a8f3k2m9q0\"",
        "token_type: \"Bearer2000\"",
        "PASSWORD_FILE=/run/secrets/db_1",
        "secret_name: \"prod/db/main-01\"",
        "token_count=123456789",
        "max_tokens: 200000",
        "s.this_is_no_token_at_all_1",
    ] {
        check_unchanged(code);
    }
}

#[test]
fn prose_stays() {
    for prose in [
        "The password: required, at least 8 characters.",
        "Basic authentication is used; a bearer of good news.",
        "{\"password\": \"Your password, at least 8 characters\"}",
        "{\"password\": \"Passwort\"}",
        "Secret: none. Token: unknown.",
        "the disk-asia-northeast1 region and a task",
        "see https://example.org:8080/@scope/package",
        "docker run -u 1000:1000 image",
        "git push -u origin main:main",
    ] {
        check_unchanged(prose);
    }
}

#[test]
fn hashes_and_ids_stay() {
    for text in [
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "\"sessionId\":\"8115c5cb-1b2f-4c6e-9d0a-4f3e8a672f5b\"",
        "\"id\":\"01KJPX6XZE4ZZWPQ8RQK44AYVR\"",
        "token_hash: \"3f786850e387550fdab836ed7e6dc881de23001b\"",
        "msg_01A toolu_01B call_02 rs_03",
    ] {
        check_unchanged(text);
    }
}

proptest! {
    #[test]
    fn text_without_secrets_is_not_copied(
        pieces in prop::collection::vec(harmless(), 0..60),
    ) {
        let text = pieces.concat();
        prop_assert_eq!(Redactor::new().redact(&text), text.as_str());
        prop_assert!(matches!(Redactor::new().redact(&text), Cow::Borrowed(_)));
    }
}
