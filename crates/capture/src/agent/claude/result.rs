//! What tools give back, and what else that means: a decision, a subagent's end, an answer.

use event::Raw;
use event::payload::{
    ApprovalResolved, ChildCompleted, ChildFailed, ChildStarted, ContentPart, Decision,
    ExternalInput, InputStatus, Outcome, ToolResult,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::line::{ClaudeBlock, ClaudeLine, parse_blocks};
use super::meaning::{Meaning, known_as};
use super::user::collect_content;
use super::{ClaudeTranscript, identity};
use crate::agent::calls::{Call, Nothing};
use crate::event_builder::{EventBuilder, preview_text};
use crate::record::RecordText;

/// What stands in the place of a tool's result after the user said no.
const REJECTED_IN_WORDS: &str = r#""User rejected tool use""#;

impl ClaudeTranscript {
    pub(super) fn parse_result(
        &mut self,
        line: &ClaudeLine<'_>,
        number: usize,
        block: &ClaudeBlock<'_>,
        builder: &mut EventBuilder<'_>,
    ) {
        let call_id = block.tool_use_id.as_deref().unwrap_or_default();
        // The mode decides what `user-rejected` means, and this record does not have it.
        let mode = builder.known_settings().permission_mode.clone();
        let ruling = Ruling::from_line(line, mode.as_deref());
        let call = self.state.calls.close(&known_as(call_id));
        let meaning = call.as_ref().map_or(Meaning::Nothing, |call| Meaning::from_tool(&call.tool));
        // A question passes through the permission dialog, too; its decision is told as the answer.
        if let Some(resolved) = ruling.resolved(call_id).filter(|_| meaning != Meaning::Question) {
            let identity = identity(line, &format!("approval {number}"), builder);
            builder.add_event(identity, line.parse_time(), &resolved);
        }
        let is_error = block.is_error.unwrap_or(false);
        let output = ClaudeOutput::from_raw(block.content);
        let whole = self.read_whole_output(&output, builder);
        // A denied call is marked as an error as well, so the ruling goes first.
        let outcome = match ruling.outcome {
            Some(outcome) => outcome,
            None if is_error => Outcome::Error,
            None => Outcome::Ok,
        };
        let result = ToolResult {
            call_id: call_id.to_owned(),
            outcome: outcome.clone(),
            // Only a failed command's output begins with its code. A successful one may print the
            // same words.
            exit_code: is_error.then(|| exit_code(&output.plain_text())).flatten(),
            repair: ruling.is_repair,
            shown: whole.is_some().then(|| output.plain_text()),
            output: Some(whole.unwrap_or(output.json)),
            parts: output.parts,
            ..ToolResult::default()
        };
        let identity = identity(line, &format!("result {number}"), builder);
        builder.add_result(identity, line.parse_time(), &result).parent_id =
            call.as_ref().map(|call| call.event_id);
        match (meaning, call) {
            (Meaning::Question, _) => answered(line, call_id, &outcome, builder),
            (Meaning::Child, Some(call)) => {
                self.finish_child(line, call_id, call, &result, builder)
            }
            _ => {}
        }
    }

    /// The whole of an output that was moved to a file, of which the transcript has the beginning.
    fn read_whole_output(&self, output: &ClaudeOutput, builder: &EventBuilder<'_>) -> Option<Raw> {
        // Compared without decoding: few outputs were moved, and the others may be long.
        if !output.json.get().starts_with("\"<persisted-output>") {
            return None;
        }
        let text = output.plain_text();
        let (_, rest) = text.split_once("saved to: ")?;
        let path = rest.lines().next()?;
        // The folder it names may be another machine's: only where it lies in its project counts.
        let mut names = path.rsplit('/');
        let (name, folder, session) = (names.next()?, names.next()?, names.next()?);
        // A transcript may be made up by an attacker: the path must not lead out of the project.
        let is_plain = [name, folder, session].iter().all(|name| !matches!(*name, "" | "." | ".."));
        let up = "../".repeat(self.folders);
        let path = format!("{up}{session}/{folder}/{name}");
        let whole = is_plain.then(|| builder.read_beside(&path)).flatten()?;
        Raw::from_value(&whole).ok()
    }

    /// The call of a subagent has its result.
    fn finish_child(
        &mut self,
        line: &ClaudeLine<'_>,
        call_id: &str,
        call: Call<Nothing>,
        result: &ToolResult,
        builder: &mut EventBuilder<'_>,
    ) {
        #[derive(Deserialize, Default)]
        #[serde(default, rename_all = "camelCase")]
        struct ClaudeReport<'a> {
            #[serde(borrow)]
            agent_id: Option<RecordText<'a>>,
            #[serde(borrow)]
            agent_type: Option<RecordText<'a>>,
            #[serde(borrow)]
            status: Option<RecordText<'a>>,
        }
        // Beside a result stands a structure, or a plain string if the tool failed.
        let report = line.tool_use_result.map(RawValue::get);
        let report =
            report.and_then(|report| serde_json::from_str::<ClaudeReport<'_>>(report).ok());
        let report = report.unwrap_or_default();
        let session = report.agent_id.as_deref().map(|id| session_of(id, builder));
        let child = ChildCall { call_id, session: session.unwrap_or_default() };
        if result.is_error() {
            let error = result.output_text().unwrap_or_default();
            return child.add_failure(line, preview_text(&error), builder);
        }
        // Only a launch in the background returns before the subagent has ended.
        if report.status.as_deref() != Some("async_launched") {
            return child.completed(line, None, builder);
        }
        // It goes on in the background; a notification tells its end.
        self.state.calls.open(call);
        let started = ChildStarted {
            child_id: call_id.to_owned(),
            child_session_id: child.session,
            metadata: None,
            agent_id: report.agent_type.map(RecordText::into_owned).unwrap_or_default(),
        };
        let identity = identity(line, &format!("child {call_id}"), builder);
        builder.add_event(identity, line.parse_time(), &started);
    }
}

/// The session of a subagent.
pub(super) fn session_of(agent: &str, builder: &EventBuilder<'_>) -> String {
    builder.session_of(&format!("agent-{agent}")).to_string()
}

/// A subagent, seen from its parent.
pub(super) struct ChildCall<'a> {
    pub call_id: &'a str,
    /// Its session, if it is told.
    pub session: String,
}

impl ChildCall<'_> {
    pub(super) fn completed(
        self,
        line: &ClaudeLine<'_>,
        summary: Option<String>,
        builder: &mut EventBuilder<'_>,
    ) {
        let identity = identity(line, &format!("child {}", self.call_id), builder);
        let completed = ChildCompleted {
            child_id: self.call_id.to_owned(),
            child_session_id: self.session,
            metadata: None,
            summary,
            artifact_ids: Vec::new(),
            episode_id: None,
            usage: None,
        };
        builder.add_event(identity, line.parse_time(), &completed);
    }

    pub(super) fn add_failure(
        self,
        line: &ClaudeLine<'_>,
        error: String,
        builder: &mut EventBuilder<'_>,
    ) {
        let identity = identity(line, &format!("child {}", self.call_id), builder);
        let failed = ChildFailed {
            child_id: self.call_id.to_owned(),
            child_session_id: self.session,
            metadata: None,
            error,
        };
        builder.add_event(identity, line.parse_time(), &failed);
    }
}

/// A person has answered, or would not.
fn answered(
    line: &ClaudeLine<'_>,
    call_id: &str,
    outcome: &Outcome,
    builder: &mut EventBuilder<'_>,
) {
    let is_received = *outcome == Outcome::Ok;
    let input = ExternalInput {
        request_id: call_id.to_owned(),
        prompt: String::new(),
        status: if is_received { InputStatus::Received } else { InputStatus::Canceled },
        // A refusal has a text about it in this place, which is no answer.
        input: line.tool_use_result.filter(|_| is_received).map(Raw::from),
    };
    let identity = identity(line, &format!("answer {call_id}"), builder);
    builder.add_event(identity, line.parse_time(), &input);
}

/// Whether the call was let through, and whether a person or a rule decided so.
struct Ruling {
    /// What became of the call, if that is not for its output to say.
    outcome: Option<Outcome>,
    decision: Option<(Decision, &'static str)>,
    is_repair: bool,
    reason: Option<String>,
}

impl Ruling {
    fn from_line(line: &ClaudeLine<'_>, permission_mode: Option<&str>) -> Ruling {
        #[derive(Deserialize, Default)]
        #[serde(default, rename_all = "camelCase")]
        struct Permission<'a> {
            #[serde(borrow)]
            decision: Option<RecordText<'a>>,
            #[serde(borrow)]
            source: Option<RecordText<'a>>,
            #[serde(borrow)]
            reason_code: Option<RecordText<'a>>,
        }
        let permission = line.permission_decision.map(RawValue::get);
        let permission: Permission<'_> =
            permission.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
        let is_person =
            permission.source.as_deref().is_none_or(|source| source.starts_with("user"));
        let by = if is_person { "person" } else { "rule" };
        let said = match permission.decision.as_deref() {
            Some("accept") => Some((Decision::Allow, by)),
            Some("reject") => Some((Decision::Deny, by)),
            _ => None,
        };
        // A denial kind without a decision comes from the dialog: a person said no or pressed Esc.
        let denied = said.clone().or(Some((Decision::Deny, "person")));
        let kind = line.tool_denial_kind.as_deref().or_else(|| rejection_in_words(line));
        let (outcome, decision, is_repair) = match kind {
            None => (None, said, false),
            // What a resume writes for a call that a crash cut off: its output is lost, and no
            // decision was made.
            Some("interrupted") => (Some(Outcome::Lost), None, true),
            // Without an approval prompt the user can only have stopped it.
            Some("user-rejected") if permission_mode == Some("bypassPermissions") => {
                (Some(Outcome::Canceled), None, false)
            }
            // A rule or a person said no. Esc while the tool runs is `user-rejected`, too.
            Some(_) => (Some(Outcome::Rejected), denied, false),
        };
        let reason = permission.reason_code.map(RecordText::into_owned);
        Ruling { outcome, decision, is_repair, reason }
    }

    fn resolved(&self, call_id: &str) -> Option<ApprovalResolved> {
        let (decision, by) = self.decision.clone()?;
        Some(ApprovalResolved {
            approval_id: call_id.to_owned(),
            decision,
            reason: self.reason.clone(),
            by: Some(by.to_owned()),
            automated: by == "rule",
        })
    }
}

/// The kind of a denial that the record tells only in words, as versions without
/// `toolDenialKind` do.
fn rejection_in_words(line: &ClaudeLine<'_>) -> Option<&'static str> {
    let said = line.tool_use_result.map(RawValue::get);
    (said == Some(REJECTED_IN_WORDS)).then_some("user-rejected")
}

/// What a tool gave back: as it is written where it is one text, which may be long.
#[derive(Default)]
struct ClaudeOutput {
    json: Raw,
    /// What is no text.
    parts: Vec<ContentPart>,
}

impl ClaudeOutput {
    fn from_raw(raw: Option<&RawValue>) -> ClaudeOutput {
        let Some(raw) = raw else { return ClaudeOutput::default() };
        // A string stays as it is written, without decoding: it may be long.
        let list = Some(raw).filter(|raw| raw.get().starts_with('['));
        let Some(blocks) = list.and_then(|list| parse_blocks(list).ok()) else {
            return ClaudeOutput { json: Raw::from(raw), parts: Vec::new() };
        };
        let mut texts = Vec::new();
        let mut parts = Vec::new();
        for part in collect_content(&blocks).0 {
            match part.text {
                Some(text) => texts.push(text),
                None => parts.push(part),
            }
        }
        ClaudeOutput { json: Raw::from_value(&texts.join("\n")).expect("a text encodes"), parts }
    }

    fn plain_text(&self) -> String {
        self.json.text().unwrap_or_default()
    }
}

/// The code a failed command ended with, as its output begins.
fn exit_code(output: &str) -> Option<i64> {
    let rest = output.strip_prefix("Exit code ")?;
    rest.lines().next()?.trim().parse().ok()
}
