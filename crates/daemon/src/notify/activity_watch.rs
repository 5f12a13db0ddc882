//! What the sessions are doing, read from the board when it has changed.

use serve::Board;

use super::rules::SessionActivity;
use crate::publish::compact;

/// Reads the board for the rules.
#[derive(Default)]
pub(super) struct ActivityWatch {
    /// The version of the board that was read last.
    seen: Option<u64>,
    activities: Vec<SessionActivity>,
}

impl ActivityWatch {
    /// The activities, if a rule may say another thing of them than at the last look: the board has
    /// changed, or a session waits for the user, for longer and longer.
    pub(super) fn look(&mut self, board: &Board) -> Option<&[SessionActivity]> {
        let statuses = board.statuses_since(&mut self.seen);
        let has_changed = statuses.is_some();
        if let Some(statuses) = statuses {
            self.activities = statuses.iter().map(activity).collect();
        }
        let is_due = has_changed || self.activities.iter().any(|activity| activity.needs.is_some());
        is_due.then_some(&self.activities)
    }
}

fn activity(status: &wire::Status) -> SessionActivity {
    let title = status.title.as_deref().or(status.project.as_deref());
    SessionActivity {
        session: status.session_id.clone(),
        title: one_line(title.unwrap_or(status.session_id.as_str())),
        project: status.project.as_deref().map(one_line),
        current: one_line(&status.summary.current),
        needs: status
            .attention
            .as_ref()
            // The rule for ended turns reports those.
            .filter(|wants| wants.want != "finished")
            .map(|wants| (wants.want.clone(), wants.since)),
        is_running: status.status == "running",
        since: status.since,
    }
}

/// Text of a transcript on one line, without control characters and leading dashes, which a program
/// could take for an option. Its secrets were removed before.
fn one_line(text: &str) -> String {
    let text: String =
        text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    compact(text.trim_start_matches(|letter: char| letter == '-' || letter.is_whitespace()).trim())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(name: &str, wants: Option<&str>) -> wire::Status {
        let since = "2026-01-01T00:00:00Z";
        let attention = wants.map(|want| {
            json!({"want": want, "what": "", "since": since, "confidence": "high", "can": []})
        });
        let status = json!({
            "session_id": "gemini:a", "provider": "gemini", "status": name, "group": name,
            "reason": "turn", "since": since, "confidence": "high", "evidence": [],
            "pending_approvals": [], "summary": {"current": ""}, "behind": false,
            "attention": attention,
        });
        serde_json::from_value(status).unwrap()
    }

    #[test]
    fn rules_wait_for_news_of_the_board() {
        let (board, mut watch) = (Board::default(), ActivityWatch::default());
        let mut looks = |statuses: Option<wire::Status>| {
            board.show(statuses);
            (0..3).filter(|_| watch.look(&board).is_some()).count()
        };
        assert_eq!(looks(Some(status("running", None))), 1);
        assert_eq!(looks(None), 0);
        assert_eq!(looks(Some(status("running", None))), 0);
        assert_eq!(looks(Some(status("idle", Some("finished")))), 1);
        // Sooner or later it has waited for as long as a rule says.
        assert_eq!(looks(Some(status("waiting", Some("question")))), 3);
        assert_eq!(looks(Some(status("running", None))), 1);
    }
}
