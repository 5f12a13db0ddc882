//! Rust without its comments and strings, so that a word is only found where it is code.

/// The source with comments, strings and characters blanked out. Lines stay where they are.
pub(crate) fn bare(source: &str) -> String {
    let mut bare = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let skipped = skipped_len(rest, bare.chars().next_back());
        if skipped > 0 {
            bare.extend(rest[..skipped].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = &rest[skipped..];
        } else {
            bare.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    bare
}

/// The texts in quotes, with everything else blanked out. Lines stay where they are.
pub(crate) fn texts(source: &str) -> String {
    let mut texts = String::new();
    let mut rest = source;
    let mut before = None;
    while let Some(first) = rest.chars().next() {
        let skipped = skipped_len(rest, before);
        let len = if skipped > 0 { skipped } else { first.len_utf8() };
        let is_text = skipped > 0 && !rest.starts_with('/') && !rest.starts_with('\'');
        let blank = |c: char| if is_text || c == '\n' { c } else { ' ' };
        texts.extend(rest[..len].chars().map(blank));
        before = Some(if skipped > 0 { ' ' } else { first });
        rest = &rest[len..];
    }
    texts
}

/// The places of `word` in the code: line numbers, each at most once. What stands before it is
/// not part of a longer name.
pub(crate) fn lines_with(bare: &str, word: &str) -> Vec<usize> {
    let has_word = |line: &str| {
        line.match_indices(word).any(|(at, _)| !line[..at].ends_with(is_name_character))
    };
    (1..).zip(bare.lines()).filter(|(_, line)| has_word(line)).map(|(number, _)| number).collect()
}

fn is_name_character(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of the comment, string or character that `rest` begins with; 0 for code.
fn skipped_len(rest: &str, before: Option<char>) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return block_comment_len(rest);
    }
    if rest.starts_with('"') {
        return quoted_len(rest, '"');
    }
    if rest.starts_with('\'') {
        return character_len(rest);
    }
    if before.is_some_and(is_name_character) {
        return 0;
    }
    for prefix in ["r", "br", "cr"] {
        if let Some(len) = rest.strip_prefix(prefix).and_then(raw_string_len) {
            return prefix.len() + len;
        }
    }
    0
}

fn block_comment_len(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

fn quoted_len(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// A character is closed by a quote; a lifetime is not, and stays.
fn character_len(rest: &str) -> usize {
    let mut inside = rest.chars().skip(1);
    match (inside.next(), inside.next()) {
        (Some('\\'), _) => quoted_len(rest, '\''),
        (Some(c), Some('\'')) => 2 + c.len_utf8(),
        _ => 0,
    }
}

/// What follows the `r` of a raw string: as many `#` at the end as at the beginning.
fn raw_string_len(rest: &str) -> Option<usize> {
    let hashes = rest.bytes().take_while(|&byte| byte == b'#').count();
    let body = rest[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let len = body.find(&end).map_or(body.len(), |at| at + end.len());
    Some(hashes + 1 + len)
}

#[track_caller]
fn check(source: &str, expected: &str) {
    let words: Vec<String> = bare(source).split_whitespace().map(str::to_owned).collect();
    assert_eq!(words.join(" "), expected, "in {source:?}");
    assert_eq!(bare(source).lines().count(), source.lines().count(), "in {source:?}");
}

#[test]
fn only_texts_are_kept() {
    let kept = texts("let a = b(\"c\"); // \"d\"\nlet e = r#\"f\ng\"#; let h: &'i str = '\"';");
    let words: Vec<&str> = kept.split_whitespace().collect();
    assert_eq!(words, ["\"c\"", "r#\"f", "g\"#"]);
    assert_eq!(kept.lines().count(), 3);
}

#[test]
fn comments_are_blank() {
    check("a // b \"\n c /* d /* e */\n f */ g", "a c g");
    check("//! a\nb", "b");
}

#[test]
fn strings_and_characters_are_blank() {
    check(r#"a("b \" c") + b"d" + 'e' + '\'' + '"' + f"#, "a( ) + b + + + + f");
    check("a(r#\"b \" c\"#) + br\"\\\" + d", "a( ) + + d");
    check("for_r\"x\" + var#y", "for_r + var#y");
}

#[test]
fn lifetimes_and_raw_names_are_code() {
    check("fn a<'a>(b: &'a str, r#type: char)", "fn a<'a>(b: &'a str, r#type: char)");
}

#[test]
fn an_open_end_is_no_trouble() {
    check("a \"b", "a");
    check("a /* b", "a");
    check("a r#\"b", "a");
    check("a '", "a '");
}

#[test]
fn words_are_found_where_they_begin() {
    let bare = bare("io::stdout()\nmy_io::x // io::x\nstd::io::y io::z");
    assert_eq!(lines_with(&bare, "io::"), [1, 3]);
}
