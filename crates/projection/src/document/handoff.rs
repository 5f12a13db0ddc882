//! A note for the next agent or user: what it was about, what was done, what is left, and how to
//! take it up again. Made from a digest, so it needs no model and is short however long the session
//! was.

use event::SessionId;

use super::DocumentHead;
use super::clean::Clean;
use super::markdown;
use crate::digest::{DigestFact, Topic};
use crate::redacted::Redact;
use crate::{Ending, Facts, excerpt};

/// Lines of one section; the newest ones. How many are missing is told.
const LINES_MAX: usize = 12;

/// Characters of a line.
const LINE_CHARS_MAX: usize = 300;

/// The sections, and what is told in them.
const SECTIONS: &[(&str, &[Topic])] = &[
    ("Goal", &[Topic::Goal]),
    ("Asked", &[Topic::Ask]),
    ("Done", &[Topic::Work]),
    ("Decided", &[Topic::Decision, Topic::Preference]),
    ("Problems and fixes", &[Topic::Problem]),
    ("Open", &[Topic::OpenEnd]),
    ("Good to know", &[Topic::Fact]),
];

/// The note, in Markdown. `digest` has the facts of the whole session, in the order they were
/// found; `resume_command` is what a person types to take it up again.
///
/// Texts go through `redact` if it is given; the events behind the digest should have gone through
/// [`redacted`](crate::redacted()) before, because a digest cuts texts.
pub fn write_handoff<'r>(
    session_id: &SessionId,
    facts: &Facts,
    digest: &[DigestFact],
    resume_command: Option<&str>,
    redact: Option<&'r mut Redact<'r>>,
) -> String {
    let mut clean = Clean::new(redact);
    let title =
        excerpt::one_line(&clean.clean_text(&DocumentHead::from_facts(session_id, facts).title));
    let mut note = format!("# Handoff: {}\n", markdown::escape_markdown(&title));
    for (heading, topics) in SECTIONS {
        let lines: Vec<String> = digest
            .iter()
            .filter(|fact| topics.contains(&fact.topic) && !is_settled(fact, digest))
            .map(|fact| clean_line(&fact.text, &mut clean))
            .collect();
        write_section(&mut note, heading, &lines);
    }
    write_section(
        &mut note,
        "How to resume",
        &resume_lines(session_id, facts, resume_command, &mut clean),
    );
    note
}

/// Whether an open end is outdated: a later request of the user supersedes it.
fn is_settled(fact: &DigestFact, digest: &[DigestFact]) -> bool {
    let asks = digest.iter().filter(|fact| matches!(fact.topic, Topic::Goal | Topic::Ask));
    let last_ask = asks.map(|ask| ask.from_seq).max().unwrap_or(0);
    fact.topic == Topic::OpenEnd && fact.to_seq < last_ask
}

fn write_section(note: &mut String, heading: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    // The newest lines stay: the next agent goes on from the end.
    let older = lines.len().saturating_sub(LINES_MAX);
    note.push_str(&format!("\n## {heading}\n\n"));
    if older > 0 {
        note.push_str(&format!("- ({older} earlier ones are left out)\n"));
    }
    for line in &lines[older..] {
        note.push_str(&format!("- {line}\n"));
    }
}

fn clean_line(text: &str, clean: &mut Clean<'_>) -> String {
    // Cleaned before it is cut: half a secret is not recognised as one.
    let line = excerpt::one_line(&clean.clean_text(text));
    markdown::strip_html(&excerpt::beginning(&line, LINE_CHARS_MAX))
}

fn resume_lines(
    session_id: &SessionId,
    facts: &Facts,
    command: Option<&str>,
    clean: &mut Clean<'_>,
) -> Vec<String> {
    let about = facts.about();
    let mut shown = |name: &str, value: &Option<String>| {
        let value = excerpt::one_line(&clean.clean_text(value.as_ref()?));
        Some(format!("{name}: {}", markdown::inline_code(&value)))
    };
    let mut lines: Vec<String> = [shown("Folder", &about.cwd), shown("Branch", &about.branch)]
        .into_iter()
        .flatten()
        .collect();
    lines.push(format!("State: {}", ending_text(facts.ending())));
    match command {
        // The command names the folder, whose path may hold a token.
        Some(command) => {
            let command = clean.clean_text(command);
            lines.push(format!("Go on with: {}", markdown::inline_code(&command)));
        }
        None => lines.push(format!("Session: {}", markdown::inline_code(session_id.as_str()))),
    }
    lines
}

fn ending_text(ending: Ending) -> &'static str {
    match ending {
        Ending::AwaitingUser => "the last answer is complete",
        Ending::ToolCallPending => "a tool was running and its result is not there",
        Ending::UserLast => "the last prompt has no answer",
        Ending::Interrupted => "the last turn was interrupted",
        Ending::Truncated => "the record ends in the middle",
        Ending::Exited => "the agent has ended",
        Ending::Open => "the last turn is open",
    }
}
