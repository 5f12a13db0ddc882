//! Compiled rules and the search for findings.

use std::ops::Range;
use std::sync::{Arc, LazyLock, OnceLock};

use memchr::memmem;
use regex::bytes::{Regex, RegexBuilder};

use crate::assignment;
use crate::cut;
use crate::key;
use crate::keywords::Keywords;
use crate::mark::{is_valid_kind, touches_mark};
use crate::tail::Tail;
use crate::value::is_secret;
use crate::word::{begins_word, is_in_mark};
use crate::{BadRule, Begins, Check, Continues, Rule};

/// The bytes from the beginning of its keyword that a rule sees. Nearly all secrets are shorter;
/// a longer one continues as [`Continues`] says.
pub(crate) const WINDOW: usize = 512;

/// The bytes after the window that decide whether a finding ends inside a character or before a
/// mark.
pub(crate) const MARGIN: usize = 16;

/// The bytes before its keyword that a rule sees.
pub(crate) const LEAD_MAX: usize = 64;

/// The maximum length of a keyword.
pub(crate) const WORD_MAX: usize = 32;

/// A set of rules that is built once and shared.
#[derive(Debug)]
pub struct Rules {
    keywords: Keywords,
    rules: Vec<CompiledRule>,
}

#[derive(Debug)]
struct CompiledRule {
    kind: Box<str>,
    check: Check,
    matcher: Matcher,
}

/// How a rule finds its secret beside a keyword.
#[derive(Debug)]
enum Matcher {
    Pattern { pattern: LazyPattern, begins: Begins, continues: Continues },
    Name,
}

/// A pattern that is compiled when one of its keywords is found for the first time. A compiled one
/// takes tens of kilobytes, and texts have keywords of few rules.
#[derive(Debug)]
struct LazyPattern {
    pattern: String,
    lead: usize,
    regex: OnceLock<Regex>,
}

impl LazyPattern {
    fn regex(&self) -> &Regex {
        self.regex.get_or_init(|| {
            let regex = compile_pattern(&self.pattern, self.lead);
            regex.expect("patterns are tried before they are used, the built-in ones by a test")
        })
    }
}

/// A secret that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Finding {
    pub(crate) range: Range<usize>,
    /// The index of the rule; the number of rules for a cut secret, which no rule finds.
    pub(crate) rule: usize,
    /// How the secret may continue after its window.
    pub(crate) tail: Option<Tail>,
}

/// The match of a rule, the secret in it, and how the secret may continue.
type RuleMatch = (Range<usize>, Range<usize>, Option<Tail>);

impl Rules {
    /// The built-in rules as JSON.
    pub const BUILT_IN: &str = include_str!("../rules.json");

    /// Returns the built-in rules.
    pub fn built_in() -> Arc<Rules> {
        static BUILT_IN: LazyLock<Arc<Rules>> = LazyLock::new(|| {
            let rules = Rule::parse_list(Rules::BUILT_IN).and_then(|rules| Rules::build(&rules));
            Arc::new(rules.expect("a test compiles the built-in rules"))
        });
        BUILT_IN.clone()
    }

    /// Checks the given rules and puts them before the built-in ones.
    pub fn with_built_in(rules: &[Rule]) -> Result<Rules, BadRule> {
        rules.iter().try_for_each(check_pattern)?;
        let built_in = Rule::parse_list(Rules::BUILT_IN)?;
        Rules::build(&[rules, &built_in].concat())
    }

    /// Checks the given rules and uses them only.
    pub fn new(rules: &[Rule]) -> Result<Rules, BadRule> {
        rules.iter().try_for_each(check_pattern)?;
        Rules::build(rules)
    }

    /// The set of rules whose patterns are known to compile.
    fn build(rules: &[Rule]) -> Result<Rules, BadRule> {
        let mut keywords = Vec::new();
        for (place, rule) in rules.iter().enumerate() {
            for keyword in rule.keywords.iter().chain(&rule.names) {
                keywords.push((check_keyword(rule, keyword)?, place));
            }
        }
        let keywords = Keywords::new(keywords.into_iter());
        let rules = rules.iter().map(CompiledRule::new).collect::<Result<_, _>>()?;
        Ok(Rules { keywords, rules })
    }

    pub(crate) fn kind(&self, rule: usize) -> &str {
        self.rules.get(rule).map_or(cut::KIND, |rule| &rule.kind)
    }

    /// Whether the rule finds secrets that a machine made. A cut secret is only a part of one.
    pub(crate) fn is_random(&self, rule: usize) -> bool {
        let check = self.rules.get(rule).map(|rule| rule.check);
        check.is_some_and(|check| matches!(check, Check::Any | Check::Random))
    }

    /// Calls `found` for every secret at a keyword that begins in `range`, and returns how many
    /// bytes were examined, repeated ones included.
    ///
    /// The result depends on the bytes from [`LEAD_MAX`] before the range to [`WINDOW`] and
    /// [`MARGIN`] after it, as far as the text has them, and on the run or the key that ends there.
    pub(crate) fn search(
        &self,
        text: &[u8],
        range: Range<usize>,
        mut found: impl FnMut(Finding),
    ) -> u64 {
        // A keyword may begin in the range and end after it.
        let reach = &text[range.start..(range.end + WORD_MAX).min(text.len())];
        let mut bytes_examined = reach.len() as u64;
        self.keywords.search(reach, range.len(), |keyword, rules| {
            let keyword = range.start + keyword.start..range.start + keyword.end;
            for &place in rules {
                // The text is cut at the end of the window even if more is there: otherwise the
                // result would depend on how much of the text has arrived.
                let window_end = (keyword.start + WINDOW).min(text.len());
                bytes_examined += (window_end - keyword.start) as u64;
                let found_match = self.rules[place].find(&text[..window_end], &keyword);
                // Text that was redacted before stays as it is, so that redacting twice changes
                // nothing. A keyword inside of a mark, as `token` in `[redacted:token]`, is our own
                // word. Both are asked last, because few keywords have a match.
                if let Some((whole, secret, tail)) = found_match
                    && !touches_mark(text, &whole)
                    && !is_in_mark(text, keyword.start)
                {
                    found(Finding { range: whole_characters(text, secret), rule: place, tail });
                }
            }
        });
        for sign in memmem::find_iter(reach, cut::SIGN).map(|place| range.start + place) {
            if sign < range.end
                && !is_in_mark(text, sign)
                && let Some(secret) = cut::secret_before(text, sign)
            {
                bytes_examined += secret.len() as u64;
                found(Finding { range: secret, rule: self.rules.len(), tail: None });
            }
        }
        bytes_examined
    }
}

impl CompiledRule {
    fn new(rule: &Rule) -> Result<CompiledRule, BadRule> {
        let kind = rule.kind.clone();
        if !is_valid_kind(&kind) {
            return Err(BadRule::Kind { kind });
        }
        if rule.lead > LEAD_MAX {
            return Err(BadRule::Lead { kind, lead: rule.lead });
        }
        let matcher = match &rule.pattern {
            Some(pattern) if !rule.keywords.is_empty() && rule.names.is_empty() => {
                let (pattern, lead) = (pattern.clone(), rule.lead);
                let pattern = LazyPattern { pattern, lead, regex: OnceLock::new() };
                Matcher::Pattern { pattern, begins: rule.begins, continues: rule.continues }
            }
            None if rule.keywords.is_empty() && !rule.names.is_empty() => Matcher::Name,
            _ => return Err(BadRule::Shape { kind }),
        };
        Ok(CompiledRule { kind: kind.into(), check: rule.check, matcher })
    }

    /// Finds the secret at `keyword`. `text` ends where the window ends.
    fn find(&self, text: &[u8], keyword: &Range<usize>) -> Option<RuleMatch> {
        let (whole, secret, continues) = match &self.matcher {
            Matcher::Pattern { pattern, begins, continues } => {
                let lead = pattern.lead;
                let may_begin = |at: usize| *begins != Begins::Word || begins_word(text, at);
                // Asked before the pattern is tried: most short keywords are a part of a word.
                if lead == 0 && !may_begin(keyword.start) {
                    return None;
                }
                let from = keyword.start.saturating_sub(lead);
                let (mut whole, mut secret) = match_pattern(pattern.regex(), text, from)?;
                if !may_begin(whole.start) || !is_secret(&text[secret.clone()], self.check) {
                    return None;
                }
                if *begins == Begins::KeyBlock {
                    secret.start = key::first_line(text, whole.start)?;
                    whole.start = secret.start;
                }
                (whole, secret, *continues)
            }
            Matcher::Name => {
                let secret = assignment::find_value(text, keyword, self.check)?;
                (keyword.start..secret.end, secret, Continues::Token)
            }
        };
        let tail = match continues {
            Continues::KeyBlock => Some(Tail::KeyBlock),
            // A secret that ends before the window does has its end in sight.
            Continues::Token => (secret.end == text.len()).then_some(Tail::Token),
        };
        Some((whole, secret, tail))
    }
}

/// Compiles a pattern so that it is tried at one place only, or at `lead` places if it may begin
/// before its keyword. Without Unicode classes it is smaller and faster by a factor of ten.
fn compile_pattern(pattern: &str, lead: usize) -> Result<Regex, regex::Error> {
    let pattern = format!(r"\A(?s:.){{0,{lead}}}?({pattern})");
    RegexBuilder::new(&pattern).unicode(false).build()
}

fn check_pattern(rule: &Rule) -> Result<(), BadRule> {
    let Some(pattern) = &rule.pattern else { return Ok(()) };
    let bad = |source| BadRule::Pattern { kind: rule.kind.clone(), source: Box::new(source) };
    compile_pattern(pattern, rule.lead.min(LEAD_MAX)).map(drop).map_err(bad)
}

/// Returns the match of the pattern from `from` on and the secret in it.
fn match_pattern(regex: &Regex, text: &[u8], from: usize) -> Option<(Range<usize>, Range<usize>)> {
    let window = &text[from..];
    // Most keywords have no match. `is_match` finds that out without an allocation.
    if !regex.is_match(window) {
        return None;
    }
    let captures = regex.captures(window)?;
    let mut groups = captures.iter().skip(1).flatten().map(|it| from + it.start()..from + it.end());
    // The first group is the one that `compile_pattern` adds.
    let whole = groups.next()?;
    let secret = groups.next().unwrap_or_else(|| whole.clone());
    Some((whole, secret))
}

/// Widens the range to whole characters: patterns work on bytes.
fn whole_characters(text: &[u8], range: Range<usize>) -> Range<usize> {
    let is_inside = |at: usize| text.get(at).is_some_and(|byte| (0x80..0xc0).contains(byte));
    let Range { mut start, mut end } = range;
    while is_inside(start) {
        start -= 1;
    }
    while is_inside(end) {
        end += 1;
    }
    start..end
}

fn check_keyword<'a>(rule: &Rule, word: &'a str) -> Result<&'a str, BadRule> {
    if word.is_ascii() && (2..=WORD_MAX).contains(&word.len()) {
        return Ok(word);
    }
    Err(BadRule::Word { kind: rule.kind.clone(), word: word.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(rules: &Rules) -> usize {
        let is_compiled = |rule: &&CompiledRule| match &rule.matcher {
            Matcher::Pattern { pattern, .. } => pattern.regex.get().is_some(),
            Matcher::Name => false,
        };
        rules.rules.iter().filter(is_compiled).count()
    }

    #[test]
    fn built_in_patterns_compile() {
        Rules::new(&Rule::parse_list(Rules::BUILT_IN).unwrap()).unwrap();
    }

    #[test]
    fn only_patterns_of_found_keywords_are_compiled() {
        let rules = Rules::with_built_in(&[]).unwrap();
        rules.search(b"plain words", 0..11, |_| {});
        assert_eq!(compiled(&rules), 0);
        let text = b"see ghp_0123456789abcdefghijABCDEFGHIJ012345 here";
        let mut found = 0;
        rules.search(text, 0..text.len(), |_| found += 1);
        assert_eq!((found, (1..8).contains(&compiled(&rules))), (1, true));
    }
}
