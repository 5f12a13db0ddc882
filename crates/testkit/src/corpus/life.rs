//! One session, turn by turn, as its events.
//!
//! What is written here passes the hosted door too: a turn begins and ends, every call gets its
//! result, and the talk moves on only then.

use std::collections::VecDeque;

use event::payload::{
    AssistantMessage, AssistantThinking, Content, Outcome, Payload, SessionExited, SessionStarted,
    StopReason, TokenUsage, ToolCall, ToolResult, TurnCompleted, TurnStarted, UserPrompt,
};
use event::{Cost, Draft, EventId, Raw, SessionId, Source, Time};

use super::language::Script;
use super::output::{Use, use_tool};
use super::project::Project;
use super::random::Random;
use super::template::push_uuid;
use super::{NEEDLES, SessionLength, World};

pub(super) struct Life {
    random: Random,
    session_id: Option<SessionId>,
    provider: &'static str,
    model: &'static str,
    provider_session_id: String,
    project: usize,
    script: Script,
    shape: SessionLength,
    turns_left: u64,
    turn: u64,
    messages: u64,
    calls: u64,
    context_tokens: u64,
}

/// Turns of a session.
const TURNS: &[(u64, u64)] = &[(0, 1), (300, 2), (500, 5), (800, 14), (950, 40), (1_000, 120)];

/// Times a model is asked within a turn.
const STEPS: &[(u64, u64)] = &[(0, 1), (250, 2), (600, 6), (900, 16), (1_000, 60)];

/// Bytes of what people and models say.
const PROMPT: &[(u64, u64)] = &[(0, 12), (400, 90), (800, 400), (970, 3_000), (1_000, 20_000)];
const THINKING: &[(u64, u64)] = &[(0, 60), (500, 500), (900, 2_500), (1_000, 9_000)];
const REMARK: &[(u64, u64)] = &[(0, 30), (600, 120), (1_000, 600)];
const ANSWER: &[(u64, u64)] = &[(0, 80), (500, 900), (900, 3_500), (1_000, 12_000)];

/// Characters of a prompt or an answer that stand in the envelope for people to glance at.
const GLANCE_CHARS: usize = 120;

/// The letters of a thinking block's signature.
const SIGNATURE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

impl Life {
    pub(super) fn new(mut random: Random, world: &World, shape: SessionLength) -> Life {
        let (provider, model) = match random.below(10) {
            0..=5 => ("claude", "claude-sonnet-4-5"),
            6..=8 => ("codex", "gpt-5.2-codex"),
            _ => ("gemini", "gemini-3-pro"),
        };
        let mut provider_session_id = String::new();
        push_uuid(&mut random, &mut provider_session_id);
        let script = match random.below(20) {
            0 => Script::Chinese,
            1 => Script::Cyrillic,
            _ => Script::Latin,
        };
        let turns_left = match shape {
            SessionLength::AsRecorded => random.pick_along(TURNS),
            // Never over, in practice.
            SessionLength::One => u64::MAX,
            SessionLength::Brief => 1,
        };
        Life {
            session_id: None,
            provider,
            model,
            provider_session_id,
            project: random.pick_rank(world.projects.len()),
            script,
            shape,
            turns_left,
            turn: 0,
            messages: 0,
            calls: 0,
            // About what the instructions and tools of an agent take before the first prompt.
            context_tokens: 12_000,
            random,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.turns_left == 0
    }

    /// Appends the next turn, and what begins or ends the session around it.
    pub(super) fn play_turn(
        &mut self,
        world: &World,
        now_ms: &mut i64,
        ready: &mut VecDeque<Draft>,
    ) {
        let project = &world.projects[self.project];
        let mut told = Telling { now_ms, ready };
        if self.session_id.is_none() {
            self.begin_session(world, project, &mut told);
        }
        self.turns_left -= 1;
        self.turn += 1;
        // One session must not be talked in one script alone.
        if self.shape == SessionLength::One {
            self.script = match self.random.below(20) {
                0 => Script::Chinese,
                1 => Script::Cyrillic,
                _ => Script::Latin,
            };
        }
        if self.shape == SessionLength::Brief {
            return self.answer_briefly(world, project, &mut told);
        }
        self.push_event(&mut told, &TurnStarted { agent_id: "main".to_owned() }, None);
        let prompt = self.compose_text(world, project, PROMPT);
        let text = first_chars(&prompt);
        self.push_event(&mut told, &UserPrompt::text(prompt), Some(text));
        let steps = self.random.pick_along(STEPS);
        // The last step is the answer without calls, in `conclude`.
        for _ in 1..steps {
            self.work_on_turn(world, project, &mut told);
        }
        self.conclude(world, project, &mut told);
        self.end_turn(steps, &mut told);
        if self.is_over() {
            let exited = SessionExited { reason: Some("exit".to_owned()), ..Default::default() };
            self.push_event(&mut told, &exited, None);
        }
        // People read, think, and go for coffee.
        *now_ms += self.random.between(4_000, 400_000) as i64;
    }

    fn begin_session(&mut self, world: &World, project: &Project, told: &mut Telling<'_>) {
        let at = Time::from_millis(*told.now_ms);
        let id = EventId::new(at, self.random.random_bytes()).to_string();
        self.session_id = Some(SessionId::new(id).expect("an event's id can name a session"));
        let title = world.language.write_prose(&mut self.random, self.script, project, 24);
        let started = SessionStarted {
            agent: Some(self.provider.to_owned()),
            model: Some(self.model.to_owned()),
            cwd: Some(project.folder()),
            project: Some(project.name.clone()),
            title: Some(title.clone()),
            ..SessionStarted::default()
        };
        self.push_event(told, &started, Some(title));
    }

    fn answer_briefly(&mut self, world: &World, project: &Project, told: &mut Telling<'_>) {
        let prompt = world.language.write_prose(&mut self.random, self.script, project, 60);
        self.push_event(told, &UserPrompt::text(prompt), None);
        let message_id = self.next_message();
        let content = world.language.write_prose(&mut self.random, self.script, project, 120);
        let content = Content::text(content);
        let answer = AssistantMessage { message_id, content, ..AssistantMessage::default() };
        self.push_event(told, &answer, None);
        self.push_event(told, &SessionExited::default(), None);
    }

    /// The model thinks, says what it will do, calls tools, and gets their results.
    fn work_on_turn(&mut self, world: &World, project: &Project, told: &mut Telling<'_>) {
        let message_id = self.next_message();
        let mut block = 0;
        if self.random.percent(45) {
            self.think_aloud(world, project, &message_id, told);
            block += 1;
        }
        if self.random.percent(40) {
            let remark = self.compose_text(world, project, REMARK);
            let text = first_chars(&remark);
            let message = AssistantMessage {
                message_id: message_id.clone(),
                block,
                content: Content::text(remark),
                name: None,
                stop_reason: Some("tool_use".to_owned()),
            };
            self.push_event(told, &message, Some(text));
            block += 1;
        }
        let mut uses = Vec::new();
        for _ in 0..self.random.pick_one(&[&1, &1, &1, &1, &2, &3]).to_owned() {
            let used = use_tool(&mut self.random, world, project);
            self.calls += 1;
            let call_id = format!("toolu_{:016x}{:06}", self.random.next(), self.calls);
            let call = ToolCall {
                call_id: call_id.clone(),
                tool: used.tool.to_owned(),
                input: used.input.clone(),
                message_id: message_id.clone(),
                block,
                ..ToolCall::default()
            };
            self.push_event(told, &call, Some(first_chars(&used.text)));
            block += 1;
            uses.push((call_id, used));
        }
        // The answer ends with its last call; its cost stands there, before the results.
        self.charge_answer(told);
        // All calls of an answer come before the first result, as providers send them.
        for (call_id, used) in uses {
            self.finish_call(call_id, used, told);
        }
    }

    fn think_aloud(
        &mut self,
        world: &World,
        project: &Project,
        message_id: &str,
        told: &mut Telling<'_>,
    ) {
        let thinking = self.compose_text(world, project, THINKING);
        let text = first_chars(&thinking);
        let signature = self.random.percent(50).then(|| {
            let len = self.random.between(180, 420);
            (0..len).map(|_| char::from(SIGNATURE[self.random.below(64) as usize])).collect()
        });
        let message_id = message_id.to_owned();
        let thought =
            AssistantThinking { message_id, block: 0, thinking, signature, redacted: None };
        self.push_event(told, &thought, Some(text));
    }

    fn finish_call(&mut self, call_id: String, used: Use, told: &mut Telling<'_>) {
        let output = Raw::from_value(&used.output).expect("a string always encodes");
        let result = ToolResult {
            call_id,
            tool: Some(used.tool.to_owned()),
            idempotency_key: None,
            outcome: if used.failed { Outcome::Error } else { Outcome::Ok },
            output: Some(output),
            parts: Vec::new(),
            error: None,
            shown: None,
            duration_ms: Some(self.random.below(9_000)),
            ..ToolResult::default()
        };
        self.push_event(told, &result, None);
    }

    fn conclude(&mut self, world: &World, project: &Project, told: &mut Telling<'_>) {
        let message_id = self.next_message();
        let answer = self.compose_text(world, project, ANSWER);
        let text = first_chars(&answer);
        let message = AssistantMessage {
            message_id,
            block: 0,
            content: Content::text(answer),
            name: None,
            stop_reason: Some("end_turn".to_owned()),
        };
        self.push_event(told, &message, Some(text));
        self.charge_answer(told);
    }

    fn end_turn(&mut self, steps: u64, told: &mut Telling<'_>) {
        let output_tokens = steps * self.random.between(80, 900);
        // Grows until the window of the model is full, and begins again as after a compaction.
        self.context_tokens = (self.context_tokens + output_tokens * 4) % 180_000;
        let usage = TokenUsage {
            input_tokens: Some(self.random.below(3_000)),
            output_tokens: Some(output_tokens),
            cache_read_tokens: Some(self.context_tokens * steps),
            cache_creation_tokens: Some(self.random.below(20_000)),
            ..TokenUsage::default()
        };
        let completed = TurnCompleted {
            agent_id: "main".to_owned(),
            steps: Some(steps),
            usage: Some(usage),
            stop_reason: Some(StopReason::Completed),
            error: None,
        };
        self.push_event(told, &completed, None);
    }

    fn compose_text(&mut self, world: &World, project: &Project, sizes: &[(u64, u64)]) -> String {
        let size = self.random.pick_along(sizes) as usize;
        let mut text = world.language.write_prose(&mut self.random, self.script, project, size);
        if self.random.one_in(100) {
            text.push(' ');
            text.push_str(self.random.pick_one(NEEDLES));
        }
        text
    }

    fn next_message(&mut self) -> String {
        self.messages += 1;
        format!("msg_{:012x}{:06}", self.random.next() >> 16, self.messages)
    }

    /// Puts the cost of an answer on its last event.
    fn charge_answer(&mut self, told: &mut Telling<'_>) {
        let micros = self.random.between(900, 90_000) as i64;
        let last = told.ready.back_mut().expect("an answer was just told");
        last.cost = Some(Cost::from_nanos(micros * 1_000));
    }

    fn push_event<P: Payload>(
        &mut self,
        told: &mut Telling<'_>,
        payload: &P,
        text: Option<String>,
    ) {
        *told.now_ms += self.random.between(20, 4_000) as i64;
        let at = Time::from_millis(*told.now_ms);
        let id = EventId::new(at, self.random.random_bytes());
        let session_id = self.session_id.clone().expect("a session begins before it tells");
        let mut draft = Draft::new(id, session_id, at, payload).expect("these payloads encode");
        // Capture sees a line a moment after the agent wrote it.
        draft.observed_at = Time::from_millis(*told.now_ms + 40 + self.random.below(300) as i64);
        draft.provider = self.provider.to_owned();
        draft.provider_session_id = Some(self.provider_session_id.clone());
        draft.source = Source::Transcript;
        // The start of the session stands before its first turn.
        draft.turn_id = (self.turn > 0).then(|| format!("t{}", self.turn));
        draft.text = text;
        told.ready.push_back(draft);
    }
}

/// Where events go, and the time they happen at.
struct Telling<'a> {
    now_ms: &'a mut i64,
    ready: &'a mut VecDeque<Draft>,
}

fn first_chars(text: &str) -> String {
    text.chars().take(GLANCE_CHARS).collect()
}
