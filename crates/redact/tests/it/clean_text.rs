//! Megabytes of text without a secret, none of which may change.
//!
//! The sources and lock files of this workspace, and what a generator makes: hashes, base64, UUIDs,
//! minified code, logs and listings, always the same.

use std::fs;
use std::path::{Path, PathBuf};

use redact::Redactor;

use crate::given::Chance;

/// The bytes that have to be examined.
const BYTES_MIN: usize = 3_000_000;

/// The bytes of each generated kind of text.
const KIND_BYTES: usize = 250_000;

const HEX: &str = "0123456789abcdef";
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";

#[test]
fn sources_and_lock_files_stay() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut files = vec![root.join("Cargo.lock"), root.join("web/package-lock.json")];
    for folder in ["crates", "web/src"] {
        add_files(&root.join(folder), &mut files);
    }
    // Tests plant secrets, and this crate shows how they look.
    files.retain(|file| {
        let name = file.strip_prefix(&root).unwrap().to_string_lossy();
        !name.contains("/tests/") && !name.starts_with("crates/redact/")
    });
    let mut bytes = 0;
    for file in files {
        // A file that is no text, or that another test has just removed, is left out.
        let Ok(text) = fs::read_to_string(&file) else { continue };
        bytes += text.len();
        check(&text, &file.display().to_string());
    }
    assert!(bytes >= BYTES_MIN, "{bytes} bytes of sources");
}

#[test]
fn generated_text_stays() {
    let mut chance = Chance::new(5);
    for (name, make) in KINDS {
        let mut text = String::new();
        while text.len() < KIND_BYTES {
            text.push_str(&make(&mut chance));
            text.push('\n');
        }
        check(&text, name);
    }
}

/// Makes one line.
type MakeLine = fn(&mut Chance) -> String;

/// The kinds of generated lines.
const KINDS: [(&str, MakeLine); 10] = [
    ("commits", |chance| format!("commit {}", chance.text(HEX, 40))),
    ("checksums", |chance| {
        format!("{}  target/file-{}.tar.gz", chance.text(HEX, 64), chance.below(99))
    }),
    ("integrity", |chance| {
        format!("      \"integrity\": \"sha512-{}==\",", chance.text(BASE64, 86))
    }),
    ("lock file", |chance| {
        let (name, sum) = (chance.text(LETTERS, 9), chance.text(HEX, 64));
        format!(
            "[[package]]\nname = \"{name}\"\nversion = \"1.{}.0\"\nchecksum = \"{sum}\"\n",
            chance.below(90)
        )
    }),
    ("base64 lines", |chance| chance.text(BASE64, 76)),
    ("one base64 text", |chance| {
        format!("data:image/png;base64,{}==", chance.text(BASE64, 20_000))
    }),
    ("UUIDs", |chance| {
        let parts = [8, 4, 4, 4, 12].map(|len| chance.text(HEX, len));
        format!(
            "{{\"id\":\"{0}\",\"parent\":\"{0}\",\"at\":{1}}}",
            parts.join("-"),
            chance.below(1 << 30)
        )
    }),
    ("minified code", |chance| {
        let name = |chance: &mut Chance| chance.text(LETTERS, 2);
        let [a, b, c] = [name(chance), name(chance), name(chance)];
        let number = chance.below(9_999);
        format!(
            "function {a}({b},{c}){{return {b}.token=={c}.key?{b}.{a}({number}):{c}[{number}]}};var {b}={{password:{c},secret:!0,api_key:{a}.key}};"
        )
    }),
    ("public keys", |chance| {
        let key = chance.text(BASE64, 372);
        let lines = (0..16).map(|_| chance.text(BASE64, 64)).collect::<Vec<_>>().join("\n");
        format!(
            "ssh-rsa {key} dev@example.org\n-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----"
        )
    }),
    ("logs", |chance| {
        let (hex, number) = (chance.text(HEX, 12), chance.below(9_999));
        format!(
            "2026-11-18T04:20:{:02}Z INFO request id={hex} tokens={number} cache_key=user:{number} took={number}ms docker.io/library/app@sha256:{}",
            number % 60,
            chance.text(HEX, 64)
        )
    }),
];

#[track_caller]
fn check(text: &str, name: &str) {
    let redacted = Redactor::new().redact(text);
    if let Some((line, changed)) = text.lines().zip(redacted.lines()).find(|(a, b)| a != b) {
        panic!("{name}\n{line}\nbecame\n{changed}");
    }
    assert_eq!(text.len(), redacted.len(), "{name}");
}

/// Adds the sources in a folder and below it.
fn add_files(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_source = path.extension().is_some_and(|ending| {
            ["rs", "ts", "tsx", "json", "sql", "py", "css", "toml"]
                .iter()
                .any(|known| ending == *known)
        });
        if path.is_dir() && !path.ends_with("target") && !path.ends_with("node_modules") {
            add_files(&path, files);
        } else if is_source {
            files.push(path);
        }
    }
}
