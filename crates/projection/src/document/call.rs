//! Calls of tools in words: what was given, and what came back.

use event::payload::{ContentPart, Outcome, ToolCall, ToolResult};
use event::{Deed, Raw};

use super::block::{CallBlock, CallOutcome};
use super::clean::Clean;
use super::cut::Cut;
use crate::redacted::with_texts;
use crate::tool::has_failed;
use crate::{Object, ToolUse, excerpt};

/// Names of files that are named of one call.
const FILES_MAX: usize = 3;

/// Names a tool may give to text that is replaced, and to what replaces it.
const OLD: &[&str] = &["old_string", "old_str", "old_text"];
const NEW: &[&str] = &["new_string", "new_str", "new_text"];
const WHOLE: &[&str] = &["content", "file_text", "contents"];

/// The call, before anything came back.
pub(crate) fn call_block(call: &ToolCall, clean: &mut Clean<'_>, input_max: usize) -> CallBlock {
    // Clean before any part of it is cut, so that no secret is cut in half.
    let input = with_texts(&call.input, &mut |text| clean.clean_text(text));
    let used = ToolUse::from_call(&call.tool, &input);
    let about = call_subject(&used);
    let body = input_text(&used, &input);
    // Names and values were looked at one by one; together they may say more.
    let body = clean.clean_text(&body);
    let body = if body.trim() == about { "" } else { &body };
    CallBlock {
        tool: clean.clean_text(&used.tool),
        about: excerpt::one_line(&clean.clean_text(&about)),
        input: Cut::new(body, input_max),
        outcome: CallOutcome::Unknown,
        how: String::new(),
        output: Cut::new("", 0),
    }
}

/// A result without an open call: the call was written before, or never recorded.
pub(crate) fn late_call_block(
    result: &ToolResult,
    clean: &mut Clean<'_>,
    output_max: usize,
) -> CallBlock {
    let tool = result.tool.clone().unwrap_or_else(|| "tool".to_owned());
    let mut call = CallBlock {
        tool: clean.clean_text(&tool),
        about: "result".to_owned(),
        input: Cut::new("", 0),
        outcome: CallOutcome::Unknown,
        how: String::new(),
        output: Cut::new("", 0),
    };
    add_result(&mut call, result, clean, output_max);
    call
}

/// Adds what came back.
pub(crate) fn add_result(
    call: &mut CallBlock,
    result: &ToolResult,
    clean: &mut Clean<'_>,
    output_max: usize,
) {
    let parts = (!result.parts.is_empty()).then(|| parts_text(&result.parts));
    // Some agents repeat the error as the output; `dedup` tells it once.
    let texts = [result.error.clone(), result.output_text().or(parts)];
    let mut texts: Vec<String> = texts.into_iter().flatten().collect();
    texts.dedup();
    call.output = Cut::new(&clean.clean_text(&texts.join("\n")), output_max);
    call.outcome = if has_failed(result) { CallOutcome::Bad } else { CallOutcome::Good };
    call.how = excerpt::one_line(&clean.clean_text(&outcome_text(result)));
}

/// The parts as text; what is no text is named.
pub(crate) fn parts_text(parts: &[ContentPart]) -> String {
    let told = parts.iter().map(|part| match &part.text {
        Some(text) => text.clone(),
        None => {
            let name = part.artifact.as_ref().or(part.url.as_ref()).or(part.mime_type.as_ref());
            let name = excerpt::beginning(name.map_or("", String::as_str), 200);
            format!("[{}]", format!("{} {name}", part.kind).trim())
        }
    });
    told.collect::<Vec<_>>().join("\n")
}

fn outcome_text(result: &ToolResult) -> String {
    let word = match &result.outcome {
        // An agent may call a command a success that ended with a code other than zero.
        Outcome::Ok if has_failed(result) => "failed",
        Outcome::Error => "failed",
        other => other.as_str(),
    };
    let mut how = excerpt::beginning(&excerpt::one_line(word), 40);
    if let Some(code) = result.exit_code.filter(|code| *code != 0) {
        how.push_str(&format!(", exit code {code}"));
    }
    if let Some(millis) = result.duration_ms {
        how.push_str(", ");
        how.push_str(&duration(millis));
    }
    how
}

fn duration(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        _ => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

/// What the call is about, on one line.
fn call_subject(used: &ToolUse) -> String {
    match &used.object {
        Object::Files(files) => {
            let names = files.iter().take(FILES_MAX).map(|(_, path)| path.as_str());
            let names = names.collect::<Vec<_>>().join(", ");
            match files.len().saturating_sub(FILES_MAX) {
                0 => names,
                more => format!("{names} and {more} more"),
            }
        }
        Object::Command(text) | Object::Host(text) | Object::Text(text) => text.clone(),
        Object::Pattern { pattern, place: Some(place) } => format!("{pattern} in {place}"),
        Object::Pattern { pattern, place: None } => pattern.clone(),
        Object::Nothing => String::new(),
    }
}

/// What was given to the tool, as a reader wants to see it.
fn input_text(used: &ToolUse, input: &Raw) -> String {
    let Some(members) = input.members() else {
        return input.text().unwrap_or_else(|| input.get().to_owned());
    };
    let field = |names: &[&str]| {
        let found = members.iter().find(|(name, _)| names.contains(&name.as_str()));
        found.and_then(|(_, value)| value.text())
    };
    // The shape that says most: a change as a diff, a new file as its content, a command as itself.
    // All else is listed field by field.
    if used.deed == Deed::Edit
        && let (Some(old), Some(new)) = (field(OLD), field(NEW))
    {
        return format!("{}{}", prefixed("- ", &old), prefixed("+ ", &new));
    }
    if used.deed == Deed::Create
        && let Some(content) = field(WHOLE)
    {
        return content;
    }
    if used.deed == Deed::Run
        && let Some(command) = field(&["command", "cmd", "script"])
    {
        return command;
    }
    // What stands in the line above is not told twice.
    let told: Vec<&str> = match &used.object {
        Object::Files(files) if files.len() == 1 => vec![files[0].1.as_str()],
        Object::Pattern { pattern, place } => {
            [Some(pattern), place.as_ref()].into_iter().flatten().map(String::as_str).collect()
        }
        _ => Vec::new(),
    };
    let is_news = |(_, value): &&(String, Raw)| {
        value.text().is_none_or(|text| !told.contains(&text.as_str()))
    };
    members.iter().filter(is_news).map(|(name, value)| argument_line(name, value)).collect()
}

fn argument_line(name: &str, value: &Raw) -> String {
    let text = value.text().unwrap_or_else(|| value.get().to_owned());
    if text.contains('\n') {
        format!("{name}:\n{}", prefixed("  ", &text))
    } else {
        format!("{name}: {text}\n")
    }
}

fn prefixed(prefix: &str, text: &str) -> String {
    text.lines().map(|line| format!("{prefix}{line}\n")).collect()
}
