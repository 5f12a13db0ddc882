//! Whether Codex runs our entries: it does once the user has accepted each as it stands. Codex
//! stores a hash of each accepted entry.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::entries::InstalledHooks;
use super::settings_file::{hash, read_text};

/// The longest timeout that Codex gives to events which do not wait for the user. Codex hashes the
/// timeout that it gives, not the one in the file.
const TIMEOUT_SECS_AT_AN_END: u64 = 3;
const AT_AN_END: [&str; 2] = ["session_end", "interrupt"];

/// The timeout of an entry that names none.
const TIMEOUT_SECS: u64 = 600;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Trust {
    /// The user has accepted all of them as they are.
    Accepted,
    /// The user has accepted others, or this version of Codex hashes in a way we do not know.
    OfOthers,
    /// The user has not accepted all of them.
    Never,
}

/// The hooks file as Codex parses it.
#[derive(Deserialize)]
struct Hooks {
    hooks: std::collections::BTreeMap<String, Vec<Group>>,
}

#[derive(Deserialize)]
struct Group {
    matcher: Option<String>,
    hooks: Vec<Handler>,
}

#[derive(Deserialize)]
struct Handler {
    command: String,
    timeout: Option<u64>,
    #[serde(default)]
    r#async: bool,
}

/// Whether Codex, by its settings at `config`, trusts what was found in the file at `path`.
pub(super) fn trust(config: &Path, path: &Path, text: &str, found: &InstalledHooks) -> Trust {
    // Without settings the user has accepted nothing.
    let Ok(Some(config)) = read_text(config) else { return Trust::Never };
    let Ok(config) = config.parse::<toml::Table>() else { return Trust::Never };
    let state = config.get("hooks").and_then(|hooks| hooks.get("state"));
    let hooks: Option<Hooks> = serde_json::from_str(text).ok();
    let mut trust = Trust::Accepted;
    for (event, group, inner) in &found.events {
        let name = snake(event);
        // Codex identifies an entry by its file, its event and its place in the lists.
        let key = format!("{}:{name}:{group}:{inner}", path.display());
        let entry = state.and_then(|state| state.get(&key));
        let Some(accepted) = entry.and_then(|entry| entry.get("trusted_hash")) else {
            return Trust::Never;
        };
        let group = hooks.as_ref().and_then(|hooks| hooks.hooks.get(event)?.get(*group));
        let handler = group.and_then(|group| group.hooks.get(*inner).zip(Some(group)));
        let is_it = handler.is_some_and(|(handler, group)| {
            accepted.as_str() == Some(&hash_of(&name, group.matcher.as_deref(), handler))
        });
        if !is_it {
            // Not returned at once: an entry further on may lack any hash, which is the clearer
            // answer.
            trust = Trust::OfOthers;
        }
    }
    trust
}

/// The hash that Codex 0.166.0 stores of an accepted entry.
fn hash_of(event: &str, matcher: Option<&str>, handler: &Handler) -> String {
    let Handler { command, timeout, r#async } = handler;
    let timeout = timeout.unwrap_or(TIMEOUT_SECS);
    let timeout = match AT_AN_END.contains(&event) {
        true => timeout.min(TIMEOUT_SECS_AT_AN_END),
        false => timeout,
    };
    // Codex hashes JSON with sorted names, which `serde_json` writes by default.
    let handler = json!({"type": "command", "command": command, "timeout": timeout,
        "async": r#async});
    let mut identity = json!({"event_name": event, "hooks": [handler]});
    if let (Some(matcher), Value::Object(members)) = (matcher, &mut identity) {
        members.insert("matcher".to_owned(), matcher.into());
    }
    format!("sha256:{}", hash(&identity.to_string()))
}

/// `PreToolUse` as `pre_tool_use`.
fn snake(event: &str) -> String {
    let mut snake = String::new();
    for (place, letter) in event.char_indices() {
        if letter.is_ascii_uppercase() && place > 0 {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    // As Codex 0.166.0 wrote it when the user accepted these.
    const ACCEPTED: [(&str, &str); 2] = [
        ("SessionStart", "4f7fa378f6213e4fc56aa2060268f3146ad1a6c6e84c924d2441a98a75fdfcbd"),
        ("SessionEnd", "4436d25fa205a0a0d20c72052e50fd1ce2f06ac3e363f9d645b661ae0505bd7b"),
    ];

    fn check(program: &str, accepted: &[(&str, &str)], expected: Trust) {
        let folder = tempfile::tempdir().unwrap();
        let [config, path] = ["config.toml", "hooks.json"].map(|name| folder.path().join(name));
        let state = accepted.iter().map(|(event, hash)| {
            let key = format!("{}:{}:0:0", path.display(), snake(event));
            format!("[hooks.state.\"{key}\"]\ntrusted_hash = \"sha256:{hash}\"\n")
        });
        std::fs::write(&config, state.collect::<String>()).unwrap();
        let groups = ACCEPTED.map(|(event, _)| {
            let command = format!("{program} codex {event}");
            let handler = json!({"type": "command", "command": command, "timeout": 20});
            (event.to_owned(), json!([{"hooks": [handler]}]))
        });
        let text = json!({"hooks": serde_json::Map::from_iter(groups)}).to_string();
        let events = ACCEPTED.map(|(event, _)| (event.to_owned(), 0, 0)).to_vec();
        let found = InstalledHooks { events, ..InstalledHooks::default() };
        assert_eq!(trust(&config, &path, &text, &found), expected);
    }

    #[test]
    fn accepted_entries_match_their_hash() {
        let program = "python3 /home/dev/.lab/hook.py";
        check(program, &ACCEPTED, Trust::Accepted);
        check("python3 /elsewhere/hook.py", &ACCEPTED, Trust::OfOthers);
        check(program, &ACCEPTED[..1], Trust::Never);
        check(program, &[], Trust::Never);
    }
}
