//! Facts that Codex exports and its rollouts lack: requests that failed, and who decided about a
//! call.

use crate::telemetry::{TelemetryMap, TelemetryMeaning, TelemetryRow};

pub(super) static TELEMETRY: TelemetryMap = TelemetryMap {
    service: "codex",
    session: "conversation.id",
    rows: &[
        TelemetryRow {
            name: "codex.api_request",
            tells: TelemetryMeaning::Retry {
                status: "http.response.status_code",
                error: "error.message",
                attempt: "attempt",
            },
        },
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
