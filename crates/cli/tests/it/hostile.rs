//! Transcripts are hostile text: none of it may command a terminal.

use crate::{empty, import};

/// A prompt that clears the screen, sets the title, rings, hides and reverses.
const HOSTILE: &str = r#"{"id":"01KJPX7FVT4ZZWPQ8RQK44AYVR","session_id":"evil\u202egnp","kind":"user.prompt","created_at":"2026-03-02T09:14:21.402Z","provider":"cla\u001b[31mude","data":{"content":"wipe \u001b[2J \u001b]0;owned\u0007 \u009b31m \u202e reversed \u200b hidden"}}"#;

#[test]
fn no_escape_reaches_the_terminal() {
    let world = empty();
    assert_eq!(import(&world, HOSTILE).code, Some(0));
    for arguments in [
        &["sessions"][..],
        &["show", "evil"],
        &["show", "evil", "--events"],
        &["show", "evil", "--effective"],
        &["search", "reversed"],
        &["lineage", "evil"],
        &["show", "\u{1b}[2J"],
    ] {
        let said = world.run(arguments);
        for letter in said.stdout.chars().chain(said.stderr.chars()) {
            let is_plain = letter == '\n' || letter == '\t' || !letter.is_control();
            assert!(is_plain, "{arguments:?} printed {letter:?}");
            assert!(!('\u{202A}'..='\u{202E}').contains(&letter), "{arguments:?}");
        }
    }
}
