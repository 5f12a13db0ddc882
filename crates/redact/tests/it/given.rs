//! Generated secrets and the texts around them.
//!
//! No secret is written here as a whole. A test puts it together, so that no scanner takes this
//! file for a leak.

use proptest::prelude::*;
use proptest::string::string_regex;
use redact::{Begins, Check, Rule, Rules};

/// A source of numbers that is the same in every run.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    /// Some of the given signs.
    pub(crate) fn text(&mut self, signs: &str, len: usize) -> String {
        (0..len).map(|_| char::from(signs.as_bytes()[self.below(signs.len())])).collect()
    }
}

/// Letters and digits as if by chance, always the same for a `seed`.
pub(crate) fn chance(seed: u64, len: usize) -> String {
    const SIGNS: &str = "k7Qz2MfX9aLr4TbWc8NyHd3VjPs6GuEe5RoJtA1xB0mKqSgYwCvDnFhZiUpL";
    Chance::new(seed).text(SIGNS, len)
}

/// A key as a file has it.
pub(crate) fn key_block(line_break: &str) -> String {
    let lines: Vec<String> = (0..12).map(|seed| chance(seed, 64)).collect();
    let (begin, end) = ("-----BEGIN RSA PRIVATE", "-----END RSA PRIVATE");
    let body = lines.join(line_break);
    format!("{begin} KEY-----{line_break}{body}{line_break}qzX7={line_break}{end} KEY-----")
}

pub(crate) fn built_in() -> Vec<Rule> {
    Rule::parse_list(Rules::BUILT_IN).expect("our own rules")
}

/// A secret that one of the built-in rules is about, and the whole text that shows it as such.
pub(crate) fn secret() -> impl Strategy<Value = (String, String)> {
    prop_oneof![
        6 => pattern_secret(),
        3 => named_secret(),
        1 => (0..1_000u64).prop_map(|seed| {
            let secret = chance(seed, 30);
            (secret.clone(), format!("postgres://app:{secret}@db.internal:5432/app"))
        }),
        1 => (0..1_000u64).prop_map(|seed| {
            let secret = chance(seed, 40);
            (secret.clone(), format!("Authorization: Bearer {secret}"))
        }),
    ]
}

/// A secret that is known by its looks.
fn pattern_secret() -> impl Strategy<Value = (String, String)> {
    // Patterns that take anything or escapes, or that show a secret by the text around it, have
    // tests of their own, and so have the lines of a key.
    let is_generated = |rule: &Rule| {
        let pattern = rule.pattern.as_deref().unwrap_or("(");
        let has_group = pattern.match_indices('(').any(|(at, _)| !pattern[at..].starts_with("(?"));
        let is_any = ["[^", r"\\", "=,"].iter().any(|part| pattern.contains(part));
        !has_group && !is_any && rule.begins != Begins::KeyBlock
    };
    let rules = built_in().into_iter().filter(is_generated);
    let patterns: Vec<String> = rules.filter_map(|rule| rule.pattern).collect();
    assert!(patterns.len() > 150, "{}", patterns.len());
    prop::sample::select(patterns).prop_flat_map(|pattern| {
        // In any case: with Unicode that would be the Kelvin sign too.
        let pattern = pattern.replace("(?i:", "(?:");
        let text = string_regex(&pattern).expect("a pattern that can be turned round");
        // A pattern without a group is all secret; of others, nothing but the secret is long.
        let parts = text.prop_map(|text| {
            let longest = text.split(|c: char| " =:\"',".contains(c)).max_by_key(|part| part.len());
            (longest.unwrap_or_default().to_owned(), text)
        });
        parts.prop_filter("chance may make what looks made up", |(secret, _)| {
            let count = |is_one: fn(&u8) -> bool| secret.bytes().filter(is_one).count();
            let (digits, letters) = (count(u8::is_ascii_digit), count(u8::is_ascii_alphabetic));
            digits > 1 && letters > 1 && (digits + letters) * 4 > secret.len() * 3
        })
    })
}

/// A secret that is known by the name beside it.
fn named_secret() -> impl Strategy<Value = (String, String)> {
    let names: Vec<(String, Check)> = built_in()
        .into_iter()
        .flat_map(|rule| rule.names.into_iter().map(move |name| (name, rule.check)))
        .collect();
    (prop::sample::select(names), 0..10_000u64, 0..6usize).prop_map(|((name, _), seed, form)| {
        let secret = format!("{}7k", chance(seed, 24));
        let text = match form {
            0 => format!("{}={secret}", name.to_uppercase()),
            1 => format!("{{\"{name}\": \"{secret}\"}}"),
            2 => format!("{name}: '{secret}'"),
            3 => format!("let db_{name}: &str = \"{secret}\";"),
            4 => format!("run --db-{name}={secret}"),
            _ => format!("https://example.org/?{name}={secret}&page=2"),
        };
        (secret, text)
    })
}

/// Text without a secret, of many sorts.
pub(crate) fn harmless() -> impl Strategy<Value = String> {
    let pieces = [
        "The tests pass.\n",
        "fn next_token(&mut self) -> Token { self.tokens.next() }\n",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b\n",
        "用户 opened the door; the key was under the mat.\n",
        "{\"usage\": {\"input_tokens\": 4180, \"output_tokens\": 912}}",
        "export PATH=$HOME/bin:$PATH\n",
        "token = next_token()\n",
        "https://example.org:8080/a/b?c=d#e ",
        "\u{1b}[32mok\u{1b}[0m\r\n",
        "password: \"\" # asked for at the prompt\n",
        "\\n\\t\\\"quoted\\\" ",
        "- - - --- ----- ",
        "[redacted:github_token] and [redacted:password:2] ",
    ];
    prop_oneof![
        6 => prop::sample::select(pieces.to_vec()).prop_map(str::to_owned),
        1 => "[ a-zé\n]{0,40}",
    ]
}

/// How a text is packed into another one.
pub(crate) fn packed(text: &str, packing: usize) -> String {
    match packing {
        0 => format!("I tried it with {text} and it worked."),
        1 => serde_json::json!({"output": format!("line\n{text}\nline"), "ok": true}).to_string(),
        2 => format!("curl -H 'x: y' {text} | jq .\n"),
        3 => format!("     1→{text}\n     2→end\n"),
        4 => {
            let once = serde_json::json!({ "text": text }).to_string();
            serde_json::json!({ "nested": once }).to_string()
        }
        _ => format!("\u{1b}[33m{text}\u{1b}[0m\n"),
    }
}
