//! The text an event offers to search: what somebody said, did or printed, never JSON keys.

use crate::raw::members;
use crate::text::{owned_without_nul, shown, without_nul};
use crate::token::{Token, Tokens};
use crate::{Draft, Kind};

impl Draft {
    /// The texts of this event, most telling first. Empty for what is not searched: live kinds,
    /// compactions and snapshots, which only repeat what stands elsewhere.
    pub fn search_texts(&self) -> Vec<String> {
        if self.kind.is_live() || matches!(self.kind, Kind::Compaction | Kind::Snapshot) {
            return Vec::new();
        }
        let mut texts = self.payload_texts();
        if let Some(text) = &self.text {
            let text = without_nul(text);
            // It nearly always begins one of them, whole or cut; only if not is it worth looking
            // further.
            let beginning = text.strip_suffix('…').unwrap_or(&text);
            let begins = texts.iter().any(|other| other.starts_with(beginning));
            if !begins && !texts.iter().any(|other| other.contains(&*text)) {
                texts.insert(0, text.into_owned());
            }
        }
        texts.retain(|text| !text.trim().is_empty());
        texts
    }

    fn payload_texts(&self) -> Vec<String> {
        use Tags::{Left, Taken};
        match self.kind {
            Kind::UserPrompt | Kind::AssistantMessage | Kind::ContextAdded => {
                self.texts_of(&[("content", Left)])
            }
            Kind::AssistantThinking => self.texts_of(&[("thinking", Left)]),
            Kind::ToolCall => self.texts_of(&[("tool", Left), ("input", Taken)]),
            Kind::ToolResult => self.texts_of(&[
                ("output", Left),
                ("parts", Left),
                ("error", Left),
                ("shown", Left),
            ]),
            Kind::ApprovalRequested => self.texts_of(&[
                ("tool", Left),
                ("input", Taken),
                ("operation", Left),
                ("resource", Left),
            ]),
            Kind::ExternalInput => self.texts_of(&[("prompt", Left), ("input", Taken)]),
            Kind::Note => self.texts_of(&[("text", Left)]),
            Kind::Error => self.texts_of(&[("message", Left)]),
            Kind::ChildRequested => self.texts_of(&[("task", Left)]),
            Kind::ChildCompleted => self.texts_of(&[("summary", Left)]),
            Kind::SessionStarted | Kind::SettingsChanged => self.texts_of(&[("title", Left)]),
            Kind::Unknown | Kind::Other(_) => {
                let mut texts = Vec::new();
                gather(self.data.get(), Left, &mut texts);
                texts
            }
            _ => Vec::new(),
        }
    }

    fn texts_of(&self, fields: &[(&str, Tags)]) -> Vec<String> {
        let members = members(self.data.get()).unwrap_or_default();
        let mut texts = Vec::new();
        for (field, tags) in fields {
            for (_, value) in members.iter().filter(|(name, _)| name == field) {
                gather(value.get(), *tags, &mut texts);
            }
        }
        texts
    }
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
fn gather(json: &str, tags: Tags, texts: &mut Vec<String>) {
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
                    _ => texts.push(owned_without_nul(text)),
                }
            }
        }
    }
}
