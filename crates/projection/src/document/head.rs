//! What stands above a session.

use event::SessionId;

use crate::{Ending, Facts};

/// The title of a document and what there is to know before reading it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DocumentHead {
    pub title: String,
    /// Names and what they stand for: `Agent`, `claude-code 2.1.0`.
    pub rows: Vec<(&'static str, String)>,
}

impl DocumentHead {
    /// What the facts of a session say.
    pub fn from_facts(session_id: &SessionId, facts: &Facts) -> DocumentHead {
        let about = facts.about();
        let title = facts.title().unwrap_or("A session without a title").to_owned();
        let agent = about.agent.as_ref().map(|agent| match &about.agent_version {
            Some(version) => format!("{agent} {version}"),
            None => agent.clone(),
        });
        let rows = [
            ("Agent", agent),
            ("Model", about.model.clone()),
            ("Folder", about.cwd.clone()),
            ("Branch", about.branch.clone()),
            ("Session", Some(session_id.to_string())),
            ("Work", Some(work_text(facts))),
            ("Tokens", token_text(facts)),
            ("Ended", ending_text(facts.ending()).map(str::to_owned)),
        ];
        let row = |(name, value): (&'static str, Option<String>)| value.map(|value| (name, value));
        DocumentHead { title, rows: rows.into_iter().filter_map(row).collect() }
    }
}

fn work_text(facts: &Facts) -> String {
    let counts = facts.counts();
    let parts = [
        (counts.prompts + counts.queued, "prompt"),
        (counts.responses, "response"),
        (counts.tool_calls, "tool call"),
        (counts.compactions, "compaction"),
    ];
    let told = parts.iter().filter(|(count, _)| *count > 0).map(|(count, name)| {
        let plural = if *count == 1 { "" } else { "s" };
        format!("{} {name}{plural}", group_digits(*count))
    });
    let told: Vec<String> = told.collect();
    if told.is_empty() { "none".to_owned() } else { told.join(", ") }
}

fn token_text(facts: &Facts) -> Option<String> {
    let tokens = facts.usage().total().tokens;
    let cached = tokens.cache_read + tokens.cache_creation;
    let all = tokens.input + tokens.output + cached;
    (all > 0).then(|| {
        let (input, output) = (group_digits(tokens.input), group_digits(tokens.output));
        format!("{input} in, {output} out, {} cached", group_digits(cached))
    })
}

/// How it ended, where that is worth telling.
fn ending_text(ending: Ending) -> Option<&'static str> {
    match ending {
        Ending::ToolCallPending => Some("while a tool was running"),
        Ending::UserLast => Some("before the last prompt was answered"),
        Ending::Interrupted => Some("by an interruption"),
        Ending::Truncated => Some("in the middle of a record"),
        Ending::AwaitingUser | Ending::Exited | Ending::Open => None,
    }
}

/// `26,596`.
fn group_digits(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
