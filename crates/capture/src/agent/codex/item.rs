//! Response items: what the model saw and said.

use event::payload::{
    AssistantMessage, AssistantThinking, Content, ContentPart, Outcome, ToolCall, ToolResult,
};
use event::{Raw, Time, json};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::rollout::{self, CodexItem, join_texts};
use super::state::Ran;
use super::{CodexOutcome, Rollout, Understood};
use crate::agent::calls::Call;
use crate::event_builder::{EventBuilder, preview_text, questions};
use crate::limit::SHOWN_CHARS_MAX;

/// Items that say nothing to people: definitions, and what only the model can read.
const SILENT: &[&str] = &[
    "additional_tools",
    "compaction",
    "compaction_summary",
    "compaction_trigger",
    "context_compaction",
    "ghost_snapshot",
    "other",
];

/// Text that the agent puts into a user's message, by how it begins and ends. Both have to fit:
/// people may begin a prompt as they like.
const INJECTED: &[(&str, &str)] = &[
    ("<environment_context>", "</environment_context>"),
    ("<user_instructions>", "</user_instructions>"),
    ("# AGENTS.md instructions for ", "</INSTRUCTIONS>"),
    ("<permissions instructions>", ""),
    ("<turn_aborted>", "</turn_aborted>"),
    ("<skill>", "</skill>"),
    ("<subagent_notification>", "</subagent_notification>"),
    ("<user_shell_command>", "</user_shell_command>"),
    ("<user_action>", "</user_action>"),
    ("<model_switch>", "</model_switch>"),
];

/// What an editor puts in front of what was typed.
const EDITOR_CONTEXT: (&str, &str) = ("# Context from my IDE setup:", "## My request for Codex:");

/// The tool that asks a person.
const ASKING: &str = "request_user_input";

/// The call that looks after a process which goes on.
const LOOKS_AFTER: &str = "write_stdin";

/// The tool that runs a program which calls tools itself.
const PROGRAM: &str = "exec";

impl Rollout {
    pub(super) fn parse_item(
        &mut self,
        json: &str,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) -> Understood {
        let item: CodexItem<'_> = serde_json::from_str(json)?;
        if SILENT.contains(&item.kind.as_str()) {
            return Ok(CodexOutcome::Silent);
        }
        match (item.kind.as_str(), item.role.as_deref()) {
            ("message", Some("assistant")) => {
                self.add_answer(item.id, join_texts(item.content), at, builder);
            }
            ("message", Some("user")) => self.user_message(&item, at, builder),
            // Developer messages are instructions; an `agent_message` is what another agent says.
            ("message", Some(_)) | ("agent_message", _) => {
                // A subagent that got its task this way has none in its first prompt.
                self.state.has_task |= item.kind == "agent_message";
                self.add_context(join_texts(item.content), at, builder);
            }
            ("reasoning", _) => self.reasoning(&item, at, builder),
            // Calls and outputs, in the forms of all versions.
            ("function_call" | "custom_tool_call" | "tool_search_call" | "local_shell_call", _) => {
                self.parse_call(item, at, builder);
            }
            ("function_call_output" | "custom_tool_call_output" | "tool_search_output", _) => {
                self.parse_result(&item, at, builder);
            }
            ("web_search_call" | "image_generation_call", _) => {
                self.parse_finished_call(item, at, builder)
            }
            _ => return Ok(CodexOutcome::Unknown(item.kind)),
        }
        // Set only here: definitions and bookkeeping must not make the response items own the talk.
        self.state.has_items = true;
        Ok(CodexOutcome::Added)
    }

    pub(super) fn add_answer(
        &mut self,
        id: Option<String>,
        text: String,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) {
        let identity = self.state.identity(builder, "message");
        let message_id = id.unwrap_or_else(|| builder.record_name());
        let content = Content::text(text);
        let message = AssistantMessage { message_id, content, ..AssistantMessage::default() };
        self.state.last_said = Some(builder.add_message(identity, at, &message).id);
    }

    pub(super) fn thinking(
        &mut self,
        thinking: String,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) {
        let identity = self.state.identity(builder, "thinking");
        let thinking = AssistantThinking { thinking, ..AssistantThinking::default() };
        builder.thinking(identity, at, &thinking);
    }

    fn reasoning(
        &mut self,
        item: &CodexItem<'_>,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) {
        let summary = join_texts(item.summary);
        let content = join_texts(item.content);
        // `content` has the thoughts themselves, which most models do not give away.
        let text = if content.is_empty() { summary } else { content };
        self.thinking(text, at, builder);
    }

    pub(super) fn add_context(
        &mut self,
        text: String,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) {
        let identity = self.state.identity(builder, "context");
        builder.add_context(identity, at, None, text);
    }

    /// A user's message holds what was typed, what the agent added, or both.
    fn user_message(
        &mut self,
        item: &CodexItem<'_>,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) {
        let kinds = item.part_kinds();
        let mut typed = Vec::new();
        let mut injected = Vec::new();
        for (number, part) in rollout::parse_parts(item.content).into_iter().enumerate() {
            let text = part.text.unwrap_or_default();
            // `unknown` says nothing: the text itself decides then.
            let kind = kinds.get(number).map(String::as_str).filter(|kind| *kind != "unknown");
            let is_typed =
                kind.map_or_else(|| !is_injected(&text), |kind| kind.starts_with("user."));
            match part.kind.as_str() {
                "input_image" | "image" => typed.push(image_part()),
                _ if is_typed => {
                    let (editor, text) = without_editor(&text);
                    injected.extend(editor.map(str::to_owned));
                    typed.push(text_part(text));
                }
                _ => injected.push(text),
            }
        }
        if !injected.is_empty() {
            self.add_context(injected.join("\n"), at, builder);
        }
        if !typed.is_empty() {
            self.add_prompt(Content(typed), at, builder);
        }
    }

    /// What a person typed, or the task of a subagent.
    pub(super) fn add_prompt(
        &mut self,
        content: Content,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) {
        // The parent's words open a subagent's thread in the user's place. Only the first are its
        // task.
        if self.state.is_child && !self.state.has_task {
            self.state.has_task = true;
            // Known by the same name as a prompt: it may repeat one of the parent's.
            let identity = self.state.identity(builder, "prompt");
            builder.add_context(identity, at, None, content.joined_text());
            return;
        }
        // A version that names turns has opened this one by now.
        if self.state.turn_id().is_none() {
            builder.turn_opened(None);
        }
        // Before the prompt is told: a rollback goes to what stood in front of it.
        self.state.mark_prompt(builder, at);
        let identity = self.state.identity(builder, "prompt");
        self.state.last_said = Some(builder.add_prompt(identity, at, content).id);
    }

    fn parse_call(
        &mut self,
        item: CodexItem<'_>,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) {
        let call_id = item.call_id.or(item.id).unwrap_or_default();
        let tool = item.name.unwrap_or_else(|| tool_name(&item.kind).to_owned());
        // Functions have `arguments`, custom tools `input`, the local shell an `action`.
        let input = parse_input(item.arguments.or(item.input).or(item.action));
        let mut call = self.told_call(call_id, tool, input.clone(), at, builder);
        // Code mode: a single tool, and its input is a program in JavaScript.
        call.more.is_program = call.tool == PROGRAM && item.kind == "custom_tool_call";
        call.more.asks = call.tool == ASKING;
        if call.more.asks {
            builder.open_question(at, &call.call_id, &questions(&input));
        }
        call.more.process = process_id(&call.tool, &input);
        call.task = subagent_task(&call.tool, &input);
        self.state.calls.open(call);
    }

    fn told_call(
        &mut self,
        call_id: String,
        tool: String,
        input: Raw,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) -> Call<Ran> {
        let identity = self.state.identity(builder, "call");
        let call = ToolCall { call_id, tool, input, ..ToolCall::default() };
        let event_id = builder.add_call(identity, at, &call).id;
        self.state.last_said = Some(event_id);
        let ToolCall { call_id, tool, .. } = call;
        Call { call_id, event_id, tool, task: None, more: Ran::default() }
    }

    fn parse_result(
        &mut self,
        item: &CodexItem<'_>,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) {
        let call_id = item.call_id.clone().unwrap_or_default();
        let open = self.state.calls.close(&call_id);
        let output = item.output.or(item.tools);
        let head = output.map(parse_output).unwrap_or_default();
        let mut exit_code = head.exit_code;
        let mut duration_ms = None;
        let mut outcome = head.tool_outcome();
        // The item of the command came before, and knows more than the words of the output.
        if let Some(open) = &open {
            exit_code = open.more.exit_code.or(exit_code);
            duration_ms = open.more.duration_ms;
            if open.more.is_declined {
                outcome = Outcome::Rejected;
            }
        }
        // The output of a command that failed does not say so in words; its code does.
        if exit_code.is_some_and(|code| code != 0) && outcome == Outcome::Ok {
            outcome = Outcome::Error;
        }
        let result = ToolResult {
            call_id,
            outcome,
            output: output.map(Raw::from),
            duration_ms,
            exit_code,
            background: self.is_still_running(open.as_ref(), &head) && exit_code.is_none(),
            ..ToolResult::default()
        };
        let identity = self.state.identity(builder, "result");
        let draft = builder.add_event(identity, at, &result);
        draft.text = Some(preview_text(&head.text));
        draft.parent_id = open.as_ref().map(|open| open.event_id);
        let result_id = draft.id;
        self.state.last_said = Some(result_id);
        let Some(mut open) = open else { return };
        // The command has become a background terminal, which may outlive its turn: the call stays
        // open.
        if result.background {
            open.more.running = Some(result_id);
            open.more.process = head.process;
            self.state.calls.open(open);
        } else if open.more.asks {
            builder.close_question(at, "", &result);
        } else if exit_code.is_some() {
            // The code in the output of `write_stdin` is that of the process it looks after.
            self.process_over(open.more.process, exit_code, at, builder);
        }
    }

    /// Whether a command goes on behind its call, and its end will be told: looking after it is no
    /// command, and earlier versions tell no ends.
    fn is_still_running(&self, call: Option<&Call<Ran>>, head: &CodexOutputHead) -> bool {
        let is_command = call.is_some_and(|call| call.more.process.is_none());
        is_command && head.process.is_some() && self.state.tells_ends
    }

    /// A later call has reported the end of a process.
    fn process_over(
        &mut self,
        process: Option<u64>,
        exit_code: Option<i64>,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) {
        // `None` must not find a call without a process, hence the `and_then` below.
        let is_it = |call: &&Call<Ran>| call.more.running.is_some() && call.more.process == process;
        let running = process.and_then(|_| self.state.calls.iter().find(is_it));
        let Some(call_id) = running.map(|call| call.call_id.clone()) else { return };
        let outcome = match exit_code {
            Some(0) => Outcome::Ok,
            _ => Outcome::Error,
        };
        let result = ToolResult { call_id, outcome, exit_code, ..ToolResult::default() };
        self.finish_command((result, None), None, at, builder);
    }

    /// A call that the model's own service has answered: no result follows.
    fn parse_finished_call(
        &mut self,
        item: CodexItem<'_>,
        at: Option<Time>,
        builder: &mut EventBuilder<'_>,
    ) {
        let call_id = item.call_id.or(item.id).unwrap_or_else(|| builder.record_name());
        let input = parse_input(item.action);
        let open = self.told_call(call_id, tool_name(&item.kind).to_owned(), input, at, builder);
        let is_failed = item.status.and_then(json::text).is_some_and(|status| status == "failed");
        let outcome = if is_failed { Outcome::Error } else { Outcome::Ok };
        let result = ToolResult { call_id: open.call_id, outcome, ..ToolResult::default() };
        let identity = self.state.identity(builder, "result");
        builder.add_event(identity, at, &result).parent_id = Some(open.event_id);
    }
}

fn is_injected(text: &str) -> bool {
    let text = text.trim();
    INJECTED.iter().any(|(begin, end)| text.starts_with(begin) && text.ends_with(end))
}

/// What an editor added, and what was typed.
fn without_editor(text: &str) -> (Option<&str>, &str) {
    let (begin, typed) = EDITOR_CONTEXT;
    match text.starts_with(begin).then(|| text.split_once(typed)).flatten() {
        Some((editor, text)) => (Some(editor.trim()), text.trim()),
        None => (None, text),
    }
}

fn text_part(text: &str) -> ContentPart {
    ContentPart { kind: "text".to_owned(), text: Some(text.to_owned()), ..ContentPart::default() }
}

/// Its bytes stay in the record, which is kept.
fn image_part() -> ContentPart {
    ContentPart { kind: "image".to_owned(), ..ContentPart::default() }
}

fn tool_name(kind: &str) -> &str {
    match kind {
        "local_shell_call" => "local_shell",
        "web_search_call" => "web_search",
        "tool_search_call" => "tool_search",
        "image_generation_call" => "image_generation",
        kind => kind,
    }
}

/// Arguments come as JSON within a text; as an object they can be read by everybody.
fn parse_input(raw: Option<&RawValue>) -> Raw {
    let Some(raw) = raw else { return Raw::null() };
    // Programs and patches are no objects and stay the texts they are.
    let within = json::text(raw).filter(|text| text.trim_start().starts_with('{'));
    within.and_then(|text| Raw::parse(text).ok()).unwrap_or_else(|| Raw::from(raw))
}

/// What a subagent is asked to do.
fn subagent_task(tool: &str, input: &Raw) -> Option<String> {
    #[derive(Deserialize)]
    struct Spawned {
        message: Option<String>,
    }
    (tool == "spawn_agent").then(|| input.read::<Spawned>().ok()?.message).flatten()
}

/// The process that a call looks after.
fn process_id(tool: &str, input: &Raw) -> Option<u64> {
    #[derive(Deserialize)]
    struct LooksAfter {
        session_id: u64,
    }
    if tool != LOOKS_AFTER {
        return None;
    }
    let read = |text: &str| serde_json::from_str::<LooksAfter>(text).ok();
    let within = input.read::<String>().ok();
    within.as_deref().map_or_else(|| read(input.get()), read).map(|it| it.session_id)
}

/// The beginning of an output, and what it says of its end.
#[derive(Default)]
struct CodexOutputHead {
    text: String,
    exit_code: Option<i64>,
    is_failed: bool,
    is_aborted: bool,
    /// The process that goes on although its call has returned.
    process: Option<u64>,
}

impl CodexOutputHead {
    fn tool_outcome(&self) -> Outcome {
        match (self.is_aborted, self.is_failed) {
            (true, _) => Outcome::Canceled,
            (_, true) => Outcome::Error,
            _ => Outcome::Ok,
        }
    }
}

/// Lines in front of an output that tell how a command ended.
const EXIT_CODE: &[&str] = &["Process exited with code ", "Exit code: "];
/// The line of a command that goes on although its call has returned.
const RUNNING: &str = "Process running with session ID ";
const OUTPUT_BEGINS: &str = "Output:";
const FAILED: &str = "Script failed";
const ABORTED: &str = "aborted by user";

/// An output is a text, parts, or an object with a content; older texts are JSON themselves.
fn parse_output(output: &RawValue) -> CodexOutputHead {
    #[derive(Deserialize)]
    struct Wrapped<'a> {
        #[serde(default, borrow)]
        content: Option<&'a RawValue>,
        success: Option<bool>,
    }
    if let Some(text) = json::string_prefix(output.get(), SHOWN_CHARS_MAX + 1) {
        return if text.starts_with("{\"") {
            head_within(output, text)
        } else {
            parse_output_text(text)
        };
    }
    let wrapped = output.get().starts_with('{').then(|| serde_json::from_str(output.get()));
    match wrapped {
        Some(Ok(Wrapped { content, success })) => CodexOutputHead {
            is_failed: success == Some(false),
            ..parse_output_text(join_texts(content))
        },
        _ => parse_output_text(join_texts(Some(output))),
    }
}

/// The form of older versions: an object with the output and how it ended, as text.
fn head_within(output: &RawValue, beginning: String) -> CodexOutputHead {
    #[derive(Deserialize)]
    struct Within {
        output: String,
        #[serde(default)]
        metadata: CodexMetadata,
    }
    #[derive(Deserialize, Default)]
    struct CodexMetadata {
        exit_code: Option<i64>,
    }
    // The beginning alone is no JSON: the whole text has to be decoded to reach the exit code.
    let within = json::text(output).and_then(|text| json::read::<Within>(&text).ok());
    match within {
        Some(within) => {
            let head = parse_output_text(within.output);
            CodexOutputHead { exit_code: within.metadata.exit_code.or(head.exit_code), ..head }
        }
        None => parse_output_text(beginning),
    }
}

fn parse_output_text(text: String) -> CodexOutputHead {
    let mut head =
        CodexOutputHead { is_aborted: text.starts_with(ABORTED), ..CodexOutputHead::default() };
    head.is_failed = text.starts_with(FAILED);
    // The head has few lines. A text without one is not searched any further.
    for line in text.lines().take_while(|line| !line.starts_with(OUTPUT_BEGINS)).take(8) {
        let code = EXIT_CODE.iter().find_map(|words| line.strip_prefix(words));
        head.exit_code = head.exit_code.or_else(|| code?.trim().parse().ok());
        let process = line.strip_prefix(RUNNING);
        head.process = head.process.or_else(|| process?.trim().parse().ok());
    }
    CodexOutputHead { text, ..head }
}
