//! Rules made ready to search with.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use memchr::memmem;
use regex::bytes::{Regex, RegexBuilder};

use crate::assignment;
use crate::cut;
use crate::mark::{is_kind, touches_mark};
use crate::tail::Tail;
use crate::value::is_secret;
use crate::word::{begins_word, is_in_mark};
use crate::{BadRule, Begins, Check, Continues, Rule};

/// How far from where its keyword begins a rule sees. Nearly all secrets are shorter; what is
/// longer goes on as [`Continues`] says.
pub(crate) const WINDOW: usize = 512;

/// How far behind a window the end of what was found there is looked at: whether it is the middle
/// of a character or the beginning of a mark.
pub(crate) const MARGIN: usize = 16;

/// How far before its keyword a rule sees.
pub(crate) const LEAD_MAX: usize = 64;

/// The longest word a rule may be found by.
pub(crate) const WORD_MAX: usize = 32;

/// A set of rules. Making one takes milliseconds, so it is made once and shared.
#[derive(Debug)]
pub struct Rules {
    words: AhoCorasick,
    /// The rules each word leads to, by the word's number.
    led_to: Vec<Vec<usize>>,
    rules: Vec<Ready>,
}

#[derive(Debug)]
struct Ready {
    kind: Box<str>,
    check: Check,
    shape: Shape,
}

#[derive(Debug)]
enum Shape {
    Pattern { regex: Regex, lead: usize, begins: Begins, continues: Continues },
    Name,
}

/// A place that has to go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Finding {
    pub(crate) range: Range<usize>,
    /// The rule's place in the list; behind its end for what no rule is about.
    pub(crate) rule: usize,
    /// How it goes on, if it may.
    pub(crate) tail: Option<Tail>,
}

type Seen = (Range<usize>, Range<usize>, Option<Tail>);

impl Rules {
    /// The rules this program brings, as data.
    pub const BUILT_IN: &str = include_str!("../rules.json");

    /// The rules this program brings.
    pub fn built_in() -> Arc<Rules> {
        static BUILT_IN: LazyLock<Arc<Rules>> = LazyLock::new(|| {
            let rules = Rule::list(Rules::BUILT_IN).and_then(|rules| Rules::new(&rules));
            Arc::new(rules.expect("our own rules are sound, as a test shows"))
        });
        BUILT_IN.clone()
    }

    /// The given rules, then those this program brings.
    pub fn with_built_in(rules: &[Rule]) -> Result<Rules, BadRule> {
        let built_in = Rule::list(Rules::BUILT_IN)?;
        Rules::new(&[rules, &built_in].concat())
    }

    /// The given rules and no others.
    pub fn new(rules: &[Rule]) -> Result<Rules, BadRule> {
        let mut words: Vec<String> = Vec::new();
        let mut led_to: Vec<Vec<usize>> = Vec::new();
        for (place, rule) in rules.iter().enumerate() {
            for word in rule.keywords.iter().chain(&rule.names) {
                let word = checked_word(rule, word)?;
                match words.iter().position(|known| *known == word) {
                    Some(number) => led_to[number].push(place),
                    None => {
                        words.push(word);
                        led_to.push(vec![place]);
                    }
                }
            }
        }
        let words = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(words)
            .map_err(|error| BadRule::Words(Box::new(error)))?;
        let rules = rules.iter().map(Ready::new).collect::<Result<_, _>>()?;
        Ok(Rules { words, led_to, rules })
    }

    pub(crate) fn kind(&self, rule: usize) -> &str {
        self.rules.get(rule).map_or(cut::KIND, |rule| &rule.kind)
    }

    /// Calls `found` for every secret beside a word that begins in `range`; returns how many bytes
    /// were looked at, some of them more than once.
    ///
    /// The bytes from [`LEAD_MAX`] before the range to [`WINDOW`] and [`MARGIN`] behind it decide,
    /// if there are that many.
    pub(crate) fn search(
        &self,
        text: &[u8],
        range: Range<usize>,
        mut found: impl FnMut(Finding),
    ) -> u64 {
        let reach = &text[range.start..(range.end + WORD_MAX).min(text.len())];
        let mut looked_at = reach.len() as u64;
        for hit in self.words.find_overlapping_iter(reach) {
            let word = range.start + hit.start()..range.start + hit.end();
            if word.start >= range.end || is_in_mark(text, word.start) {
                continue;
            }
            for &place in &self.led_to[hit.pattern().as_usize()] {
                let window_end = (word.start + WINDOW).min(text.len());
                looked_at += (window_end - word.start) as u64;
                let seen = self.rules[place].find(&text[..window_end], &word);
                if let Some((seen, secret, tail)) = seen
                    && !touches_mark(text, &seen)
                {
                    found(Finding { range: whole_characters(text, secret), rule: place, tail });
                }
            }
        }
        for sign in memmem::find_iter(reach, cut::SIGN).map(|place| range.start + place) {
            if sign < range.end
                && !is_in_mark(text, sign)
                && let Some(begun) = cut::begun_before(text, sign)
            {
                looked_at += begun.len() as u64;
                found(Finding { range: begun, rule: self.rules.len(), tail: None });
            }
        }
        looked_at
    }
}

impl Ready {
    fn new(rule: &Rule) -> Result<Ready, BadRule> {
        let kind = rule.kind.clone();
        if !is_kind(&kind) {
            return Err(BadRule::Kind { kind });
        }
        if rule.lead > LEAD_MAX {
            return Err(BadRule::Lead { kind, lead: rule.lead });
        }
        let shape = match &rule.pattern {
            Some(pattern) if !rule.keywords.is_empty() && rule.names.is_empty() => Shape::Pattern {
                regex: regex(pattern, rule.lead).map_err(|source| BadRule::Pattern {
                    kind: kind.clone(),
                    source: Box::new(source),
                })?,
                lead: rule.lead,
                begins: rule.begins,
                continues: rule.continues,
            },
            None if rule.keywords.is_empty() && !rule.names.is_empty() => Shape::Name,
            _ => return Err(BadRule::Shape { kind }),
        };
        Ok(Ready { kind: kind.into(), check: rule.check, shape })
    }

    /// What was seen beside `word`, the secret in it, and how that goes on. `text` ends where the
    /// window does.
    fn find(&self, text: &[u8], word: &Range<usize>) -> Option<Seen> {
        let (seen, secret, continues) = match &self.shape {
            Shape::Pattern { regex, lead, begins, continues } => {
                let (seen, secret) = matched(regex, text, word.start.saturating_sub(*lead))?;
                let is_begun = *begins == Begins::Anywhere || begins_word(text, seen.start);
                if !is_begun || !is_secret(&text[secret.clone()], self.check) {
                    return None;
                }
                (seen, secret, *continues)
            }
            Shape::Name => {
                let secret = assignment::value(text, word, self.check)?;
                (word.start..secret.end, secret, Continues::Token)
            }
        };
        let tail = match continues {
            Continues::KeyBlock => Some(Tail::KeyBlock),
            Continues::Token => (secret.end == text.len()).then_some(Tail::Token),
        };
        Some((seen, secret, tail))
    }
}

/// A pattern is tried at one place only; one that may begin before its keyword at a few. Without
/// Unicode classes it is smaller and quicker by a factor of ten and more.
fn regex(pattern: &str, lead: usize) -> Result<Regex, regex::Error> {
    let pattern = format!(r"\A(?s:.){{0,{lead}}}?({pattern})");
    RegexBuilder::new(&pattern).unicode(false).build()
}

/// What the pattern matched from `from` on, and the secret in it.
fn matched(regex: &Regex, text: &[u8], from: usize) -> Option<(Range<usize>, Range<usize>)> {
    let window = &text[from..];
    // Most places have a word and no match; finding that out allocates nothing.
    if !regex.is_match(window) {
        return None;
    }
    let captures = regex.captures(window)?;
    let mut groups = captures.iter().skip(1).flatten().map(|it| from + it.start()..from + it.end());
    let seen = groups.next()?;
    let secret = groups.next().unwrap_or_else(|| seen.clone());
    Some((seen, secret))
}

/// The range without half characters: patterns count bytes.
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

fn checked_word(rule: &Rule, word: &str) -> Result<String, BadRule> {
    if word.is_ascii() && (2..=WORD_MAX).contains(&word.len()) {
        return Ok(word.to_ascii_lowercase());
    }
    Err(BadRule::Word { kind: rule.kind.clone(), word: word.to_owned() })
}
