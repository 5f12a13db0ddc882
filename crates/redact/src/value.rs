//! Decides which values are secrets and which only look like one.

use crate::Check;
use crate::word::is_word_byte;

/// The minimum length of a random secret.
const RANDOM_MIN: usize = 8;

/// The minimum entropy of a random secret in bits per character: `aaaabbbb` has 1, eight different
/// characters have 3.
const ENTROPY_MIN: f64 = 2.5;

/// The minimum length of a password.
const PASSWORD_MIN: usize = 4;

/// The bytes in which a placeholder is recognised.
const PLACEHOLDER_MAX: usize = 64;

/// The share of one character from which a value counts as filling: `xxxx-xxxx`.
const FILLING_MIN: f64 = 0.6;

/// Texts that make a value a placeholder wherever they appear in it.
const PLACEHOLDER_TEXTS: &str = "\
    changeit changeme change-me change_me example goes-here goes_here placeholder redacted \
    replace-me replace_me replaceme";

/// Beginnings of placeholders. In the middle of a long token these letters could be chance.
const PLACEHOLDER_PREFIXES: &str = "your dummy insert process.env os.environ";

/// Words that often appear in the place of a secret.
const PLACEHOLDER_WORDS: &str = "\
    any basic bearer bool boolean bytes char default disabled empty enabled env false field \
    file hidden input int integer invalid key login missing nil none null number object \
    optional option pass passphrase passwd password private prompt pwd required secret self \
    stdin str string text todo token true undefined unknown unset user username valid value \
    varchar";

/// Ends of file names.
const FILE_ENDINGS: &str = "\
    .cfg .conf .csv .env .go .html .ini .java .js .json .jsonl .key .log .md .pem .php .py \
    .rb .rs .sh .sql .toml .ts .tsx .txt .xml .yaml .yml";

/// Whether the value counts as a secret.
pub(crate) fn is_secret(value: &[u8], check: Check) -> bool {
    !is_placeholder(value)
        && match check {
            Check::Any => true,
            Check::Random => is_random(value),
            Check::Password => is_password(value) && !value.iter().any(u8::is_ascii_whitespace),
            Check::Phrase => is_password(value),
        }
}

/// Whether a value without quotes is probably code: `next_token`, `config.password`, `parts[1]`.
pub(crate) fn is_code(value: &[u8], keyword: &[u8]) -> bool {
    // `hunter2` may be a password or a variable; a name without a digit is mostly a variable.
    let has_digit = value.iter().any(u8::is_ascii_digit);
    // `String!` is a type of GraphQL, and `text!` an expression of Swift.
    let name = value.strip_suffix(b"!").unwrap_or(value);
    value.iter().any(|byte| b"*&".contains(byte))
        || is_expression(value, keyword)
        || (is_identifier(name) && (!has_digit || value.contains(&b'_')))
}

/// Whether a value without quotes cannot be a plain value of a settings file: `config.password`,
/// `parts[1]`, `*alias`, a type of code with a comma behind it.
pub(crate) fn is_expression(value: &[u8], keyword: &[u8]) -> bool {
    let names_itself = contains(value, keyword) && value.len() < 24;
    let is_path = value.contains(&b'.') && is_identifier(value);
    let begins = matches!(value.first(), None | Some(b'*' | b'&' | b'!' | b'|' | b'>' | b'@'));
    let ends = matches!(value.last(), Some(b',' | b';' | b'('));
    begins
        || ends
        || value.iter().any(|byte| b"([{<".contains(byte))
        || contains(value, b"::")
        || contains(value, b"->")
        || names_itself
        || is_path
}

/// Whether the value is a placeholder: `<your-token>`, `$TOKEN`, `xxxx`, `example`.
fn is_placeholder(value: &[u8]) -> bool {
    // Forms of shells, templates and manuals, by their first and last bytes:
    //
    //     $NAME ${NAME} $(cmd)   <name>   {name} {{name}}   %s %(name)s %NAME%   [name]   name...
    let has_form = match value {
        [] | [b'$' | b'<' | b'{' | b'%'] => true,
        [b'$' | b'<' | b'{', next, ..] => is_word_byte(*next) || b"{(<%".contains(next),
        [b'%', b'(' | b'{', ..] | [b'%', _] | [b'%', .., b'%'] => true,
        [b'[', .., b']'] | [b'(', .., b')'] => true,
        _ => value.ends_with(b"...") || value.ends_with("…".as_bytes()),
    };
    // Bounded: a token of a whole window would be searched for each of the words.
    let beginning = &value[..value.len().min(PLACEHOLDER_MAX)];
    let lower = beginning.to_ascii_lowercase();
    has_form
        || PLACEHOLDER_PREFIXES.split(' ').any(|text| lower.starts_with(text.as_bytes()))
        || PLACEHOLDER_TEXTS.split(' ').any(|text| contains(&lower, text.as_bytes()))
        || PLACEHOLDER_WORDS.split(' ').any(|word| lower == word.as_bytes())
        || is_filling(value)
}

/// Whether one character makes up most of the value.
fn is_filling(value: &[u8]) -> bool {
    let most = counts(value).into_iter().max().unwrap_or(0);
    value.len() >= 3 && most as f64 >= FILLING_MIN * value.len() as f64
}

/// Whether the value looks random.
fn is_random(value: &[u8]) -> bool {
    let is_sign = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-+/=.~%:@!#$^&*".contains(byte);
    value.len() >= RANDOM_MIN
        && value.iter().all(is_sign)
        && entropy(value) >= ENTROPY_MIN
        && has_mixed_signs(value)
        && !is_path(value)
        && !is_date(value)
        && !is_number(value)
        && !is_constant(value)
        && !is_words(value)
}

/// Whether the value mixes letters and digits or, if it is long and has no digit, upper and lower
/// case as no word does.
fn has_mixed_signs(value: &[u8]) -> bool {
    let count = |is_one: fn(&u8) -> bool| value.iter().filter(|byte| is_one(byte)).count();
    let (upper, lower) = (count(u8::is_ascii_uppercase), count(u8::is_ascii_lowercase));
    let letters = upper + lower;
    if count(u8::is_ascii_digit) > 0 {
        return letters > 0;
    }
    // Without a digit both cases have to make up a quarter each; `nextPageToken` has few capitals.
    value.len() >= 16 && upper * 4 >= letters && lower * 4 >= letters
}

/// Whether the value is a file or an address. A random key may begin with a slash, but not with
/// readable folder names.
fn is_path(value: &[u8]) -> bool {
    let lower = value.to_ascii_lowercase();
    let mut begins = ["/", "./", "../", "~/", "@/"].iter();
    begins.any(|begin| value.strip_prefix(begin.as_bytes()).is_some_and(is_words))
        || contains(value, b"://")
        || FILE_ENDINGS.split(' ').any(|ending| lower.ends_with(ending.as_bytes()))
}

/// Whether the value begins like `2026-03-02T09:14:03Z`.
fn is_date(value: &[u8]) -> bool {
    let digit = |at: usize| value[at].is_ascii_digit();
    value.len() >= 10 && (0..4).all(digit) && value[4] == b'-' && digit(5) && value[7] == b'-'
}

/// Whether the value is a number of code: `0x1f3a_0000`, `32768i32`.
fn is_number(value: &[u8]) -> bool {
    let hex = value.strip_prefix(b"0x").or_else(|| value.strip_prefix(b"0X"));
    // The key of a wallet has 64 digits.
    let is_hex = hex.is_some_and(|digits| digits.len() <= 20);
    let digits = value.iter().take_while(|&&byte| byte.is_ascii_digit() || byte == b'_').count();
    let suffixes: [&[u8]; 8] = [b"i16", b"i32", b"i64", b"u16", b"u32", b"u64", b"usize", b"isize"];
    is_hex || (digits > 0 && suffixes.contains(&&value[digits..]))
}

/// Whether the value is the name of a constant such as `GITHUB_TOKEN_2`.
fn is_constant(value: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
    value.contains(&b'_') && value.iter().all(is_part) && is_words(value)
}

/// Whether the value is words with punctuation, each with at most three digits at its end:
/// `my-token-v2`.
fn is_words(value: &[u8]) -> bool {
    let is_word = |word: &[u8]| {
        let letters = word.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let is_one_case = has_one_case(&word[..letters]);
        let digits = &word[letters..];
        is_one_case && digits.len() <= 3 && digits.iter().all(u8::is_ascii_digit)
    };
    value.split(|byte| b"_-./:".contains(byte)).all(is_word)
}

/// Whether capitals appear only where words begin: `nextPageToken`, `HTTP`.
fn has_one_case(letters: &[u8]) -> bool {
    let upper = letters.iter().filter(|byte| byte.is_ascii_uppercase()).count();
    // At most one capital in four letters, rounded up, so that a short `aB` is a word, too.
    upper == letters.len() || upper * 4 <= letters.len() + 3
}

/// Whether a person could have chosen the value as a password.
fn is_password(value: &[u8]) -> bool {
    // "Password: Required" is a form, not a password.
    let is_label = value.first().is_some_and(u8::is_ascii_uppercase)
        && value[1..].iter().all(u8::is_ascii_lowercase);
    value.len() >= PASSWORD_MIN && !is_label && !contains(value, b"://")
}

/// Whether the value is an identifier: words with dots between them.
pub(crate) fn is_identifier(value: &[u8]) -> bool {
    let begins = value.first().is_some_and(|&byte| byte.is_ascii_alphabetic() || byte == b'_');
    begins && value.iter().all(|&byte| is_word_byte(byte) || byte == b'.') && is_words(value)
}

/// Returns the entropy in bits per character.
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
