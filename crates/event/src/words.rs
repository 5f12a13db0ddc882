//! The text an event offers to search: what somebody said, did or printed, never JSON keys.

use std::borrow::Cow;

use crate::field::Field;
use crate::text::{nul_replaced, shown, without_nul};
use crate::token::{Token, Tokens};
use crate::{Draft, Key, Kind};

/// Everything an event can be found by, read in one go.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Findable<'a> {
    /// As they stand in the event, copied only where they have escapes.
    pub texts: Vec<Cow<'a, str>>,
    pub keys: Vec<Key>,
    pub tool: Option<String>,
}

impl Draft {
    /// What [`Draft::search_texts`], [`Draft::keys`] and [`Draft::tool`] say.
    pub fn findable(&self) -> Findable<'_> {
        let members: Vec<Field<'_>> = self.data.fields().collect();
        Findable {
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

    fn search_texts_in<'a>(&'a self, members: &[Field<'a>]) -> Vec<Cow<'a, str>> {
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

    fn payload_texts<'a>(&'a self, members: &[Field<'a>]) -> Vec<Cow<'a, str>> {
        use Tags::{Left, Taken};
        let texts_of = |fields| texts_of(members, fields);
        match self.kind {
            Kind::UserPrompt | Kind::AssistantMessage | Kind::ContextAdded => {
                texts_of(&[("content", Left)])
            }
            Kind::AssistantThinking => texts_of(&[("thinking", Left)]),
            Kind::ToolCall => texts_of(&[("tool", Left), ("input", Taken)]),
            Kind::ToolResult => {
                texts_of(&[("output", Left), ("parts", Left), ("error", Left), ("shown", Left)])
            }
            Kind::ApprovalRequested => texts_of(&[
                ("tool", Left),
                ("input", Taken),
                ("operation", Left),
                ("resource", Left),
            ]),
            Kind::ExternalInput => texts_of(&[("prompt", Left), ("input", Taken)]),
            Kind::Note => texts_of(&[("text", Left)]),
            Kind::Error => texts_of(&[("message", Left)]),
            Kind::ChildRequested => texts_of(&[("task", Left)]),
            Kind::ChildCompleted => texts_of(&[("summary", Left)]),
            Kind::SessionStarted | Kind::SettingsChanged => texts_of(&[("title", Left)]),
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
fn texts_of<'a>(members: &[Field<'a>], fields: &[(&str, Tags)]) -> Vec<Cow<'a, str>> {
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
    for token in Tokens::of(json) {
        match token {
            Token::Open | Token::Close => {
                name = None;
                is_base64 = false;
            }
            Token::Name(json) => name = shown(json),
            Token::String(json) => {
                let name = name.take();
                let Some(text) = shown(json) else { continue };
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
