//! Compaction: payloads that replace the earlier history by a shorter one.
//!
//! Nothing is deleted. A compaction refers to the events that stay and contains only new text: a
//! summary, or a replacement for a long output.
//!
//! Not here: the decision to compact and the text of the summary (the host), the storage of
//! artifacts, and appending.

use std::sync::Arc;

use event::EventId;
use event::payload::{Compaction, Content, ContextKind, Placement, SavedEntry};
use serde_json::Number;

use crate::view::{
    Covered, EffectiveView, EventLog, FileLists, FileTools, HistoryEntry, Replaced, Role, View,
    ViewError,
};

/// The kind of an artifact with an output that [`offload_outputs`] replaced.
pub const CONTEXT_OFFLOAD: &str = "context_offload";

/// The options of a compaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompactionOptions {
    /// The number of newest entries that stay unchanged.
    pub keep: usize,
    /// The maximum bytes of a tool output that stays in the view.
    pub output_max: usize,
    /// The tools that read and modify files.
    pub tools: FileTools,
    pub max_tokens: Option<u64>,
    /// In percent or, below 1, as a fraction of `max_tokens`.
    pub threshold_pct: Option<Number>,
    pub current_tokens: Option<u64>,
}

impl Default for CompactionOptions {
    fn default() -> CompactionOptions {
        CompactionOptions {
            keep: 3,
            output_max: 1_000,
            tools: FileTools::default(),
            max_tokens: None,
            threshold_pct: None,
            current_tokens: None,
        }
    }
}

/// A tool output that is too long to stay in the view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LongOutput {
    pub seq: u64,
    pub event_id: EventId,
    pub call_id: String,
    pub tool: String,
    pub text: String,
}

/// A cutoff is not allowed in a hosted session.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CutoffError {
    #[error("event {cutoff_seq} is not on the active path")]
    NotFound { cutoff_seq: u64 },
    #[error("at event {cutoff_seq} the call `{call_id}` of event {call_seq} waits for its result")]
    InOpenExchange { cutoff_seq: u64, call_id: String, call_seq: u64 },
    #[error(transparent)]
    View(#[from] ViewError),
}

/// Checks that a base can cover everything up to `cutoff_seq` without separating a call from its
/// result.
pub fn check_cutoff(view: &View, cutoff_seq: u64, log: &dyn EventLog) -> Result<(), CutoffError> {
    if !view.is_on_path(cutoff_seq) {
        return Err(CutoffError::NotFound { cutoff_seq });
    }
    let open = view.open_answer_at(cutoff_seq, log)?;
    match open.and_then(|stretch| stretch.waiting.into_iter().next()) {
        Some(call) => Err(CutoffError::InOpenExchange {
            cutoff_seq,
            call_id: call.call_id,
            call_seq: call.place,
        }),
        None => Ok(()),
    }
}

/// Returns the outputs that [`offload_outputs`] should replace: those over the limit, except in the
/// newest entries and those replaced before.
pub fn long_outputs(
    view: &mut View,
    log: &dyn EventLog,
    options: &CompactionOptions,
) -> Result<Vec<LongOutput>, ViewError> {
    let Some(covered) = view.coverable(log)? else { return Ok(Vec::new()) };
    let effective = view.effective(log)?.clone();
    // The newest outputs are what the model works with right now.
    let old = effective.len().saturating_sub(options.keep);
    let long = effective.entries().take(old).filter_map(|entry| {
        let (Some(note), Some(event_id)) = (&entry.note, entry.event_id) else { return None };
        let place = view.place_of(entry.seq?);
        let text = entry.text();
        // A text that was replaced before is short already, or was chosen by the host. One that a
        // base gives in full has no event that could be shown with another text.
        let is_of_event = entry.replaced.is_empty() && !entry.sources.is_empty();
        let is_long = text.len() > options.output_max && is_of_event;
        (is_long && place <= covered.seq).then(|| LongOutput {
            seq: place,
            event_id,
            call_id: note.call_id.clone(),
            tool: note.name.clone(),
            text,
        })
    });
    Ok(long.collect())
}

impl LongOutput {
    /// Returns the replacement text once `artifact` holds the output.
    pub fn replaced_by(&self, artifact: &str) -> Replaced {
        let text = format!(
            "[The output of `{}` ({} bytes) is kept as artifact `{artifact}`.]",
            self.tool,
            self.text.len(),
        );
        Replaced { seq: self.seq, text, artifact: Some(artifact.to_owned()) }
    }
}

/// Builds a compaction that replaces some outputs; `None` if there is none to replace.
pub fn offload_outputs(
    view: &mut View,
    log: &dyn EventLog,
    replaced: &[Replaced],
    options: &CompactionOptions,
) -> Result<Option<Compaction>, ViewError> {
    let Some(covered) = view.coverable(log)? else { return Ok(None) };
    let is_covered = |replaced: &&Replaced| replaced.seq <= covered.seq;
    let texts: Vec<SavedEntry> = replaced.iter().filter(is_covered).map(saved_text).collect();
    if texts.is_empty() {
        return Ok(None);
    }
    // First the present view, all by reference, then the replacements. A later entry for the same
    // event replaces its text but keeps its place.
    let mut entries = view.references(covered.seq);
    entries.extend(texts);
    let files = base_files(view.effective(log)?, covered, options);
    Ok(Some(compaction("offload", covered, entries, files, options)))
}

/// Builds a compaction with a summary in place of everything but the newest entries and other
/// context.
///
/// It replaces the summary of the last compaction. `None` if there are no new events to cover.
pub fn summarize(
    view: &mut View,
    log: &dyn EventLog,
    summary: &str,
    options: &CompactionOptions,
) -> Result<Option<Compaction>, ViewError> {
    let Some(covered) = view.coverable(log)? else { return Ok(None) };
    if covered.seq <= view.cutoff_seq() {
        return Ok(None);
    }
    replace_range(view, log, "summarize", covered, Some(summary), options)
}

/// Builds the compaction that an agent made itself: it covers everything up to the last event
/// except its summary and other context. `None` if no entry would be left.
///
/// An answer that was open at that point returns to the history when its result comes.
pub fn captured(
    view: &mut View,
    log: &dyn EventLog,
    summary: Option<&str>,
    options: &CompactionOptions,
) -> Result<Option<Compaction>, ViewError> {
    let seq = view.up_to_seq();
    let Some(event) = log.event(seq)? else { return Ok(None) };
    let covered = Covered { seq, event_id: event.id };
    // The agent has dropped its older talk, so none of it may stay in our view.
    let options = CompactionOptions { keep: 0, ..options.clone() };
    replace_range(view, log, "captured", covered, summary, &options)
}

fn replace_range(
    view: &mut View,
    log: &dyn EventLog,
    strategy: &str,
    covered: Covered,
    summary: Option<&str>,
    options: &CompactionOptions,
) -> Result<Option<Compaction>, ViewError> {
    let effective = view.effective(log)?.clone();
    let (mut prefix, mut rest) = (Vec::new(), Vec::new());
    let talk: Vec<&Arc<HistoryEntry>> = effective
        .entries()
        .filter(|entry| !entry.is_prefix() && begins_in(entry, covered))
        .collect();
    // Prefix context is not counted: it stays anyway.
    let kept_from = kept_from(&talk, options.keep);
    // A derived entry, the working set, is made again from the file lists.
    for entry in effective.entries().filter(|entry| entry.is_prefix()) {
        // The new summary covers what the old one did.
        let is_replaced = entry.context_kind == Some(ContextKind::Summary);
        let is_derived = entry.event_id.is_none();
        if !is_replaced && !is_derived {
            push_saved(view, entry, covered, &mut prefix);
        }
    }
    for (at, entry) in talk.iter().enumerate() {
        // An entry with parts on both sides of the cutoff must stay whole.
        let is_torn = entry.sources.iter().any(|seq| *seq > covered.seq);
        if at >= kept_from || entry.context_kind.is_some() || is_torn {
            push_saved(view, entry, covered, &mut rest);
        }
    }
    let files = base_files(&effective, covered, options);
    let mut entries = prefix;
    entries.extend(summary.map(|summary| SavedEntry {
        role: Some("user".to_owned()),
        context_kind: Some(ContextKind::Summary),
        placement: Some(Placement::Prefix),
        content: Some(Content::text(summary)),
        ..SavedEntry::default()
    }));
    entries.extend(rest);
    // A base without entries is not used; see `Why::NoEntries`.
    let is_usable = !entries.is_empty();
    Ok(is_usable.then(|| compaction(strategy, covered, entries, files, options)))
}

fn compaction(
    strategy: &str,
    covered: Covered,
    entries: Vec<SavedEntry>,
    files: FileLists,
    options: &CompactionOptions,
) -> Compaction {
    Compaction {
        strategy: strategy.to_owned(),
        max_tokens: options.max_tokens,
        threshold_pct: options.threshold_pct.clone(),
        current_tokens: options.current_tokens,
        cutoff_seq: covered.seq,
        cutoff_event_id: Some(covered.event_id),
        entries,
        messages: Vec::new(),
        read_files: files.read,
        modified_files: files.modified,
    }
}

/// Returns the file lists of the base, followed by the files touched since.
fn base_files(view: &EffectiveView, covered: Covered, options: &CompactionOptions) -> FileLists {
    let entries = view.entries().map(Arc::as_ref).filter(|entry| begins_in(entry, covered));
    view.files().merge_with(&FileLists::from_entries(entries, &options.tools))
}

/// Whether an entry begins in the covered events.
fn begins_in(entry: &HistoryEntry, covered: Covered) -> bool {
    // An entry without sources is a text of the base or the working set. Both lie before every new
    // cutoff.
    entry.sources.is_empty() || entry.sources.iter().any(|seq| *seq <= covered.seq)
}

/// Returns where the newest `keep` entries begin. If the first of them is a result, the answer
/// with its call is included: a result without its call would be dropped.
fn kept_from(talk: &[&Arc<HistoryEntry>], keep: usize) -> usize {
    let mut from = talk.len().saturating_sub(keep);
    if talk.get(from).is_some_and(|entry| entry.role == Role::Tool) {
        let answer = talk[..from].iter().rposition(|entry| entry.role == Role::Assistant);
        from = answer.unwrap_or(from);
    }
    from
}

/// Writes an entry as a base stores it: by reference, in full only if it has no event.
fn push_saved(view: &View, entry: &HistoryEntry, covered: Covered, list: &mut Vec<SavedEntry>) {
    if entry.sources.is_empty() {
        // What a base says itself is said by the new one from now on.
        let is_of_base = entry.seq.is_some_and(|seq| view.is_base(seq));
        list.push(entry.in_full(entry.event_id.filter(|_| !is_of_base)));
    }
    // Sources behind the cutoff are read from the log again, together with everything behind it.
    let sources = entry.sources.iter().filter(|seq| **seq <= covered.seq);
    list.extend(sources.map(
        |seq| match entry.replaced.iter().find(|replaced| replaced.seq == *seq) {
            Some(replaced) => saved_text(replaced),
            None => SavedEntry { seq: Some(*seq), ..SavedEntry::default() },
        },
    ));
}

fn saved_text(replaced: &Replaced) -> SavedEntry {
    SavedEntry {
        seq: Some(replaced.seq),
        shown: Some(replaced.text.clone()),
        artifact: replaced.artifact.clone(),
        ..SavedEntry::default()
    }
}
