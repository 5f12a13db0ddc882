//! Builds drafts of events from records: ids, times, sessions and epochs, in the order of the source.

mod messages; // prompts, answers, tool calls and notes
mod children; // subagents and questions behind a tool call
mod tool_input; // the main argument of a tool call

pub use children::ChildCall;
pub use tool_input::{argument, call_line, questions};

use std::collections::BTreeMap;

use event::json::string_prefix;
use event::payload::{
    Compaction, Content, ContextKind, EpochClosed, Note, Payload, Placement, SavedEntry,
    SessionExited, SessionMode, SessionParent, SessionStarted, SettingsChanged, StopReason,
    TurnCompleted, TurnStarted, Unknown,
};
use event::{
    Confidence, Draft, EventId, Kind, ProcessIdentity, Raw, SessionId, Source as How, Time,
};

use crate::identity::EventIdentity;
use crate::limit::{SHOWN_CHARS_MAX, SILENCE_MILLIS, UNKNOWN_BYTES_MAX};
use crate::lineage::{ParentClaim, judge_claim};
use crate::record::SourceRecord;
use crate::source::Source;
use crate::thread_state::{ParentLink, SessionSettings, ThreadState};

/// The id of a provider's session in the journal.
pub(crate) fn session_id(provider: &str, session: &str) -> SessionId {
    const LEN_MAX: usize = 255;
    let id = format!("{provider}:{session}");
    let whole = SessionId::new(&id);
    whole.unwrap_or_else(|_| {
        // Too long or empty: a hash of the whole id keeps it unique.
        let hash = Source::first_name(provider, std::path::Path::new(session));
        // A character has at most 4 bytes, so the cut leaves room for `#` and 16 hex digits.
        let cut: String = id.chars().filter(|c| !c.is_control()).take(LEN_MAX / 4 - 20).collect();
        SessionId::new(format!("{cut}#{hash}")).expect("it is short and not empty")
    })
}

/// Collects the events of the records of one source.
pub struct EventBuilder<'a> {
    source: &'a Source,
    generation: u32,
    threads: &'a mut BTreeMap<String, ThreadState>,
    beside: &'a dyn Fn(&str) -> Option<String>,
    now: Time,
    /// The session of the next events.
    session: String,
    /// The last session id and the provider's id it was made from: most events repeat it.
    last_session: Option<(String, SessionId)>,
    offset: u64,
    length: u64,
    key: String,
    drafts: Vec<Draft>,
    /// The place of each draft.
    places: Vec<DraftPlace>,
    silent: u64,
    unknown: BTreeMap<(String, String), u64>,
}

/// Where a draft comes from, and whether copies of it are recognised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DraftPlace {
    /// A copy of it in another session has the same identity.
    pub is_everywhere: bool,
    /// The offset behind its record.
    pub end: u64,
}

/// The events of some records.
#[derive(Debug, Default)]
pub(crate) struct ParsedEvents {
    pub drafts: Vec<Draft>,
    pub places: Vec<DraftPlace>,
    pub silent: u64,
    /// How many records were not understood, by the agent's version and the record's type.
    pub unknown: BTreeMap<(String, String), u64>,
}

impl<'a> EventBuilder<'a> {
    pub(crate) fn new(
        source: &'a Source,
        generation: u32,
        threads: &'a mut BTreeMap<String, ThreadState>,
        beside: &'a dyn Fn(&str) -> Option<String>,
        now: Time,
    ) -> EventBuilder<'a> {
        EventBuilder {
            source,
            generation,
            threads,
            beside,
            now,
            session: source.session.clone(),
            last_session: None,
            offset: 0,
            length: 0,
            key: String::new(),
            drafts: Vec::new(),
            places: Vec::new(),
            silent: 0,
            unknown: BTreeMap::new(),
        }
    }

    /// Starts a record: the following events stand in it.
    pub(crate) fn begin_record(&mut self, record: &SourceRecord<'_>) {
        self.offset = record.offset;
        self.length = record.length;
        record.key.clone_into(&mut self.key);
        // The record before may have switched to another session.
        self.session.clone_from(&self.source.session);
    }

    /// Sets when the following records were read.
    pub(crate) fn read_at(&mut self, now: Time) {
        self.now = now;
    }

    pub(crate) fn len(&self) -> usize {
        self.drafts.len()
    }

    pub(crate) fn finish(self) -> ParsedEvents {
        let EventBuilder { drafts, places, silent, unknown, .. } = self;
        ParsedEvents { drafts, places, silent, unknown }
    }

    /// Adds events that stand in an earlier record.
    pub fn at_record(
        &mut self,
        offset: u64,
        length: u64,
        tell: impl FnOnce(&mut EventBuilder<'a>),
    ) {
        let here = (self.offset, self.length);
        (self.offset, self.length) = (offset, length);
        tell(self);
        (self.offset, self.length) = here;
    }

    /// Whether the session has events.
    pub fn has_begun(&mut self) -> bool {
        self.thread_state().is_started
    }

    /// The last event of the session. A session without events is started.
    pub fn last_event(&mut self, at: Option<Time>) -> Option<EventId> {
        self.start_session(at);
        self.thread_state().last_id
    }

    /// The last event of the session so far.
    pub fn last_told(&mut self) -> Option<EventId> {
        self.thread_state().last_id
    }

    /// Switches to another session for the rest of the record.
    pub fn switch_session(&mut self, session: &str) {
        session.clone_into(&mut self.session);
    }

    /// Gives the record a name that is used in ids instead of its place.
    pub fn name_record(&mut self, name: &str) {
        name.clone_into(&mut self.key);
    }

    /// Sets the parent: the session that this one works for, before its first event, or the session
    /// that it goes on with, as soon as a record names it.
    pub fn set_parent(&mut self, session: &str, mode: SessionMode, label: Option<String>) {
        let names_itself = session == self.session;
        let thread = self.thread_state();
        match judge_claim(&mode, names_itself, thread.parent.is_some(), thread.is_started) {
            ParentClaim::Ignored => {}
            ParentClaim::Kept => {
                thread.parent = Some(ParentLink { mode, label, ..ParentLink::unseen(session) });
            }
            ParentClaim::Announced => self.comes_from(session),
        }
    }

    /// Whether the session has a parent.
    pub fn has_parent(&mut self) -> bool {
        self.thread_state().parent.is_some()
    }

    /// Notes that a subagent also begins with a copy of its parent's history.
    pub fn repeats_parent(&mut self) {
        if let Some(parent) = &mut self.thread_state().parent {
            parent.is_copied = true;
        }
    }

    /// Records the parent of a fork after the session has begun.
    pub(crate) fn comes_from(&mut self, session: &str) {
        self.thread_state().parent = Some(ParentLink::unseen(session));
        let session_id = self.session_of(session);
        let parent = Some(SessionParent { session_id, seq: 0, event_id: None });
        let identity = EventIdentity::in_session(&["comes from", session]);
        self.add_event(identity, None, &SettingsChanged { parent, ..SettingsChanged::default() });
    }

    /// The journal's id of another session of the agent.
    pub fn session_of(&self, session: &str) -> SessionId {
        session_id(self.source.provider, session)
    }

    /// The text of a file beside the source, by its path from the source's folder.
    pub fn read_beside(&self, path: &str) -> Option<String> {
        (self.beside)(path)
    }

    /// Takes over settings. Once the session has begun, changes become an event.
    pub fn settings(&mut self, at: Option<Time>, news: SessionSettings) {
        let thread = self.thread_state();
        let changed = thread.settings.apply_change(news);
        if let Some(changed) = changed.filter(|_| thread.is_started) {
            let what = Raw::from_value(&changed).expect("settings always encode");
            let identity =
                EventIdentity::in_session(&["settings", &self.record_name(), what.get()]);
            self.add_event(identity, at, &changed);
        }
    }

    /// A hook names the process that has the session open. A subagent has none of its own.
    pub(crate) fn process_named(&mut self, process: ProcessIdentity, at: Time) {
        let thread = self.thread_state();
        if thread.works_for().is_some() || !thread.apply_process(process, at) {
            return;
        }
        let name = Raw::from_value(&process).expect("an identity always encodes");
        let identity = EventIdentity::in_session(&["process", name.get()]);
        let changed = SettingsChanged { process: Some(process), ..SettingsChanged::default() };
        // A process outlives its turns.
        self.add_event(identity, Some(at), &changed).turn_id = None;
    }

    /// The settings known so far.
    pub fn known_settings(&mut self) -> &SessionSettings {
        &self.thread_state().settings
    }

    /// Adds an event. Its time is the provider's, else the nearest earlier one.
    pub fn add_event<P: Payload>(
        &mut self,
        identity: EventIdentity,
        at: Option<Time>,
        payload: &P,
    ) -> &mut Draft {
        let data = Raw::from_value(payload).expect("payloads always encode");
        self.add_raw_event(identity, at, P::KIND, data)
    }

    /// Adds an event with a payload that is JSON already.
    pub fn add_raw_event(
        &mut self,
        identity: EventIdentity,
        at: Option<Time>,
        kind: Kind,
        data: Raw,
    ) -> &mut Draft {
        self.start_session(at);
        // Only what the user sees counts. Bookkeeping that an agent writes behind its exit neither
        // resumes the session nor ends a pause.
        if kind.is_shown() {
            if self.thread_state().is_exited {
                self.reopen_session(
                    EventIdentity::in_session(&["resumed", &self.record_name()]),
                    at,
                );
            }
            self.notice_silence(at);
        }
        self.push_draft(identity, at, kind, data)
    }

    /// Starts a turn; the following events belong to it.
    pub fn turn_started(&mut self, at: Option<Time>, turn_id: &str) {
        self.start_session(at);
        self.turn_opened(Some(turn_id));
        let identity = EventIdentity::in_session(&["turn", turn_id, "started"]);
        self.add_event(identity, at, &TurnStarted::default());
    }

    /// A prompt opens a turn for agents that do not say so themselves.
    pub fn turn_opened(&mut self, turn_id: Option<&str>) {
        let thread = self.thread_state();
        // The pause before this prompt lies between two turns, though the turn is open when the
        // next event is built. The flag stays until that event.
        thread.follows_pause |= !thread.is_turn_open;
        thread.is_turn_open = true;
        thread.turn_id = turn_id.map(str::to_owned);
    }

    /// The agent has answered and waits for the user: a pause from here on may end the epoch.
    pub fn turn_answered(&mut self) {
        self.thread_state().is_turn_open = false;
    }

    /// The turn is over. A second end of the same turn is the same fact.
    pub fn turn_completed(
        &mut self,
        at: Option<Time>,
        identity: EventIdentity,
        stop_reason: StopReason,
        error: Option<String>,
    ) {
        let stop_reason = error.is_none().then_some(stop_reason);
        self.add_event(
            identity,
            at,
            &TurnCompleted { stop_reason, error, ..TurnCompleted::default() },
        );
        self.thread_state().is_turn_open = false;
    }

    /// The agent replaced its history by a summary; the epoch ends.
    pub fn compacted(
        &mut self,
        identity: EventIdentity,
        at: Option<Time>,
        summary: Option<String>,
        tokens_before: Option<u64>,
    ) -> EventId {
        let entries = summary.map(|summary| SavedEntry {
            role: Some("user".to_owned()),
            context_kind: Some(ContextKind::Summary),
            placement: Some(Placement::Prefix),
            content: Some(Content::text(summary)),
            ..SavedEntry::default()
        });
        let compaction = Compaction {
            strategy: "captured".to_owned(),
            current_tokens: tokens_before,
            entries: entries.into_iter().collect(),
            ..Compaction::default()
        };
        let id = self.add_event(identity, at, &compaction).id;
        // Behind the compaction itself, which still belongs to the epoch that it ends.
        self.close_epoch(at, "compaction");
        id
    }

    /// The agent went back to an event; the next prompt continues behind it.
    pub fn add_rewind(&mut self, identity: EventIdentity, at: Option<Time>, to: Option<EventId>) {
        let text = match to {
            Some(id) => format!("rewound to {id}"),
            None => "rewound to the beginning".to_owned(),
        };
        let about = Some(Raw::from_value("rewind").expect("a text encodes"));
        let draft = self.add_event(identity, at, &Note { text, about });
        draft.parent_id = to;
        self.thread_state().rewound_to = to;
    }

    /// The event that the next prompt continues from after a rewind.
    pub fn rewound_to(&mut self) -> Option<EventId> {
        self.thread_state().rewound_to
    }

    /// The agent says that it ended; so does the epoch.
    pub fn add_exit(&mut self, identity: EventIdentity, at: Option<Time>, reason: Option<String>) {
        let text = reason.clone();
        let exited = SessionExited { reason, ..SessionExited::default() };
        self.add_event(identity, at, &exited).text = text;
        let thread = self.thread_state();
        thread.is_turn_open = false;
        thread.is_exited = true;
        // A compaction right before the exit has closed the epoch already.
        if thread.epoch_from.is_some() {
            self.close_epoch(at, "exit");
        }
    }

    /// The agent was started again and goes on with the session; a new epoch begins.
    pub fn add_resume(&mut self, identity: EventIdentity, at: Option<Time>) {
        // Nothing was recorded so far, so this is the first start and not a second one.
        if !self.thread_state().is_started {
            return;
        }
        if self.thread_state().epoch_from.is_some() {
            // The agent was killed and could not say that it ended. Its last event is the nearest
            // known time.
            let last_at = self.thread_state().last_at;
            self.close_epoch(last_at, "exit");
        }
        self.reopen_session(identity, at);
    }

    /// The session goes on after its end.
    fn reopen_session(&mut self, identity: EventIdentity, at: Option<Time>) {
        self.thread_state().is_exited = false;
        let agent = Some(self.source.provider.to_owned());
        let started = SessionStarted { agent, resumed: true, ..SessionStarted::default() };
        self.add_event(identity, at, &started);
    }

    /// Closes the open epochs of a source that was silent for long, except where `runs` says that the
    /// agent still works on an open turn.
    pub(crate) fn fall_silent(&mut self, runs: &dyn Fn(&str) -> bool) {
        let open = self.threads.iter().filter(|(name, thread)| {
            thread.epoch_from.is_some() && !(thread.is_turn_open && runs(name))
        });
        let open: Vec<_> = open.map(|(name, thread)| (name.clone(), thread.last_at)).collect();
        for (session, last_at) in open {
            self.switch_session(&session);
            self.close_epoch(last_at, "silence");
        }
    }

    /// The epoch ends; the next one begins with what follows.
    pub fn close_epoch(&mut self, at: Option<Time>, cause: &str) {
        let provider = self.source.provider.to_owned();
        let session = self.session.clone();
        let thread = self.thread_state();
        let number = thread.epoch;
        // Records may lack times, so each end of the epoch falls back to what else is known.
        let from = thread.epoch_from.or(at).or(thread.last_at);
        let to = at.or(thread.last_at).or(from);
        thread.epoch += 1;
        thread.epoch_from = None;
        let (day, segment) =
            from.zip(to).map(|(from, to)| segment_key(from, to)).unwrap_or_default();
        let closed = EpochClosed {
            epoch: number,
            cause: cause.to_owned(),
            day,
            stream: format!("session:{provider}:{session}"),
            segment,
            ..EpochClosed::default()
        };
        let data = Raw::from_value(&closed).expect("payloads always encode");
        // Named by the number and not by the cause: whether the parser, a hook or the clock closes
        // the epoch, it is one fact.
        let identity = EventIdentity::in_session(&["epoch", &number.to_string()]);
        self.push_draft(identity, at, Kind::EpochClosed, data);
    }

    /// The id an event of the session has, or will have.
    pub fn event_id(&self, identity: &EventIdentity, at: Time) -> EventId {
        identity.event_id(at, self.source.provider, &self.session)
    }

    /// Counts a known record without content for the user.
    pub fn count_silent(&mut self) {
        self.silent += 1;
    }

    /// Keeps a record that is not understood, and counts it by its type.
    pub fn add_unknown(
        &mut self,
        record: &SourceRecord<'_>,
        record_type: &str,
        error: Option<&str>,
    ) {
        self.unknown_because(record.text.as_ref(), record_type, error);
    }

    pub(crate) fn unknown_because(&mut self, text: &str, record_type: &str, error: Option<&str>) {
        let version = self.thread_state().settings.agent_version.clone().unwrap_or_default();
        *self.unknown.entry((version, record_type.to_owned())).or_default() += 1;
        // JSON stays JSON; any other text becomes a JSON string.
        let raw = match text.len() {
            0..=UNKNOWN_BYTES_MAX => {
                Raw::parse(text).or_else(|_| Raw::from_value(text)).expect("a text always encodes")
            }
            _ => Raw::null(),
        };
        let unknown = Unknown {
            raw,
            record_type: Some(record_type.to_owned()),
            error: error.map(str::to_owned),
        };
        let identity = EventIdentity::in_session(&["unknown", &self.record_name()]);
        self.add_event(identity, None, &unknown);
    }

    /// Reports an incomplete last line: its length and its text.
    pub(crate) fn add_torn(&mut self, length: u64, text: &str) -> EventId {
        let unknown = Unknown {
            raw: match length <= UNKNOWN_BYTES_MAX as u64 {
                true => Raw::from_value(text).expect("a text always encodes"),
                false => Raw::null(),
            },
            record_type: None,
            error: Some("torn".to_owned()),
        };
        // The length is part of the identity: a line that grew and is still torn is reported anew.
        let identity =
            EventIdentity::in_session(&["torn", &self.record_name(), &length.to_string()]);
        self.add_event(identity, None, &unknown).id
    }

    /// Adds drafts that were built before and not recorded.
    pub(crate) fn take_over(&mut self, drafts: Vec<Draft>) {
        let place = DraftPlace { is_everywhere: false, end: self.offset };
        self.places.extend(drafts.iter().map(|_| place));
        self.drafts.extend(drafts);
    }

    /// Makes the first draft since `from` amend an event.
    pub(crate) fn amend_event(&mut self, from: usize, id: EventId) {
        if let Some(draft) = self.drafts.get_mut(from) {
            draft.amend(id);
        }
    }

    /// The name or the place of the record, for ids of events that have no identity of their own.
    pub fn record_name(&self) -> String {
        // Rows and entries have a key, because they can be read again at another place. Lines stay
        // where they are.
        match self.key.as_str() {
            "" => format!("{}@{}", self.source.plain_name(), self.offset),
            key => key.to_owned(),
        }
    }

    pub(crate) fn thread_state(&mut self) -> &mut ThreadState {
        // `entry` would copy the name of the session for every event.
        if !self.threads.contains_key(&self.session) {
            self.threads.insert(self.session.clone(), ThreadState::default());
        }
        self.threads.get_mut(&self.session).expect("it was just put there")
    }

    /// The journal's id of the current session, made once for a run of events.
    fn own_session(&mut self) -> SessionId {
        match &self.last_session {
            Some((name, id)) if *name == self.session => id.clone(),
            _ => {
                let id = session_id(self.source.provider, &self.session);
                self.last_session = Some((self.session.clone(), id.clone()));
                id
            }
        }
    }

    /// Starts the session, also without further events: adds `session.started`, once.
    pub fn start_session(&mut self, at: Option<Time>) {
        let provider = self.source.provider;
        let thread = self.thread_state();
        if thread.is_started {
            return;
        }
        thread.is_started = true;
        let settings = thread.settings.clone();
        let parent = thread.parent.clone();
        let started = SessionStarted {
            agent: Some(provider.to_owned()),
            agent_version: settings.agent_version,
            model: settings.model,
            cwd: settings.cwd,
            branch: settings.branch,
            remote: settings.remote,
            entry_point: settings.entry_point,
            permission_mode: settings.permission_mode,
            title: settings.title,
            mode: parent.as_ref().map(|parent| parent.mode.clone()),
            label: parent.as_ref().and_then(|parent| parent.label.clone()),
            parent: parent.map(|parent| SessionParent {
                session_id: session_id(provider, &parent.session),
                seq: parent.seq,
                event_id: None,
            }),
            ..SessionStarted::default()
        };
        let data = Raw::from_value(&started).expect("payloads always encode");
        self.push_draft(EventIdentity::in_session(&["started"]), at, Kind::SessionStarted, data);
    }

    /// A long pause between two turns ends the epoch.
    fn notice_silence(&mut self, at: Option<Time>) {
        let thread = self.thread_state();
        let pause = at.zip(thread.last_at).map(|(at, last)| at.nanos() - last.nanos());
        let silence = i128::from(SILENCE_MILLIS) * 1_000_000;
        let last_at = thread.last_at;
        let has_begun = thread.epoch_from.is_some();
        // Only a pause between turns counts: within a turn a tool may run for hours.
        let is_between = std::mem::take(&mut thread.follows_pause) || !thread.is_turn_open;
        if has_begun && is_between && pause.is_some_and(|pause| pause >= silence) {
            self.close_epoch(last_at, "silence");
        }
        let thread = self.thread_state();
        thread.epoch_from = thread.epoch_from.or(at).or(thread.last_at);
    }

    fn push_draft(
        &mut self,
        identity: EventIdentity,
        at: Option<Time>,
        kind: Kind,
        data: Raw,
    ) -> &mut Draft {
        let is_everywhere = identity.is_everywhere();
        let thread = self.thread_state();
        let known_at = at.or(thread.last_at);
        // Records may stand out of order, and the newest time must not move back.
        thread.last_at = at.max(thread.last_at);
        let turn_id = match kind {
            // These are about the session and belong to no turn.
            Kind::SessionStarted | Kind::SessionExited | Kind::EpochClosed => None,
            _ => thread.turn_id.clone(),
        };
        let parent_id = match kind {
            Kind::UserPrompt => thread.rewound_to.take(),
            _ => None,
        };
        // Not the clock: an id must not depend on when the record was read.
        let id_at = known_at.unwrap_or(Time::from_millis(0));
        let provider = self.source.provider;
        let id = identity.event_id(id_at, provider, &self.session);
        self.thread_state().last_id = Some(id);
        let session = self.own_session();
        let mut draft = Draft::with_data(id, session, known_at.unwrap_or(self.now), kind, data);
        draft.observed_at = self.now;
        provider.clone_into(&mut draft.provider);
        draft.provider_session_id = Some(self.session.clone());
        draft.source = How::Transcript;
        draft.confidence = Confidence::High;
        draft.turn_id = turn_id;
        draft.parent_id = parent_id;
        let EventBuilder { source, generation, offset, length, .. } = self;
        let record = format!("{}/{generation}/{offset}+{length}", source.name);
        draft
            .metadata
            .insert("record".to_owned(), Raw::from_value(&record).expect("a text encodes"));
        // A reader of the event can tell a time that was inferred from one that the agent wrote.
        if at.is_none() {
            draft
                .metadata
                .insert("time".to_owned(), Raw::from_value("inferred").expect("a text encodes"));
        }
        self.drafts.push(draft);
        self.places.push(DraftPlace { is_everywhere, end: self.offset + self.length });
        self.drafts.last_mut().expect("it was just put there")
    }
}

/// The day `YYYYMMDD` and the segment key `HHMMSS_SECONDS` of a stretch of time.
fn segment_key(from: Time, to: Time) -> (String, String) {
    let written = from.to_string();
    // The first 19 characters are `YYYY-MM-DDTHH:MM:SS`.
    let digits: String = written.chars().take(19).filter(char::is_ascii_digit).collect();
    let (day, clock) = digits.split_at(digits.len().min(8));
    let seconds = ((to.nanos() - from.nanos()) / 1_000_000_000).max(0);
    (day.to_owned(), format!("{clock}_{seconds}"))
}

/// The beginning of a text, for lists.
pub fn preview_text(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The beginning of a value that may be a long text. The rest of the text is not decoded.
pub(crate) fn shown_json(json: &Raw) -> String {
    // An escaped surrogate pair counts as two, so twice as many always hold enough characters.
    let units_max = 2 * (SHOWN_CHARS_MAX + 1);
    match string_prefix(json.get(), units_max) {
        Some(text) => preview_text(&text),
        None => preview_text(json.get()),
    }
}
