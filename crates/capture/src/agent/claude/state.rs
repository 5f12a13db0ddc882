//! Settings and marks between the talk.

use event::payload::{Note, Retry, StopReason};
use event::{Raw, Time};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::line::{ClaudeLine, parse_text};
use super::wrapper::{ClaudeTextRole, classify_text};
use super::{ClaudeTranscript, identity, shorten_id};
use crate::event_builder::EventBuilder;
use crate::identity::EventIdentity;
use crate::record::{RecordText, SourceRecord};
use crate::thread_state::SessionSettings;

/// A compaction that was announced; its summary is the next thing said.
#[derive(Serialize, Deserialize)]
pub(super) struct Boundary {
    uuid: Option<String>,
    offset: u64,
    length: u64,
    at: Option<Time>,
    tokens_before: Option<u64>,
}

impl ClaudeTranscript {
    pub(super) fn parse_system(
        &mut self,
        record: &SourceRecord<'_>,
        line: &ClaudeLine<'_>,
        builder: &mut EventBuilder<'_>,
    ) -> Result<(), serde_json::Error> {
        // What was held back belongs in front of this mark.
        self.state.requests.tell_held(builder);
        self.close_boundary(None, builder);
        self.surroundings(line, builder);
        match line.subtype.as_deref().unwrap_or_default() {
            // A hook that did not agree keeps the agent at work.
            "stop_hook_summary" if line.hook_errors.is_some_and(|list| list.get() != "[]") => {
                builder.count_silent();
            }
            // The TUI writes both, a headless run at most the hooks' summary. `turn_over` drops the
            // second.
            "turn_duration" | "stop_hook_summary" => {
                self.turn_over(line, StopReason::Completed, None, builder);
            }
            "compact_boundary" => self.boundary(record, line)?,
            "api_error" => add_retry(line, builder)?,
            // Words of the agent to its user.
            "local_command"
            | "informational"
            | "away_summary"
            | "bridge_status"
            | "memory_saved"
            | "agents_killed"
            | "scheduled_task_fire"
            | "microcompact_boundary" => {
                let content = line.content.and_then(parse_text);
                add_note(line, content.as_deref().unwrap_or_default(), builder);
            }
            "api_metrics" | "thinking" => builder.count_silent(),
            subtype => builder.add_unknown(record, &format!("system {subtype}"), None),
        }
        Ok(())
    }

    /// The turn has ended. A second end says nothing new.
    pub(super) fn turn_over(
        &mut self,
        line: &ClaudeLine<'_>,
        stop_reason: StopReason,
        error: Option<String>,
        builder: &mut EventBuilder<'_>,
    ) {
        // The next prompt clears the mark.
        if std::mem::replace(&mut self.state.is_turn_over, true) {
            return builder.count_silent();
        }
        let identity = identity(line, "turn", builder);
        builder.turn_completed(line.parse_time(), identity, stop_reason, error);
    }

    fn boundary(
        &mut self,
        record: &SourceRecord<'_>,
        line: &ClaudeLine<'_>,
    ) -> Result<(), serde_json::Error> {
        #[derive(Deserialize, Default)]
        #[serde(default, rename_all = "camelCase")]
        struct ClaudeMetadata {
            pre_tokens: Option<u64>,
        }
        let metadata = line.compact_metadata.map_or("{}", RawValue::get);
        let metadata: ClaudeMetadata = serde_json::from_str(metadata)?;
        // Not told yet: the summary comes in the next record, and a told event does not change.
        self.state.boundary = Some(Boundary {
            uuid: line.uuid.as_deref().map(shorten_id),
            offset: record.offset,
            length: record.length,
            at: line.parse_time(),
            tokens_before: metadata.pre_tokens,
        });
        Ok(())
    }

    /// Tells the compaction that was announced, with its summary if there is one. Says whether
    /// there was one to tell.
    pub(super) fn close_boundary(
        &mut self,
        summary: Option<String>,
        builder: &mut EventBuilder<'_>,
    ) -> bool {
        let Some(boundary) = self.state.boundary.take() else { return false };
        let Boundary { uuid, offset, length, at, tokens_before } = boundary;
        // The event carries the boundary's place, not that of the record that closed it.
        builder.at_record(offset, length, |builder| {
            let identity = match uuid {
                Some(uuid) => EventIdentity::everywhere(&[&uuid, "compaction"]),
                None => EventIdentity::in_session(&["at", &builder.record_name(), "compaction"]),
            };
            builder.compacted(identity, at, summary, tokens_before);
        });
        true
    }

    /// A prompt that waits is only noted: it counts when it is handed over.
    pub(super) fn note_queued(&mut self, line: &ClaudeLine<'_>, builder: &mut EventBuilder<'_>) {
        #[derive(Serialize)]
        struct Queued<'a> {
            queued: &'a RawValue,
        }
        let is_new = line.operation.as_deref() == Some("enqueue");
        // The first prompt of a run without a screen passes through the queue, too.
        let is_news = is_new && builder.has_begun() && !self.state.is_left;
        let Some(queued) = line.content.filter(|_| is_news) else { return builder.count_silent() };
        let about = Raw::from_value(&Queued { queued }).ok();
        let note = Note { text: "a prompt waits".to_owned(), about };
        let identity = identity(line, "queue", builder);
        let draft = builder.add_event(identity, line.parse_time(), &note);
        draft.text = Some(note.text);
    }

    pub(super) fn set_title(
        &mut self,
        line: &ClaudeLine<'_>,
        by_person: bool,
        builder: &mut EventBuilder<'_>,
    ) {
        // Each type of record fills one of the four.
        let titles = [&line.custom_title, &line.agent_name, &line.ai_title, &line.summary];
        let title = titles.into_iter().flatten().next().map(|title| title.trim().to_owned());
        // Claude goes on making up titles after a person has named the session.
        if self.state.has_own_title && !by_person {
            return builder.count_silent();
        }
        self.state.has_own_title |= by_person;
        builder
            .settings(line.parse_time(), SessionSettings { title, ..SessionSettings::default() });
    }
}

/// A request that failed is made again.
fn add_retry(
    line: &ClaudeLine<'_>,
    builder: &mut EventBuilder<'_>,
) -> Result<(), serde_json::Error> {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct ClaudeFailure<'a> {
        #[serde(borrow)]
        formatted: Option<RecordText<'a>>,
        #[serde(borrow)]
        message: Option<RecordText<'a>>,
    }
    let failure: ClaudeFailure<'_> = serde_json::from_str(line.error.map_or("{}", RawValue::get))?;
    let error =
        failure.formatted.or(failure.message).map(RecordText::into_owned).unwrap_or_default();
    let retry = Retry {
        agent_id: String::new(),
        scope: "model".to_owned(),
        target: None,
        attempt: line.retry_attempt.unwrap_or_default(),
        error: error.clone(),
    };
    let identity = identity(line, "retry", builder);
    builder.add_event(identity, line.parse_time(), &retry).text = Some(error);
    Ok(())
}

/// A command for the agent itself, what it printed, or a word of the agent to its user.
pub(super) fn add_note(line: &ClaudeLine<'_>, content: &str, builder: &mut EventBuilder<'_>) {
    // `local_command` wraps a command in the same tags as a user's message does.
    let (text, about) = match classify_text(content) {
        ClaudeTextRole::Command(command) => (command, "command"),
        ClaudeTextRole::Output(output) => (output, "command output"),
        _ => (content.to_owned(), "agent"),
    };
    let identity = identity(line, "note", builder);
    builder.add_note(identity, line.parse_time(), about, text);
}
