//! What stands in a person's place: prompts, and much that is none.

use event::payload::{Content, ContentPart, ContextAdded, ContextKind, StopReason};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::line::{ClaudeBlock, ClaudeLine, ClaudeMessage, parse_blocks};
use super::meaning::{Meaning, known_as};
use super::result::{ChildCall, session_of};
use super::state::add_note;
use super::wrapper::{ClaudeTextRole, classify_text, tagged_text};
use super::{ClaudeTranscript, identity};
use crate::agent::SourceRole;
use crate::event_builder::{EventBuilder, preview_text};

impl ClaudeTranscript {
    pub(super) fn parse_user(
        &mut self,
        line: &ClaudeLine<'_>,
        builder: &mut EventBuilder<'_>,
    ) -> Result<(), serde_json::Error> {
        let message: ClaudeMessage<'_> =
            serde_json::from_str(line.message.map_or("{}", RawValue::get))?;
        let blocks = message.content.map(parse_blocks).transpose()?.unwrap_or_default();
        // Blocks are written when they are complete, so the answer before this record has all its
        // usage.
        self.state.requests.tell_held(builder);
        // The summary closes the boundary with its text, so it has to come before the call that
        // closes it without one.
        if line.is_compact_summary {
            self.parse_summary(line, &blocks, builder);
            return Ok(());
        }
        self.close_boundary(None, builder);
        self.surroundings(line, builder);
        // Results go first: text beside them is about them.
        let has_results = blocks.iter().any(|block| &*block.kind == "tool_result");
        for (number, block) in blocks.iter().enumerate() {
            if &*block.kind == "tool_result" {
                self.parse_result(line, number, block, builder);
            }
        }
        let rest: Vec<&ClaudeBlock<'_>> =
            blocks.iter().filter(|block| &*block.kind != "tool_result").collect();
        if !rest.is_empty() {
            self.parse_texts(line, &rest, has_results, builder);
        }
        Ok(())
    }

    /// What an agent's history was replaced by.
    fn parse_summary(
        &mut self,
        line: &ClaudeLine<'_>,
        blocks: &[ClaudeBlock<'_>],
        builder: &mut EventBuilder<'_>,
    ) {
        let content = collect_content(blocks);
        // Without a boundary before it the summary is only text for the model.
        if !self.close_boundary(Some(content.joined_text()), builder) {
            add_context(line, 0, Some(ContextKind::Summary), content, builder);
        }
        self.surroundings(line, builder);
    }
}

impl ClaudeTranscript {
    /// Texts and pictures in a person's place.
    fn parse_texts(
        &mut self,
        line: &ClaudeLine<'_>,
        blocks: &[&ClaudeBlock<'_>],
        has_results: bool,
        builder: &mut EventBuilder<'_>,
    ) {
        // Reminders are blocks of their own beside what was typed; they must not become part of a
        // prompt.
        let is_context = |block: &&ClaudeBlock<'_>| {
            block.text.as_deref().is_some_and(|text| classify_text(text) == ClaudeTextRole::Context)
        };
        for (number, block) in blocks.iter().enumerate().filter(|(_, block)| is_context(block)) {
            // Number 0 is for the context that the rest of the record may become.
            add_context(line, number + 1, None, collect_content([*block]), builder);
        }
        let rest = blocks.iter().filter(|block| !is_context(block)).copied();
        let content = collect_content(rest);
        // All of it was context, which is told by now.
        if !content.has_substance() {
            return builder.count_silent();
        }
        let first = content.0.iter().find_map(|part| part.text.as_deref()).unwrap_or_default();
        // The words need not be wrapped where 2.1 says beside them that no person opened the turn.
        let is_notification = line.turn_origin.as_deref() == Some("task_notification")
            || line.prompt_source.as_deref() == Some("system");
        match classify_text(first) {
            ClaudeTextRole::Interruption => {
                self.turn_over(line, StopReason::Interrupted, None, builder)
            }
            ClaudeTextRole::Notification => self.notification(line, content, builder),
            ClaudeTextRole::Prompt | ClaudeTextRole::Context if is_notification => {
                self.notification(line, content, builder);
            }
            ClaudeTextRole::Command(_) | ClaudeTextRole::Output(_) => {
                // It may open a turn: some commands are prompts that were written down before.
                if line.prompt_id.is_some() {
                    self.open_turn(line, builder);
                    builder.turn_answered();
                }
                add_note(line, first, builder);
            }
            // Text for the model: marked as such, beside a result, or a subagent's in its parent's
            // file.
            _ if line.is_meta
                || has_results
                || line.is_sidechain && self.role == SourceRole::Main =>
            {
                add_context(line, 0, None, content, builder);
            }
            // The first message of a subagent is its parent's task; no person typed it.
            _ if self.role != SourceRole::Main => {
                self.open_turn(line, builder);
                add_context(line, 0, None, content, builder);
            }
            _ => self.add_prompt(line, content, builder),
        }
    }

    fn add_prompt(
        &mut self,
        line: &ClaudeLine<'_>,
        content: Content,
        builder: &mut EventBuilder<'_>,
    ) {
        // A rewind leaves no marker (2.1.325): its prompt follows a record that an earlier prompt
        // followed.
        let last = builder.last_event(line.parse_time());
        let goes_back_to = self.state.branches.next(line.parent_uuid.as_deref(), last);
        self.open_turn(line, builder);
        let identity = identity(line, "prompt", builder);
        builder.add_prompt(identity, line.parse_time(), content).parent_id = goes_back_to;
    }

    /// Work in the background has come to an end, and the agent goes on by itself.
    fn notification(
        &mut self,
        line: &ClaudeLine<'_>,
        content: Content,
        builder: &mut EventBuilder<'_>,
    ) {
        self.open_turn(line, builder);
        let text = content.joined_text();
        add_context(line, 0, None, content, builder);
        self.notified(line, &text, builder);
    }

    /// A notification may be about a subagent.
    pub(super) fn notified(
        &mut self,
        line: &ClaudeLine<'_>,
        text: &str,
        builder: &mut EventBuilder<'_>,
    ) {
        // The notification names the parent's call, which was kept open for it.
        let Some(call_id) = tagged_text(text, "tool-use-id") else { return };
        let call = self.state.calls.close(&known_as(call_id));
        if call.is_none_or(|call| Meaning::from_tool(&call.tool) != Meaning::Child) {
            return;
        }
        let session = tagged_text(text, "task-id").map(|id| session_of(id, builder));
        let child = ChildCall { call_id, session: session.unwrap_or_default() };
        let summary = tagged_text(text, "summary").unwrap_or_default().to_owned();
        match tagged_text(text, "status") {
            Some("failed" | "killed" | "stopped") => child.add_failure(line, summary, builder),
            _ => child.completed(line, Some(summary), builder),
        }
    }

    fn open_turn(&mut self, line: &ClaudeLine<'_>, builder: &mut EventBuilder<'_>) {
        self.state.is_turn_over = false;
        // All records of a turn share the prompt's id. Without it the record itself names the turn.
        builder.turn_opened(line.prompt_id.as_deref().or(line.uuid.as_deref()));
    }
}

/// The parts of what was said. Bytes of pictures stay where they are.
pub(super) fn collect_content<'a>(
    blocks: impl IntoIterator<Item = &'a ClaudeBlock<'a>>,
) -> Content {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct ClaudePictureSource {
        media_type: Option<String>,
    }
    let parts = blocks.into_iter().map(|block| {
        let source = block.source.and_then(|source| serde_json::from_str(source.get()).ok());
        let source: ClaudePictureSource = source.unwrap_or_default();
        ContentPart {
            kind: (*block.kind).to_owned(),
            text: block.text.as_deref().map(str::to_owned),
            mime_type: source.media_type,
            ..ContentPart::default()
        }
    });
    Content(parts.collect())
}

fn add_context(
    line: &ClaudeLine<'_>,
    number: usize,
    kind: Option<ContextKind>,
    content: Content,
    builder: &mut EventBuilder<'_>,
) {
    let text = content.joined_text();
    let added = ContextAdded { kind, placement: None, content, covers: None };
    let identity = identity(line, &format!("context {number}"), builder);
    builder.add_event(identity, line.parse_time(), &added).text = Some(preview_text(&text));
}
