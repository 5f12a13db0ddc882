//! Patterns of commands: `rm -rf *`, `git push --force`, `kubectl -n prod delete *`.

use super::BadPattern;
use super::flag::Flag;
use crate::expand::Arg;
use crate::glob::{Case, Glob, GlobToken};
use crate::unwrap::program_name;

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct CommandPattern {
    tokens: Vec<Token>,
    /// Assignments in front: `X=1 cargo test`.
    assignments: Vec<(String, Glob)>,
    flags: Vec<Flag>,
    /// A lone `*` at the end: any more words. For an exception only, because a rule matches with
    /// more words anyway.
    is_open: bool,
}

#[derive(Clone, PartialEq, Debug)]
enum Token {
    Word(Glob),
    /// The index of a flag, and the word behind it, which may be its value.
    Flag {
        flag: usize,
        value: Option<Glob>,
    },
}

impl CommandPattern {
    pub(crate) fn parse(text: &str) -> Result<CommandPattern, BadPattern> {
        let mut words = split_words(text)?;
        let mut pattern = CommandPattern {
            tokens: Vec::new(),
            assignments: Vec::new(),
            flags: Vec::new(),
            is_open: false,
        };
        if words.is_empty() {
            return Err(BadPattern::Empty);
        }
        if words.last().is_some_and(|word| word.glob.is_lone_star()) {
            words.pop();
            pattern.is_open = true;
        }
        for word in words {
            let is_first = pattern.tokens.is_empty();
            let is_assignment = is_first && crate::unwrap::is_assignment(&word.text);
            if is_assignment && let Some((name, value)) = word.text.split_once('=') {
                pattern.assignments.push((name.to_owned(), Glob::parse(value)));
            } else if word.text == "--" && !is_first {
                // It says that no flags follow, and matches whether it is there or not.
            } else if word.text.len() > 1 && word.text.starts_with('-') && !is_first {
                pattern.tokens.push(Token::Flag { flag: pattern.flags.len(), value: None });
                pattern.flags.push(Flag { text: word.text });
            } else if let Some(Token::Flag { flag, value: value @ None }) =
                pattern.tokens.last_mut()
                && pattern.flags[*flag].can_have_value()
            {
                *value = Some(word.glob);
            } else {
                pattern.tokens.push(Token::Word(word.glob));
            }
        }
        Ok(pattern)
    }

    /// The program, in lower case.
    pub(crate) fn key(&self) -> Option<String> {
        match self.tokens.first()? {
            Token::Word(glob) => Some(program_name(&glob.as_literal()?)),
            Token::Flag { .. } => None,
        }
    }

    /// Whether a command is one that the pattern names, in whatever way it is written.
    pub(crate) fn matches(&self, args: &[Arg], assignments: &[(String, Arg)]) -> bool {
        let is_assigned = |(name, value): &(String, Glob)| {
            let has_value = |(there, arg): &(String, Arg)| {
                there == name && (!arg.is_known || value.matches(&arg.text, Case::Any))
            };
            assignments.iter().any(has_value)
        };
        // The program first: it tells most commands apart, and there may be many arguments.
        if let Some(Token::Word(program)) = self.tokens.first()
            && !args.first().is_some_and(|first| matches_program(program, first))
        {
            return false;
        }
        if !self.assignments.iter().all(is_assigned) {
            return false;
        }
        if !self.flags.iter().all(|flag| flag.is_among(args)) {
            return false;
        }
        // What stands behind a flag in the pattern is its value or one more word.
        self.matches_words(&self.words(true), args)
            || (self.has_values()
                && self.matches_words(&self.words(false), args)
                && self.matches_values(args))
    }

    fn has_values(&self) -> bool {
        self.tokens.iter().any(|token| matches!(token, Token::Flag { value: Some(_), .. }))
    }

    fn words(&self, with_values: bool) -> Vec<&Glob> {
        let words = self.tokens.iter().filter_map(|token| match token {
            Token::Word(glob) => Some(glob),
            Token::Flag { value, .. } => value.as_ref().filter(|_| with_values),
        });
        words.collect()
    }

    /// Whether the words stand in the arguments in this order, with nothing between them but
    /// options and what may be their values.
    fn matches_words(&self, words: &[&Glob], args: &[Arg]) -> bool {
        let Some((program, words)) = words.split_first() else { return true };
        let Some((first, args)) = args.split_first() else { return false };
        if !matches_program(program, first) {
            return false;
        }
        // `matched` holds for each count of words whether so many can be matched up to here.
        let mut matched = vec![false; words.len() + 1];
        matched[0] = true;
        let mut may_be_value = false;
        for arg in args {
            if matched[words.len()] {
                return true;
            }
            let is_option = arg.text.starts_with('-') && arg.text.len() > 1;
            let may_be_nothing = !arg.is_known && arg.text.is_empty();
            let is_skippable = is_option || may_be_value || may_be_nothing;
            let mut next = vec![false; words.len() + 1];
            for count in 0..words.len() {
                if matched[count] {
                    next[count] |= is_skippable;
                    next[count + 1] |= matches_word(words[count], arg);
                }
            }
            // The value of an option cannot be attached and behind it.
            may_be_value = (is_option && !arg.text.contains('=') && !arg.text.starts_with("--no-"))
                || (may_be_nothing && !is_option);
            matched = next;
            if !matched.contains(&true) {
                return false;
            }
        }
        matched[words.len()]
    }

    /// Whether each flag that has a word behind it in the pattern has that value.
    fn matches_values(&self, args: &[Arg]) -> bool {
        self.tokens.iter().all(|token| {
            let Token::Flag { flag, value: Some(value) } = token else { return true };
            let flag = &self.flags[*flag].text;
            let attached = |arg: &Arg| match arg.text.strip_prefix(flag.as_str()) {
                Some(rest) => {
                    let rest = rest.strip_prefix('=').unwrap_or(rest);
                    !rest.is_empty() && value.matches(rest, Case::Any)
                }
                None => false,
            };
            let behind = |pair: &[Arg]| pair[0].text == *flag && matches_word(value, &pair[1]);
            args.iter().any(attached) || args.windows(2).any(behind)
        })
    }

    /// Whether an allow rule with this pattern covers the command, and how many of its arguments
    /// the pattern names one by one.
    ///
    /// Everything is taken as it is written: letters in their case, the program without another
    /// folder, words in their places, assignments one by one.
    pub(crate) fn covers(&self, args: &[Arg], assignments: &[(String, Arg)]) -> Option<usize> {
        if !self.covers_assignments(assignments) {
            return None;
        }
        let words: Vec<&Glob> = self.tokens.iter().filter_map(Token::as_word).collect();
        let letters = Flag::all_letters(&self.flags);
        let mut named = 0;
        let mut at = 0;
        while named < words.len() {
            let arg = args.get(at)?;
            if at > 0 && self.flags.iter().any(|flag| flag.is_only(arg, &letters)) {
                at += 1 + usize::from(self.has_value(arg));
                continue;
            }
            if !covers_word(words[named], arg) {
                return None;
            }
            named += 1;
            at += 1;
        }
        let end = args.iter().position(|arg| arg.text == "--").unwrap_or(args.len());
        let flags = &args[1.min(end)..end];
        let has_flags = self.flags.iter().all(|flag| flag.is_exactly_among(flags, &letters));
        (has_flags && self.covers_values(args)).then_some(at)
    }

    /// Whether a command is exactly what the pattern names, and nothing more.
    pub(crate) fn excepts(&self, args: &[Arg], assignments: &[(String, Arg)]) -> bool {
        let Some(named) = self.covers(args, assignments) else { return false };
        if self.is_open {
            return args.iter().all(Arg::is_literal);
        }
        let letters = Flag::all_letters(&self.flags);
        let mut is_value = false;
        args[named..].iter().all(|arg| {
            if std::mem::take(&mut is_value) {
                return true;
            }
            is_value = self.has_value(arg);
            self.flags.iter().any(|flag| flag.is_only(arg, &letters))
        })
    }

    fn covers_assignments(&self, assignments: &[(String, Arg)]) -> bool {
        assignments.len() == self.assignments.len()
            && assignments.iter().zip(&self.assignments).all(|((name, arg), (wanted, value))| {
                name == wanted && arg.is_literal() && value.matches(&arg.text, Case::Exact)
            })
    }

    fn has_value(&self, arg: &Arg) -> bool {
        self.tokens.iter().any(|token| match token {
            Token::Flag { flag, value: Some(_) } => self.flags[*flag].text == arg.text,
            _ => false,
        })
    }

    /// A flag with a value stands there once, with that value behind it.
    fn covers_values(&self, args: &[Arg]) -> bool {
        self.tokens.iter().all(|token| {
            let Token::Flag { flag, value: Some(value) } = token else { return true };
            let flag = self.flags[*flag].text.as_str();
            let mut places = args.iter().enumerate().filter(|(_, arg)| arg.text.starts_with(flag));
            let only = places.next().filter(|_| places.next().is_none());
            only.and_then(|(at, _)| args.get(at + 1)).is_some_and(|arg| covers_word(value, arg))
        })
    }

    /// Whether the words stand in a text in this order, with anything between them.
    pub(crate) fn is_in_text(&self, text: &RawText) -> bool {
        let words = self.words(true);
        let Some((program, words)) = words.split_first() else { return true };
        let is_program = |arg: &Arg| matches_program(program, arg);
        let Some(begin) = text.words.iter().position(is_program) else { return false };
        // The first one is enough: what can be found behind a later one is behind this one, too.
        let behind = &text.words[begin..];
        let mut rest = behind[1..].iter();
        words.iter().all(|word| rest.any(|arg| matches_word(word, arg)))
            && self.flags.iter().all(|flag| flag.is_among(behind))
    }
}

impl Token {
    fn as_word(&self) -> Option<&Glob> {
        match self {
            Token::Word(glob) => Some(glob),
            Token::Flag { .. } => None,
        }
    }
}

/// A text that could not be judged: its words, without quotes.
pub(crate) struct RawText {
    pub words: Vec<Arg>,
}

impl RawText {
    pub(crate) fn new(text: &str) -> RawText {
        let bare: String = text.chars().filter(|c| !"'\"\\".contains(*c)).collect();
        let is_between = |c: char| c.is_whitespace() || ";&|()<>$`[]{},".contains(c);
        let words = bare.split(is_between).filter(|word| !word.is_empty());
        RawText { words: words.map(Arg::known).collect() }
    }
}

fn matches_program(program: &Glob, arg: &Arg) -> bool {
    if let Some(glob) = &arg.glob {
        // Only the last part of a path is compared, as below.
        let pattern = glob.behind_last('/');
        return program.overlaps(glob, Case::Any)
            || program.behind_last('/').overlaps(&pattern, Case::Any);
    }
    if arg.text.is_empty() {
        return false;
    }
    let name = program_name(&arg.text);
    program.matches(&arg.text, Case::Any)
        || program.matches(&name, Case::Any)
        || program.behind_last('/').matches(&name, Case::Any)
}

fn matches_word(word: &Glob, arg: &Arg) -> bool {
    match &arg.glob {
        Some(glob) => word.overlaps(glob, Case::Any),
        // In a word that is partly unknown the rest is compared.
        None => word.matches(&arg.text, Case::Any),
    }
}

fn covers_word(word: &Glob, arg: &Arg) -> bool {
    if !arg.is_literal() {
        return false;
    }
    // `src/*` does not stand for `src/../../other`.
    let climbs = arg.text.split('/').any(|part| part == "..");
    if climbs && word.as_literal().is_none() && !word.is_lone_star() {
        return false;
    }
    word.matches(&arg.text, Case::Exact)
}

struct PatternWord {
    text: String,
    glob: Glob,
}

/// Words as a shell splits them; unquoted `*` and `?` are wildcards.
fn split_words(text: &str) -> Result<Vec<PatternWord>, BadPattern> {
    let mut words = Vec::new();
    let mut word: Option<(String, Vec<GlobToken>)> = None;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match c {
            _ if c.is_whitespace() => words.extend(word.take()),
            '\'' | '"' => {
                let (text, tokens) = word.get_or_insert_default();
                loop {
                    let inside = characters.next().ok_or(BadPattern::OpenQuote)?;
                    if inside == c {
                        break;
                    }
                    text.push(inside);
                    tokens.push(GlobToken::Char(inside));
                }
            }
            '\\' => {
                let escaped = characters.next().unwrap_or('\\');
                let (text, tokens) = word.get_or_insert_default();
                text.push(escaped);
                tokens.push(GlobToken::Char(escaped));
            }
            ';' | '|' | '&' | '<' | '>' | '`' => return Err(BadPattern::Operator(c)),
            c => {
                let (text, tokens) = word.get_or_insert_default();
                text.push(c);
                tokens.push(match c {
                    '*' => GlobToken::Many,
                    '?' => GlobToken::One,
                    c => GlobToken::Char(c),
                });
            }
        }
    }
    words.extend(word.take());
    Ok(words
        .into_iter()
        .map(|(text, tokens)| PatternWord { text, glob: Glob::from_tokens(tokens) })
        .collect())
}
