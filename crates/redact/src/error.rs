//! The errors of compiling rules.

/// A rule is not valid.
#[derive(Debug, thiserror::Error)]
pub enum BadRule {
    #[error("the rules are not a list of rules")]
    Json(#[source] serde_json::Error),
    #[error("`{kind}` is not a kind: it needs 1 to 40 characters of a-z, 0-9 and _")]
    Kind { kind: String },
    #[error("the rule for `{kind}` needs either keywords and a pattern, or names")]
    Shape { kind: String },
    #[error("the rule for `{kind}` has the word `{word}`: it needs 2 to 32 ASCII characters")]
    Word { kind: String, word: String },
    #[error("the rule for `{kind}` has a lead of {lead} bytes: at most 64 are allowed")]
    Lead { kind: String, lead: usize },
    #[error("the pattern of the rule for `{kind}` is not valid")]
    Pattern { kind: String, source: Box<regex::Error> },
}
