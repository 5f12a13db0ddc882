//! What an agent takes as the answer of a hook.
//!
//! Each agent has a table of the events that may be answered ([`HookMap::answers`]): which answers
//! it takes there, and in which JSON. The JSON has only the members of that form, because some
//! agents drop a whole answer that has a member they do not know. What an event does not take is
//! not printed: the agent then goes on as if no hook were there.
//!
//! Not here: what the user decided (`rules`), and when to stay silent (`cli`).

use event::Raw;
use serde_json::{Value, json};

use super::{HookMap, Payload, hook_map};

/// The most characters of a text for the model. Claude Code shows it only the beginning of one that
/// is longer than 10,000; the rest is cut, at the end.
const TEXT_CHARS_MAX: usize = 9_000;

/// What stands before the name of a tool of an MCP server, without the server.
const MCP: &str = "MCP:";

/// What an agent is told about a tool call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum HookAnswer {
    /// The call is not made, and the model learns why.
    Deny,
    /// The agent asks its user first, and shows why.
    Ask,
    /// The call is made, and the agent does not ask.
    Allow,
    /// The call goes its usual way, and the model reads a note beside it.
    Note,
}

/// An event that may be answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AnswerRow {
    pub event: &'static str,
    pub moment: AnswerMoment,
    pub form: AnswerForm,
    /// The answers that the event takes.
    pub takes: &'static [HookAnswer],
}

/// When an event is fired, as seen from the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnswerMoment {
    /// Before the agent decides whether it asks its user.
    Before,
    /// The agent asks its user.
    Asking,
    /// The call was made.
    After,
}

/// The JSON of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnswerForm {
    /// `hookSpecificOutput` with a `permissionDecision`: Claude Code before a tool runs.
    PermissionDecision,
    /// `hookSpecificOutput` with a `decision`: Claude Code when it asks its user.
    Behavior,
    /// `hookSpecificOutput` with an `additionalContext`: a note for the model.
    Context,
    /// `permission` with a message for the user and one for the model: Cursor.
    Permission,
    /// `additional_context`: a note for Cursor's model.
    PlainContext,
    /// `decision` with a `reason`, and notes as a `systemMessage`: Gemini CLI.
    Decision,
    /// `permissionDecision` without anything around it: Copilot CLI.
    PlainPermissionDecision,
    /// `answer` with a `reason`: our own plugin.
    Plugin,
}

/// A tool call that a hook may answer.
#[derive(Clone, Debug)]
pub struct AnswerableCall {
    pub row: AnswerRow,
    /// Nothing but our own answer tells that the agent asks its user because of it.
    pub is_ask_untold: bool,
    pub session: String,
    pub tool: String,
    pub input: Raw,
    pub call_id: Option<String>,
    pub cwd: Option<String>,
}

impl AnswerableCall {
    /// Reads the tool call of a hook call; `None` if this event of the agent takes no answer, or
    /// the call is a question to the user, which only the user can answer.
    pub fn read(provider: &str, event: &str, payload: &Payload) -> Option<AnswerableCall> {
        let map = hook_map(provider)?;
        let row = *map.answers.iter().find(|row| row.event == event)?;
        let (tool, input) = map.read_tool(event, payload)?;
        let (leaving, others) = map.left_to_others;
        let is_left = event == leaving && others.iter().any(|other| tool.starts_with(other));
        if is_left || map.user_questions.contains(&tool.as_str()) {
            return None;
        }
        Some(AnswerableCall {
            row,
            is_ask_untold: map.asks_untold,
            session: payload.find_text(map.session).unwrap_or_default(),
            tool,
            input,
            call_id: payload.find_text(map.call).filter(|id| !id.is_empty()),
            cwd: payload.find_text(map.cwd),
        })
    }

    pub fn takes(&self, answer: HookAnswer) -> bool {
        self.row.takes.contains(&answer)
    }

    /// The line that tells the agent this answer; `None` if it takes no such answer here.
    pub fn line(&self, answer: HookAnswer, text: &str) -> Option<String> {
        self.row.line(answer, text)
    }
}

impl AnswerRow {
    /// The line that tells an agent this answer; `None` if the event does not take it.
    pub fn line(&self, answer: HookAnswer, text: &str) -> Option<String> {
        if !self.takes.contains(&answer) {
            return None;
        }
        let text: String = text.chars().take(TEXT_CHARS_MAX).collect();
        Some(self.form.value(self.event, answer, text).to_string())
    }
}

impl AnswerForm {
    fn value(self, event: &str, answer: HookAnswer, text: String) -> Value {
        let word = answer.as_str();
        let is_allowed = answer == HookAnswer::Allow;
        match self {
            AnswerForm::Context => context(event, text),
            AnswerForm::PermissionDecision if answer == HookAnswer::Note => context(event, text),
            AnswerForm::PermissionDecision => json!({ "hookSpecificOutput": {
                "hookEventName": event,
                "permissionDecision": word,
                "permissionDecisionReason": text,
            } }),
            AnswerForm::Behavior if is_allowed => json!({ "hookSpecificOutput": {
                "hookEventName": event,
                "decision": { "behavior": word },
            } }),
            AnswerForm::Behavior => json!({ "hookSpecificOutput": {
                "hookEventName": event,
                "decision": { "behavior": word, "message": text },
            } }),
            AnswerForm::Permission if is_allowed => json!({ "permission": word }),
            AnswerForm::Permission => {
                json!({ "permission": word, "user_message": text, "agent_message": text })
            }
            AnswerForm::PlainContext => json!({ "additional_context": text }),
            AnswerForm::Decision if answer == HookAnswer::Note => json!({ "systemMessage": text }),
            AnswerForm::Decision => json!({ "decision": word, "reason": text }),
            AnswerForm::PlainPermissionDecision => {
                json!({ "permissionDecision": word, "permissionDecisionReason": text })
            }
            AnswerForm::Plugin => json!({ "answer": word, "reason": text }),
        }
    }
}

impl HookAnswer {
    /// The word for it. Agents agree on the first three; a note has a member of its own there.
    pub fn as_str(self) -> &'static str {
        match self {
            HookAnswer::Deny => "deny",
            HookAnswer::Ask => "ask",
            HookAnswer::Allow => "allow",
            HookAnswer::Note => "note",
        }
    }
}

impl HookMap {
    /// The tool of a call and its input. Some events of Cursor are about one tool and do not name
    /// it.
    fn read_tool(&self, event: &str, payload: &Payload) -> Option<(String, Raw)> {
        let own = self.events_of_one_tool.iter().find(|of_one| of_one.0 == event);
        match own {
            Some((_, tool, input)) => {
                let members = input.iter().filter_map(|name| {
                    payload.find_json(&[name]).map(|value| ((*name).to_owned(), value))
                });
                let input = Raw::from_value(&members.collect::<Members>()).ok()?;
                Some(((*tool).to_owned(), input))
            }
            None => {
                let tool = payload.find_text(self.tool).filter(|tool| !tool.is_empty())?;
                // Elsewhere the agent writes the name of such a tool so.
                let is_bare = self.bare_mcp_event == Some(event) && !tool.starts_with(MCP);
                let tool = if is_bare { format!("{MCP}{tool}") } else { tool };
                Some((tool, payload.find_json(self.input).unwrap_or_default()))
            }
        }
    }
}

/// What sort of tool a call is of, as far as events differ by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CalledTool {
    Shell,
    Mcp,
    Other,
}

impl HookMap {
    /// Whether a call of such a tool fires this event.
    pub fn is_fired_for(&self, event: &str, tool: CalledTool) -> bool {
        let is_of_shell = self.events_of_one_tool.iter().any(|(of_one, ..)| *of_one == event);
        let is_of_mcp = self.bare_mcp_event == Some(event);
        match tool {
            CalledTool::Shell => !is_of_mcp && self.left_to_others.0 != event,
            CalledTool::Mcp => !is_of_shell && self.left_to_others.0 != event,
            CalledTool::Other => !is_of_shell && !is_of_mcp,
        }
    }
}

/// The members of an input that is put together from a payload.
type Members = std::collections::BTreeMap<String, Raw>;

fn context(event: &str, text: String) -> Value {
    json!({ "hookSpecificOutput": { "hookEventName": event, "additionalContext": text } })
}
