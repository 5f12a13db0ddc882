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

use crate::agent::{
    Agent, BlockMarks, Parser, RecognizedSource, SourceForm, SourceRole, SourceRoot,
};
use crate::environment::Environment;
use crate::hook::HookMap;
use crate::row_reader::DatabaseSchema;
use crate::source::Source;

pub struct Cursor;

impl Agent for Cursor {
    fn provider(&self) -> &'static str {
        "cursor"
    }

    fn source_roots(&self, environment: &Environment) -> Vec<SourceRoot> {
        let home = environment.home();
        let settings = environment.agent_folder("XDG_CONFIG_HOME", ".config");
        let store = "Cursor/User/globalStorage";
        // The transcripts lie in the user's home; the editor keeps its store in another folder on
        // Linux than on macOS.
        vec![
            SourceRoot { path: home.join(".cursor/projects"), depth_max: 4 },
            SourceRoot { path: settings.join(store), depth_max: 0 },
            SourceRoot { path: home.join("Library/Application Support").join(store), depth_max: 0 },
        ]
    }

    /// `<project>/agent-transcripts/<id>/<id>.jsonl`, `…/<id>/subagents/<id>.jsonl`, older
    /// `…/<uuid>.txt`; and the store of the editor.
    fn recognise(&self, path: &Path) -> Option<RecognizedSource> {
        let names: Vec<&str> = path.iter().map(|name| name.to_str().unwrap_or_default()).collect();
        let (parent, file) = match names[..] {
            [STORE] => {
                let session = STORE.to_owned();
                return Some(RecognizedSource {
                    form: SourceForm::Rows,
                    session,
                    role: SourceRole::Main,
                });
            }
            // `<id>.txt` lies directly in the folder, `<id>.jsonl` in a folder of its name; other
            // files beside it are no transcripts.
            [_, TRANSCRIPTS, file] => (None, file),
            [_, TRANSCRIPTS, id, file] if Path::new(file).file_stem()?.to_str()? == id => {
                (None, file)
            }
            [_, TRANSCRIPTS, parent, "subagents", file] => (Some(parent), file),
            _ => return None,
        };
        let (session, form) = match file.rsplit_once('.')? {
            (stem, "jsonl") => (stem, SourceForm::Lines),
            // People may put text files there, too: only a uuid is a session.
            (stem, "txt") if is_uuid(stem) => (stem, SourceForm::Blocks(MARKS)),
            _ => return None,
        };
        let role = match parent {
            Some(parent) => SourceRole::Subagent { parent: parent.to_owned() },
            None => SourceRole::Main,
        };
        Some(RecognizedSource { form, session: session.to_owned(), role })
    }

    /// Lines have most messages with their roles; the store repeats them.
    fn form_rank(&self, form: SourceForm) -> u8 {
        match form {
            SourceForm::Blocks(_) => 1,
            SourceForm::Rows => 2,
            _ => 0,
        }
    }

    fn database_schemas(&self) -> &'static [DatabaseSchema] {
        store::SCHEMAS
    }

    fn resume_command(&self, session: &str, _cwd: Option<&str>) -> Option<Vec<String>> {
        Some(["cursor-agent", "--resume", session].map(str::to_owned).to_vec())
    }

    fn hook_map(&self) -> Option<&'static HookMap> {
        Some(&hooks::HOOKS)
    }

    fn create_parser(&self, source: &Source, saved: Option<&str>) -> Box<dyn Parser> {
        let parent = match &source.role {
            SourceRole::Subagent { parent } => Some(parent.clone()),
            SourceRole::Main => None,
        };
        match source.form {
            SourceForm::Blocks(_) => Box::new(text::CursorText::new(saved)),
            SourceForm::Rows => Box::new(store::Store::new(saved)),
            _ => Box::new(lines::CursorTranscript::new(parent, saved)),
        }
    }
}

const STORE: &str = "state.vscdb";
const TRANSCRIPTS: &str = "agent-transcripts";

const MARKS: BlockMarks = BlockMarks {
    lines: &["user:\n", "assistant:\n", "[Thinking]", "[Tool call] ", "[Tool result]"],
    quote: (prompt::OPEN, prompt::CLOSE),
};

fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    let lens: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    lens == [8, 4, 4, 4, 12] && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}
