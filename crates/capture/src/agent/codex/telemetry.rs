//! Facts that Codex exports and its rollouts lack: requests that failed, and decisions about
//! calls.

use crate::telemetry::{TelemetryMap, TelemetryMeaning, TelemetryRow};

pub(super) static TELEMETRY: TelemetryMap = TelemetryMap {
    service: "codex",
    session: "conversation.id",
    rows: &[
        // Retries after 500, 503, 429 or a dropped stream leave no trace in the rollout of 0.166.
        TelemetryRow {
            name: "codex.api_request",
            tells: TelemetryMeaning::Retry {
                status: "http.response.status_code",
                error: "error.message",
                attempt: "attempt",
            },
        },
        // Rollouts have no record of an approval, neither of a pending nor of a decided one.
        TelemetryRow {
            name: "codex.tool_decision",
            tells: TelemetryMeaning::Decided {
                call: "call_id",
                decision: "decision",
                allows: "approved",
                source: "source",
                person: "User",
            },
        },
    ],
};
