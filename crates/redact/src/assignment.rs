//! Finds the value of a name such as `password`.
//!
//! `NAME=value`, `name: value`, `"name": "value"` (also inside another string), `name := 'value'`,
//! `name: &str = "value"`, `--name value`, `<name>value</name>`, `define('NAME', 'value')`. This is
//! code and not a regular expression, because the end of a value depends on how it begins.

use std::ops::Range;

use crate::Check;
use crate::settings::SettingLine;
use crate::value::{self, is_secret};
use crate::word::{before, ends_escape, ends_with_mark};

/// The maximum number of blanks on either side of the operator.
const BLANKS_MAX: usize = 8;

/// The maximum length of the rest of a name after its keyword, such as `_PROD` or `ForTests`.
const REST_MAX: usize = 40;

/// The longest end of an escape that looks like the beginning of a name: `33m`.
const ESCAPE_MAX: usize = 4;

/// The longest type between a name and its value.
const TYPE_MAX: usize = 40;

/// Last words of names that stand for a description of a secret, not for one: `token_count`.
const ABOUT: &str = "\
    age algorithm arn at attempts attribute attributes blob budget cache checksum class column \
    config count counts digest dir enabled endpoint env error expiration expires expiry field file \
    filename fingerprint flag flags format func hash header help hint id identifier ids in index \
    input kind label len length lifetime limit location magic mask max md5 message min mode name \
    names output param path pattern placeholder policy position prefix prompt provider ref regex \
    required reset rotation rules sha sha1 sha256 size source spec state status store strength \
    suffix title ttl type uri url usage used validator var variable version window";

/// Words before `token` that make it a cursor or a piece of text: `next_page_token`.
const NO_SECRET_BEFORE: &str = "\
    bos cancel cancellation cls continuation eos mask next pad page resume sep special start \
    stop sync unk";

/// Words before `_key` that make it the key of an entry, not of a lock: `primary_key`.
const NO_LOCK_BEFORE: &str = "\
    arrow bucket cache clustering column composite config counter dedupe dedup dest dict enter \
    event feature field foreign format group hash host hot i18n idempotency index input item json \
    label lookup map message modifier natural object output partition path primary pub public \
    publishable query queue registry result routing row s3 search settings shard shortcut site \
    sort source state storage surrogate thread topic translation unique websocket";

/// The operator between the name and the value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operator {
    /// `=` without blanks around it.
    TightEqual,
    /// `=`, `:=`, `=>`, `==`.
    Equal,
    Colon,
    /// The end of an opening tag: the value ends where the next tag begins.
    Tag,
    /// Blanks or `=` after a command-line option.
    Blank,
    /// `=` of a parameter of an address: `?name=value&`.
    Parameter,
    /// Between the arguments of a call, both in quotes: `define('NAME', 'value')`.
    Comma,
}

/// Finds the value of the name that contains `keyword`, if the value is a secret. `text` ends
/// where the window ends.
pub(crate) fn find_value(
    text: &[u8],
    keyword: &Range<usize>,
    check: Check,
) -> Option<Range<usize>> {
    let name = find_name(text, keyword)?;
    // The operator is asked for before the words of the name: most names have none.
    let (operator, from) = find_operator(text, &name)?;
    if !names_secret(text, &name, keyword) {
        return None;
    }
    // `NAME=value` is a variable of a shell or a settings file: the value is never code.
    let is_variable = operator == Operator::TightEqual && is_upper(&text[name.clone()]);
    // A value in quotes needs no test for code: code does not stand in quotes.
    if let Some(quoted) = quoted_value(text, from) {
        return is_secret(&text[quoted.clone()], check).then_some(quoted);
    }
    // Only a colon has a type behind it: `password: &str = "…"`.
    if operator == Operator::Colon
        && let Some(quoted) = skip_type(text, from).and_then(|at| quoted_value(text, at))
    {
        return is_secret(&text[quoted.clone()], check).then_some(quoted);
    }
    // Only a value in quotes stands behind a comma.
    if operator == Operator::Comma {
        return None;
    }
    if let Some(line) = SettingLine::find(text, &name, keyword)
        && matches!(operator, Operator::Colon | Operator::Equal | Operator::TightEqual)
        && !is_variable
        && let is_plain = is_upper(&text[name.clone()])
        && let Some(value) = line.value(text, from, is_plain, &text[keyword.clone()])
    {
        return is_secret(&text[value.clone()], check).then_some(value);
    }
    let bare = bare_value(text, from, operator, is_variable);
    let bytes = &text[bare.clone()];
    // Settings, tags, options and addresses hold no code. Behind other operators
    // `token = next_token` is more likely than a secret without quotes.
    let is_plain =
        is_variable || matches!(operator, Operator::Tag | Operator::Blank | Operator::Parameter);
    // The value of any `_key` in code is more often a lookup than a secret.
    if is_generic_key(&text[keyword.clone()]) && !is_plain {
        return None;
    }
    let is_found = is_secret(bytes, check)
        && (is_plain || !value::is_code(bytes, &text[keyword.clone()]))
        // `token = read(…)` is a call, and `KEY: Flags = …` has a type before its value.
        && text.get(bare.end) != Some(&b'(')
        && !(operator == Operator::Colon && text[bare.end..].starts_with(b" ="));
    is_found.then_some(bare)
}

/// Returns the whole name around the keyword.
fn find_name(text: &[u8], keyword: &Range<usize>) -> Option<Range<usize>> {
    let rest = text[keyword.end..].iter().take_while(|&&byte| is_name_byte(byte)).count();
    if rest > REST_MAX {
        return None;
    }
    let before = before(text, keyword.start);
    let mut front = before.iter().rev().take_while(|&&byte| is_name_byte(byte)).count();
    // The first letters may belong to an escape: `\nTOKEN=`, or a colour as in `[33mTOKEN=`.
    let begin = before.len() - front;
    let escape = (1..=front.min(ESCAPE_MAX)).find(|len| ends_escape(&before[..begin + len]));
    front -= escape.unwrap_or(0);
    let name = keyword.start - front..keyword.end + rest;
    // After a mark it is the rest of a redacted text.
    (!ends_with_mark(&text[..name.start])).then_some(name)
}

/// Whether the name holds the secret itself and not a description of it or a cursor.
fn names_secret(text: &[u8], name: &Range<usize>, keyword: &Range<usize>) -> bool {
    let front = &text[name.start..keyword.start];
    let last_word = front.trim_ascii_end_with(|byte| matches!(byte, b'_' | b'-'));
    let ends_with = |word: &str| {
        let at = last_word.len().checked_sub(word.len());
        at.is_some_and(|at| last_word[at..].eq_ignore_ascii_case(word.as_bytes()))
    };
    // Only `token` and `_key` have such harmless namesakes: `page_password` is a password.
    let harmless = match &text[keyword.clone()] {
        word if is_generic_key(word) => NO_LOCK_BEFORE,
        word if word.eq_ignore_ascii_case(b"token") => NO_SECRET_BEFORE,
        _ => "",
    };
    !harmless.split_ascii_whitespace().any(ends_with)
        && is_secret_rest(text, keyword.end, name.end - keyword.end)
}

/// Whether the keyword is the end of any name of a key: `_key`, `-key`.
fn is_generic_key(keyword: &[u8]) -> bool {
    matches!(keyword, [b'_' | b'-', key @ ..] if key.eq_ignore_ascii_case(b"key"))
}

/// Whether a name with this rest holds the secret itself: the rest begins a new word (`_PROD`,
/// not the `s` of `tokens`), and its last word does not merely describe the secret.
fn is_secret_rest(text: &[u8], end: usize, rest_len: usize) -> bool {
    let rest = &text[end..end + rest_len];
    let Some(&first) = rest.first() else { return true };
    // The rest of a name begins a new word at a separator or where the case rises:
    //
    //     token_prod   tokenProd   token2      yes
    //     tokens       tokenize    TOKENIZER   no
    let is_new_word = !first.is_ascii_alphabetic()
        || (first.is_ascii_uppercase() && text[end - 1].is_ascii_lowercase());
    let begins_last = |&at: &usize| {
        !rest[at].is_ascii_alphanumeric()
            || (rest[at].is_ascii_uppercase() && (at == 0 || rest[at - 1].is_ascii_lowercase()))
    };
    let last = (0..rest.len()).rev().find(begins_last).unwrap_or(0);
    let last = &rest[last..];
    // `rest` is not empty here, so `last` has at least one byte: the separator or a letter.
    let last = if last[0].is_ascii_alphanumeric() { last } else { &last[1..] };
    is_new_word && !ABOUT.split(' ').any(|word| last.eq_ignore_ascii_case(word.as_bytes()))
}

/// Returns the operator after the name and where the value begins.
fn find_operator(text: &[u8], name: &Range<usize>) -> Option<(Operator, usize)> {
    let before = text[..name.start].last();
    let mut at = name.end;
    if before == Some(&b'<') && text.get(at) == Some(&b'>') {
        return Some((Operator::Tag, at + 1));
    }
    // `"name"` and `options["name"]`.
    let quote = find_quote(text, at);
    if let Some(quote) = &quote {
        at = quote.end;
    }
    if text.get(at) == Some(&b']') {
        at += 1;
    }
    // Names of constants only: `("password", "email")` lists fields.
    let is_argument = quote.is_some()
        && is_upper(&text[name.clone()])
        && matches!(text[..name.start], [.., b'(', b'"' | b'\''] | [.., b'(', b'\\', b'"']);
    let sign = skip_blanks(text, at);
    let is_blank_before = sign > at;
    let rest = &text[sign..];
    let (operator, len) = match rest {
        // A path of Rust or C++ and no assignment: `token::Kind`. Longer operators stand before the
        // ones they begin with.
        [b':', b':', ..] => return None,
        [b':', b'=', ..] | [b'=', b'>', ..] => (Operator::Equal, 2),
        [b'=', b'=', b'=', ..] => (Operator::Equal, 3),
        [b'=', b'=', ..] => (Operator::Equal, 2),
        [b'=', ..] => (Operator::Equal, 1),
        [b':', ..] => (Operator::Colon, 1),
        [b',', ..] if is_argument => (Operator::Comma, 1),
        _ if is_blank_before && text[name.clone()].starts_with(b"--") => (Operator::Blank, 0),
        _ => return None,
    };
    let from = skip_blanks(text, sign + len);
    // A shell allows no blanks around `=`. With blanks it is code, and the value may be an
    // expression.
    let is_tight = rest.first() == Some(&b'=') && len == 1 && sign == name.end && from == sign + 1;
    let is_parameter = matches!(text[..name.start], [.., b'?'] | [.., _, b'&'])
        && !text[..name.start].ends_with(b"&&");
    let operator = match is_tight {
        true if is_parameter => Operator::Parameter,
        true if text[name.clone()].starts_with(b"--") => Operator::Blank,
        true => Operator::TightEqual,
        false => operator,
    };
    Some((operator, from))
}

/// Returns where a value begins that has its type before it: `password: &str = "…"`.
fn skip_type(text: &[u8], from: usize) -> Option<usize> {
    let rest = &text[from..text.len().min(from + TYPE_MAX)];
    // The signs of types in Rust, Swift and TypeScript: `Option<&'a str>`, `string | null`.
    let is_type = |byte: u8| byte.is_ascii_alphanumeric() || b"&'<>[]_ |?.:".contains(&byte);
    let len = rest.iter().take_while(|&&byte| is_type(byte)).count();
    (rest.get(len) == Some(&b'=')).then(|| skip_blanks(text, from + len + 1))
}

/// Returns the value inside the quotes that begin at `at`.
fn quoted_value(text: &[u8], at: usize) -> Option<Range<usize>> {
    // Some languages prefix a string with a letter: `b"…"`.
    let has_prefix = matches!(text.get(at), Some(b'b' | b'r' | b'u' | b'f' | b'$'));
    let opening =
        find_quote(text, at).or_else(|| find_quote(text, at + usize::from(has_prefix)))?;
    let (mark, escapes) = (text[opening.end - 1], opening.len() - 1);
    let mut backslashes = 0;
    for (at, &byte) in text.iter().enumerate().skip(opening.end) {
        match byte {
            b'\\' => backslashes += 1,
            // A quote without its end on the line may be an apostrophe. The rest of the line goes:
            // rather too much than half a secret.
            b'\n' | b'\r' => return Some(opening.end..at),
            // Inside another string the opening quote has `escapes` backslashes, and so has the
            // closing one. A quote inside the value has more of them, and a backslash at the end
            // of the value doubles them all.
            _ if byte == mark
                && (backslashes < escapes || backslashes % (2 * (escapes + 1)) == escapes) =>
            {
                return Some(opening.end..at - backslashes.min(escapes));
            }
            _ => backslashes = 0,
        }
    }
    // The window ends before the quote does; the tail of the finding continues it.
    Some(opening.end..text.len())
}

/// Returns a quote at `at`, with the backslashes that it has inside another string.
fn find_quote(text: &[u8], at: usize) -> Option<Range<usize>> {
    // JSON inside JSON inside JSON: each level doubles the backslashes and adds one (1, 3, 7).
    const BACKSLASHES_MAX: usize = 7;
    let rest = text.get(at..)?;
    let escapes = rest.iter().take(BACKSLASHES_MAX).take_while(|&&byte| byte == b'\\').count();
    matches!(rest.get(escapes), Some(b'"' | b'\'' | b'`')).then(|| at..at + escapes + 1)
}

/// Returns the value without quotes that begins at `from`.
fn bare_value(text: &[u8], from: usize, operator: Operator, is_variable: bool) -> Range<usize> {
    let is_end = |byte: u8| match operator {
        Operator::Tag => matches!(byte, b'<' | b'\r' | b'\n'),
        _ if byte == b' ' || byte.is_ascii_control() || b"\"'`\\".contains(&byte) => true,
        // A shell or a settings file takes punctuation as a part of the value.
        _ if is_variable => false,
        _ => b",;)}]>&|<".contains(&byte),
    };
    let rest = &text[from..];
    let len = rest.iter().take_while(|&&byte| !is_end(byte)).count();
    // Punctuation at the end belongs to the sentence or the code around the value.
    let value = rest[..len].trim_ascii_end_with(|byte| b",;)]}.".contains(&byte));
    from..from + value.len()
}

fn skip_blanks(text: &[u8], from: usize) -> usize {
    let blanks = text[from.min(text.len())..].iter().take(BLANKS_MAX);
    from + blanks.take_while(|&&byte| matches!(byte, b' ' | b'\t')).count()
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn is_upper(name: &[u8]) -> bool {
    name.iter().any(u8::is_ascii_uppercase) && !name.iter().any(u8::is_ascii_lowercase)
}

/// Removal of bytes from the end of a slice.
trait TrimEnd {
    fn trim_ascii_end_with(&self, is_cut: impl Fn(u8) -> bool) -> &[u8];
}

impl TrimEnd for [u8] {
    fn trim_ascii_end_with(&self, is_cut: impl Fn(u8) -> bool) -> &[u8] {
        let kept = self.iter().rposition(|&byte| !is_cut(byte)).map_or(0, |last| last + 1);
        &self[..kept]
    }
}
