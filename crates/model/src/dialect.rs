//! The request and reply formats of the three kinds of endpoints.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::Secret;

/// The maximum number of tokens in an answer, for endpoints that need a limit. Fifteen facts have
/// about 1,500.
const TOKENS_MAX: u32 = 4_000;

/// The version of Anthropic's API.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// The API of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// OpenAI and compatible endpoints.
    Openai,
    Anthropic,
    Mistral,
}

/// The task of the model and the text it works on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prompt {
    pub(crate) task: String,
    pub(crate) text: String,
}

/// An HTTP request.
#[derive(Debug)]
pub(crate) struct PostRequest {
    pub(crate) url: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
}

impl Dialect {
    pub(crate) fn usual_endpoint(self) -> &'static str {
        match self {
            Dialect::Openai => "https://api.openai.com/v1",
            Dialect::Anthropic => "https://api.anthropic.com/v1",
            Dialect::Mistral => "https://api.mistral.ai/v1",
        }
    }

    pub(crate) fn build_request(
        self,
        endpoint: &str,
        model: &str,
        key: Option<&Secret>,
        prompt: &Prompt,
    ) -> PostRequest {
        let Prompt { task, text } = prompt;
        let path = match self {
            Dialect::Anthropic => "messages",
            Dialect::Openai | Dialect::Mistral => "chat/completions",
        };
        let chat = json!([
            {"role": "system", "content": task},
            {"role": "user", "content": text},
        ]);
        let body = match self {
            // Compatible endpoints have different names for the token limit, so none is set. The
            // client limits the length of the reply.
            Dialect::Openai => json!({"model": model, "messages": chat}),
            Dialect::Mistral => json!({
                "model": model, "messages": chat, "max_tokens": TOKENS_MAX,
                "response_format": {"type": "json_object"},
            }),
            Dialect::Anthropic => json!({
                "model": model, "system": task, "max_tokens": TOKENS_MAX,
                "messages": [{"role": "user", "content": text}],
            }),
        };
        let mut headers = vec![("content-type", "application/json".to_owned())];
        match self {
            Dialect::Anthropic => {
                headers.push(("anthropic-version", ANTHROPIC_VERSION.to_owned()));
                headers.extend(key.map(|key| ("x-api-key", key.reveal().to_owned())));
            }
            Dialect::Openai | Dialect::Mistral => {
                let bearer = key.map(|key| format!("Bearer {}", key.reveal()));
                headers.extend(bearer.map(|bearer| ("authorization", bearer)));
            }
        }
        PostRequest { url: format!("{endpoint}/{path}"), headers, body: body.to_string() }
    }

    /// Returns the answer in a reply; `None` if the reply has none or was cut off.
    pub(crate) fn parse_reply(self, reply: &[u8]) -> Option<String> {
        let reply: Value = serde_json::from_slice(reply).ok()?;
        let (content, end) = match self {
            Dialect::Anthropic => (&reply["content"], &reply["stop_reason"]),
            Dialect::Openai | Dialect::Mistral => {
                let choice = &reply["choices"][0];
                (&choice["message"]["content"], &choice["finish_reason"])
            }
        };
        // An answer that was cut at the limit may end in the middle of a fact.
        let is_cut = matches!(end.as_str(), Some("length" | "model_length" | "max_tokens"));
        let answer = match content {
            Value::String(text) => text.clone(),
            // A list of parts. The thoughts of the model are parts of another type.
            Value::Array(parts) => {
                let texts = parts.iter().filter(|part| part["type"] == "text");
                texts.filter_map(|part| part["text"].as_str()).collect()
            }
            _ => return None,
        };
        (!is_cut && !answer.trim().is_empty()).then_some(answer)
    }
}
