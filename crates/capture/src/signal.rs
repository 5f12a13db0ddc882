//! Signals: a hook announces that a turn or a session has ended, or that the history is about to be
//! compacted or cleared.
//!
//! The source wins over a signal. It is read to its end first, and a signal adds only what the source
//! does not say. A signal that comes twice, or late, adds nothing.

use std::path::{Path, PathBuf};

use event::payload::{StopReason, TurnCompleted};
use event::{Draft, HookMessage, Kind, Raw, SignalKind, Source as How, Time};

use crate::admission::admit;
use crate::agent::Agent;
use crate::checkpoint::{Checkpoint, RecordedCheckpoint};
use crate::discover::discover_at;
use crate::error::CaptureError;
use crate::event_builder::{EventBuilder, ParsedEvents};
use crate::identity::EventIdentity;
use crate::ingester::{IngestSummary, Ingester};
use crate::limit::{LATE_MILLIS, SIGN_WAITS_MILLIS};
use crate::sink::{Batch, Sink};
use crate::source::Source;

/// What became of a message of a hook, or of its signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignalOutcome {
    /// It was recorded, or there was nothing to add.
    Done,
    /// The source may still say it better; the caller tries again later.
    Pending,
    /// No source of the session was read yet.
    UnknownSession,
}

/// The signal of a message.
#[derive(Clone, Copy)]
struct SessionSignal<'a> {
    message: &'a HookMessage,
    kind: SignalKind,
    is_followed: bool,
}

impl Ingester<'_> {
    /// Reads the session of a message to its end, and records what only its signal says.
    ///
    /// `is_followed` says that a later signal of the session waits behind this one, so that this
    /// one cannot wait for the source any longer.
    pub fn apply_signal(
        &self,
        message: &HookMessage,
        is_followed: bool,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
    ) -> Result<SignalOutcome, CaptureError> {
        let Some(kind) = message.signal else { return Ok(SignalOutcome::Done) };
        let agent = self.agents.iter().find(|agent| agent.provider() == message.provider);
        let Some(agent) = agent else { return Ok(SignalOutcome::UnknownSession) };
        let Some(known) = self.read_to_end(*agent, message, sink, summary)? else {
            return Ok(SignalOutcome::UnknownSession);
        };
        let signal = SessionSignal { message, kind, is_followed };
        self.record_signal(*agent, &signal, known, sink, summary)
    }

    /// Reads the session to its end and returns its checkpoint; `None` if no source holds it.
    pub(crate) fn read_to_end(
        &self,
        agent: &dyn Agent,
        message: &HookMessage,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
    ) -> Result<Option<RecordedCheckpoint>, CaptureError> {
        let named = message
            .transcript
            .as_deref()
            .and_then(|path| self.transcript_source(agent, path, summary));
        let place = match named {
            Some(path) => Some(path),
            None => self.find_checkpoint(message, sink)?.map(|(_, checkpoint, _)| checkpoint.path),
        };
        if let Some(path) = &place {
            self.poll_source(path, u64::MAX, sink, summary)?;
            sink.settle().map_err(CaptureError::Unrecorded)?;
            for found in
                discover_at(agent, self.environment, path, &self.look(), &mut summary.warnings)
            {
                let key = found.source.key();
                let recorded = sink.source(&key).map_err(CaptureError::Positions)?;
                let checkpoint = recorded.and_then(|text| Some((Checkpoint::parse(&text)?, text)));
                if let Some((checkpoint, recorded)) = checkpoint
                    && checkpoint.threads.contains_key(&message.session)
                {
                    return Ok(Some((key, checkpoint, recorded)));
                }
            }
        }
        // The file has moved, or its name does not contain the session.
        self.find_checkpoint(message, sink)
    }

    fn find_checkpoint(
        &self,
        message: &HookMessage,
        sink: &dyn Sink,
    ) -> Result<Option<RecordedCheckpoint>, CaptureError> {
        let known = self.source_index.find_source(&message.provider, &message.session, sink);
        known.map_err(CaptureError::Positions)
    }

    /// The source at a path that a hook named, if it lies below the agent's folders.
    pub(crate) fn transcript_source(
        &self,
        agent: &dyn Agent,
        path: &Path,
        summary: &mut IngestSummary,
    ) -> Option<PathBuf> {
        // The path is foreign input. Only one that a walk over the agent's folders would find is
        // read.
        let path = path.canonicalize().ok()?;
        let found =
            discover_at(agent, self.environment, &path, &self.look(), &mut summary.warnings);
        (!found.is_empty()).then_some(path)
    }

    fn record_signal(
        &self,
        agent: &dyn Agent,
        signal: &SessionSignal<'_>,
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
        builder.switch_session(&signal.message.session);
        let hook_only = agent.hook_map().map_or(&[][..], |hooks| hooks.hook_only);
        if !builder.apply_signal(signal, now, hook_only.contains(&Kind::TurnCompleted)) {
            return Ok(SignalOutcome::Pending);
        }
        let ParsedEvents { mut drafts, .. } = builder.finish();
        if drafts.is_empty() {
            return Ok(SignalOutcome::Done);
        }
        drafts.iter_mut().for_each(|draft| mark_signal(draft, signal.message));
        self.put_from_hook(agent, (key, checkpoint, recorded), drafts, sink, summary)?;
        Ok(SignalOutcome::Done)
    }

    /// Puts events that a hook reported, and waits until they are durable. The checkpoint changes
    /// what is known of the session; the source is not read further.
    pub(crate) fn put_from_hook(
        &self,
        agent: &dyn Agent,
        (key, checkpoint, recorded): RecordedCheckpoint,
        mut drafts: Vec<Draft>,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
    ) -> Result<(), CaptureError> {
        admit(agent.provider(), &checkpoint.threads, &mut drafts, sink);
        summary.count_events(agent.provider(), &drafts);
        self.open_epochs.may_be_in(key.clone());
        let batch = Batch { source: key, from: Some(recorded), to: checkpoint.encode(), drafts };
        sink.put_batch(batch).and_then(|()| sink.settle()).map_err(CaptureError::Hook)
    }
}

impl EventBuilder<'_> {
    /// Adds what the signal says and the source does not; `false` if the source may still say it. With
    /// `is_hook_only` the agent's records never contain ends of turns, so there is nothing to wait for.
    fn apply_signal(&mut self, signal: &SessionSignal<'_>, now: Time, is_hook_only: bool) -> bool {
        let SessionSignal { message, kind, is_followed } = *signal;
        let at = Some(message.at);
        let thread = self.thread_state();
        let has_newer = thread.last_at.is_some_and(|last| last > message.at);
        let is_open = thread.epoch_from.is_some_and(|from| from <= message.at);
        let waited = now.nanos() - message.at.nanos();
        let has_waited = waited >= i128::from(SIGN_WAITS_MILLIS) * 1_000_000;
        match kind {
            // The source has ended the turn itself, or a later turn is running.
            SignalKind::TurnEnd if !thread.is_turn_open || has_newer => {}
            SignalKind::TurnEnd if has_waited || is_hook_only => {
                let identity = EventIdentity::in_session(&["turn ended", &message.name]);
                self.turn_completed(at, identity, stop_reason(message), None);
            }
            // The source has closed the epoch itself, or a newer epoch is running.
            SignalKind::Compact if !is_open => {}
            SignalKind::Compact if has_waited || is_followed => {
                self.close_epoch(at, "compaction");
            }
            // The agent may be about to write it. Its record says more than the signal does.
            SignalKind::TurnEnd | SignalKind::Compact => return false,
            // No wait for `Clear`: Claude Code goes on in another session, and this source stays as
            // it is.
            SignalKind::Clear | SignalKind::Stop => {
                // An agent writes a few last records after its hook ran. A session that goes on longer
                // was resumed, and the signal is about its former end.
                let late = i128::from(LATE_MILLIS) * 1_000_000;
                let is_stale =
                    thread.last_at.is_some_and(|last| last.nanos() - message.at.nanos() > late);
                let is_exit = thread.is_started && !thread.is_exited && !is_stale;
                if kind == SignalKind::Clear && is_open {
                    self.close_epoch(at, "clear");
                }
                if is_exit {
                    let identity = EventIdentity::in_session(&["stopped", &message.name]);
                    self.add_exit(identity, at, message.reason.clone());
                }
            }
        }
        true
    }
}

/// Why the turn ended, as far as the message says.
fn stop_reason(message: &HookMessage) -> StopReason {
    let ended = message.facts.iter().find(|fact| fact.kind == Kind::TurnCompleted);
    let told = ended.and_then(|fact| fact.data.read::<TurnCompleted>().ok()?.stop_reason);
    told.unwrap_or(StopReason::Completed)
}

/// Marks an event as one that comes from a signal and stands in no record.
fn mark_signal(draft: &mut Draft, message: &HookMessage) {
    draft.source = How::Hook;
    draft.metadata.remove("record");
    let name = Raw::from_value(&message.name).expect("a text encodes");
    draft.metadata.insert("signal".to_owned(), name);
}
