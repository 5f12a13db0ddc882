//! Edits of JSON files that users write: one item changes, and all other bytes stay.
//!
//! A file is parsed into [`Node`]s with their spans. An item is added or removed by changing the
//! bytes around it, so comments, order, indentation and line ends stay. Removing the item that was
//! added last gives back the same bytes.
//!
//! Not here: what is added, and where files are.

use std::collections::HashSet;
use std::ops::Range;

use serde::de::IgnoredAny;

/// What the agent accepts beyond JSON.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Syntax {
    pub(super) comments: bool,
    pub(super) trailing_commas: bool,
}

/// A syntax error and its position; lines and columns count from one.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}, column {column}: {what}")]
pub struct SyntaxError {
    pub line: usize,
    pub column: usize,
    pub what: &'static str,
}

impl SyntaxError {
    pub(super) fn at_offset(text: &str, at: usize, what: &'static str) -> SyntaxError {
        // The parser counts bytes, and a position may lie inside a character.
        let before = &text[..text.floor_char_boundary(at)];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.matches('\n').count() + 1;
        let column = before[line_start..].chars().count() + 1;
        SyntaxError { line, column, what }
    }
}

/// A value and its span.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Node {
    pub(super) span: Range<usize>,
    pub(super) value: Value,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Value {
    Object(Vec<Member>),
    Array(Vec<Node>),
    Text(String),
    Other,
}

/// A member of an object; its span begins with its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) start: usize,
    pub(super) node: Node,
}

/// A value to be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Json {
    Text(String),
    Number(u32),
    List(Vec<Json>),
    Object(Vec<(&'static str, Json)>),
}

impl Node {
    /// The value of a member.
    pub(super) fn member(&self, name: &str) -> Option<&Node> {
        self.members().iter().find(|member| member.name == name).map(|member| &member.node)
    }

    pub(super) fn members(&self) -> &[Member] {
        match &self.value {
            Value::Object(members) => members,
            _ => &[],
        }
    }

    /// The first member with the name of an earlier one. Parsers differ on which of them counts.
    pub(super) fn duplicate(&self) -> Option<&Member> {
        let mut names = HashSet::new();
        self.members().iter().find(|member| !names.insert(&member.name))
    }

    /// The same, at any depth.
    pub(super) fn duplicate_within(&self) -> Option<&Member> {
        let members = self.members().iter().map(|member| &member.node);
        self.duplicate().or_else(|| members.chain(self.elements()).find_map(Node::duplicate_within))
    }

    pub(super) fn elements(&self) -> &[Node] {
        match &self.value {
            Value::Array(elements) => elements,
            _ => &[],
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The spans of the items of a list or an object.
    fn item_spans(&self) -> Vec<Range<usize>> {
        match &self.value {
            Value::Object(members) => {
                members.iter().map(|member| member.start..member.node.span.end).collect()
            }
            Value::Array(elements) => elements.iter().map(|node| node.span.clone()).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether it is empty and spans several lines, as after the removal of our items.
    pub(super) fn is_emptied(&self, text: &str) -> bool {
        let is_empty = match &self.value {
            Value::Object(members) => members.is_empty(),
            Value::Array(elements) => elements.is_empty(),
            _ => return false,
        };
        let inside = &text[self.span.start + 1..self.span.end - 1];
        // A container without a line break is as the user wrote it: `{}`. We always write several
        // lines.
        is_empty && inside.contains('\n') && is_blank(inside)
    }
}

/// Blanks of JSON. Unicode has more, and a text with one of those is no JSON.
const BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];

/// Whether a text has nothing but blanks.
pub(super) fn is_blank(text: &str) -> bool {
    text.trim_matches(BLANKS).is_empty()
}

/// Parses a text.
pub(super) fn parse(text: &str, syntax: Syntax) -> Result<Node, SyntaxError> {
    let mut scanner = Scanner { text, at: 0, depth: 0, syntax };
    // Some editors on Windows begin a file with a byte order mark.
    if text.starts_with('\u{feff}') {
        scanner.at = '\u{feff}'.len_utf8();
    }
    let node = scanner.skip().and_then(|()| scanner.value()).and_then(|node| {
        scanner.skip()?;
        if scanner.at < text.len() { Err("something follows the value") } else { Ok(node) }
    });
    node.map_err(|what| SyntaxError::at_offset(text, scanner.at, what))
}

/// The text with an item added at the end of a list or an object. A member comes with its name.
pub(super) fn add_item(text: &str, container: &Node, name: Option<&str>, item: &Json) -> String {
    let style = Style::detect(text);
    let items = container.item_spans();
    // As its neighbours; an empty container has none, and then one unit deeper than its own line.
    let indent = match items.first().and_then(|first| indent_before(text, first.start)) {
        Some(indent) => indent.to_owned(),
        None => format!("{}{}", line_indent(text, container.span.start), style.unit),
    };
    let mut written = format!("{}{indent}", style.newline);
    if let Some(name) = name {
        written.push_str(&format!("{}: ", quoted(name)));
    }
    item.write(&indent, &style, &mut written);
    let close = container.span.end - 1;
    // An empty container: behind its last comment.
    //     { /* c */ }  becomes  { /* c */⏎  "new": 1 }
    let Some(last) = items.last() else {
        let place = tokens_end(text, container.span.start + 1, close);
        return splice(text, place..place, &written);
    };
    // Behind a comment on the line of the last item, which belongs to that item.
    let place = tokens_end(text, last.end, close);
    // The user writes trailing commas, so the new item has one, too.
    if find_comma(text, last.end, close).is_some() {
        written.push(',');
        return splice(text, place..place, &written);
    }
    let text = splice(text, place..place, &written);
    // From the end to the start: the first splice must not move the place of the second.
    splice(&text, last.end..last.end, ",")
}

/// The text without one item of a list or an object.
pub(super) fn remove_item(text: &str, container: &Node, index: usize) -> String {
    let items = container.item_spans();
    let item = items[index].clone();
    let before = match index.checked_sub(1) {
        Some(previous) => items[previous].end,
        None => container.span.start + 1,
    };
    let after = items.get(index + 1).map_or(container.span.end - 1, |next| next.start);
    // A comment before the item stays: it may be about the whole list.
    let from = tokens_end(text, before, item.start);
    // Not the last item, or one with a trailing comma: its own comma goes with it.
    if let Some(comma) = find_comma(text, item.end, after) {
        return splice(text, from..comma + 1, "");
    }
    let removed = splice(text, from..item.end, "");
    match find_comma(text, before, item.start) {
        // The comma before the last item goes, also if a comment that stays follows it.
        Some(comma) if comma < from => splice(&removed, comma..comma + 1, ""),
        _ => removed,
    }
}

/// The text with another string in place of one.
pub(super) fn replace_text(text: &str, node: &Node, with: &str) -> String {
    splice(text, node.span.clone(), &quoted(with))
}

/// A new file with one value.
pub(super) fn format_file(value: &Json) -> String {
    let style = Style { unit: "  ".to_owned(), newline: "\n" };
    let mut text = String::new();
    value.write("", &style, &mut text);
    text + "\n"
}

impl Json {
    fn write(&self, indent: &str, style: &Style, out: &mut String) {
        let inner = format!("{indent}{}", style.unit);
        let mut block = |open: char, close: char, items: Vec<(Option<&str>, &Json)>| {
            out.push(open);
            for (number, (name, item)) in items.iter().enumerate() {
                out.push_str(if number > 0 { "," } else { "" });
                out.push_str(style.newline);
                out.push_str(&inner);
                if let Some(name) = name {
                    out.push_str(&format!("{}: ", quoted(name)));
                }
                item.write(&inner, style, out);
            }
            out.push_str(style.newline);
            out.push_str(indent);
            out.push(close);
        };
        match self {
            Json::Text(text) => out.push_str(&quoted(text)),
            Json::Number(number) => out.push_str(&number.to_string()),
            Json::List(items) => block('[', ']', items.iter().map(|item| (None, item)).collect()),
            Json::Object(members) => {
                let members = members.iter().map(|(name, item)| (Some(*name), item));
                block('{', '}', members.collect());
            }
        }
    }
}

/// The indentation and the line ends of a file.
struct Style {
    unit: String,
    newline: &'static str,
}

impl Style {
    fn detect(text: &str) -> Style {
        let newline = match text.find('\n') {
            Some(at) if text[..at].ends_with('\r') => "\r\n",
            _ => "\n",
        };
        // Lines that begin with a name show the indentation; those of comments may have any.
        // A line inside a comment may look like one and begin with blanks that JSON does not have.
        let indents = text.lines().filter_map(|line| {
            let rest = line.trim_start_matches(BLANKS);
            rest.starts_with('"').then(|| &line[..line.len() - rest.len()])
        });
        // The least indentation is that of the first level.
        let unit = indents.filter(|indent| !indent.is_empty()).min_by_key(|indent| indent.len());
        Style { unit: unit.unwrap_or("  ").to_owned(), newline }
    }
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    syntax: Syntax,
}

/// The deepest nesting. The parser recurses, so the limit protects the stack.
const DEPTH_MAX: usize = 128;

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips white space and comments.
    fn skip(&mut self) -> Result<(), &'static str> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                // Also with comments on, a single `/` is an error.
                Some(b'/') if self.syntax.comments => {
                    let rest = &self.text[self.at..];
                    self.at += comment_length(rest).ok_or("a comment that does not end")?;
                }
                Some(b'/') => return Err("a comment, which the agent does not accept here"),
                _ => return Ok(()),
            }
        }
    }

    fn value(&mut self) -> Result<Node, &'static str> {
        let start = self.at;
        let value = match self.peek() {
            Some(b'{') => self.object()?,
            Some(b'[') => self.array()?,
            Some(b'"') => Value::Text(self.string()?),
            Some(b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => self.plain()?,
            Some(_) => return Err("a value was expected"),
            None => return Err("a value was expected, and the file ends"),
        };
        Ok(Node { span: start..self.at, value })
    }

    fn plain(&mut self) -> Result<Value, &'static str> {
        let rest = &self.text[self.at..];
        // Ends at what may follow a value; a `:` or `/` then gives a better message than the word.
        let is_end = |c: char| c.is_whitespace() || matches!(c, ',' | ']' | '}' | '/' | ':');
        let word = &rest[..rest.find(is_end).unwrap_or(rest.len())];
        // Checked by the strict parser, which knows all forms of numbers. The value is ignored: one
        // that is too large for a number of ours may stand in a file.
        if serde_json::from_str::<IgnoredAny>(word).is_err() {
            return Err("neither a number nor a word of JSON");
        }
        self.at += word.len();
        Ok(Value::Other)
    }

    fn string(&mut self) -> Result<String, &'static str> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => break,
                // Skips an escaped quote. An escape at the end of the file passes the end, which
                // `get` notices.
                Some(b'\\') => self.at += 2,
                Some(b'\n') | None => return Err("a text that does not end"),
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        let text = self.text.get(start..self.at).ok_or("a text that does not end")?;
        // Resolves escapes, so that a name written with `\u` is compared by its meaning.
        serde_json::from_str(text).map_err(|_| "a text that is no text of JSON")
    }

    fn object(&mut self) -> Result<Value, &'static str> {
        let mut members: Vec<Member> = Vec::new();
        self.parse_items(b'}', |scanner| {
            let start = scanner.at;
            if scanner.peek() != Some(b'"') {
                return Err("the name of a member was expected");
            }
            let name = scanner.string()?;
            scanner.skip()?;
            if scanner.peek() != Some(b':') {
                return Err("a colon was expected");
            }
            scanner.at += 1;
            scanner.skip()?;
            let node = scanner.value()?;
            members.push(Member { name, start, node });
            Ok(())
        })?;
        Ok(Value::Object(members))
    }

    fn array(&mut self) -> Result<Value, &'static str> {
        let mut elements = Vec::new();
        self.parse_items(b']', |scanner| {
            elements.push(scanner.value()?);
            Ok(())
        })?;
        Ok(Value::Array(elements))
    }

    /// Parses items with commas between them, up to the closing bracket.
    fn parse_items(
        &mut self,
        close: u8,
        mut item: impl FnMut(&mut Self) -> Result<(), &'static str>,
    ) -> Result<(), &'static str> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("it is nested too deep");
        }
        self.at += 1;
        self.skip()?;
        let mut is_first = true;
        while self.peek() != Some(close) {
            if !is_first {
                if self.peek() != Some(b',') {
                    return Err("a comma or the end was expected");
                }
                self.at += 1;
                self.skip()?;
                if self.peek() == Some(close) {
                    if !self.syntax.trailing_commas {
                        return Err("a comma before the end, which the agent does not accept here");
                    }
                    break;
                }
            }
            item(self)?;
            self.skip()?;
            is_first = false;
        }
        self.at += 1;
        self.depth -= 1;
        Ok(())
    }
}

/// The length of the comment at the start of a text.
fn comment_length(text: &str) -> Option<usize> {
    match text.as_bytes().get(1)? {
        // Without the line end, which belongs to the layout and not to the comment.
        b'/' => Some(text.find(['\n', '\r']).unwrap_or(text.len())),
        // Two for `/*`, which `find` does not see, and two for `*/`.
        b'*' => text.get(2..)?.find("*/").map(|end| end + 4),
        _ => None,
    }
}

/// The spans of the commas and comments between two items.
fn tokens(text: &str, from: usize, to: usize) -> impl Iterator<Item = Range<usize>> {
    let mut at = from;
    std::iter::from_fn(move || {
        let rest = text.get(at..to)?;
        at += rest.len() - rest.trim_start_matches(BLANKS).len();
        let rest = text.get(at..to).filter(|rest| !rest.is_empty())?;
        // Between two items only commas and comments stand, as the parser has checked.
        let length = match rest.starts_with('/') {
            true => comment_length(rest)?,
            false => 1,
        };
        at += length;
        Some(at - length..at)
    })
}

/// The end of the last comma or comment between two offsets, or the first offset.
fn tokens_end(text: &str, from: usize, to: usize) -> usize {
    tokens(text, from, to).last().map_or(from, |token| token.end)
}

/// The comma between two offsets.
fn find_comma(text: &str, from: usize, to: usize) -> Option<usize> {
    tokens(text, from, to).find(|token| text[token.clone()] == *",").map(|token| token.start)
}

/// The indentation before an offset, if it is the first on its line.
fn indent_before(text: &str, at: usize) -> Option<&str> {
    let start = text[..at].rfind('\n')? + 1;
    let before = &text[start..at];
    is_blank(before).then_some(before)
}

/// The indentation of the line of an offset.
fn line_indent(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |at| at + 1);
    let line = &text[start..];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a text always encodes")
}

fn splice(text: &str, range: Range<usize>, with: &str) -> String {
    format!("{}{with}{}", &text[..range.start], &text[range.end..])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LOOSE: Syntax = Syntax { comments: true, trailing_commas: true };

    fn item() -> Json {
        Json::Object(vec![("a", Json::Number(1)), ("b", Json::List(vec![Json::Text("c".into())]))])
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let root = parse(text, LOOSE).unwrap();
        let added = add_item(text, &root, Some("new"), &Json::Number(1));
        assert_eq!(added, expected);
        let root = parse(&added, LOOSE).unwrap();
        assert_eq!(remove_item(&added, &root, root.members().len() - 1), text);
    }

    #[test]
    fn added_item_follows_the_style() {
        check("{}", "{\n  \"new\": 1}");
        check("{\n}", "{\n  \"new\": 1\n}");
        check("{ \"a\": 1 }", "{ \"a\": 1,\n  \"new\": 1 }");
        check("{\n\t\"a\": 1\n}\n", "{\n\t\"a\": 1,\n\t\"new\": 1\n}\n");
        check("{\r\n    \"a\": 1\r\n}", "{\r\n    \"a\": 1,\r\n    \"new\": 1\r\n}");
        check("{\n  \"a\": 1,\n}", "{\n  \"a\": 1,\n  \"new\": 1,\n}");
        check("{\n  \"a\": 1 // why\n}", "{\n  \"a\": 1, // why\n  \"new\": 1\n}");
        check("{\n  // empty\n}", "{\n  // empty\n  \"new\": 1\n}");
        check("{ /* , */ }", "{ /* , */\n  \"new\": 1 }");
        // What looks like a member inside a comment is indented by a blank that JSON does not have.
        check("/*\n\u{a0}\"a\"\n*/{}", "/*\n\u{a0}\"a\"\n*/{\n  \"new\": 1}");
    }

    #[test]
    fn removed_item_takes_its_comma() {
        let text = "[\n  1,\n  // two\n  2,\n  3\n]";
        let root = parse(text, LOOSE).unwrap();
        assert_eq!(remove_item(text, &root, 1), "[\n  1,\n  // two\n  3\n]");
        assert_eq!(remove_item(text, &root, 0), "[\n  // two\n  2,\n  3\n]");
    }

    #[test]
    fn syntax_error_has_its_position() {
        for (text, line, column) in [
            ("", 1, 1),
            ("{\n  \"a\": ,\n}", 2, 8),
            ("{\"a\": 1", 1, 8),
            ("{\"a\" 1}", 1, 6),
            ("{} x", 1, 4),
            ("[\"a\n\"]", 1, 4),
            ("[1, 2,]", 1, 7),
            ("// c\n{}", 1, 1),
            ("[tru]", 1, 2),
            ("[\"\\", 1, 4),
        ] {
            let error = parse(text, Syntax::default()).unwrap_err();
            assert_eq!((error.line, error.column), (line, column), "{text}: {error}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(parse(&deep, LOOSE).unwrap_err().what, "it is nested too deep");
    }

    #[test]
    fn number_may_have_any_size() {
        for text in ["[1e400]", "[-1E-400]", "[123456789012345678901234567890]"] {
            assert!(parse(text, Syntax::default()).is_ok(), "{text}");
        }
    }

    /// Any blank, comment or nothing.
    fn gap() -> impl Strategy<Value = String> {
        const GAPS: &[&str] =
            &["", " ", "\n", "\n  ", "\r\n\t", " // c, {\n", "/* ], */", "\n\n/* x */ "];
        prop::sample::select(GAPS).prop_map(str::to_owned)
    }

    /// JSON as users write it.
    fn json() -> impl Strategy<Value = String> {
        let leaf =
            prop::sample::select(&["1", "-2.5e3", "\"a,]\\\"}\"", "true", "null", "\"é\""][..]);
        leaf.prop_map(str::to_owned).prop_recursive(4, 32, 4, |inner| {
            let item = (gap(), inner, gap()).prop_map(|(a, value, b)| format!("{a}{value}{b}"));
            let items = prop::collection::vec(item, 0..4);
            (items, any::<bool>(), any::<bool>(), gap()).prop_map(
                |(items, is_list, trails, gap)| {
                    let comma = if trails && !items.is_empty() { format!(",{gap}") } else { gap };
                    match is_list {
                        true => format!("[{}{comma}]", items.join(",")),
                        false => {
                            let members = items.iter().enumerate();
                            let members = members.map(|(n, item)| format!("\"k{n}\":{item}"));
                            format!("{{{}{comma}}}", members.collect::<Vec<_>>().join(","))
                        }
                    }
                },
            )
        })
    }

    /// Every list and object of a document.
    fn containers(node: &Node) -> Vec<&Node> {
        let below: Vec<&Node> = match &node.value {
            Value::Object(members) => members.iter().map(|member| &member.node).collect(),
            Value::Array(elements) => elements.iter().collect(),
            _ => return Vec::new(),
        };
        let below = below.into_iter().flat_map(containers);
        std::iter::once(node).chain(below).collect()
    }

    proptest! {
        #[test]
        fn removal_undoes_addition_byte_for_byte(
            text in json(),
            choice in any::<prop::sample::Index>(),
        ) {
            let root = parse(&text, LOOSE).unwrap();
            let containers = containers(&root);
            prop_assume!(!containers.is_empty());
            let container = containers[choice.index(containers.len())];
            let start = container.span.start;
            let name = matches!(container.value, Value::Object(_)).then_some("new");
            let added = add_item(&text, container, name, &item());
            let root = parse(&added, LOOSE).unwrap();
            let found = super::tests::containers(&root);
            let found = found.into_iter().find(|node| node.span.start == start).unwrap();
            prop_assert_eq!(remove_item(&added, found, found.item_spans().len() - 1), text);
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "\\PC*|[\\[\\]{},:\"/* \n0-9a-z\\\\]*") {
            let _ = parse(&text, LOOSE);
            let is_parsed = parse(&text, Syntax::default()).is_ok();
            let is_json = serde_json::from_str::<serde_json::Value>(&text).is_ok();
            prop_assert!(is_parsed || !is_json);
            // A file that the agent cannot read is refused.
            prop_assert!(!is_parsed || serde_json::from_str::<IgnoredAny>(&text).is_ok());
        }
    }
}
