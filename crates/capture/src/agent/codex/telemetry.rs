//! What Codex exports that its rollouts do not tell: requests that failed, and who decided about a
//! call.

use crate::telemetry::{TelemetryMap, TelemetryRow, Tells};

pub(super) static TELEMETRY: TelemetryMap = TelemetryMap {
    service: "codex",
    session: "conversation.id",
    rows: &[
        TelemetryRow {
            name: "codex.api_request",
            tells: Tells::Retry {
                status: "http.response.status_code",
                error: "error.message",
                attempt: "attempt",
            },
        },
        TelemetryRow {
            name: "codex.tool_decision",
            tells: Tells::Decided {
                call: "call_id",
                decision: "decision",
                allows: "approved",
                source: "source",
                person: "User",
            },
        },
    ],
};
