//! A damaged or lost journal, made whole from what it was read from.
//!
//! The journal checks and repairs itself first, and asks for each session that lost events what its
//! sources told ([`Recovery`]): those events stand in their old places again. What the journal does
//! not even know to be missing is appended afterwards.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeSet, HashMap};

use capture::{
    Admission, Batch, CaptureError, IngestSummary, Ingester, KnownSource, Original, RestoreScope,
    RestoreSummary, Sink, SinkError, StopFlag, StoredOriginal, StoredSource, UnknownRecord,
};
use event::{Draft, EventId, SessionId};
use journal::{Check, Recovery};

use crate::admission::Gate;
use crate::ingest::{Ingest, IngestError};
use crate::project::Projects;
use crate::recorder::Recorder;
use crate::view_saver::RecordedViews;

/// Names of originals that are listed one by one; the rest is counted.
const NAMED_MAX: usize = 3;

impl Ingest<'_> {
    /// Verifies the journal against itself and against its originals, and repairs it if `repair` is
    /// set.
    pub fn doctor(&self, repair: bool, stop: &StopFlag) -> Result<Vec<Check>, IngestError> {
        // Beside a daemon a repair must not record from the same sources.
        let claim = repair.then(|| self.claim_reading().ok()).flatten();
        let views: RefCell<RecordedViews> = RefCell::default();
        let pump = self.ingester().with_stop_flag(stop.clone());
        let was_damaged = !self.journal.open_findings().is_empty();
        let stored = StoredEvents::new(&pump, self.recorder(&views));
        let mut checks = self.journal.doctor_with(repair, (self.clock)(), Some(&stored))?;
        drop(stored);
        let is_damaged = |check: &Check| check.name == "events" && check.fix.is_some();
        let scope = match was_damaged || checks.iter().any(is_damaged) {
            true => RestoreScope::Everything,
            false => RestoreScope::BehindCheckpoints,
        };
        let mut recorder = self.recorder(&views);
        let is_recorded = claim.is_some();
        let summary = match is_recorded {
            true => {
                let summary = pump.restore(scope, &mut recorder, &mut |_| {})?;
                // Epochs that the clock closed stand in no source. They are closed again.
                self.close_silent(&pump, &mut recorder, &mut IngestSummary::default())?;
                recorder.settle().map_err(CaptureError::Unrecorded)?;
                summary
            }
            false => pump.restore(scope, &mut WithoutWriting(recorder), &mut |_| {})?,
        };
        // What was recorded again is searchable once the command ends.
        while is_recorded && !stop.is_asked() && self.journal.index()?.is_some() {}
        checks.push(originals_check(&summary, is_recorded));
        Ok(checks)
    }

    fn recorder<'a>(&'a self, views: &'a RefCell<RecordedViews>) -> Recorder<'a> {
        Recorder::new(self.journal, Gate::new(self.policy.clone()), views)
    }
}

/// What the originals have that the journal has not, or had not before it was recorded again.
fn originals_check(summary: &RestoreSummary, is_recorded: bool) -> Check {
    let RestoreSummary { sources, unknown_sources, events, sessions, unlabelled, warnings } =
        summary;
    let mut detail = format!("{sources} sources are kept");
    let mut ok = true;
    let mut fixes = Vec::new();
    if *events > 0 {
        let sessions = sessions.len();
        let lacks = format!("{events} events of {sessions} sessions");
        detail += &match is_recorded {
            true => format!("; {lacks} were missing in the journal"),
            false => format!("; {lacks} are missing in the journal"),
        };
        ok = is_recorded;
        fixes.push(match is_recorded {
            true => {
                format!("they are recorded again, from {unknown_sources} sources it did not know")
            }
            false => {
                "`hansard doctor --repair` records them again; `hansard down` ends the daemon first"
                    .to_owned()
            }
        });
    }
    if let Some(first) = unlabelled.first() {
        let count = unlabelled.len();
        let named = unlabelled.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>();
        let named = if count == 1 { first.clone() } else { named.join(", ") };
        detail += &format!("; {count} do not say which source they come from: {named}");
        fixes.push("`zstd -dc` shows them; the agent's own file, put back, is read".to_owned());
    }
    for warning in warnings.iter().take(NAMED_MAX) {
        let path = warning.path.as_ref().map(|path| format!("`{}`: ", path.display()));
        fixes.push(path.unwrap_or_default() + &warning.message);
    }
    let fix = (!fixes.is_empty()).then(|| fixes.join("; "));
    Check { name: "originals", ok, detail, fix }
}

/// The events of sessions as the originals tell them.
struct StoredEvents<'a> {
    pump: &'a Ingester<'a>,
    recorder: RefCell<Recorder<'a>>,
    projects: RefCell<Projects>,
    /// The sources, and which of them tell of a session. Made when the first event is missing: it
    /// takes reading all of them.
    index: OnceCell<StoredIndex<'a>>,
}

/// All sources with originals, and by session the places of those that tell of it.
#[derive(Default)]
struct StoredIndex<'a> {
    sources: Vec<StoredSource<'a>>,
    by_session: HashMap<SessionId, BTreeSet<usize>>,
}

impl<'a> StoredEvents<'a> {
    fn new(pump: &'a Ingester<'a>, recorder: Recorder<'a>) -> StoredEvents<'a> {
        StoredEvents {
            pump,
            recorder: RefCell::new(recorder),
            projects: RefCell::new(Projects::new()),
            index: OnceCell::new(),
        }
    }

    fn index(&self) -> &StoredIndex<'a> {
        self.index.get_or_init(|| {
            let recorder = self.recorder.borrow();
            // What cannot be listed tells nothing, and the events stay lost.
            let (sources, _) = self.pump.stored_sources(&*recorder).unwrap_or_default();
            let mut by_session: HashMap<SessionId, BTreeSet<usize>> = HashMap::new();
            for (place, source) in sources.iter().enumerate() {
                let told = &mut |drafts: Vec<Draft>| {
                    for draft in drafts {
                        by_session.entry(draft.session_id).or_default().insert(place);
                    }
                };
                let _ = self.pump.retell(source, &*recorder, told);
            }
            StoredIndex { sources, by_session }
        })
    }
}

impl Recovery for StoredEvents<'_> {
    fn events_of(&self, session: &SessionId) -> Vec<Draft> {
        let StoredIndex { sources, by_session } = self.index();
        let recorder = self.recorder.borrow();
        let mut projects = self.projects.borrow_mut();
        let mut events = Vec::new();
        for place in by_session.get(session).into_iter().flatten() {
            let told = &mut |drafts: Vec<Draft>| {
                let own = drafts.into_iter().filter(|draft| draft.session_id == *session);
                events.extend(own.map(|mut draft| {
                    projects.add_project(&mut draft);
                    draft
                }));
            };
            let _ = self.pump.retell(&sources[*place], &*recorder, told);
        }
        events
    }
}

/// A recorder that records nothing: a check must not change the journal.
struct WithoutWriting<'a>(Recorder<'a>);

impl Sink for WithoutWriting<'_> {
    fn show_sources(&self, show: &mut dyn FnMut(KnownSource<'_>)) -> Result<(), SinkError> {
        self.0.show_sources(show)
    }

    fn source(&self, key: &str) -> Result<Option<String>, SinkError> {
        self.0.source(key)
    }

    fn admits(&mut self, session: &SessionId, cwd: Option<&str>) -> Admission {
        self.0.admits(session, cwd)
    }

    fn keep_original(&mut self, _: Original<'_>) -> Result<(), SinkError> {
        Ok(())
    }

    fn put_batch(&mut self, _: Batch) -> Result<(), SinkError> {
        Ok(())
    }

    fn settle(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    fn original(&self, source: &str, generation: u32) -> Result<Option<StoredOriginal>, SinkError> {
        self.0.original(source, generation)
    }

    fn originals(&self) -> Result<BTreeSet<(String, u32)>, SinkError> {
        self.0.originals()
    }

    fn original_label(&self, source: &str, generation: u32) -> Result<String, SinkError> {
        self.0.original_label(source, generation)
    }

    fn unknown_in(&self, session: &SessionId) -> Result<Vec<UnknownRecord>, SinkError> {
        self.0.unknown_in(session)
    }

    fn id_at(&self, session: &SessionId, seq: u64) -> Result<Option<EventId>, SinkError> {
        self.0.id_at(session, seq)
    }

    fn find_event(&self, id: EventId) -> Result<Option<(SessionId, u64)>, SinkError> {
        self.0.find_event(id)
    }

    fn find_events(
        &self,
        session: &SessionId,
        ids: &[EventId],
    ) -> Result<Vec<Option<u64>>, SinkError> {
        self.0.find_events(session, ids)
    }
}
