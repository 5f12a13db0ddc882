//! What is put in front of the model beside the talk, and prompts that waited for their turn.

use event::Raw;
use event::payload::{Content, ContextAdded, ContextKind, Placement, UserPrompt};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::line::{ClaudeLine, parse_blocks, parse_text};
use super::user::collect_content;
use super::{ClaudeTranscript, identity};
use crate::event_builder::EventBuilder;
use crate::record::{RecordText, SourceRecord};

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Attachment<'a> {
    #[serde(rename = "type", borrow)]
    kind: RecordText<'a>,
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    command_mode: Option<RecordText<'a>>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    snippet: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
}

impl ClaudeTranscript {
    pub(super) fn attachment(
        &mut self,
        record: &SourceRecord<'_>,
        line: &ClaudeLine<'_>,
        builder: &mut EventBuilder<'_>,
    ) -> Result<(), serde_json::Error> {
        let Some(raw) = line.attachment else {
            builder.add_unknown(record, "attachment", Some("it has no attachment"));
            return Ok(());
        };
        let attachment: Attachment<'_> = serde_json::from_str(raw.get())?;
        self.surroundings(line, builder);
        match &*attachment.kind {
            // The whole system prompt and all tools, once a request: attachments and request
            // records are 96 % of the bytes of a file with one turn (2.1.325).
            "prompt_snapshot" => builder.count_silent(),
            "queued_command" => self.handed_over(line, &attachment, builder)?,
            _ => {
                // What the model was shown says more than the attachment, where the version writes
                // it.
                let text = rendered(line).unwrap_or_else(|| attachment.plain_text());
                // An attachment without words only continues the parent chain.
                if text.is_empty() {
                    builder.count_silent();
                } else {
                    add_context(line, &attachment.kind, Content::text(text), builder);
                }
            }
        }
        Ok(())
    }

    /// What waited while the agent was busy is handed to it in the middle of its work.
    fn handed_over(
        &mut self,
        line: &ClaudeLine<'_>,
        attachment: &Attachment<'_>,
        builder: &mut EventBuilder<'_>,
    ) -> Result<(), serde_json::Error> {
        let blocks = attachment.prompt.map(parse_blocks).transpose()?.unwrap_or_default();
        let content = collect_content(&blocks);
        // Notifications of background tasks pass through the same queue, under another mode.
        let is_prompt = attachment.command_mode.as_deref().is_none_or(|mode| mode == "prompt");
        if !is_prompt || self.is_subagent(line) {
            let text = content.joined_text();
            add_context(line, &attachment.kind, content, builder);
            self.notified(line, &text, builder);
            return Ok(());
        }
        // It opens no turn: the running one takes it up.
        let text = content.joined_text();
        let identity = identity(line, "prompt", builder);
        builder
            .add_event(identity, line.parse_time(), &UserPrompt { content, queued: true })
            .text = Some(text);
        Ok(())
    }
}

impl Attachment<'_> {
    /// What it says, in versions that do not tell what the model was shown.
    fn plain_text(&self) -> String {
        let all = [self.content, self.text, self.snippet, self.prompt];
        let text = all.into_iter().flatten().find_map(parse_text);
        text.map(RecordText::into_owned).unwrap_or_default()
    }
}

/// What the model was shown of it.
fn rendered(line: &ClaudeLine<'_>) -> Option<String> {
    #[derive(Deserialize)]
    struct RenderedBlock<'a> {
        #[serde(borrow)]
        content: Option<&'a RawValue>,
    }
    let shown: Vec<RenderedBlock<'_>> = serde_json::from_str(line.rendered?.get()).ok()?;
    let texts: Vec<String> = shown
        .iter()
        .filter_map(|shown| {
            Some(collect_content(&parse_blocks(shown.content?).ok()?).joined_text())
        })
        .collect();
    Some(texts.join("\n"))
}

fn add_context(
    line: &ClaudeLine<'_>,
    kind: &str,
    content: Content,
    builder: &mut EventBuilder<'_>,
) {
    let added = ContextAdded {
        kind: Some(ContextKind::Harness),
        placement: Some(Placement::History),
        content,
        covers: None,
    };
    let text = added.content.joined_text();
    let identity = identity(line, "context", builder);
    let draft = builder.add_event(identity, line.parse_time(), &added);
    draft.text = Some(crate::event_builder::preview_text(&text));
    draft.metadata.insert("attachment".to_owned(), Raw::from_value(kind).expect("a text encodes"));
}
