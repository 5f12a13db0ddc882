//! Agents at work: the lines they write, into the files a home has for them.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::SystemTime;

use event::Time;
use serde_json::{Value, json};
use testkit::corpus::Corpus;

use crate::Outcome;

/// Events that words are taken from.
const WORDS_EVENTS: usize = 5_000;

/// One session that is being written.
pub(crate) struct Scribe {
    agent: Agent,
    session: String,
    file: File,
    /// Lines so far, and when the last of them was written.
    lines: usize,
    last: Option<Time>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Agent {
    Claude,
    Codex,
}

/// Texts by author, as long and as varied as in recorded sessions.
pub(crate) struct Words {
    prompts: Vec<String>,
    thoughts: Vec<String>,
    answers: Vec<String>,
    outputs: Vec<String>,
}

impl Words {
    pub(crate) fn new() -> Words {
        let mut words =
            Words { prompts: vec![], thoughts: vec![], answers: vec![], outputs: vec![] };
        // Made once, so that generating text takes no time from the agents that write.
        for draft in Corpus::new(71).events(WORDS_EVENTS) {
            let Ok(data) = draft.data.read::<Value>() else { continue };
            let (list, text) = match draft.kind.as_str() {
                "user.prompt" => (&mut words.prompts, &data["content"]),
                "assistant.thinking" => (&mut words.thoughts, &data["thinking"]),
                "assistant.message" => (&mut words.answers, &data["content"]),
                "tool.result" => (&mut words.outputs, &data["output"]),
                _ => continue,
            };
            list.push(text.as_str().map_or_else(|| text.to_string(), str::to_owned));
        }
        words
    }
}

impl Scribe {
    /// Begins session `number` of a home; every second one is of the other agent.
    pub(crate) fn new(home: &Path, number: usize) -> Outcome<Scribe> {
        // Agents name sessions by UUID and put it into the name of the file.
        let session = format!("{number:08x}-5e55-4000-8000-00000000c0de");
        let (agent, path) = match number % 2 {
            0 => {
                let project = format!(".claude/projects/-home-dev-app-{}", number % 10);
                (Agent::Claude, home.join(project).join(format!("{session}.jsonl")))
            }
            _ => {
                let name = format!("rollout-2026-03-02T09-00-00-{session}.jsonl");
                (Agent::Codex, home.join(".codex/sessions/2026/03/02").join(name))
            }
        };
        fs::create_dir_all(path.parent().expect("a file lies in a folder"))?;
        // Kept open and appended to, as agents do.
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Scribe { agent, session, file, lines: 0, last: None })
    }

    /// The session as a journal calls it.
    pub(crate) fn session_id(&self) -> String {
        let agent = if self.agent == Agent::Claude { "claude" } else { "codex" };
        format!("{agent}:{}", self.session)
    }

    /// Writes the next line, in one go as agents do. Its time is `at`.
    pub(crate) fn write_next(&mut self, words: &Words, at: Time) -> Outcome<()> {
        let record = match self.agent {
            Agent::Claude => self.claude_line(words, at),
            Agent::Codex => self.codex_line(words, at),
        };
        // One write for line and line end: a reader that comes in between must not see half a line.
        self.file.write_all(format!("{record}\n").as_bytes())?;
        self.lines += 1;
        self.last = Some(at);
        Ok(())
    }

    /// When the last line was written.
    pub(crate) fn last_written(&self) -> Option<Time> {
        self.last
    }

    /// Lets the file look as if it had been written to last at this time.
    pub(crate) fn set_age(&self, to: SystemTime) -> Outcome<()> {
        Ok(self.file.set_modified(to)?)
    }

    fn claude_line(&self, words: &Words, at: Time) -> Value {
        let (line, session) = (self.lines, &self.session);
        // Four lines are one round: answer or prompt, thinking, call, result. The call and its
        // result share the number of their round.
        let call = format!("toolu_{session}_{}", line / 4);
        let (kind, message) = match line % 4 {
            // A prompt after every ten rounds.
            0 if line % 40 == 0 => {
                ("user", json!({"role": "user", "content": self.pick_text(&words.prompts)}))
            }
            0 => {
                let text = self.pick_text(&words.answers);
                self.claude_answer(json!({"type": "text", "text": text}))
            }
            1 => self.claude_answer(json!({
                "type": "thinking", "thinking": self.pick_text(&words.thoughts), "signature": "",
            })),
            2 => self.claude_answer(json!({
                "type": "tool_use", "id": call, "name": "Bash",
                "input": {"command": format!("cargo test part_{line} 2>&1 | tail -50")},
            })),
            _ => {
                let result = json!({"type": "tool_result", "tool_use_id": call,
                    "content": self.pick_text(&words.outputs), "is_error": false});
                ("user", json!({"role": "user", "content": [result]}))
            }
        };
        // Each record names the one before it as its parent, as Claude does.
        let uuid = |line: usize| format!("{session}-{line}");
        json!({
            "parentUuid": line.checked_sub(1).map(uuid), "isSidechain": false,
            "userType": "external", "cwd": "/home/dev/app", "sessionId": session,
            "version": "2.1.168", "gitBranch": "main", "type": kind, "message": message,
            "requestId": format!("req_{session}_{line}"), "uuid": uuid(line),
            "timestamp": at.to_string(),
        })
    }

    fn claude_answer(&self, block: Value) -> (&'static str, Value) {
        let message = json!({
            "model": "claude-sonnet-4-5-20250929", "type": "message", "role": "assistant",
            "id": format!("msg_{}_{}", self.session, self.lines), "content": [block],
            "stop_reason": null, "usage": {"input_tokens": 8, "output_tokens": 120,
                "cache_creation_input_tokens": 2_000, "cache_read_input_tokens": 60_000},
        });
        ("assistant", message)
    }

    fn codex_line(&self, words: &Words, at: Time) -> Value {
        let (line, session) = (self.lines, &self.session);
        let call = format!("call_{session}_{}", line / 4);
        let spent = json!({"input_tokens": 60_000 + line, "cached_input_tokens": 50_000,
            "output_tokens": 120, "reasoning_output_tokens": 40, "total_tokens": 60_120 + line});
        let (kind, payload) = match line % 4 {
            // A rollout of Codex begins with its session and the context of the turn.
            _ if line == 0 => (
                "session_meta",
                json!({"id": session, "timestamp": at.to_string(), "cwd": "/home/dev/app",
                    "originator": "codex_cli_rs", "cli_version": "0.128.0", "source": "cli"}),
            ),
            _ if line == 1 => {
                ("turn_context", json!({"cwd": "/home/dev/app", "model": "gpt-5.2-codex"}))
            }
            0 if line % 40 == 0 => (
                "event_msg",
                json!({"type": "user_message", "message": self.pick_text(&words.prompts)}),
            ),
            0 => (
                "response_item",
                json!({"type": "message", "role": "assistant", "content": [
                    {"type": "output_text", "text": self.pick_text(&words.answers)}]}),
            ),
            1 => (
                "event_msg",
                json!({"type": "token_count", "info": {"total_token_usage": spent,
                    "last_token_usage": spent, "model_context_window": 272_000}}),
            ),
            2 => (
                "response_item",
                json!({"type": "function_call", "name": "exec_command", "call_id": call,
                    "arguments": json!({"cmd": format!("rg -n part_{line}")}).to_string()}),
            ),
            _ => (
                "response_item",
                json!({"type": "function_call_output", "call_id": call,
                    "output": self.pick_text(&words.outputs)}),
            ),
        };
        json!({"timestamp": at.to_string(), "type": kind, "payload": payload})
    }

    /// Picks a text that no other session has at the same time, with a unique mark.
    fn pick_text(&self, list: &[String]) -> String {
        let number = self
            .session
            .bytes()
            .fold(self.lines, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        format!("{} #{}-{}", list[number % list.len()], &self.session[..8], self.lines)
    }
}
