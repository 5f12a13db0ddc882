//! Cursor: transcripts of its agent, as lines and before them as text, and the editor's store.
//!
//! Transcripts have no tokens, no model and no output of tools; what is not recorded is not told.

mod lines; // transcripts as lines
mod text; // transcripts as text
mod store; // the editor's key-value store
mod prompt; // what a person asked, among what the editor adds
mod moment; // times as the editor writes them for people
mod hooks; // what its hooks say

use std::path::Path;

use crate::agent::{Agent, Form, Found, Marks, Parser, Role, Root};
use crate::environment::Environment;
use crate::hook::HookMap;
use crate::rows::Schema;
use crate::source::Source;

pub struct Cursor;

impl Agent for Cursor {
    fn provider(&self) -> &'static str {
        "cursor"
    }

    fn roots(&self, environment: &Environment) -> Vec<Root> {
        let home = environment.home();
        let settings = environment.folder("XDG_CONFIG_HOME", ".config");
        let store = "Cursor/User/globalStorage";
        vec![
            Root { path: home.join(".cursor/projects"), depth_max: 4 },
            Root { path: settings.join(store), depth_max: 0 },
            Root { path: home.join("Library/Application Support").join(store), depth_max: 0 },
        ]
    }

    /// `<project>/agent-transcripts/<id>/<id>.jsonl`, `…/<id>/subagents/<id>.jsonl`, older
    /// `…/<uuid>.txt`; and the store of the editor.
    fn recognise(&self, path: &Path) -> Option<Found> {
        let names: Vec<&str> = path.iter().map(|name| name.to_str().unwrap_or_default()).collect();
        let (parent, file) = match names[..] {
            [STORE] => {
                let session = STORE.to_owned();
                return Some(Found { form: Form::Rows, session, role: Role::Main });
            }
            [_, TRANSCRIPTS, file] => (None, file),
            [_, TRANSCRIPTS, id, file] if Path::new(file).file_stem()?.to_str()? == id => {
                (None, file)
            }
            [_, TRANSCRIPTS, parent, "subagents", file] => (Some(parent), file),
            _ => return None,
        };
        let (session, form) = match file.rsplit_once('.')? {
            (stem, "jsonl") => (stem, Form::Lines),
            (stem, "txt") if is_uuid(stem) => (stem, Form::Blocks(MARKS)),
            _ => return None,
        };
        let role = match parent {
            Some(parent) => Role::Subagent { parent: parent.to_owned() },
            None => Role::Main,
        };
        Some(Found { form, session: session.to_owned(), role })
    }

    /// Lines have most of what was said by whom; the store repeats them.
    fn rank(&self, form: Form) -> u8 {
        match form {
            Form::Blocks(_) => 1,
            Form::Rows => 2,
            _ => 0,
        }
    }

    fn schemas(&self) -> &'static [Schema] {
        store::SCHEMAS
    }

    fn resume(&self, session: &str, _cwd: Option<&str>) -> Option<Vec<String>> {
        Some(["cursor-agent", "--resume", session].map(str::to_owned).to_vec())
    }

    fn hooks(&self) -> Option<&'static HookMap> {
        Some(&hooks::HOOKS)
    }

    fn parser(&self, source: &Source, saved: Option<&str>) -> Box<dyn Parser> {
        let parent = match &source.role {
            Role::Subagent { parent } => Some(parent.clone()),
            Role::Main => None,
        };
        match source.form {
            Form::Blocks(_) => Box::new(text::Text::new(saved)),
            Form::Rows => Box::new(store::Store::new(saved)),
            _ => Box::new(lines::Transcript::new(parent, saved)),
        }
    }
}

const STORE: &str = "state.vscdb";
const TRANSCRIPTS: &str = "agent-transcripts";

const MARKS: Marks = Marks {
    lines: &["user:\n", "assistant:\n", "[Thinking]", "[Tool call] ", "[Tool result]"],
    quote: (prompt::OPEN, prompt::CLOSE),
};

fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    let lens: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    lens == [8, 4, 4, 4, 12] && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}
