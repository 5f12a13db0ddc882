//! What can be wrong with a rule.

/// A rule that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadRule {
    #[error("the rules are not a list of rules")]
    Json(#[source] serde_json::Error),
    #[error("`{kind}` is no kind: it takes 1 to 40 of a-z, 0-9 and _")]
    Kind { kind: String },
    #[error("the rule for `{kind}` needs either keywords and a pattern, or names")]
    Shape { kind: String },
    #[error("the rule for `{kind}` has the word `{word}`: it takes 2 to 32 ASCII characters")]
    Word { kind: String, word: String },
    #[error("the rule for `{kind}` begins {lead} bytes before its keyword: at most 64")]
    Lead { kind: String, lead: usize },
    #[error("the pattern of the rule for `{kind}` cannot be used")]
    Pattern { kind: String, source: Box<regex::Error> },
    #[error("the words of the rules cannot be searched for")]
    Words(#[source] Box<aho_corasick::BuildError>),
}
