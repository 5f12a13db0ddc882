//! The state of a session while its source is read; stored in the checkpoint.

use event::payload::{SessionMode, SettingsChanged};
use event::{EventId, ProcessIdentity, Time};
use serde::{Deserialize, Serialize};

/// One session of a source.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ThreadState {
    /// Its first event was built.
    pub is_started: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentLink>,
    pub settings: SessionSettings,
    /// The process that hooks named last, and when they did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<(ProcessIdentity, Time)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    pub is_turn_open: bool,
    /// The last event that is still effective after a rewind, until the next prompt says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewound_to: Option<EventId>,
    /// The turn has just been opened, and nothing was said in it yet.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub follows_pause: bool,
    /// The newest time the provider gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_at: Option<Time>,
    /// Its last event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_id: Option<EventId>,
    /// The epoch that is running, and when it began.
    pub epoch: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch_from: Option<Time>,
    /// Its end was told, and nothing was said since.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_exited: bool,
}

impl ThreadState {
    /// Takes the process that a hook named; whether it is another one than before. A message that
    /// waited on disk may be read after a newer one, and then says nothing new.
    pub(crate) fn apply_process(&mut self, process: ProcessIdentity, at: Time) -> bool {
        let is_new = match &self.process {
            Some((known, seen_at)) => !known.is_same(&process) && *seen_at < at,
            None => true,
        };
        if is_new {
            self.process = Some((process, at));
        }
        is_new
    }

    /// Becomes a session of its own behind a copied part: settings stay, epochs begin anew.
    pub(crate) fn start_anew(&mut self, parent: Option<ParentLink>) {
        // The session has no event of its own yet: the next one will be its start.
        self.is_started = false;
        self.turn_id = None;
        self.epoch = 0;
        self.epoch_from = None;
        self.is_exited = false;
        self.parent = parent;
    }

    /// The session it works for, if it is a subagent. That link counts more than a copied history.
    pub(crate) fn works_for(&self) -> Option<ParentLink> {
        self.parent.clone().filter(|parent| parent.mode == SessionMode::Child)
    }
}

/// Where a session comes from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct ParentLink {
    /// The provider's id of the parent.
    pub session: String,
    pub mode: SessionMode,
    /// The last event it shows of its parent; 0 for none.
    #[serde(default)]
    pub seq: u64,
    /// What in the parent asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Its beginning was copied into the session, though that does not go on with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_copied: bool,
}

impl ParentLink {
    /// A parent of which no event is shown.
    pub(crate) fn unseen(session: &str) -> ParentLink {
        ParentLink::behind_event(session, 0)
    }

    /// A parent that is continued behind one of its events.
    pub(crate) fn behind_event(session: &str, seq: u64) -> ParentLink {
        let (session, mode) = (session.to_owned(), SessionMode::Fork);
        ParentLink { session, mode, seq, label: None, is_copied: false }
    }

    /// Whether the session begins with what its parent said.
    pub(crate) fn is_repeated(&self) -> bool {
        self.mode == SessionMode::Fork || self.is_copied
    }
}

/// Settings of a session. An absent value is unknown, not unset.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionSettings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry_point: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

impl SessionSettings {
    /// Takes over what `news` says; the changes, if there are any.
    pub(crate) fn apply_change(&mut self, news: SessionSettings) -> Option<SettingsChanged> {
        let mut changed = SettingsChanged::default();
        let SessionSettings {
            agent_version,
            model,
            cwd,
            branch,
            remote,
            entry_point,
            permission_mode,
            title,
        } = news;
        take_change(&mut self.agent_version, agent_version, &mut changed.agent_version);
        take_change(&mut self.model, model, &mut changed.model);
        take_change(&mut self.cwd, cwd, &mut changed.cwd);
        take_change(&mut self.branch, branch, &mut changed.branch);
        take_change(&mut self.permission_mode, permission_mode, &mut changed.permission_mode);
        take_change(&mut self.title, title, &mut changed.title);
        // How it was started and where its code comes from are told once, with the start.
        take_change(&mut self.remote, remote, &mut None);
        take_change(&mut self.entry_point, entry_point, &mut None);
        (changed != SettingsChanged::default()).then_some(changed)
    }
}

fn take_change(known: &mut Option<String>, news: Option<String>, changed: &mut Option<String>) {
    // Agents write an empty text for what they do not know, which is no change.
    let news = news.filter(|news| !news.is_empty());
    if news.is_some() && news != *known {
        known.clone_from(&news);
        *changed = news;
    }
}
