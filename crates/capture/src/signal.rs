//! What somebody beside the source says of a session: a hook tells that a turn or the session has
//! ended, or that the history is about to be compacted or cleared.
//!
//! A sign never goes before its source: the source is read to its end first, and what stands there
//! wins. A sign that comes twice, or late, says nothing new.

use std::path::{Path, PathBuf};

use event::payload::StopReason;
use event::{Draft, Kind, Raw, Source as How, Time};

use crate::admission::admit;
use crate::agent::Agent;
use crate::checkpoint::{Checkpoint, RecordedCheckpoint};
use crate::discover::discover_at;
use crate::error::CaptureError;
use crate::event_builder::{EventBuilder, ParsedEvents};
use crate::hook::Heard;
use crate::identity::EventIdentity;
use crate::ingester::{IngestSummary, Ingester};
use crate::limit::{LATE_MILLIS, SIGN_WAITS_MILLIS};
use crate::sink::{Batch, Sink};
use crate::source::Source;

/// What a sign says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignalKind {
    /// One turn is over.
    TurnEnd,
    /// The history is about to be compacted.
    Compact,
    /// The history was cleared.
    Clear,
    /// The session has ended.
    Stop,
}

/// A sign of one session.
#[derive(Clone, Copy, Debug)]
pub struct SessionSignal<'a> {
    /// Its own name, kept with what comes of it.
    pub name: &'a str,
    pub kind: SignalKind,
    pub provider: &'a str,
    /// The provider's id of the session.
    pub session: &'a str,
    /// Where the session is written, if that was said. It is believed within the agent's folders.
    pub transcript: Option<&'a Path>,
    pub at: Time,
    pub reason: Option<&'a str>,
    /// A later sign of the same session waits behind it, so that it cannot wait any longer.
    pub is_followed: bool,
}

/// What came of a sign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignalOutcome {
    /// It is done with: recorded, or there was nothing to add.
    Done,
    /// The source may still tell it better; to be asked again.
    Pending,
    /// No source of the session was read yet.
    UnknownSession,
}

/// Which session something is about, as somebody beside it says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionRef<'a> {
    pub provider: &'a str,
    pub session: &'a str,
    pub transcript: Option<&'a Path>,
}

impl<'a> SessionRef<'a> {
    pub(crate) fn of(heard: &Heard<'a>) -> SessionRef<'a> {
        let Heard { provider, session, transcript, .. } = *heard;
        SessionRef { provider, session, transcript }
    }
}

impl Ingester<'_> {
    /// Reads the session a sign is about to its end, and records what only the sign tells.
    pub fn apply_signal(
        &self,
        sign: &SessionSignal<'_>,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
    ) -> Result<SignalOutcome, CaptureError> {
        let Some(agent) = self.agents.iter().find(|agent| agent.provider() == sign.provider) else {
            return Ok(SignalOutcome::UnknownSession);
        };
        let SessionSignal { provider, session, transcript, .. } = *sign;
        let about = SessionRef { provider, session, transcript };
        match self.read_on(*agent, &about, sink, summary)? {
            Some(known) => self.record(*agent, sign, known, sink, summary),
            None => Ok(SignalOutcome::UnknownSession),
        }
    }

    /// Reads the session to its end, and says how far that is; `None` for one nobody knows.
    pub(crate) fn read_on(
        &self,
        agent: &dyn Agent,
        about: &SessionRef<'_>,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
    ) -> Result<Option<RecordedCheckpoint>, CaptureError> {
        let named = about.transcript.and_then(|path| self.named_place(agent, path, summary));
        let place = match named {
            Some(path) => Some(path),
            None => self.known(about, sink)?.map(|(_, checkpoint, _)| checkpoint.path),
        };
        if let Some(path) = &place {
            self.look(path, u64::MAX, sink, summary)?;
            sink.settle().map_err(CaptureError::Unrecorded)?;
            for found in discover_at(agent, self.environment, path, &mut summary.warnings) {
                let key = found.source.key();
                let recorded = sink.source(&key).map_err(CaptureError::Positions)?;
                let checkpoint = recorded.and_then(|text| Some((Checkpoint::parse(&text)?, text)));
                if let Some((checkpoint, recorded)) = checkpoint
                    && checkpoint.threads.contains_key(about.session)
                {
                    return Ok(Some((key, checkpoint, recorded)));
                }
            }
        }
        // It moved, or stands in a file that does not say so by its name.
        self.known(about, sink)
    }

    fn known(
        &self,
        about: &SessionRef<'_>,
        sink: &dyn Sink,
    ) -> Result<Option<RecordedCheckpoint>, CaptureError> {
        let known = self.source_index.find(about.provider, about.session, sink);
        known.map_err(CaptureError::Positions)
    }

    /// The source at a path that somebody named, if it lies where the agent writes.
    pub(crate) fn named_place(
        &self,
        agent: &dyn Agent,
        path: &Path,
        summary: &mut IngestSummary,
    ) -> Option<PathBuf> {
        let path = path.canonicalize().ok()?;
        let found = discover_at(agent, self.environment, &path, &mut summary.warnings);
        (!found.is_empty()).then_some(path)
    }

    fn record(
        &self,
        agent: &dyn Agent,
        sign: &SessionSignal<'_>,
        (key, mut checkpoint, recorded): RecordedCheckpoint,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
    ) -> Result<SignalOutcome, CaptureError> {
        let path = checkpoint.path.clone();
        let source = Source::known(agent.provider(), &key, &path);
        let now = (self.clock)();
        let nothing_beside = |_: &str| None;
        let generation = checkpoint.generation;
        let mut builder =
            EventBuilder::new(&source, generation, &mut checkpoint.threads, &nothing_beside, now);
        builder.session(sign.session);
        let untold = agent.hooks().map_or(&[][..], |hooks| hooks.untold);
        if !builder.apply_signal(sign, now, untold.contains(&Kind::TurnCompleted)) {
            return Ok(SignalOutcome::Pending);
        }
        let ParsedEvents { mut drafts, .. } = builder.finish();
        if drafts.is_empty() {
            return Ok(SignalOutcome::Done);
        }
        drafts.iter_mut().for_each(|draft| mark(draft, sign));
        admit(agent.provider(), &checkpoint.threads, &mut drafts, sink);
        summary.add(agent.provider(), &drafts);
        self.open_epochs.may_be_in(key.clone());
        let batch = Batch { source: key, from: Some(recorded), to: checkpoint.encode(), drafts };
        sink.put(batch).map_err(|source| CaptureError::Sink { path, source })?;
        sink.settle().map_err(CaptureError::Unrecorded)?;
        Ok(SignalOutcome::Done)
    }
}

impl EventBuilder<'_> {
    /// Tells what a sign adds to what the source told; `false` if the source may still do so. It
    /// never does where ends of turns are `untold`.
    fn apply_signal(&mut self, sign: &SessionSignal<'_>, now: Time, is_untold: bool) -> bool {
        let at = Some(sign.at);
        let thread = self.thread();
        let has_newer = thread.last_at.is_some_and(|last| last > sign.at);
        let is_open = thread.epoch_from.is_some_and(|from| from <= sign.at);
        let waited = now.nanos() - sign.at.nanos();
        let has_waited = waited >= i128::from(SIGN_WAITS_MILLIS) * 1_000_000;
        match sign.kind {
            SignalKind::TurnEnd if !thread.is_turn_open || has_newer => {}
            SignalKind::TurnEnd if has_waited || is_untold => {
                let identity = EventIdentity::in_session(&["turn ended", sign.name]);
                self.turn_completed(at, identity, StopReason::Completed, None);
            }
            SignalKind::Compact if !is_open => {}
            SignalKind::Compact if has_waited || sign.is_followed => {
                self.close_epoch(at, "compaction");
            }
            SignalKind::TurnEnd | SignalKind::Compact => return false,
            SignalKind::Clear if is_open => self.close_epoch(at, "clear"),
            SignalKind::Clear => {}
            SignalKind::Stop => {
                let late = i128::from(LATE_MILLIS) * 1_000_000;
                let is_stale =
                    thread.last_at.is_some_and(|last| last.nanos() - sign.at.nanos() > late);
                if thread.is_started && !thread.is_exited && !is_stale {
                    let identity = EventIdentity::in_session(&["stopped", sign.name]);
                    self.exited(identity, at, sign.reason.map(str::to_owned));
                }
            }
        }
        true
    }
}

/// Says of an event that it comes from a sign and stands in no record.
fn mark(draft: &mut Draft, sign: &SessionSignal<'_>) {
    draft.source = How::Hook;
    draft.metadata.remove("record");
    draft.metadata.insert("signal".to_owned(), Raw::from_value(sign.name).expect("a text encodes"));
}
