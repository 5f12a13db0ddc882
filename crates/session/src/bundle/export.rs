//! Writing a bundle.

use std::collections::BTreeSet;
use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use event::payload::SessionStarted;
use event::{Draft, SessionId};
use journal::{Ancestry, ArtifactError, Journal, ReadError, Selection, SessionInfo};
use serde::Serialize;

use super::{BUNDLE_FORMAT, BundleError, BundleHeader, BundleLine, Extent};
use crate::SessionError;

/// Writes a session or a tree as a bundle.
pub fn export(
    journal: &Journal,
    root: &SessionId,
    extent: Extent,
    out: &mut dyn Write,
) -> Result<(), BundleError> {
    Exporter { journal, redact: None, out, events: 0, artifacts: BTreeSet::new() }
        .write_all(root, extent)
}

/// Exports with `redact` applied to every event; the header says so. Bodies of artifacts are left
/// out, because they are not redacted.
pub fn export_redacted(
    journal: &Journal,
    root: &SessionId,
    extent: Extent,
    redact: &dyn Fn(&mut Draft),
    out: &mut dyn Write,
) -> Result<(), BundleError> {
    Exporter { journal, redact: Some(redact), out, events: 0, artifacts: BTreeSet::new() }
        .write_all(root, extent)
}

struct Exporter<'a> {
    journal: &'a Journal,
    redact: Option<&'a dyn Fn(&mut Draft)>,
    out: &'a mut dyn Write,
    events: u64,
    /// The artifacts that events have named so far.
    artifacts: BTreeSet<String>,
}

impl Exporter<'_> {
    fn write_all(mut self, root: &SessionId, extent: Extent) -> Result<(), BundleError> {
        let parts = list_sessions(self.journal, root, extent)?;
        let redacted = self.redact.is_some();
        self.write_line(&BundleHeader {
            hansard_bundle: BUNDLE_FORMAT,
            root: root.clone(),
            redacted,
        })?;
        for part in parts {
            self.write_session(part)?;
        }
        if !redacted {
            for id in std::mem::take(&mut self.artifacts) {
                self.artifact(id)?;
            }
        }
        let events = self.events;
        // The last line carries the count, so that the importer notices a file that was cut off.
        self.write_line(&BundleLine::End { events })?;
        self.out.flush()?;
        Ok(())
    }

    fn write_session(&mut self, part: BundleSession) -> Result<(), BundleError> {
        let BundleSession { mut ancestry, inherited_seq, up_to_seq } = part;
        // Strict: a bundle with a damaged event left out would look complete in the other journal.
        let own = Selection::after(inherited_seq).up_to(up_to_seq).strict();
        let events = self.journal.events(&ancestry.session_id, own).map_err(SessionError::from)?;
        let mut events = events.peekable();
        if let Some(Ok(first)) = events.peek() {
            // A fork that was given its own copy of what it shows is older than its journal says.
            ancestry.created_at = first.created_at;
        }
        if let Some(redact) = self.redact {
            // The words of the origin are a text of the first event.
            let first = events.peek().and_then(|first| first.as_ref().ok()).cloned();
            let started = first.and_then(|mut first| {
                redact(&mut first.draft);
                first.readable::<SessionStarted>()
            });
            let SessionStarted { label, reason, .. } = started.unwrap_or_default();
            (ancestry.label, ancestry.reason) = (label, reason);
        }
        self.write_line(&BundleLine::Session { ancestry, up_to_seq })?;
        for event in events {
            let mut event = event.map_err(SessionError::from)?;
            self.artifacts.extend(event.artifact_ids());
            if let Some(redact) = self.redact {
                redact(&mut event.draft);
            }
            self.out.write_all(event.encode().as_bytes())?;
            self.out.write_all(b"\n")?;
            self.events += 1;
        }
        Ok(())
    }

    fn artifact(&mut self, id: String) -> Result<(), BundleError> {
        match self.journal.artifacts().read(&id) {
            Ok(bytes) => self.write_line(&BundleLine::Artifact { id, body: BASE64.encode(bytes) }),
            // A reference to a file outside has no body to export.
            Err(ArtifactError::ArtifactNotFound(_) | ArtifactError::BadArtifactId(_)) => Ok(()),
            Err(error) => Err(SessionError::from(error).into()),
        }
    }

    fn write_line(&mut self, line: &impl Serialize) -> Result<(), BundleError> {
        serde_json::to_writer(&mut *self.out, line).map_err(std::io::Error::from)?;
        self.out.write_all(b"\n")?;
        Ok(())
    }
}

/// A session of the bundle.
struct BundleSession {
    ancestry: Ancestry,
    /// Its own events are those behind this one.
    inherited_seq: u64,
    up_to_seq: u64,
}

impl BundleSession {
    fn new(info: SessionInfo, up_to_seq: u64, parent_is_there: bool) -> BundleSession {
        let mut ancestry = info.ancestry;
        // It follows from the rest, and differs where an ancestor is missing.
        ancestry.depth = 0;
        if !parent_is_there {
            let Ancestry { label, reason, .. } = ancestry;
            let root = Ancestry::root(ancestry.session_id, ancestry.created_at);
            ancestry = Ancestry { label, reason, ..root };
        }
        let inherited_seq = info.inherited_seq;
        BundleSession { ancestry, inherited_seq, up_to_seq: up_to_seq.max(inherited_seq) }
    }
}

/// The sessions of a bundle, parents first: what the root stands on, the root, its descendants.
fn list_sessions(
    journal: &Journal,
    root: &SessionId,
    extent: Extent,
) -> Result<Vec<BundleSession>, SessionError> {
    let mut parts = Vec::new();
    let mut info = journal.stat(root)?;
    let mut up_to_seq = info.tail_seq;
    loop {
        let inherited_seq = info.inherited_seq;
        // A child that inherits nothing can stand without its parent.
        let parent = info.ancestry.parent_session_id.clone().filter(|_| inherited_seq > 0);
        parts.push(BundleSession::new(info, up_to_seq, parent.is_some()));
        let Some(parent) = parent else { break };
        info = journal.stat(&parent)?;
        // Of an ancestor only what the descendant shows: the rest is another history.
        up_to_seq = inherited_seq;
    }
    // The importer needs a parent before the sessions that stand on it.
    parts.reverse();
    if extent == Extent::Tree {
        descendants(journal, root, &mut parts)?;
    }
    Ok(parts)
}

fn descendants(
    journal: &Journal,
    root: &SessionId,
    parts: &mut Vec<BundleSession>,
) -> Result<(), SessionError> {
    let mut seen: BTreeSet<SessionId> =
        parts.iter().map(|part| part.ancestry.session_id.clone()).collect();
    let mut waiting = vec![root.clone()];
    while let Some(parent) = waiting.pop() {
        for child in journal.children(&parent)? {
            // One that was deleted while we looked is not there any more.
            let info = match journal.stat(&child.session_id) {
                Err(ReadError::SessionNotFound(_)) => continue,
                info => info?,
            };
            if seen.insert(child.session_id.clone()) {
                waiting.push(child.session_id);
                let tail_seq = info.tail_seq;
                parts.push(BundleSession::new(info, tail_seq, true));
            }
        }
    }
    Ok(())
}
