//! The registry of tracts: what is generated from it, and that the code uses nothing else.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use bus::registry::{ENTRIES, EventSpec, FieldType, is_known};
use expect_test::expect_file;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn tracts() -> Vec<&'static str> {
    let mut tracts: Vec<&str> = ENTRIES.iter().map(|entry| entry.tract).collect();
    tracts.dedup();
    tracts
}

fn entries(tract: &str) -> impl Iterator<Item = &'static EventSpec> {
    ENTRIES.iter().filter(move |entry| entry.tract == tract)
}

#[test]
fn registry_entries_are_unique_and_grouped() {
    let names: BTreeSet<_> = ENTRIES.iter().map(|entry| (entry.tract, entry.event)).collect();
    assert_eq!(names.len(), ENTRIES.len());
    let tracts = tracts();
    assert_eq!(tracts.iter().collect::<BTreeSet<_>>().len(), tracts.len());
}

#[test]
fn tracts_page_matches_registry() {
    let mut page = String::from(
        "# Tracts\n\nWhat is said on the bus, by whom and to whom. Every message also has `tract`, \
         `event` and `ts`; those of the daemon have `rev`. A `?` marks what may be absent. The class \
         says what is given up first for a listener who falls behind ([bus.md](bus.md)).\n\nThis \
         page is made from `crates/bus/src/registry.rs`.\n",
    );
    for tract in tracts() {
        write!(
            page,
            "\n## {tract}\n\n| event | fields | class | from → acted on by |\n|---|---|---|---|\n"
        )
        .unwrap();
        for entry in entries(tract) {
            let fields: Vec<String> = entry
                .fields()
                .map(|field| {
                    let field_type = match field.field_type {
                        FieldType::Text => "",
                        FieldType::Number => " (number)",
                        FieldType::Flag => " (true or false)",
                        FieldType::List => " (list)",
                        FieldType::Object => " (object)",
                    };
                    let mark = if field.is_optional { "?" } else { "" };
                    match field.name {
                        "*" => format!("any further names{field_type}"),
                        name => format!("`{name}{mark}`{field_type}"),
                    }
                })
                .collect();
            let event = entry.event.replace('*', "any");
            writeln!(
                page,
                "| `{event}` | {} | {} | {} |",
                fields.join(", "),
                entry.class().word(),
                entry.way
            )
            .unwrap();
        }
    }
    expect_file![root().join("docs/reference/tracts.md")].assert_eq(&page);
}

#[test]
fn typescript_types_match_registry() {
    let mut types = String::from(
        "// What Hansard says on its bus. Made from crates/bus/src/registry.rs; not edited by hand.\n\n\
         export interface Tracts {\n",
    );
    for tract in tracts() {
        writeln!(types, "  {tract}: {{").unwrap();
        for entry in entries(tract) {
            let event = if entry.event == "*" { "[event: string]" } else { entry.event };
            writeln!(types, "    {event}: {{").unwrap();
            for field in entry.fields() {
                let field_type = match field.field_type {
                    FieldType::Text => "string",
                    FieldType::Number => "number",
                    FieldType::Flag => "boolean",
                    FieldType::List => "unknown[]",
                    FieldType::Object => "Record<string, unknown>",
                };
                let mark = if field.is_optional { "?" } else { "" };
                match field.name {
                    // TypeScript wants the type of all fields together here.
                    "*" => writeln!(types, "      [name: string]: unknown;").unwrap(),
                    name => writeln!(types, "      {name}{mark}: {field_type};").unwrap(),
                }
            }
            writeln!(types, "    }};").unwrap();
        }
        writeln!(types, "  }};").unwrap();
    }
    types.push_str("}\n");
    expect_file![root().join("clients/typescript/tracts.ts")].assert_eq(&types);
}

/// What stands before the names of a message wherever one is made, or looked for.
const OPENINGS: [&str; 6] =
    ["Draft::new(", ".is_event(", "draft(", "tract: ", "\"tract\": ", "(Some("];

/// What may stand between the two names.
const BETWEEN: [&str; 6] = [",", ")", "Some(", "event: ", "\"event\": ", "json!("];

#[test]
fn code_uses_only_registered_events() {
    let mut said = BTreeSet::new();
    let mut unknown = Vec::new();
    for code in crates() {
        let constants = constants(&code);
        for opening in OPENINGS {
            for (place, _) in code.match_indices(opening) {
                let names = names(&code[place + opening.len()..], &constants);
                let Some((tract, event)) = names.filter(|(tract, _)| is_tract(tract)) else {
                    continue;
                };
                if !is_known(&tract, &event) {
                    unknown.push(format!("{tract}.{event}"));
                }
                said.insert((tract, event));
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
    // Each way that a message is made or looked for is found.
    for (tract, event) in [
        ("supervisor", "stopped"),
        ("notification", "show"),
        ("dream", "completed"),
        ("observe", "observing"),
        ("callosum", "subscribed"),
    ] {
        assert!(said.contains(&(tract.to_owned(), event.to_owned())), "{tract}.{event}");
    }
}

/// The crates that send the messages of a tract and act on those that other programs send.
const HOMES: [(&str, &[&str]); 9] = [
    ("cortex", &["daemon"]),
    ("observe", &["segments", "daemon"]),
    ("importer", &["ingest"]),
    ("dream", &["segments", "daemon"]),
    ("activity", &["segments"]),
    ("supervisor", &["supervise"]),
    ("logs", &["supervise"]),
    ("navigate", &["cli"]),
    ("callosum", &["bus"]),
];

/// How the registry says that a message comes from outside the home crate.
const OTHERS: [&str; 4] = ["any", "a client", "`hansard reload`", "any program"];

#[test]
fn registered_events_are_sent_and_handled() {
    let homes: HashMap<&str, &[&str]> = HOMES.into_iter().collect();
    let mut faults = Vec::new();
    for entry in ENTRIES.iter().filter(|entry| entry.event != "*") {
        let home: String = homes[entry.tract].iter().map(|name| code_of(name)).collect();
        let is_asked = OTHERS.iter().any(|others| entry.way.starts_with(others));
        // Code that only waits for a message does not send it.
        let code = if is_asked { home } else { without_heard(&home) };
        let has = |word: &str| code.contains(&format!("\"{word}\""));
        if !has(entry.tract) || !has(entry.event) {
            let fault = if is_asked { "heard" } else { "said" };
            faults.push(format!("{}.{} is not {fault}", entry.tract, entry.event));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

/// What stands before the names of a message that is looked for.
const HEARD: [&str; 2] = [".is_event(", "(Some("];

#[test]
fn awaited_event_does_not_count_as_sent() {
    let code = r#"if it.is_event("dream", "started") { say(Draft::new("dream", "completed")) }"#;
    let said = without_heard(code);
    assert!(!said.contains("started") && said.contains(r#"("dream", "completed")"#), "{said}");
}

/// Code without the names of messages that are looked for.
fn without_heard(code: &str) -> String {
    let constants = constants(code);
    let mut left = code.to_owned();
    for opening in HEARD {
        for (place, _) in code.match_indices(opening).collect::<Vec<_>>().into_iter().rev() {
            let Some((_, event)) = names(&code[place + opening.len()..], &constants) else {
                continue;
            };
            let quoted = format!("\"{event}\"");
            if let Some(found) = code[place..].find(&quoted) {
                let end = place + found + quoted.len();
                left.replace_range(place..end, &" ".repeat(end - place));
            }
        }
    }
    left
}

fn is_tract(text: &str) -> bool {
    tracts().contains(&text)
}

/// The two names at the beginning of a piece of code: words, or constants that stand for them.
fn names(code: &str, constants: &HashMap<String, String>) -> Option<(String, String)> {
    let (tract, mut rest) = word(code, constants)?;
    loop {
        rest = rest.trim_start();
        match BETWEEN.iter().find_map(|between| rest.strip_prefix(between)) {
            Some(behind) => rest = behind,
            None => break,
        }
    }
    Some((tract, word(rest, constants)?.0))
}

fn word<'a>(code: &'a str, constants: &HashMap<String, String>) -> Option<(String, &'a str)> {
    let code = code.trim_start();
    if let Some(rest) = code.strip_prefix('"') {
        let (word, rest) = rest.split_once('"')?;
        return Some((word.to_owned(), rest));
    }
    let end = code.find(|letter: char| !(letter.is_ascii_uppercase() || letter == '_'))?;
    Some((constants.get(&code[..end])?.clone(), &code[end..]))
}

/// Texts that have a name.
fn constants(code: &str) -> HashMap<String, String> {
    let named = code.split("const ").skip(1).filter_map(|rest| {
        let (name, rest) = rest.split_once(": &str = \"")?;
        let is_name = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        is_name.then(|| Some((name.to_owned(), rest.split_once('"')?.0.to_owned())))?
    });
    named.collect()
}

/// The code of each crate.
fn crates() -> Vec<String> {
    let folders = fs::read_dir(root().join("crates")).unwrap();
    folders.map(|folder| code_of(folder.unwrap().file_name().to_str().unwrap())).collect()
}

/// The code of a crate, without what tests make up, and without the registry itself.
fn code_of(name: &str) -> String {
    let mut code = String::new();
    for path in sources(&root().join("crates").join(name)) {
        if !path.ends_with("src/registry.rs") {
            let text = fs::read_to_string(&path).unwrap();
            code.push_str(text.split("#[cfg(test)]").next().unwrap());
        }
    }
    code
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_code = path.extension().is_some_and(|extension| extension == "rs");
        // What tests and benchmarks say is made up.
        let is_test = path
            .components()
            .any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "bench")));
        if path.is_dir() {
            found.extend(sources(&path));
        } else if is_code && !is_test {
            found.push(path);
        }
    }
    found
}
