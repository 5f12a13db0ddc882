//! How the catalogue's row of a session follows its events.

use event::payload::{SessionMode, SessionParent, SessionStarted, SettingsChanged};
use event::{Cost, Draft, Kind, SessionId, Time};

use crate::store::{ParentRow, RootWords, SessionRow};

impl SessionRow {
    /// Makes the row of a session before its first event.
    pub(crate) fn new(number: u32, id: &SessionId, at: Time) -> SessionRow {
        SessionRow {
            number,
            id: id.clone(),
            parent: None,
            base_seq: 0,
            tail_seq: 0,
            last_position: 0,
            events: 0,
            bytes: 0,
            cost: Cost::ZERO,
            created_at: at,
            last_at: at,
            provider: String::new(),
            provider_session_id: None,
            agent: None,
            model: None,
            cwd: None,
            project: None,
            title: None,
            root: RootWords::default(),
        }
    }

    /// Takes one more event into account. Copies of another session's events change what the row
    /// describes, but they are counted only in the session they were made in.
    pub(crate) fn apply_event(&mut self, draft: &Draft, seq: u64, position: u64, size: usize) {
        self.tail_seq = seq;
        if draft.fork_origin().is_none() {
            self.count_event(draft, position, size);
        }
        self.apply_settings(draft);
    }

    fn count_event(&mut self, draft: &Draft, position: u64, size: usize) {
        self.last_position = position;
        if self.events == 0 {
            // Until the first own event `last_at` is the time the row was made.
            self.last_at = draft.created_at;
        }
        self.events += 1;
        self.bytes += size as u64;
        self.cost += draft.cost.unwrap_or(Cost::ZERO);
        // The largest time, not the latest event: sources report late and out of order.
        self.last_at = self.last_at.max(draft.created_at);
        if self.provider.is_empty() {
            self.provider = draft.provider.clone();
        }
        if self.provider_session_id.is_none() {
            self.provider_session_id = draft.provider_session_id.clone();
        }
    }

    fn apply_settings(&mut self, draft: &Draft) {
        match draft.kind {
            Kind::SessionStarted => {
                if let Some(started) = draft.readable::<SessionStarted>() {
                    // A session that is resumed starts again, perhaps with fewer details. What it
                    // leaves out stays.
                    let fill = |slot: &mut Option<String>, new: Option<String>| {
                        if new.is_some() {
                            *slot = new;
                        }
                    };
                    fill(&mut self.agent, started.agent);
                    fill(&mut self.model, started.model);
                    fill(&mut self.cwd, started.cwd);
                    fill(&mut self.project, started.project);
                    fill(&mut self.title, started.title);
                }
            }
            Kind::SettingsChanged => {
                if let Some(settings) = draft.readable::<SettingsChanged>() {
                    // A copy in a fork names the parent of the session it was copied from.
                    let parent = settings.parent.filter(|_| draft.fork_origin().is_none());
                    self.set_late_parent(parent);
                    self.model = settings.model.or(self.model.take());
                    self.title = settings.title.or(self.title.take());
                    // A session is listed under the folder and project it began in.
                    self.cwd = self.cwd.take().or(settings.cwd);
                    self.project = self.project.take().or(settings.project);
                }
            }
            _ => {}
        }
    }

    /// Takes over a parent that was found only after the session had begun. The session inherits
    /// nothing from it: its own events are numbered already.
    fn set_late_parent(&mut self, parent: Option<SessionParent>) {
        // Avoids a session that is its own ancestor.
        let parent = parent.filter(|parent| parent.session_id != self.id);
        if let Some(parent) = parent.filter(|_| self.parent.is_none()) {
            let RootWords { label, reason } = std::mem::take(&mut self.root);
            self.parent = Some(ParentRow {
                session_id: parent.session_id,
                mode: SessionMode::Fork,
                seq: 0,
                event_id: None,
                label,
                reason,
                // The parent's row is not at hand here. Readers of a lineage count the depth
                // themselves.
                depth: 1,
            });
        }
    }

    /// Copies what the parent's row describes: a fork works where its parent worked, until its own
    /// events say otherwise.
    pub(crate) fn inherit_settings(&mut self, parent: &SessionRow) {
        self.agent = parent.agent.clone();
        self.model = parent.model.clone();
        self.cwd = parent.cwd.clone();
        self.project = parent.project.clone();
        self.title = parent.title.clone();
    }
}
