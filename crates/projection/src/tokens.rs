//! What requests to models used, and how sure a sum of them is.

use std::ops::{AddAssign, SubAssign};

use event::payload::TokenUsage;
use serde::{Deserialize, Serialize};

/// The most tokens that one request is counted with. Larger numbers are nonsense, and would
/// saturate the sums of a session.
const TOKENS_MAX: u64 = 1 << 40;

/// Tokens of any number of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenTotals {
    #[serde(skip_serializing_if = "is_zero")]
    pub requests: u64,
    /// Without what was read from a cache or written to it.
    #[serde(skip_serializing_if = "is_zero")]
    pub input: u64,
    /// With `reasoning`.
    #[serde(skip_serializing_if = "is_zero")]
    pub output: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_read: u64,
    /// With `cache_creation_1h`.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_creation: u64,
    /// The part of `cache_creation` that is kept for an hour.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_creation_1h: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub reasoning: u64,
}

impl TokenTotals {
    /// One request.
    pub fn from_usage(usage: &TokenUsage) -> TokenTotals {
        let number = |tokens: Option<u64>| tokens.unwrap_or(0).min(TOKENS_MAX);
        let cache_creation = number(usage.cache_creation_tokens);
        TokenTotals {
            requests: 1,
            input: number(usage.input_tokens),
            output: number(usage.output_tokens),
            cache_read: number(usage.cache_read_tokens),
            cache_creation,
            // A part is never larger than the whole: the price of the rest is a difference.
            cache_creation_1h: number(usage.cache_creation_1h_tokens).min(cache_creation),
            reasoning: number(usage.reasoning_tokens),
        }
    }

    /// One request of which nothing is known but that it was made.
    pub fn unreported() -> TokenTotals {
        TokenTotals { requests: 1, ..TokenTotals::default() }
    }

    /// The sums in the shape in which agents report one request.
    pub fn to_usage(&self) -> TokenUsage {
        TokenUsage {
            input_tokens: Some(self.input),
            output_tokens: Some(self.output),
            cache_read_tokens: Some(self.cache_read),
            cache_creation_tokens: Some(self.cache_creation),
            reasoning_tokens: Some(self.reasoning),
            ..TokenUsage::default()
        }
    }

    /// Whether no tokens were used, in however many requests.
    pub fn is_empty(&self) -> bool {
        *self == TokenTotals { requests: self.requests, ..TokenTotals::default() }
    }

    /// Whether the same tokens were used, as far as every account of them tells.
    pub(crate) fn is_paid_as(&self, other: &TokenTotals) -> bool {
        let told = |it: &TokenTotals| [it.input, it.output, it.cache_read, it.cache_creation];
        told(self) == told(other)
    }

    /// All that the model was given to read.
    pub fn context(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_creation)
    }

    /// Takes from both what both have, and returns it. The requests go with their last tokens.
    pub(crate) fn take_common(&mut self, other: &mut TokenTotals) -> TokenTotals {
        let mut common = *self;
        common.combine(other, u64::min);
        common.requests = 0;
        common.cache_creation_1h = common.cache_creation_1h.min(common.cache_creation);
        *self -= common;
        *other -= common;
        // A report may lack a part that a request has, or the other way round: no part is larger
        // than its whole, or it would be paid twice.
        for left in [&mut *self, other] {
            left.cache_creation_1h = left.cache_creation_1h.min(left.cache_creation);
            left.reasoning = left.reasoning.min(left.output);
        }
        if self.is_empty() && !common.is_empty() {
            common.requests = std::mem::take(&mut self.requests);
        }
        common
    }

    pub(crate) fn is_zero(&self) -> bool {
        *self == TokenTotals::default()
    }

    fn combine(&mut self, other: &TokenTotals, combine: fn(u64, u64) -> u64) {
        // Taken apart by name, so that a new field cannot be forgotten here.
        let TokenTotals {
            requests,
            input,
            output,
            cache_read,
            cache_creation,
            cache_creation_1h,
            reasoning,
        } = self;
        for (number, other) in [
            (requests, other.requests),
            (input, other.input),
            (output, other.output),
            (cache_read, other.cache_read),
            (cache_creation, other.cache_creation),
            (cache_creation_1h, other.cache_creation_1h),
            (reasoning, other.reasoning),
        ] {
            *number = combine(*number, other);
        }
    }
}

impl AddAssign for TokenTotals {
    fn add_assign(&mut self, other: TokenTotals) {
        self.combine(&other, u64::saturating_add);
    }
}

impl SubAssign for TokenTotals {
    fn sub_assign(&mut self, other: TokenTotals) {
        self.combine(&other, u64::saturating_sub);
    }
}

/// What is nothing is not written: states with many of these are saved.
pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// How sure a number is, the surest first.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// As the provider told it.
    #[default]
    Exact,
    /// Worked out, by us or by the agent.
    Estimated,
    /// A part of it is not known: the true number is larger.
    Incomplete,
}

impl Basis {
    /// How sure a sum is: as sure as its worst part.
    pub fn weaker_of(self, other: Basis) -> Basis {
        self.max(other)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Basis::Exact => "exact",
            Basis::Estimated => "estimated",
            Basis::Incomplete => "incomplete",
        }
    }
}
