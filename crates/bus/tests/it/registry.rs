//! The registry of tracts: what is made from it, and that nobody says what it does not have.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use bus::registry::{ENTRIES, Entry, Shape, is_known};
use expect_test::expect_file;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn tracts() -> Vec<&'static str> {
    let mut tracts: Vec<&str> = ENTRIES.iter().map(|entry| entry.tract).collect();
    tracts.dedup();
    tracts
}

fn entries(tract: &str) -> impl Iterator<Item = &'static Entry> {
    ENTRIES.iter().filter(move |entry| entry.tract == tract)
}

#[test]
fn every_event_is_there_once_and_tracts_are_together() {
    let names: BTreeSet<_> = ENTRIES.iter().map(|entry| (entry.tract, entry.event)).collect();
    assert_eq!(names.len(), ENTRIES.len());
    let tracts = tracts();
    assert_eq!(tracts.iter().collect::<BTreeSet<_>>().len(), tracts.len());
}

#[test]
fn the_page_about_tracts_says_what_the_registry_has() {
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
                    let shape = match field.shape {
                        Shape::Text => "",
                        Shape::Number => " (number)",
                        Shape::Flag => " (true or false)",
                        Shape::List => " (list)",
                        Shape::Object => " (object)",
                    };
                    let mark = if field.is_optional { "?" } else { "" };
                    format!("`{}{mark}`{shape}", field.name)
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
    expect_file![root().join("docs/tracts.md")].assert_eq(&page);
}

#[test]
fn the_types_for_typescript_say_the_same() {
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
                let shape = match field.shape {
                    Shape::Text => "string",
                    Shape::Number => "number",
                    Shape::Flag => "boolean",
                    Shape::List => "unknown[]",
                    Shape::Object => "Record<string, unknown>",
                };
                let mark = if field.is_optional { "?" } else { "" };
                writeln!(types, "      {}{mark}: {shape};", field.name).unwrap();
            }
            writeln!(types, "    }};").unwrap();
        }
        writeln!(types, "  }};").unwrap();
    }
    types.push_str("}\n");
    expect_file![root().join("clients/typescript/tracts.ts")].assert_eq(&types);
}

/// Names that are written out where a message is made, or looked for.
#[test]
fn nobody_says_or_waits_for_what_the_registry_does_not_have() {
    let mut said = 0;
    let mut unknown = Vec::new();
    for path in sources(&root().join("crates")) {
        let text = fs::read_to_string(&path).unwrap();
        // What stands behind it is made up by tests.
        let code = text.split("#[cfg(test)]").next().unwrap();
        for opening in ["Draft::new(", ".is("] {
            for (place, _) in code.match_indices(opening) {
                let mut words = code[place + opening.len()..].trim_start().splitn(5, '"');
                let (Some(""), Some(tract), Some(between), Some(event)) =
                    (words.next(), words.next(), words.next(), words.next())
                else {
                    continue;
                };
                if between.trim() == "," {
                    said += 1;
                    if !is_known(tract, event) {
                        unknown.push(format!("{}: {tract}.{event}", path.display()));
                    }
                }
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
    assert!(said > 0, "the search finds what it looks for");
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
