//! The text of an event that search indexes: messages, arguments and output, never JSON keys.

use std::borrow::Cow;

use crate::json::JsonField;
use crate::json::{Token, Tokenizer};
use crate::json::{decode_string, nul_replaced, without_nul};
use crate::{Draft, EventKey, Kind};

/// Everything that search indexes of one event, extracted in one pass over its payload.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SearchFields<'a> {
    /// Borrowed from the event; copied only where they have escapes.
    pub texts: Vec<Cow<'a, str>>,
    pub keys: Vec<EventKey>,
    pub tool: Option<String>,
}

impl Draft {
    /// Returns [`Draft::search_texts`], [`Draft::keys`] and [`Draft::tool`] in one pass.
    pub fn search_fields(&self) -> SearchFields<'_> {
        // The indexer runs this for every event, so the payload is split once for all three.
        let members: Vec<JsonField<'_>> = self.data.fields().collect();
        SearchFields {
            texts: self.search_texts_in(&members),
            keys: self.keys_in(&members),
            tool: self.tool_in(&members),
        }
    }

    /// Returns the texts of this event, the most important first. Empty for kinds that are not
    /// searched: live kinds, and compactions and snapshots, which only repeat other events.
    pub fn search_texts(&self) -> Vec<String> {
        let texts = self.search_texts_in(&self.data.fields().collect::<Vec<_>>());
        texts.into_iter().map(Cow::into_owned).collect()
    }

    fn search_texts_in<'a>(&'a self, members: &[JsonField<'a>]) -> Vec<Cow<'a, str>> {
        // Their words would be found twice, here and in the events that they repeat.
        if self.kind.is_live() || matches!(self.kind, Kind::Compaction | Kind::Snapshot) {
            return Vec::new();
        }
        let mut texts = self.payload_texts(members);
        if let Some(text) = &self.text {
            let text = without_nul(text);
            // The text of the envelope is nearly always the start of a payload text, whole or cut
            // with an ellipsis. Only if it is not, the slower substring search is needed.
            let beginning = text.strip_suffix('…').unwrap_or(&text);
            let begins = texts.iter().any(|other| other.starts_with(beginning));
            if !begins && !texts.iter().any(|other| other.contains(&*text)) {
                texts.insert(0, text);
            }
        }
        texts.retain(|text| !text.trim().is_empty());
        texts
    }

    fn payload_texts<'a>(&'a self, members: &[JsonField<'a>]) -> Vec<Cow<'a, str>> {
        use Tags::{Index, Skip};
        let member_texts = |fields| member_texts(members, fields);
        match self.kind {
            // What people and models said.
            Kind::UserPrompt | Kind::AssistantMessage | Kind::ContextAdded => {
                member_texts(&[("content", Skip)])
            }
            Kind::AssistantThinking => member_texts(&[("thinking", Skip)]),
            // What tools were asked and what they answered. The members of an input are the model's
            // own words, whatever their names.
            Kind::ToolCall => member_texts(&[("tool", Skip), ("input", Index)]),
            Kind::ToolResult => {
                member_texts(&[("output", Skip), ("parts", Skip), ("error", Skip), ("shown", Skip)])
            }
            Kind::ApprovalRequested => member_texts(&[
                ("tool", Skip),
                ("input", Index),
                ("operation", Skip),
                ("resource", Skip),
            ]),
            Kind::ExternalInput => member_texts(&[("prompt", Skip), ("input", Index)]),
            Kind::Note => member_texts(&[("text", Skip)]),
            Kind::Error => member_texts(&[("message", Skip)]),
            Kind::ChildRequested => member_texts(&[("task", Skip)]),
            Kind::ChildCompleted => member_texts(&[("summary", Skip)]),
            Kind::SessionStarted | Kind::SettingsChanged => member_texts(&[("title", Skip)]),
            // No format is known, so every string counts: a record that no adapter understood can
            // still be found.
            Kind::Unknown | Kind::Other(_) => {
                let mut texts = Vec::new();
                gather_texts(self.data.get(), Skip, &mut texts);
                texts
            }
            _ => Vec::new(),
        }
    }
}

/// Returns the texts of the given members, in the given order.
fn member_texts<'a>(members: &[JsonField<'a>], fields: &[(&str, Tags)]) -> Vec<Cow<'a, str>> {
    let mut texts = Vec::new();
    for (field, tags) in fields {
        for member in members.iter().filter(|member| member.name == *field) {
            gather_texts(member.json, *tags, &mut texts);
        }
    }
    texts
}

/// The treatment of strings that describe content instead of being content: `type`,
/// `mime_type`, the id of an artifact.
#[derive(Clone, Copy, PartialEq)]
enum Tags {
    /// Skip them: they are part of the format.
    Skip,
    /// Index them: in the input of a tool they are arguments that the model chose.
    Index,
}

/// Collects every string in a JSON value that is not a name, in order. Base64 is left out.
fn gather_texts<'a>(json: &'a str, tags: Tags, texts: &mut Vec<Cow<'a, str>>) {
    let mut name = None;
    let mut is_base64 = false;
    for token in Tokenizer::new(json) {
        match token {
            // The encoding holds for the object it stands in, and a name only for the value right
            // behind it.
            Token::Open | Token::Close => {
                name = None;
                is_base64 = false;
            }
            Token::Name(json) => name = decode_string(json),
            Token::String(json) => {
                let name = name.take();
                let Some(text) = decode_string(json) else { continue };
                match name.as_deref() {
                    // The encoding is written before the bytes, so that one pass is enough.
                    Some("encoding" | "type") if text == "base64" => is_base64 = true,
                    Some("bytes" | "data") if is_base64 => {}
                    Some("type" | "mime_type" | "media_type" | "artifact")
                        if tags == Tags::Skip => {}
                    _ => texts.push(nul_replaced(text)),
                }
            }
        }
    }
}
