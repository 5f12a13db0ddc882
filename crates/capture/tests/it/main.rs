//! Capture at its border: a home full of files in, events out.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod answers;
mod memory; // a sink that keeps everything in memory
mod scenario; // recordings of real agents, and what is told of them
mod handmade; // homes made by hand
mod growth; // sources that are read while they grow
mod files; // what happens to files
mod mangled; // sources that were damaged
mod survey; // how it stands with them
mod splits; // the same in any split and any order
mod late; // sessions that appear after those that repeat them
mod hostile; // whatever bytes come in
mod costly; // databases that would take for ever
mod truth; // what the model itself counted
mod corpus; // generated transcripts, and what is in them
mod reparse; // everything once more, from what was kept
mod restore; // a lost journal, made anew from what was kept
mod signals; // what the clock and hooks tell
mod hooks; // what calls of hooks say

mod made_up; // an agent that nobody wrote

mod claude;
mod codex;
mod copilot;
mod cursor;
mod gemini;
mod goose;
mod qwen;
mod opencode;
mod pi;
mod telemetry;
