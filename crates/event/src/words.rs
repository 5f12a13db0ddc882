//! The text an event offers to search: what somebody said, did or printed, never JSON keys.

use std::borrow::Cow;

use crate::field::JsonField;
use crate::text::{decode_string, nul_replaced, without_nul};
use crate::token::{Token, Tokenizer};
use crate::{Draft, EventKey, Kind};

/// Everything an event can be found by, read in one go.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SearchFields<'a> {
    /// As they stand in the event, copied only where they have escapes.
    pub texts: Vec<Cow<'a, str>>,
    pub keys: Vec<EventKey>,
    pub tool: Option<String>,
}

impl Draft {
    /// What [`Draft::search_texts`], [`Draft::keys`] and [`Draft::tool`] say.
    pub fn search_fields(&self) -> SearchFields<'_> {
        let members: Vec<JsonField<'_>> = self.data.fields().collect();
        SearchFields {
            texts: self.search_texts_in(&members),
            keys: self.keys_in(&members),
            tool: self.tool_in(&members),
        }
    }

    /// The texts of this event, most telling first. Empty for what is not searched: live kinds,
    /// compactions and snapshots, which only repeat what stands elsewhere.
    pub fn search_texts(&self) -> Vec<String> {
        let texts = self.search_texts_in(&self.data.fields().collect::<Vec<_>>());
        texts.into_iter().map(Cow::into_owned).collect()
    }

    fn search_texts_in<'a>(&'a self, members: &[JsonField<'a>]) -> Vec<Cow<'a, str>> {
        if self.kind.is_live() || matches!(self.kind, Kind::Compaction | Kind::Snapshot) {
            return Vec::new();
        }
        let mut texts = self.payload_texts(members);
        if let Some(text) = &self.text {
            let text = without_nul(text);
            // It nearly always begins one of them, whole or cut; only if not is it worth looking
            // further.
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
        use Tags::{Left, Taken};
        let member_texts = |fields| member_texts(members, fields);
        match self.kind {
            Kind::UserPrompt | Kind::AssistantMessage | Kind::ContextAdded => {
                member_texts(&[("content", Left)])
            }
            Kind::AssistantThinking => member_texts(&[("thinking", Left)]),
            Kind::ToolCall => member_texts(&[("tool", Left), ("input", Taken)]),
            Kind::ToolResult => {
                member_texts(&[("output", Left), ("parts", Left), ("error", Left), ("shown", Left)])
            }
            Kind::ApprovalRequested => member_texts(&[
                ("tool", Left),
                ("input", Taken),
                ("operation", Left),
                ("resource", Left),
            ]),
            Kind::ExternalInput => member_texts(&[("prompt", Left), ("input", Taken)]),
            Kind::Note => member_texts(&[("text", Left)]),
            Kind::Error => member_texts(&[("message", Left)]),
            Kind::ChildRequested => member_texts(&[("task", Left)]),
            Kind::ChildCompleted => member_texts(&[("summary", Left)]),
            Kind::SessionStarted | Kind::SettingsChanged => member_texts(&[("title", Left)]),
            Kind::Unknown | Kind::Other(_) => {
                let mut texts = Vec::new();
                gather(self.data.get(), Left, &mut texts);
                texts
            }
            _ => Vec::new(),
        }
    }
}

/// The texts of some members, in the order asked for.
fn member_texts<'a>(members: &[JsonField<'a>], fields: &[(&str, Tags)]) -> Vec<Cow<'a, str>> {
    let mut texts = Vec::new();
    for (field, tags) in fields {
        for member in members.iter().filter(|member| member.name == *field) {
            gather(member.json, *tags, &mut texts);
        }
    }
    texts
}

/// What becomes of the strings by which content says what it is: `type`, `mime_type`, the id of
/// an artifact.
#[derive(Clone, Copy, PartialEq)]
enum Tags {
    /// They are nobody's words.
    Left,
    /// Here they are an argument somebody chose.
    Taken,
}

/// Every string in a JSON value that is not a name, in order. Base64 is no word of anybody.
fn gather<'a>(json: &'a str, tags: Tags, texts: &mut Vec<Cow<'a, str>>) {
    let mut name = None;
    let mut is_base64 = false;
    for token in Tokenizer::new(json) {
        match token {
            Token::Open | Token::Close => {
                name = None;
                is_base64 = false;
            }
            Token::Name(json) => name = decode_string(json),
            Token::String(json) => {
                let name = name.take();
                let Some(text) = decode_string(json) else { continue };
                match name.as_deref() {
                    Some("encoding" | "type") if text == "base64" => is_base64 = true,
                    Some("bytes" | "data") if is_base64 => {}
                    Some("type" | "mime_type" | "media_type" | "artifact")
                        if tags == Tags::Left => {}
                    _ => texts.push(nul_replaced(text)),
                }
            }
        }
    }
}
