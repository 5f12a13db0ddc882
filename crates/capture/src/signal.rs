//! Signals: a hook announces that a turn or a session has ended, or that the history is about to be
//! compacted or cleared.
//!
//! The source wins over a signal. It is read to its end first, and a signal adds only what the source
//! does not say. A signal that comes twice, or late, adds nothing.

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

/// What a signal announces.
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

/// A signal about one session.
#[derive(Clone, Copy, Debug)]
pub struct SessionSignal<'a> {
    /// Its own name, stored with the events that come of it.
    pub name: &'a str,
    pub kind: SignalKind,
    pub provider: &'a str,
    /// The provider's id of the session.
    pub session: &'a str,
    /// The file of the session, if the hook named it. Only paths below the agent's folders count.
    pub transcript: Option<&'a Path>,
    pub at: Time,
    pub reason: Option<&'a str>,
    /// A later signal of the same session waits behind this one, so it cannot wait any longer.
    pub is_followed: bool,
}

/// What came of a signal or of a call of a hook.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignalOutcome {
    /// It was recorded, or there was nothing to add.
    Done,
    /// The source may still say it better; the caller tries again later.
    Pending,
    /// No source of the session was read yet.
    UnknownSession,
}

/// The session that a signal or a call of a hook names.
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
    /// Reads the session of a signal to its end, and records what only the signal says.
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
        match self.read_to_end(*agent, &about, sink, summary)? {
            Some(known) => self.record_signal(*agent, sign, known, sink, summary),
            None => Ok(SignalOutcome::UnknownSession),
        }
    }

    /// Reads the session to its end and returns its checkpoint; `None` if no source holds it.
    pub(crate) fn read_to_end(
        &self,
        agent: &dyn Agent,
        about: &SessionRef<'_>,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
    ) -> Result<Option<RecordedCheckpoint>, CaptureError> {
        let named = about.transcript.and_then(|path| self.transcript_source(agent, path, summary));
        let place = match named {
            Some(path) => Some(path),
            None => self.find_checkpoint(about, sink)?.map(|(_, checkpoint, _)| checkpoint.path),
        };
        if let Some(path) = &place {
            self.poll_source(path, u64::MAX, sink, summary)?;
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
        // The file has moved, or its name does not contain the session.
        self.find_checkpoint(about, sink)
    }

    fn find_checkpoint(
        &self,
        about: &SessionRef<'_>,
        sink: &dyn Sink,
    ) -> Result<Option<RecordedCheckpoint>, CaptureError> {
        let known = self.source_index.find_source(about.provider, about.session, sink);
        known.map_err(CaptureError::Positions)
    }

    /// The source at a path that a hook named, if it lies below the agent's folders.
    pub(crate) fn transcript_source(
        &self,
        agent: &dyn Agent,
        path: &Path,
        summary: &mut IngestSummary,
    ) -> Option<PathBuf> {
        let path = path.canonicalize().ok()?;
        let found = discover_at(agent, self.environment, &path, &mut summary.warnings);
        (!found.is_empty()).then_some(path)
    }

    fn record_signal(
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
        drafts.iter_mut().for_each(|draft| mark_signal(draft, sign));
        admit(agent.provider(), &checkpoint.threads, &mut drafts, sink);
        summary.count_events(agent.provider(), &drafts);
        self.open_epochs.may_be_in(key.clone());
        let batch = Batch { source: key, from: Some(recorded), to: checkpoint.encode(), drafts };
        sink.put(batch).map_err(|source| CaptureError::Sink { path, source })?;
        sink.settle().map_err(CaptureError::Unrecorded)?;
        Ok(SignalOutcome::Done)
    }
}

impl EventBuilder<'_> {
    /// Adds what the signal says and the source does not; `false` if the source may still say it. With
    /// `is_untold` the agent's records never contain ends of turns, so there is nothing to wait for.
    fn apply_signal(&mut self, sign: &SessionSignal<'_>, now: Time, is_untold: bool) -> bool {
        let at = Some(sign.at);
        let thread = self.thread();
        let has_newer = thread.last_at.is_some_and(|last| last > sign.at);
        let is_open = thread.epoch_from.is_some_and(|from| from <= sign.at);
        let waited = now.nanos() - sign.at.nanos();
        let has_waited = waited >= i128::from(SIGN_WAITS_MILLIS) * 1_000_000;
        match sign.kind {
            // The source has ended the turn itself, or a later turn is running.
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
                // An agent writes a few last records after its hook ran. A session that goes on longer
                // was resumed, and the signal is about its former end.
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

/// Marks an event as one that comes from a signal and stands in no record.
fn mark_signal(draft: &mut Draft, sign: &SessionSignal<'_>) {
    draft.source = How::Hook;
    draft.metadata.remove("record");
    draft.metadata.insert("signal".to_owned(), Raw::from_value(sign.name).expect("a text encodes"));
}
