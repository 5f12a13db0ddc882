//! What is a secret, and what only looks like one.

use crate::Check;
use crate::word::is_word_byte;

/// Fewer characters are no secret that chance has made.
const RANDOM_MIN: usize = 8;

/// Bits per character below which a text is no work of chance: `aaaabbbb` has 1, eight different
/// characters have 3.
const ENTROPY_MIN: f64 = 2.5;

/// Fewer characters are no password worth the name; more of them than this are no password.
const PASSWORD_MIN: usize = 4;

/// A text that stands for a secret is shorter, or says so within this many bytes.
const STANDS_MAX: usize = 64;

/// A part of a text this common is filling: `xxxx-xxxx`.
const FILLING_MIN: f64 = 0.6;

/// Texts that stand for a secret, in every document.
const STANDS_FOR_IT: &str = "\
    changeit changeme change-me change_me example goes-here goes_here placeholder redacted \
    replace-me replace_me replaceme";

/// Beginnings of such texts. Four letters in the middle of a long token would be chance.
const BEGINS_SO: &str = "your dummy insert process.env os.environ";

/// Words that stand where a secret would, and are none.
const WORDS: &str = "\
    any basic bearer bool boolean bytes char default disabled empty enabled env false field \
    file hidden input int integer invalid key login missing nil none null number object \
    optional option pass passphrase passwd password private prompt pwd required secret self \
    stdin str string text todo token true undefined unknown unset user username valid value \
    varchar";

/// Ends of file names.
const FILE_ENDINGS: &str = "\
    .cfg .conf .csv .env .go .html .ini .java .js .json .jsonl .key .log .md .pem .php .py \
    .rb .rs .sh .sql .toml .ts .tsx .txt .xml .yaml .yml";

/// Whether the value is taken for a secret.
pub(crate) fn is_secret(value: &[u8], check: Check) -> bool {
    !is_placeholder(value)
        && match check {
            Check::Any => true,
            Check::Random => is_random(value),
            Check::Password => is_password(value) && !value.iter().any(u8::is_ascii_whitespace),
            Check::Phrase => is_password(value),
        }
}

/// Whether a value without quotes is rather a piece of a program: `next_token`, `config.password`,
/// `parts[1]`.
pub(crate) fn is_code(value: &[u8], keyword: &[u8]) -> bool {
    let is_operator = |byte: &u8| b"([{<*&!".contains(byte);
    let names_itself = contains(value, keyword) && value.len() < 24;
    let is_path = value.contains(&b'.') && is_identifier(value);
    // A password such as `hunter2` could be a variable too; one without a digit mostly is one.
    let has_digit = value.iter().any(u8::is_ascii_digit);
    value.iter().any(is_operator)
        || contains(value, b"::")
        || contains(value, b"->")
        || names_itself
        || is_path
        || (is_identifier(value) && (!has_digit || value.contains(&b'_')))
}

/// Something that stands for a secret: `<your-token>`, `$TOKEN`, `xxxx`, `example`.
fn is_placeholder(value: &[u8]) -> bool {
    let looks_as_one = match value {
        [] | [b'$' | b'<' | b'{' | b'%'] => true,
        [b'$' | b'<' | b'{', next, ..] => is_word_byte(*next) || b"{(<%".contains(next),
        [b'%', b'(' | b'{', ..] | [b'%', _] | [b'%', .., b'%'] => true,
        [b'[', .., b']'] | [b'(', .., b')'] => true,
        _ => value.ends_with(b"...") || value.ends_with("…".as_bytes()),
    };
    let beginning = &value[..value.len().min(STANDS_MAX)];
    let lower = beginning.to_ascii_lowercase();
    looks_as_one
        || BEGINS_SO.split(' ').any(|text| lower.starts_with(text.as_bytes()))
        || STANDS_FOR_IT.split(' ').any(|text| contains(&lower, text.as_bytes()))
        || WORDS.split(' ').any(|word| lower == word.as_bytes())
        || is_filling(value)
}

/// Whether one character makes up most of the value.
fn is_filling(value: &[u8]) -> bool {
    let most = counts(value).into_iter().max().unwrap_or(0);
    value.len() >= 3 && most as f64 >= FILLING_MIN * value.len() as f64
}

/// Whether chance has made it.
fn is_random(value: &[u8]) -> bool {
    let is_sign = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-+/=.~%:@!#$^&*".contains(byte);
    value.len() >= RANDOM_MIN
        && value.iter().all(is_sign)
        && entropy(value) >= ENTROPY_MIN
        && has_mixed_signs(value)
        && !is_path(value)
        && !is_date(value)
        && !is_constant(value)
        && !is_words(value)
}

/// Letters and digits; or, in a long one without digits, capitals where no word has them.
fn has_mixed_signs(value: &[u8]) -> bool {
    let count = |is_one: fn(&u8) -> bool| value.iter().filter(|byte| is_one(byte)).count();
    let (upper, lower) = (count(u8::is_ascii_uppercase), count(u8::is_ascii_lowercase));
    let letters = upper + lower;
    if count(u8::is_ascii_digit) > 0 {
        return letters > 0;
    }
    value.len() >= 16 && upper * 4 >= letters && lower * 4 >= letters
}

/// A file or an address. A key may begin with a slash by chance, but not with folders one can read.
fn is_path(value: &[u8]) -> bool {
    let lower = value.to_ascii_lowercase();
    let mut begins = ["/", "./", "../", "~/", "@/"].iter();
    begins.any(|begin| value.strip_prefix(begin.as_bytes()).is_some_and(is_words))
        || contains(value, b"://")
        || FILE_ENDINGS.split(' ').any(|ending| lower.ends_with(ending.as_bytes()))
}

/// `2026-03-02T09:14:03Z` and what begins like it.
fn is_date(value: &[u8]) -> bool {
    let digit = |at: usize| value[at].is_ascii_digit();
    value.len() >= 10 && (0..4).all(digit) && value[4] == b'-' && digit(5) && value[7] == b'-'
}

/// `GITHUB_TOKEN_2`.
fn is_constant(value: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
    value.contains(&b'_') && value.iter().all(is_part) && is_words(value)
}

/// Words with signs between them, each with at most three digits at its end: `my-token-v2`.
fn is_words(value: &[u8]) -> bool {
    let is_word = |word: &[u8]| {
        let letters = word.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let is_one_case = has_one_case(&word[..letters]);
        let digits = &word[letters..];
        is_one_case && digits.len() <= 3 && digits.iter().all(u8::is_ascii_digit)
    };
    value.split(|byte| b"_-./:".contains(byte)).all(is_word)
}

/// Capitals only where words begin: `nextPageToken`, `HTTP`.
fn has_one_case(letters: &[u8]) -> bool {
    let upper = letters.iter().filter(|byte| byte.is_ascii_uppercase()).count();
    upper == letters.len() || upper * 4 <= letters.len() + 3
}

/// Whether somebody could have chosen it as a password.
fn is_password(value: &[u8]) -> bool {
    let is_label = value.first().is_some_and(u8::is_ascii_uppercase)
        && value[1..].iter().all(u8::is_ascii_lowercase);
    value.len() >= PASSWORD_MIN && !is_label && !contains(value, b"://")
}

/// A name of a program: words, and dots between them.
fn is_identifier(value: &[u8]) -> bool {
    let begins = value.first().is_some_and(|&byte| byte.is_ascii_alphabetic() || byte == b'_');
    begins && value.iter().all(|&byte| is_word_byte(byte) || byte == b'.') && is_words(value)
}

/// Bits per character.
fn entropy(value: &[u8]) -> f64 {
    let len = value.len() as f64;
    let bits = |count: usize| {
        let share = count as f64 / len;
        -share * share.log2()
    };
    counts(value).into_iter().filter(|&count| count > 0).map(bits).sum()
}

fn counts(value: &[u8]) -> [usize; 256] {
    let mut counts = [0; 256];
    for &byte in value {
        counts[usize::from(byte)] += 1;
    }
    counts
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    let mut windows = text.windows(part.len().max(1));
    windows.any(|window| window.eq_ignore_ascii_case(part))
}
