//! What may be set, and where the key is.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use expect_test::{Expect, expect};

use crate::settings;

#[track_caller]
fn check(table: &str, expected: Expect) {
    let settings = settings(&format!("name = \"m\"\n{table}"));
    let told = match settings.check() {
        Ok(()) => format!("asked at {}\n", settings.endpoint()),
        Err(error) => format!("{error}\n"),
    };
    expected.assert_eq(&told);
}

#[test]
fn each_dialect_has_an_endpoint() {
    check(
        "kind = 'openai'",
        expect![[r#"
        asked at https://api.openai.com/v1
    "#]],
    );
    check(
        "kind = 'anthropic'",
        expect![[r#"
        asked at https://api.anthropic.com/v1
    "#]],
    );
    check(
        "kind = 'mistral'",
        expect![[r#"
        asked at https://api.mistral.ai/v1
    "#]],
    );
    check(
        "kind = 'openai'\nendpoint = 'http://127.0.0.1:11434/v1/'",
        expect![[r#"
        asked at http://127.0.0.1:11434/v1
    "#]],
    );
}

#[test]
fn invalid_settings_are_refused() {
    check(
        "kind = 'openai'\nendpoint = 'ftp://x'",
        expect![[r#"
        `model.endpoint`: `ftp://x` is not an address that begins with https:// or http://
    "#]],
    );
    check(
        "kind = 'openai'\nendpoint = 'https://me:pw@host/v1'",
        expect![[r#"
        `model.endpoint`: `https://me:pw@host/v1` is not an address that begins with https:// or http://
    "#]],
    );
    check(
        "kind = 'openai'\nkey_env = 'K'\nendpoint = 'http://models.lan/v1'",
        expect![[r#"
        `model.endpoint`: `http://models.lan/v1` would send the key over the network without encryption
    "#]],
    );
    check(
        "kind = 'openai'\nkey_env = 'K'\nendpoint = 'http://127.0.0.1.evil.org/v1'",
        expect![[r#"
        `model.endpoint`: `http://127.0.0.1.evil.org/v1` would send the key over the network without encryption
    "#]],
    );
    check(
        "kind = 'openai'\nendpoint = 'http://models.lan/v1'",
        expect![[r#"
        asked at http://models.lan/v1
    "#]],
    );
    check(
        "kind = 'openai'\nkey_env = 'K'\nendpoint = 'http://[::1]:80/v1'",
        expect![[r#"
        asked at http://[::1]:80/v1
    "#]],
    );
    check(
        "kind = 'openai'\nkey_env = 'K'\nkey_file = '/k'",
        expect![[r#"
        `model` has more than one of `key_env`, `key_file` and `key`
    "#]],
    );
    check(
        "kind = 'openai'\nrequests_per_minute = 0",
        expect![[r#"
        `model.requests_per_minute` is 0; it can be 1 to 600
    "#]],
    );
    check(
        "kind = 'openai'\ntimeout_seconds = 601",
        expect![[r#"
        `model.timeout_seconds` is 601; it can be 1 to 600
    "#]],
    );
}

#[test]
fn key_is_found_and_never_printed() {
    let home = tempfile::tempdir().unwrap();
    let variable = |name: &str| (name == "K").then(|| "from-a-variable".to_owned());
    let find = |table: &str| {
        let settings = settings(&format!("kind = 'openai'\nname = 'm'\n{table}"));
        assert!(!format!("{settings:?}").contains("inside"), "{settings:?}");
        settings.find_key(variable, home.path()).map(|key| format!("{key:?}"))
    };
    assert_eq!(find("").unwrap(), "None");
    assert_eq!(find("key_env = 'K'").unwrap(), "Some(Secret)");
    assert_eq!(find("key = 'inside'").unwrap(), "Some(Secret)");
    let told = find("key_env = 'NOT_THERE'").unwrap_err().to_string();
    assert_eq!(told, "the variable `NOT_THERE` is not set");

    let file = home.path().join("key");
    let of_mode = |mode: u32, text: &str| {
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        find("key_file = '~/key'")
    };
    assert!(of_mode(0o600, "from-a-file\n").is_ok());
    let told = of_mode(0o640, "from-a-file\n").unwrap_err().to_string();
    assert!(told.contains("others may read") && told.contains("mode 640"), "{told}");
    // It would become a header of its own.
    assert!(of_mode(0o600, "a\r\nX-Evil: b").is_err());
    assert!(of_mode(0o600, "\n").is_err());
    assert!(find("key_file = '/home/dev/not-there'").is_err());
    assert!(Path::new(&file).exists());
}
