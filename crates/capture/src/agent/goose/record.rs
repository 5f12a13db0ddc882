//! Goose's rows and lines, as far as they are read.

use event::Raw;
use serde::Deserialize;

/// What is said of a session as a whole: its row, or the first line of its file.
#[derive(Deserialize)]
pub(super) struct GooseSession {
    pub name: Option<String>,
    pub description: Option<String>,
    pub session_type: Option<String>,
    pub working_dir: Option<String>,
    pub updated_at: Option<String>,
    pub accumulated_total_tokens: Option<u64>,
    pub accumulated_input_tokens: Option<u64>,
    pub accumulated_output_tokens: Option<u64>,
    pub model_config_json: Option<Raw>,
    pub goose_mode: Option<String>,
}

/// A message: a row, or a line.
#[derive(Deserialize)]
pub(super) struct GooseMessage {
    /// A number for a row.
    pub id: Option<Raw>,
    pub message_id: Option<String>,
    pub role: String,
    #[serde(alias = "created_timestamp")]
    pub created: i64,
    #[serde(alias = "content_json")]
    pub content: Raw,
    #[serde(alias = "metadata_json")]
    pub metadata: Option<Raw>,
    /// The row before it in the session.
    pub previous: Option<i64>,
    /// How many equal ones stand before it.
    #[serde(default)]
    pub occurrence: u64,
}

/// Whether the user and the model see a message.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Visibility {
    pub user_visible: bool,
    pub agent_visible: bool,
    /// Time and folder, which the agent adds to a prompt since 1.52.0.
    pub turn_context: bool,
}

impl Default for Visibility {
    fn default() -> Visibility {
        // Without metadata both see everything.
        Visibility { user_visible: true, agent_visible: true, turn_context: false }
    }
}

impl GooseMessage {
    pub(super) fn visibility(&self) -> Visibility {
        let metadata = self.metadata.as_ref().filter(|metadata| !metadata.is_null());
        metadata.and_then(|metadata| metadata.read().ok()).unwrap_or_default()
    }

    /// The number of its row.
    pub(super) fn row_number(&self) -> Option<i64> {
        self.id.as_ref().and_then(|id| id.read().ok())
    }

    /// Only the model sees it: the agent put it there.
    pub(super) fn is_for_the_model(&self) -> bool {
        let Visibility { user_visible, agent_visible, .. } = self.visibility();
        !user_visible && agent_visible
    }
}

/// One block of a message.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GooseBlock {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub text: String,
    #[serde(default)]
    pub thinking: String,
    pub signature: Option<String>,
    pub data: Option<Raw>,
    #[serde(default)]
    pub id: String,
    pub tool_call: Option<Raw>,
    pub tool_result: Option<Raw>,
    pub mime_type: Option<String>,
    #[serde(default)]
    pub msg: String,
    #[serde(default)]
    pub tool_name: String,
    #[serde(default)]
    pub arguments: Raw,
    pub prompt: Option<String>,
}

/// A question to the user.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Action {
    #[serde(default)]
    pub action_type: String,
    #[serde(default)]
    pub id: String,
    #[serde(default)]
    pub tool_name: String,
    #[serde(default)]
    pub arguments: Raw,
    pub message: Option<String>,
    #[serde(alias = "user_data")]
    pub user_data: Option<Raw>,
}

/// A result with its status; older ones are only the value.
#[derive(Deserialize)]
struct Checked {
    status: Option<String>,
    value: Option<Raw>,
    error: Option<Raw>,
}

#[derive(Deserialize)]
pub(super) struct Called {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub arguments: Raw,
}

/// What a tool gave back.
pub(super) struct Returned {
    pub texts: Vec<String>,
    pub images: Vec<Option<String>>,
    pub is_error: bool,
    pub error: Option<String>,
}

impl GooseBlock {
    /// The call of a request.
    pub(super) fn parse_call(&self) -> Option<Called> {
        let call = self.tool_call.as_ref()?;
        let checked: Option<Checked> = call.read().ok();
        let value = checked.and_then(|checked| checked.value);
        value.as_ref().unwrap_or(call).read().ok()
    }

    /// The result of a response.
    pub(super) fn returned(&self) -> Returned {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Whole {
            #[serde(default)]
            content: Vec<GooseItem>,
            #[serde(default)]
            is_error: bool,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct GooseItem {
            text: Option<String>,
            mime_type: Option<String>,
            resource: Option<Resource>,
        }
        #[derive(Deserialize)]
        struct Resource {
            text: Option<String>,
        }
        let mut returned =
            Returned { texts: Vec::new(), images: Vec::new(), is_error: false, error: None };
        let Some(result) = &self.tool_result else { return returned };
        let checked: Option<Checked> = result.read().ok();
        if let Some(Checked { status: Some(status), error, .. }) = &checked {
            returned.is_error = status == "error";
            returned.error = error.as_ref().and_then(Raw::text);
        }
        let value = checked.and_then(|checked| checked.value);
        let value = value.as_ref().unwrap_or(result);
        let whole: Option<Whole> = value.read().ok();
        let items = match whole {
            Some(Whole { content, is_error }) => {
                // A tool's own failure may come with the status of a success.
                returned.is_error |= is_error;
                content
            }
            // Older results are the bare list of items.
            None => value.read().unwrap_or_default(),
        };
        for item in items {
            let text = item.text.or(item.resource.and_then(|resource| resource.text));
            match text {
                Some(text) => returned.texts.push(text),
                // Without a text it is an image; its bytes stay in the record.
                None => returned.images.push(item.mime_type),
            }
        }
        returned
    }
}
