//! The sums that Claude Code keeps of a session: tokens and cost by model, since it began.
//!
//! They are written when the agent is closed, and go on where a session is resumed. They include
//! subagents and requests that no record shows, such as that of a compaction.

use std::collections::BTreeMap;

use event::Cost;
use event::payload::{ModelUsage, TokenUsage, UsageReported};
use serde::Deserialize;

use super::line::ClaudeLine;
use crate::event_builder::EventBuilder;
use crate::identity::EventIdentity;
use crate::source::short_hash;

/// What was used of one model.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct ClaudeModelUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    thinking_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_creation_ephemeral1h_input_tokens: Option<u64>,
    #[serde(rename = "costUSD")]
    cost_usd: Option<Cost>,
}

/// Adds the sums of a record, unless they were the last ones or the agent says that its cost is
/// not whole.
pub(super) fn add_report(
    line: &ClaudeLine<'_>,
    last_report: &mut Option<String>,
    builder: &mut EventBuilder<'_>,
) -> Result<(), serde_json::Error> {
    let used = line.model_usage.filter(|used| used.get() != "null");
    let Some(used) = used.filter(|_| !line.has_unknown_model_cost) else {
        builder.count_silent();
        return Ok(());
    };
    let models: BTreeMap<String, ClaudeModelUsage> = serde_json::from_str(used.get())?;
    let hash = short_hash(&[used.get()]);
    if models.is_empty() || last_report.as_ref() == Some(&hash) {
        builder.count_silent();
        return Ok(());
    }
    let models = models.into_iter().map(|(model, used)| ModelUsage {
        model,
        usage: TokenUsage {
            input_tokens: used.input_tokens,
            output_tokens: used.output_tokens,
            cache_read_tokens: used.cache_read_input_tokens,
            cache_creation_tokens: used.cache_creation_input_tokens,
            cache_creation_1h_tokens: used.cache_creation_ephemeral1h_input_tokens,
            reasoning_tokens: used.thinking_tokens,
            cost: used.cost_usd,
            ..TokenUsage::default()
        },
    });
    let report = UsageReported { models: models.collect(), ..UsageReported::default() };
    let identity = EventIdentity::in_session(&["usage reported", &hash]);
    *last_report = Some(hash);
    builder.add_event(identity, line.parse_time(), &report);
    Ok(())
}
