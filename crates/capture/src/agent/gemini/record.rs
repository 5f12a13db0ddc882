//! The lines of Gemini's session files, as far as they are read.

use event::Raw;
use serde::de::value::MapAccessDeserializer;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::record::SourceRecord;

/// Any line. Which one it is follows from the names it has.
pub(super) enum GeminiLine {
    Head(GeminiHead),
    Patch(GeminiHead),
    Message(GeminiMessage),
    /// Everything from the message of this id on was taken back.
    Rewind(String),
    Other,
}

impl GeminiLine {
    pub(super) fn parse_line(record: &SourceRecord<'_>) -> Result<GeminiLine, serde_json::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Names {
            #[serde(rename = "$set")]
            set: Option<IgnoredAny>,
            #[serde(rename = "$rewindTo")]
            rewind_to: Option<String>,
            id: Option<IgnoredAny>,
            session_id: Option<IgnoredAny>,
        }
        #[derive(Deserialize)]
        struct Patch {
            #[serde(rename = "$set")]
            set: GeminiHead,
        }
        // The file has no types of lines: the names in a line tell what it is.
        Ok(match record.read()? {
            Names { rewind_to: Some(id), .. } => GeminiLine::Rewind(id),
            Names { id: Some(_), .. } => GeminiLine::Message(record.read()?),
            Names { set: Some(_), .. } => GeminiLine::Patch(record.read::<Patch>()?.set),
            Names { session_id: Some(_), .. } => GeminiLine::Head(record.read()?),
            _ => GeminiLine::Other,
        })
    }
}

/// What is said of the session as a whole: by the first line, and by patches of it.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct GeminiHead {
    pub session_id: Option<String>,
    pub start_time: Option<String>,
    pub last_updated: Option<String>,
    pub kind: Option<String>,
    pub directories: Vec<String>,
    pub summary: Option<String>,
    pub messages: Option<Vec<GeminiMessage>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GeminiMessage {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub timestamp: Option<String>,
    #[serde(default)]
    pub content: Parts,
    /// What the person saw of a prompt, if that was less than the model got.
    #[serde(default)]
    pub display_content: Option<Parts>,
    #[serde(default)]
    pub thoughts: Vec<Thought>,
    #[serde(default)]
    pub tokens: Option<GeminiTokens>,
    #[serde(default)]
    pub model: Option<String>,
    #[serde(default)]
    pub tool_calls: Vec<GeminiCall>,
}

#[derive(Deserialize)]
pub(super) struct Thought {
    #[serde(default)]
    pub subject: String,
    #[serde(default)]
    pub description: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct GeminiTokens {
    /// With the cached ones.
    pub input: u64,
    /// Without thoughts.
    pub output: u64,
    pub cached: u64,
    pub thoughts: u64,
    pub tool: u64,
    pub total: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GeminiCall {
    pub id: String,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub args: Raw,
    #[serde(default)]
    pub result: Parts,
    #[serde(default)]
    pub status: String,
    #[serde(default)]
    pub timestamp: Option<String>,
    /// The session of the subagent that did it.
    #[serde(default)]
    pub agent_id: Option<String>,
}

/// One part, a list of them, or plain text.
#[derive(Default)]
pub(super) struct Parts(pub Vec<GeminiPart>);

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct GeminiPart {
    pub text: Option<String>,
    pub function_call: Option<Named>,
    pub function_response: Option<Response>,
    pub inline_data: Option<Data>,
    pub file_data: Option<Data>,
}

#[derive(Deserialize)]
pub(super) struct Named {
    #[serde(default)]
    pub id: String,
}

#[derive(Deserialize)]
pub(super) struct Response {
    #[serde(default)]
    pub id: String,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub response: GeminiOutput,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct GeminiOutput {
    pub output: Option<Raw>,
    pub error: Option<Raw>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Data {
    #[serde(default)]
    pub mime_type: Option<String>,
    #[serde(default)]
    pub file_uri: Option<String>,
}

impl<'de> Deserialize<'de> for Parts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Parts, D::Error> {
        struct PartsVisitor;
        impl<'de> Visitor<'de> for PartsVisitor {
            type Value = Parts;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text, a part or a list of them")
            }

            fn visit_unit<E>(self) -> Result<Parts, E> {
                Ok(Parts::default())
            }

            fn visit_str<E>(self, text: &str) -> Result<Parts, E> {
                Ok(Parts(vec![GeminiPart { text: Some(text.to_owned()), ..GeminiPart::default() }]))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Parts, A::Error> {
                GeminiPart::deserialize(MapAccessDeserializer::new(map))
                    .map(|part| Parts(vec![part]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Parts, A::Error> {
                // An element may be a text or a list as well; serde_json limits how deep.
                let mut parts = Vec::new();
                while let Some(Parts(more)) = list.next_element()? {
                    parts.extend(more);
                }
                Ok(Parts(parts))
            }
        }
        deserializer.deserialize_any(PartsVisitor)
    }
}

impl Parts {
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| part.text.as_deref())
    }

    /// All words, one part below the other.
    pub(super) fn join_texts(&self) -> String {
        self.texts().collect::<Vec<_>>().join("\n")
    }
}
