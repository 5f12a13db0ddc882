//! Bytes as what any agent writes, in any of its forms.

use capture::{AGENTS, Agent};

use super::home::{AT_ONCE, Home, Taken, much_later};
use super::rows;

/// A form of what an agent writes.
pub(super) struct Form {
    pub name: &'static str,
    pub provider: &'static str,
    /// Where the agent would have written it.
    place: &'static str,
    check: fn(&Form, u8, &[u8]),
}

#[rustfmt::skip]
pub(super) const FORMS: &[Form] = &[
    Form { name: "claude", provider: "claude", check: grows,
        place: ".claude/projects/p/5f0b1d7e-0000-4000-8000-000000000000.jsonl" },
    Form { name: "codex", provider: "codex", check: grows,
        place: ".codex/sessions/2026/01/01/rollout-2026-01-01T00-00-00-5f0b1d7e-0000-7000-8000-000000000000.jsonl" },
    Form { name: "codex-packed", provider: "codex", check: is_packed,
        place: ".codex/archived_sessions/rollout-2026-01-01T00-00-00-5f0b1d7e-0000-7000-8000-000000000000.jsonl.zst" },
    Form { name: "copilot", provider: "copilot", check: grows,
        place: ".copilot/session-state/5f0b1d7e-0000-4000-8000-000000000000/events.jsonl" },
    Form { name: "cursor-lines", provider: "cursor", check: grows,
        place: ".cursor/projects/p/agent-transcripts/5f0b1d7e-0000-4000-8000-000000000000/5f0b1d7e-0000-4000-8000-000000000000.jsonl" },
    Form { name: "cursor-text", provider: "cursor", check: grows,
        place: ".cursor/projects/p/agent-transcripts/5f0b1d7e-0000-4000-8000-000000000000.txt" },
    Form { name: "cursor-store", provider: "cursor", check: has_rows,
        place: ".config/Cursor/User/globalStorage/state.vscdb" },
    Form { name: "gemini", provider: "gemini", check: grows,
        place: ".gemini/tmp/p/chats/session-2026-01-01T00-00-5f0b1d7e.jsonl" },
    Form { name: "gemini-document", provider: "gemini", check: is_written_anew,
        place: ".gemini/tmp/p/chats/session-2026-01-01T00-00-5f0b1d7e.json" },
    Form { name: "goose-lines", provider: "goose", check: grows,
        place: ".local/share/goose/sessions/20260101_1.jsonl" },
    Form { name: "goose-rows", provider: "goose", check: has_rows,
        place: ".local/share/goose/sessions/sessions.db" },
    Form { name: "opencode", provider: "opencode", check: has_rows,
        place: ".local/share/opencode/opencode.db" },
    Form { name: "pi", provider: "pi", check: grows,
        place: ".pi/agent/sessions/p/2026-01-01T00-00-00-000Z_5f0b1d7e-0000-7000-8000-000000000000.jsonl" },
    Form { name: "qwen", provider: "qwen", check: grows,
        place: ".qwen/projects/p/chats/5f0b1d7e-0000-4000-8000-000000000000.jsonl" },
];

/// Reads the bytes in one of the forms. The first two say in which, and where they are cut.
pub(super) fn check(bytes: &[u8]) {
    let [which, rest @ ..] = bytes else { return };
    check_as(&FORMS[*which as usize % FORMS.len()], rest);
}

/// Reads the bytes in a form. The first says where they are cut.
pub(super) fn check_as(form: &Form, bytes: &[u8]) {
    let [cut, bytes @ ..] = bytes else { return };
    (form.check)(form, *cut, bytes);
}

impl Form {
    pub(super) fn agent(&self) -> &'static dyn Agent {
        let agent = AGENTS.iter().find(|agent| agent.provider() == self.provider);
        *agent.expect("it is one of ours")
    }

    /// A home with these bytes.
    pub(super) fn home(&self, bytes: &[u8]) -> Home {
        let home = Home::new();
        match self.place.ends_with("db") {
            true => rows::fill(&home.path(self.place), bytes),
            false => home.write(self.place, bytes),
        }
        home
    }
}

/// Read whole and in two pieces it tells the same, also of its end, when nothing follows.
fn grows(form: &Form, cut: u8, bytes: &[u8]) {
    let cut = bytes.len() * usize::from(cut) / 255;
    let read = |stages: &[&[u8]]| {
        let home = Home::new();
        let mut taken = Taken::default();
        for stage in stages {
            home.write(form.place, stage);
            home.read(form.agent(), AT_ONCE, &mut taken);
        }
        home.read(form.agent(), much_later(), &mut taken);
        taken
    };
    let whole = read(&[bytes]);
    let pieces = read(&[&bytes[..cut], bytes]);
    assert_eq!(whole.facts(), pieces.facts());
    assert_eq!(whole.kept, pieces.kept, "what was read is kept");
    whole.check_drafts();
    whole.check_states();
}

/// What is packed tells what it would tell as it is; what only says that it is packed is
/// survived.
fn is_packed(form: &Form, cut: u8, bytes: &[u8]) {
    let read = |place: &str, bytes: &[u8]| {
        let home = Home::new();
        home.write(place, bytes);
        let mut taken = Taken::default();
        home.read(form.agent(), much_later(), &mut taken);
        taken.check_drafts();
        taken.check_states();
        taken
    };
    if cut % 2 == 1 {
        read(form.place, bytes);
        return;
    }
    let packed = zstd::encode_all(bytes, 1).expect("memory can be written to");
    let plain = read(form.place.trim_end_matches(".zst"), bytes);
    assert_eq!(read(form.place, &packed).facts(), plain.facts());
}

/// Whatever it was before, read again it has no news.
fn is_written_anew(form: &Form, cut: u8, bytes: &[u8]) {
    let cut = bytes.len() * usize::from(cut) / 255;
    let home = Home::new();
    let mut taken = Taken::default();
    for stage in [&bytes[..cut], bytes] {
        home.write(form.place, stage);
        home.read(form.agent(), AT_ONCE, &mut taken);
    }
    rests(form, &home, taken);
}

/// Rows that come in two goes; read again they have no news.
fn has_rows(form: &Form, cut: u8, bytes: &[u8]) {
    let cut = bytes.len() * usize::from(cut) / 255;
    let (first, second) = bytes.split_at(cut);
    let home = Home::new();
    let path = home.path(form.place);
    let mut taken = Taken::default();
    for stage in [first, second] {
        rows::fill(&path, stage);
        home.read(form.agent(), AT_ONCE, &mut taken);
    }
    rests(form, &home, taken);
}

fn rests(form: &Form, home: &Home, mut taken: Taken) {
    home.read(form.agent(), much_later(), &mut taken);
    let told = taken.drafts.len();
    home.read(form.agent(), much_later(), &mut taken);
    assert_eq!(taken.drafts.len(), told, "nothing has changed");
    taken.check_drafts();
    taken.check_states();
}
