//! What events say and what was seen beside them, weighed at one moment.
//!
//! Everything that speaks for a status becomes evidence. Some is overruled: by a stronger or newer
//! source, or because no user sits at the session. Of the rest, the status of the highest priority
//! is the verdict. Silence alone never means waiting: an open turn stays `running` as long as its
//! process lives.

use std::cmp::Reverse;

use event::{Confidence, Time};

use super::pending::PendingQuestion;
use super::process_evidence::{Life, ProcessEvidence, Registry, RegistryWord};
use super::state::StatusState;
use super::{Evidence, Overruled, Reason, Status, Verdict};
use crate::event_ref::{EventRef, at_most_medium};
use crate::turn_machine::{TurnEnd, TurnState};

/// Quiet time after which a session that is ready for a prompt is idle.
const IDLE_SECS: i64 = 2 * 60;

/// Quiet time after which an open turn is doubted, if it is unknown whether its process lives.
const DOUBTED_SECS: i64 = 10 * 60;

/// Quiet time after which the status is unknown. Background work is forgotten then, too: agents do
/// not always record its end.
const UNKNOWN_SECS: i64 = 60 * 60;

/// Quiet time after which the user should look whether an open turn still makes progress. It must
/// be one of the times that [`stands_until`] counts with.
pub(super) const STUCK_SECS: i64 = DOUBTED_SECS;

/// A file that was written so lately is being written.
const GROWING_SECS: i64 = 10;

/// What is not there yet, or not gone yet, may be so in a moment.
const SETTLE_SECS: i64 = 2;

/// Why a session that asks does not count as working.
const ASKED: &str = "it has asked something and waits for the answer";

/// Why nothing goes on that began before the process which has the session open.
const OUTLIVED: &str = "its process ended, a new one resumed the session";

/// What a session is doing at `now`.
pub fn verdict(state: &StatusState, observed: &ProcessEvidence, now: Time) -> Verdict {
    // Questions come before the turn and the background, which ask whether one stands. Readiness
    // comes last: it looks whether anything stands at all.
    let mut scales = VerdictBuilder::new(state, observed, now);
    scales.weigh_exits();
    scales.approvals();
    scales.questions();
    scales.weigh_turn();
    scales.background();
    scales.readiness();
    scales.into_verdict()
}

/// Until when a verdict of `now` stays as it is, if nothing happens: what the clock alone changes,
/// it changes then. `None` if it changes nothing any more.
///
/// It may be early, never late: a caller that weighs again at that time misses no change.
pub fn stands_until(state: &StatusState, observed: &ProcessEvidence, now: Time) -> Option<Time> {
    const WAITS: [i64; 5] = [SETTLE_SECS, GROWING_SECS, IDLE_SECS, DOUBTED_SECS, UNKNOWN_SECS];
    // Every wait is counted from one of five times: the last activity, the end of the turn, the
    // last update of the registry, the beginning of a compaction, and the start of the process.
    // Their cross product is a superset of all changes. A last activity that is not known is that
    // of any `now`, so no wait for it ends.
    let last_at = last_sign_at(state, observed);
    let ended_at = state.turn.end().map(|end| end.by.at);
    let registered_at = observed.registry.as_ref().map(|registry| registry.updated_at);
    let compacting_at = state.compacting.as_ref().map(|compacting| compacting.at);
    let started_at = observed.process.and_then(|process| process.started_at);
    let begun = [last_at, ended_at, registered_at, compacting_at, started_at];
    let begun = begun.into_iter().flatten();
    let over = begun.flat_map(|from| WAITS.map(|secs| add_secs(from, secs)));
    over.filter(|over| *over > now).min()
}

/// Evidence as it is gathered.
struct VerdictBuilder<'a> {
    state: &'a StatusState,
    observed: &'a ProcessEvidence,
    now: Time,
    life: Life,
    /// The last thing that is known to have happened.
    last_at: Time,
    standing: Vec<Evidence>,
    overruled: Vec<Overruled>,
}

impl<'a> VerdictBuilder<'a> {
    fn new(state: &'a StatusState, observed: &'a ProcessEvidence, now: Time) -> VerdictBuilder<'a> {
        let last_at = last_sign_at(state, observed).unwrap_or(now);
        let (standing, overruled) = (Vec::new(), Vec::new());
        VerdictBuilder { state, observed, now, life: observed.life(), last_at, standing, overruled }
    }

    fn into_verdict(self) -> Verdict {
        let is_turn_open = self.is_turn_open();
        let asked = self.state.approvals.iter().filter(|asked| !self.is_outlived(&asked.event));
        let pending: Vec<String> = asked.map(|asked| asked.id.clone()).collect();
        let VerdictBuilder { state, observed, mut standing, mut overruled, last_at, .. } = self;
        // `Status` is ordered by priority. The sort is stable, so of equals the one gathered first
        // leads.
        standing.sort_by_key(|evidence| {
            (evidence.says, Reverse(confidence_rank(&evidence.confidence)))
        });
        let first = standing.first().map(|evidence| (evidence.says, evidence.reason));
        let (status, reason) = first.unwrap_or((Status::Unknown, Reason::Nothing));
        // Evidence for a lower status is kept with its reason: `explain` shows what was passed
        // over.
        let rest = standing.partition_point(|evidence| evidence.says == status);
        for evidence in standing.split_off(rest) {
            let why =
                format!("{} takes precedence over {}", status.as_str(), evidence.says.as_str());
            overruled.push(Overruled { evidence, why });
        }
        // The turn of a dead process is open by its events, but no turn is under way.
        let is_on = matches!(status, Status::WaitingApproval | Status::Running | Status::Waiting);
        Verdict {
            status,
            reason,
            since: standing.first().map_or(last_at, |evidence| evidence.at),
            confidence: standing
                .first()
                .map_or(Confidence::Low, |evidence| evidence.confidence.clone()),
            evidence: standing,
            overruled,
            turn_id: state.turn.turn_id().filter(|_| is_on && is_turn_open).map(str::to_owned),
            pending_approvals: match status {
                Status::WaitingApproval => pending,
                _ => Vec::new(),
            },
            pid: observed.pid(),
        }
    }

    /// Evidence that the session has ended.
    fn weigh_exits(&mut self) {
        if let Some(process) = self.observed.process.filter(|process| process.life == Life::Gone) {
            let what = format!("its process {} is gone", process.pid);
            let confidence = confidence(process.is_certain);
            self.add_evidence(self.outside_evidence(
                Status::Exited,
                Reason::Gone,
                what,
                "process",
                confidence,
                self.gone_at(),
            ));
        }
        if let Some(lock) = self.observed.lock.as_ref().filter(|lock| lock.life == Life::Gone) {
            let what = format!("no process holds its lock {}", lock.path);
            let (reason, at) = (Reason::Gone, self.gone_at());
            self.add_evidence(self.outside_evidence(
                Status::Exited,
                reason,
                what,
                "lock",
                Confidence::High,
                at,
            ));
        }
        if let Some(missing) = &self.observed.missing {
            let what = format!("no process has it open: {}", missing.what);
            let (reason, at) = (Reason::Gone, self.gone_at());
            let evidence = self.outside_evidence(
                Status::Exited,
                reason,
                what,
                missing.source,
                Confidence::Medium,
                at,
            );
            // A file is written before its lock or its entry exists, so a fresh session is not
            // missing yet.
            match self.observed.life() {
                Life::Alive => self.overrule(evidence, "its process is alive"),
                _ if self.quiet_secs() < SETTLE_SECS => {
                    self.overrule(evidence, "it was written a moment ago");
                }
                _ => self.add_evidence(evidence),
            }
        }
        if let Some(exit) = &self.state.exit {
            let evidence = self.event_evidence(
                exit,
                Status::Exited,
                Reason::Shutdown,
                "the agent reported its end",
            );
            // A live process with an entry newer than the exit has the session open again, also
            // before it writes a record.
            let registry = self.registry().filter(|registry| registry.updated_at > exit.at);
            let is_listed = registry.is_some() && self.life == Life::Alive;
            match is_listed || self.is_outlived(exit) {
                true => self.overrule(evidence, "it was opened again"),
                false => self.add_evidence(evidence),
            }
        }
    }

    /// Approvals that wait for the user.
    fn approvals(&mut self) {
        for asked in self.state.approvals.iter() {
            let what = format!("approval {} is pending", asked.id);
            let evidence = self.event_evidence(
                &asked.event,
                Status::WaitingApproval,
                Reason::Permission,
                &what,
            );
            let answered = self.answered_beside(asked, RegistryWord::Permission);
            match answered.or_else(|| self.runs_already(asked.command.as_deref(), &asked.event)) {
                Some(why) => self.overrule(evidence, why),
                None => self.add_evidence(evidence),
            }
        }
        if let Some(call) = self.state.escalated_call() {
            let what = "a call that asks for approval has no result";
            let sign = call.event.clone().at_most_medium();
            let (says, reason) = (Status::WaitingApproval, Reason::Permission);
            let evidence = self.event_evidence(&sign, says, reason, what);
            match self.runs_already(call.command.as_deref(), &sign) {
                Some(why) => self.overrule(evidence, why),
                None => self.add_evidence(evidence),
            }
        }
        self.registry_says(
            RegistryWord::Permission,
            Status::WaitingApproval,
            Reason::Permission,
            "the agent waits for a permission",
        );
    }

    /// Why an approval was given already, by what runs.
    fn runs_already(&self, command: Option<&str>, asked: &EventRef) -> Option<&'static str> {
        let command = command?;
        // A command inside the longer one of another call runs for that call.
        let calls = self.state.calls.iter().filter_map(|call| call.command.as_deref());
        let asked_for = self.state.approvals.iter().filter_map(|it| it.command.as_deref());
        let is_around = |other: &&str| other.len() > command.len() && other.contains(command);
        let around: Vec<&str> = calls.chain(asked_for).filter(is_around).collect();
        let is_running = self.observed.commands.iter().any(|running| {
            let is_for = |command: &str| running.is_for(command, asked.at);
            is_for(command) && !around.iter().any(|other| is_for(other))
        });
        is_running.then_some("its command runs, so it was allowed")
    }

    fn questions(&mut self) {
        for asked in self.state.questions.iter() {
            let what = format!("question {} is pending", asked.id);
            let evidence =
                self.event_evidence(&asked.event, Status::Waiting, Reason::Question, &what);
            match self.answered_beside(asked, RegistryWord::Question) {
                Some(why) => self.overrule(evidence, why),
                None => self.add_evidence(evidence),
            }
        }
        self.registry_says(
            RegistryWord::Question,
            Status::Waiting,
            Reason::Question,
            "the agent waits for an answer",
        );
    }

    /// Why a question needs no answer any more, by what was seen beside the log.
    fn answered_beside(&self, asked: &PendingQuestion, word: RegistryWord) -> Option<&'static str> {
        if self.is_outlived(&asked.event) {
            return Some(OUTLIVED);
        }
        // Agents run their hooks without a user, too.
        if self.state.is_headless {
            return Some("it runs without a person who could answer");
        }
        // The registry knows an answer before any record does: agents record a decision when the
        // call is done. An older entry proves nothing, except against a guess from the screen.
        let registry = self.registry().filter(|registry| registry.word.is_some())?;
        if self.registry_word() == Some(word) {
            return None;
        }
        if asked.event.confidence == Confidence::Low {
            return Some("the agent itself says something else");
        }
        (registry.updated_at > asked.event.at).then_some("the agent no longer waits")
    }

    /// An open turn, and other work that the agent is busy with.
    fn weigh_turn(&mut self) {
        // The registry is a file that is written after the fact. Where the turn ended later than
        // its last update, it still says what was true before.
        let ended_at = self.state.turn.end().map(|end| end.by.at);
        let updated_at = self.registry().map(|registry| registry.updated_at);
        let is_over_since = updated_at.is_some() && ended_at > updated_at;
        if let Some(evidence) = self.word_of_registry(
            RegistryWord::Busy,
            Status::Running,
            Reason::Turn,
            "the agent says that it is busy",
        ) {
            if is_over_since {
                self.overrule(evidence, "its turn has ended since");
            } else if self.is_asking() {
                self.overrule(evidence, ASKED);
            } else {
                self.add_evidence(evidence);
            }
        }
        // Inside an open turn `running_reason` names a compaction; outside of one it is evidence of
        // its own.
        if self.state.turn.is_open()
            && let Some(since) = self.state.turn.opened_by()
        {
            let evidence = self.event_evidence(
                since,
                Status::Running,
                self.state.running_reason(),
                "a turn is open",
            );
            self.open_turn(since, evidence);
        } else if let Some(compacting) = &self.state.compacting {
            let what = "it compacts its history";
            // A compaction that was stopped or had nothing to do leaves no record: that it goes on
            // is a conclusion.
            let begun = compacting.clone().at_most_medium();
            let evidence = self.event_evidence(&begun, Status::Running, Reason::Compaction, what);
            if secs_between(compacting.at, self.now) >= DOUBTED_SECS {
                return self.overrule(evidence, "it has not ended for ten minutes");
            }
            self.open_turn(compacting, evidence);
        }
    }

    fn open_turn(&mut self, since: &EventRef, mut evidence: Evidence) {
        if self.is_outlived(since) {
            return self.overrule(evidence, OUTLIVED);
        }
        if self.is_asking() {
            return self.overrule(evidence, ASKED);
        }
        // Escape may leave no record. The registry then says ready, later than any event.
        let idle = self.registry().filter(|registry| registry.word == Some(RegistryWord::Idle));
        if idle.is_some_and(|registry| registry.updated_at >= self.last_sign_at()) {
            return self.overrule(evidence, "the agent says that it is ready");
        }
        let is_unseen = self.state.may_wait_unseen();
        if is_unseen {
            evidence.confidence = at_most_medium(evidence.confidence);
        }
        // A long build may write nothing for an hour. So a turn is doubted only while it is unknown
        // whether its process lives.
        if self.life == Life::Unknown {
            if self.quiet_secs() >= UNKNOWN_SECS {
                evidence.says = Status::Unknown;
                evidence.reason = Reason::Silent;
                evidence.what.push_str(", without activity for an hour");
                evidence.confidence = Confidence::Low;
            } else if self.quiet_secs() >= DOUBTED_SECS {
                evidence.confidence = Confidence::Low;
            }
        }
        let says = evidence.says;
        self.add_evidence(evidence);
        if says == Status::Running && self.life == Life::Alive {
            // The newest call explains the silence. More of them would only make the list longer.
            for call in self.state.calls.iter().rev().take(1) {
                let what = "a tool runs, and its process is alive";
                let reason = self.state.running_reason();
                let mut runs = self.event_evidence(&call.event, Status::Running, reason, what);
                if is_unseen {
                    runs.confidence = at_most_medium(runs.confidence);
                }
                self.add_evidence(runs);
            }
        }
    }

    /// What goes on although the turn is over.
    fn background(&mut self) {
        self.registry_says(
            RegistryWord::Shell,
            Status::Running,
            Reason::Background,
            "the agent says that something runs in the background",
        );
        // Inside an open turn background work is a part of it.
        if !self.is_turn_open()
            && let Some(sign) = self.state.background()
        {
            let what = "something it started still runs in the background";
            let evidence = self.event_evidence(sign, Status::Running, Reason::Background, what);
            if self.is_outlived(sign) {
                self.overrule(evidence, OUTLIVED);
            } else if self.is_asking() {
                self.overrule(evidence, ASKED);
            } else if self.quiet_secs() >= UNKNOWN_SECS {
                // Not every agent records when background work ends; it must not run for ever.
                self.overrule(evidence, "no activity for an hour");
            } else {
                self.add_evidence(evidence);
            }
        }
    }

    /// What is left when nothing is open: ready, idle, over, or not known.
    fn readiness(&mut self) {
        let ready = "its turn is over, and it is ready for a prompt";
        match self.state.turn.state() {
            TurnState::Over(end) if self.state.is_headless || self.state.is_child => {
                self.run_over(end);
            }
            TurnState::Over(end) => {
                let evidence = self.event_evidence(&end.by, Status::Waiting, Reason::Prompt, ready);
                self.weigh_ready(evidence);
            }
            TurnState::ProbablyOver(sign) if !self.is_outlived(sign) => self.weigh_guess(sign),
            TurnState::ProbablyOver(_) | TurnState::Open | TurnState::None => {
                self.weigh_resumed();
            }
        }
        let says = "the agent says that it is ready";
        let idle = self.word_of_registry(RegistryWord::Idle, Status::Waiting, Reason::Prompt, says);
        match idle {
            Some(evidence) if self.state.is_headless => {
                self.overrule(evidence, "it runs without a person who could prompt it");
            }
            Some(evidence) => {
                // The next prompt may be recorded before the registry says busy.
                if self.is_turn_open() && evidence.at < self.last_sign_at() {
                    self.overrule(evidence, "something has happened since");
                } else {
                    self.weigh_ready(evidence);
                }
            }
            None => {}
        }
        // Only where nothing else is known, as of a log without a turn. With one, its end decides.
        if self.standing.is_empty()
            && self.state.turn.state() == &TurnState::None
            && self.quiet_secs() >= IDLE_SECS
            && let Some(last) = &self.state.last
        {
            let what = "nothing has happened for two minutes";
            let evidence = self.event_evidence(last, Status::Idle, Reason::Quiet, what);
            self.add_evidence(Evidence { confidence: Confidence::Low, ..evidence });
        }
    }

    /// A new process has the session open, and nothing of what the one before left goes on.
    fn weigh_resumed(&mut self) {
        let what = "its process ended in a turn, and a new one has it open";
        let (says, reason) = (Status::Waiting, Reason::Resumed);
        let opened_by = match self.state.turn.state() {
            TurnState::Open => self.state.turn.opened_by(),
            TurnState::ProbablyOver(last) => Some(last),
            TurnState::Over(_) | TurnState::None => None,
        };
        let process =
            self.observed.process.filter(|_| opened_by.is_some_and(|it| self.is_outlived(it)));
        let evidence = match (process, &self.state.resumed) {
            (Some(process), _) => {
                let (is_certain, at) = (process.is_certain, process.started_at.unwrap_or(self.now));
                let confidence = confidence(is_certain);
                self.outside_evidence(says, reason, what.to_owned(), "process", confidence, at)
            }
            (None, Some(named)) if opened_by.is_none() => {
                self.event_evidence(named, says, reason, what)
            }
            _ => return,
        };
        match self.state.is_headless {
            true => self.overrule(evidence, "it runs without a person who could prompt it"),
            false => self.weigh_ready(evidence),
        }
    }

    /// Whether an event is older than the process that has the session open. What it began went
    /// down with the process before.
    fn is_outlived(&self, event: &EventRef) -> bool {
        let process = self.observed.process.filter(|process| process.life == Life::Alive);
        let started_at = process.and_then(|process| process.started_at);
        started_at.is_some_and(|started_at| event.created_at < started_at)
    }

    /// Whether the agent does not name the process, and only its folder and its start speak for it.
    fn is_process_concluded(&self) -> bool {
        let ProcessEvidence { process, registry, lock, .. } = self.observed;
        let is_concluded = process.is_some_and(|it| it.life == Life::Alive && !it.is_certain);
        // A lock whose holder cannot be read, as on macOS, names no process.
        let is_locked = lock.as_ref().is_some_and(|lock| lock.life != Life::Unknown);
        is_concluded && registry.is_none() && !is_locked
    }

    /// Whether a turn is open that the present process can have begun.
    fn is_turn_open(&self) -> bool {
        let opened_by = self.state.turn.opened_by();
        self.state.turn.is_open() && !opened_by.is_some_and(|event| self.is_outlived(event))
    }

    /// Ready for a prompt, for two minutes; then idle.
    fn weigh_ready(&mut self, evidence: Evidence) {
        let quiet_since = evidence.at.max(self.last_at);
        if secs_between(quiet_since, self.now) < IDLE_SECS {
            return self.add_evidence(evidence);
        }
        // Idle since the wait was over, not since the answer: `since` must not lie before the
        // status.
        let at = add_secs(quiet_since, IDLE_SECS);
        let what = format!("{}, and quiet since", evidence.what);
        let (says, reason) = (Status::Idle, Reason::Quiet);
        self.add_evidence(Evidence {
            says,
            reason,
            what,
            at,
            ends: ending_sign(says, reason),
            ..evidence
        });
    }

    /// A run without a person ends with its answer, as soon as its process is gone.
    fn run_over(&mut self, end: &TurnEnd) {
        let what = "its answer is complete, and it runs without a person";
        let quiet = self.quiet_secs();
        let (says, reason) = match self.life {
            // A process that lives may still be at work behind its answer, and one that is not seen
            // may have gone only now.
            Life::Alive if quiet >= IDLE_SECS => (Status::Idle, Reason::Quiet),
            Life::Alive => (Status::Running, Reason::Turn),
            _ if quiet < SETTLE_SECS => (Status::Running, Reason::Turn),
            _ => (Status::Exited, Reason::RunOver),
        };
        let evidence = self.event_evidence(&end.by, says, reason, what);
        // The record states the end of the turn. That the run is over with it is our conclusion.
        self.add_evidence(Evidence { confidence: Confidence::Medium, ..evidence });
    }

    /// The agent does not tell ends of turns: what its file does is all there is.
    fn weigh_guess(&mut self, sign: &EventRef) {
        let quiet = self.quiet_secs();
        let (says, reason, what) = if quiet < GROWING_SECS {
            (Status::Running, Reason::Growth, "its file was written a moment ago")
        } else if quiet < IDLE_SECS {
            (Status::Unknown, Reason::Answered, "it has answered, and may continue")
        } else {
            (Status::Idle, Reason::Quiet, "it has answered, and was quiet for two minutes")
        };
        let evidence = self.event_evidence(sign, says, reason, what);
        self.add_evidence(Evidence { confidence: Confidence::Low, ..evidence });
    }

    fn registry_says(&mut self, word: RegistryWord, says: Status, reason: Reason, what: &str) {
        if let Some(evidence) = self.word_of_registry(word, says, reason, what) {
            self.add_evidence(evidence);
        }
    }

    /// What the registry says, if it says this.
    fn word_of_registry(
        &self,
        word: RegistryWord,
        says: Status,
        reason: Reason,
        what: &str,
    ) -> Option<Evidence> {
        // Without a proven process the file may have been left by a killed agent.
        let registry = self.registry().filter(|_| self.registry_word() == Some(word))?;
        let confidence = confidence(self.life == Life::Alive);
        let what = format!("{what} ({})", registry.path);
        Some(self.outside_evidence(says, reason, what, "registry", confidence, registry.updated_at))
    }

    /// What the agent's own list says. Some versions have one word for every dialog, so that a
    /// permission is a question where nothing else can be asked for.
    fn registry_word(&self) -> Option<RegistryWord> {
        match self.registry()?.word? {
            RegistryWord::Permission if self.state.has_only_questions() => {
                Some(RegistryWord::Question)
            }
            word => Some(word),
        }
    }

    /// The agent's own list, unless its process is gone and left it behind.
    fn registry(&self) -> Option<&'a Registry> {
        self.observed.registry.as_ref().filter(|_| self.life != Life::Gone)
    }

    /// Whether a question to the user stands. An agent that waits for an answer does nothing else.
    fn is_asking(&self) -> bool {
        self.standing.iter().any(|evidence| evidence.reason == Reason::Question)
    }

    fn last_sign_at(&self) -> Time {
        self.state.last.as_ref().map_or(Time::MIN, |last| last.at)
    }

    /// When it was last known to live, which is when it may have ended.
    fn gone_at(&self) -> Time {
        // Unlike `registry()`, this also takes the entry of a dead process: its time is still true.
        let updated_at = self.observed.registry.as_ref().map(|registry| registry.updated_at);
        updated_at.max(Some(self.last_at)).unwrap_or(self.now)
    }

    /// Seconds since anything is known to have happened.
    fn quiet_secs(&self) -> i64 {
        secs_between(self.last_at, self.now)
    }

    fn event_evidence(
        &self,
        sign: &EventRef,
        says: Status,
        reason: Reason,
        what: &str,
    ) -> Evidence {
        Evidence {
            says,
            reason,
            what: what.to_owned(),
            source: sign.source.to_string(),
            confidence: sign.confidence.clone(),
            at: sign.at,
            event_id: Some(sign.event_id),
            ends: ending_sign(says, reason),
        }
    }

    fn outside_evidence(
        &self,
        says: Status,
        reason: Reason,
        what: String,
        source: &str,
        confidence: Confidence,
        at: Time,
    ) -> Evidence {
        let (source, ends) = (source.to_owned(), ending_sign(says, reason));
        Evidence { says, reason, what, source, confidence, at, event_id: None, ends }
    }

    fn add_evidence(&mut self, mut evidence: Evidence) {
        // One of several processes may have it open, or none; and in a folder of several agents the
        // one that seems to have it may be the process of another session.
        let is_unsure = self.observed.doubt.is_some() || self.is_process_concluded();
        if is_unsure && evidence.says != Status::Exited {
            evidence.confidence = at_most_medium(evidence.confidence);
        }
        self.standing.push(evidence);
    }

    fn overrule(&mut self, evidence: Evidence, why: &str) {
        self.overruled.push(Overruled { evidence, why: why.to_owned() });
    }
}

/// When anything is known to have happened last.
fn last_sign_at(state: &StatusState, observed: &ProcessEvidence) -> Option<Time> {
    let told_at = state.last.as_ref().map(|last| last.at);
    told_at.max(observed.grown_at)
}

/// What would end a sign.
fn ending_sign(says: Status, reason: Reason) -> &'static str {
    match (says, reason) {
        (Status::Exited, _) => "anything newer that it writes",
        (Status::WaitingApproval, _) => "an answer, the result of the call, or the end of the turn",
        (Status::Running, Reason::Background) => "the end of what runs in the background",
        (Status::Running, Reason::Growth) => "ten quiet seconds",
        (Status::Running, _) => "the end of the turn, or of its process",
        (Status::Waiting, Reason::Question) => "an answer, or the end of the turn",
        (Status::Waiting, _) => "the next prompt, or two quiet minutes",
        (Status::Idle | Status::Unknown, _) => "anything new",
    }
}

fn confidence(is_certain: bool) -> Confidence {
    if is_certain { Confidence::High } else { Confidence::Medium }
}

fn confidence_rank(confidence: &Confidence) -> u8 {
    match confidence {
        Confidence::High => 2,
        Confidence::Medium => 1,
        _ => 0,
    }
}

/// Whole seconds from one to the other; none if a clock went back.
pub(super) fn secs_between(from: Time, to: Time) -> i64 {
    let secs = (to.nanos() - from.nanos()) / 1_000_000_000;
    i64::try_from(secs.max(0)).unwrap_or(i64::MAX)
}

fn add_secs(time: Time, secs: i64) -> Time {
    Time::from_nanos(time.nanos() + i128::from(secs) * 1_000_000_000)
}
