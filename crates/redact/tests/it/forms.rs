//! Hundreds of forms of secrets, planted into texts, and how many of them are missed.
//!
//! `forms/table.txt` has the forms. The result is a table in `docs/reference/redaction.md`.

use std::fmt::Write;

use crate::given::Chance;
use crate::redacted;

const TABLE: &str = include_str!("forms/table.txt");

/// The share of forms that may be missed: one in fifty.
const MISSED_MAX: usize = 50;

/// The fewest forms that the table has to have.
const FORMS_MIN: usize = 400;

/// The bytes of a secret that may be left of it: fewer say nothing.
const TRACE_LEN: usize = 6;

/// A secret in its text.
struct Form {
    /// The line of the table, to name it in a failure.
    line: &'static str,
    /// The parts of the secret that no one may see. Prefixes and labels are not among them.
    hidden: Vec<String>,
    text: String,
}

/// The forms of one kind.
struct Group {
    name: &'static str,
    forms: Vec<Form>,
}

#[test]
fn few_forms_are_missed() {
    let groups = read_table();
    let mut table = String::from("| kind | planted | missed |\n|---|---|---|\n");
    let mut missed = Vec::new();
    let planted: usize = groups.iter().map(|group| group.forms.len()).sum();
    for group in &groups {
        let lost: Vec<&Form> = group.forms.iter().filter(|form| !is_hidden(form)).collect();
        let _ = writeln!(table, "| {} | {} | {} |", group.name, group.forms.len(), lost.len());
        missed
            .extend(lost.iter().map(|form| format!("{}\n    {}", form.line, redacted(&form.text))));
    }
    let _ = writeln!(table, "| all | {planted} | {} |", missed.len());
    println!("{table}\nmissed:\n{}", missed.join("\n"));
    assert!(planted >= FORMS_MIN, "{planted} forms");
    assert!(missed.len() * MISSED_MAX <= planted, "{} of {planted}", missed.len());
    let page = include_str!("../../../../docs/reference/redaction.md");
    assert!(page.contains(&table), "docs/reference/redaction.md needs this table:\n{table}");
}

/// Whether the secret is gone, alone and in the packings that agents record texts in.
fn is_hidden(form: &Form) -> bool {
    let text = &form.text;
    let numbered: Vec<String> = text.lines().map(|line| format!("     7→{line}")).collect();
    let packings = [
        format!("{text}\n"),
        format!("Then\n{text}\nand so on.\n"),
        serde_json::json!({"content": format!("{text}\n"), "ok": true}).to_string(),
        numbered.join("\n"),
    ];
    packings.iter().all(|packing| {
        let left = redacted(packing);
        let is_seen = |part: &String| {
            // Shown as JSON, where a quote in the secret has a backslash before it.
            let mut traces = part.as_bytes().windows(TRACE_LEN.min(part.len()));
            traces.any(|trace| left.as_bytes().windows(trace.len()).any(|seen| seen == trace))
        };
        !form.hidden.iter().any(is_seen)
    })
}

fn read_table() -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    // One chance for all forms, so that no two secrets are equal.
    let mut chance = Chance::new(17);
    for line in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix("== ") {
            Some(name) => groups.push(Group { name, forms: Vec::new() }),
            None => {
                let group = groups.last_mut().expect("a form stands below its kind");
                group.forms.push(plant(line, &mut chance));
            }
        }
    }
    groups
}

/// Makes the secret of a line and puts it into its text.
fn plant(line: &'static str, chance: &mut Chance) -> Form {
    let (secret, text) =
        line.split_once(" | ").unwrap_or((line, "I tried it with § and it works."));
    let (secret, mut hidden) = fill(secret, chance);
    // Without a part by chance the whole secret is a password that a person chose.
    if hidden.is_empty() {
        hidden.push(secret.clone());
    }
    let (text, _) = fill(text, chance);
    Form { line, hidden, text: text.replace('§', &secret).replace('¶', "\n") }
}

/// Replaces the parts in braces and returns the parts that are long enough to be told.
fn fill(spec: &str, chance: &mut Chance) -> (String, Vec<String>) {
    let mut out = String::new();
    let mut parts = Vec::new();
    let mut rest = spec;
    while let Some((before, behind)) = rest.split_once('{') {
        out.push_str(before);
        let part =
            behind.split_once('}').and_then(|(spec, rest)| Some((make(spec, chance)?, rest)));
        match part {
            Some((made, behind)) => {
                // A key is told by its lines, not by the places before them.
                for (place, line) in &made {
                    out.push_str(place);
                    out.push_str(line);
                }
                let lines = made.into_iter().map(|(_, line)| line);
                parts.extend(lines.filter(|line| line.len() >= TRACE_LEN));
                rest = behind;
            }
            // A brace that stands for itself.
            None => {
                out.push('{');
                rest = behind;
            }
        }
    }
    out.push_str(rest);
    (out, parts)
}

/// Makes one part: `a36` letters and digits, `K:server.pem:` the lines of a key, and so on. Each
/// line of it comes with the text before it that is no secret.
fn make(spec: &str, chance: &mut Chance) -> Option<Vec<(String, String)>> {
    let line = |line: String| vec![(String::new(), line)];
    let kind = spec.chars().next()?;
    if kind == 'K' {
        return Some(key_lines(&spec[1..], chance));
    }
    if spec == "U" {
        let parts = [8, 4, 4, 4, 12].map(|len| chance.text("0123456789abcdef", len));
        return Some(line(parts.join("-")));
    }
    let len = spec[kind.len_utf8()..].parse().ok()?;
    let signs = match kind {
        'a' => "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
        'l' => "abcdefghijklmnopqrstuvwxyz0123456789",
        'u' => "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
        'x' => "0123456789abcdef",
        'X' => "0123456789ABCDEF",
        'd' => "0123456789",
        'b' => "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
        'w' => "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-",
        's' => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
        'z' => "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
        _ => return None,
    };
    Some(line(chance.text(signs, len)))
}

/// The lines of a private key, each with what a search or a quotation puts before it.
fn key_lines(before: &str, chance: &mut Chance) -> Vec<(String, String)> {
    let signs = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let lens = [64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 22];
    let place = |number: usize| match before {
        "" => String::new(),
        ">" => "> ".to_owned(),
        "+" => "+".to_owned(),
        ":" => format!("{number}:"),
        ":      " => "      ".to_owned(),
        place => {
            let sign = &place[place.len() - 1..];
            let file = place.trim_start_matches(':').trim_end_matches([':', '-']);
            format!("{file}{sign}{number}{sign}")
        }
    };
    let lines = (2..).zip(lens).map(|(number, len)| {
        let line_break = if number == 2 { "" } else { "\n" };
        (format!("{line_break}{}", place(number)), chance.text(signs, len))
    });
    lines.collect()
}
