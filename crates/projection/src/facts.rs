//! What is known of a session without reading it again: the numbers and names people list.
//!
//! Folded from all events a session shows, in order, inherited ones included. Those may tell
//! what it is called and where it works; counted are only its own. An event that amends another
//! stands in for it. The state is bounded, so that it can be saved beside the journal at any
//! `seq` and continued from there; it can be deleted at any time.

use std::borrow::Cow;

use event::payload::{
    ContextAdded, ModelUsage, ModelWords, SessionMode, SessionStarted, SettingsChanged,
    StepCompleted, TurnCompleted, UsageReported, UserPrompt,
};
use event::{Cost, Deed, Draft, Event, EventId, Kind, Raw};
use serde::{Deserialize, Serialize};

use crate::ending::{Ending, EndingState, LastRecord};
use crate::epoch::EpochCount;
use crate::excerpt;
use crate::model_name::bare_name;
use crate::projection::Projection;
use crate::quarter_hour::QuarterHour;
use crate::reported_usage::ModelSums;
use crate::ring_buffer::RingBuffer;
use crate::title::{Title, TitleOrigin};
use crate::tokens::{Basis, TokenTotals};
use crate::torn::{EventNovelty, TornRecords, is_torn};
use crate::turn_machine::{TurnOutcome, is_queued};
use crate::usage::{RowNumber, SessionUsage, UsageKey, UsageTotals, context_step};

/// Requests of which a fuller account can still replace the use. Agents amend a request while they
/// write it; a later amendment is not counted, and its row is marked as incomplete.
const STEPS_MAX: usize = 8;

/// Branches and folders that are listed; further ones are only shown while they are the last.
const PLACES_MAX: usize = 32;

/// Kinds of unknown records that are told apart; the rest is counted without a name.
const UNKNOWN_TYPES_MAX: usize = 128;

/// Characters of a path, a branch or any other name that is kept.
const NAME_CHARS_MAX: usize = 1_000;

/// Everything a list of sessions shows of one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Facts {
    version: u32,
    seq: u64,
    about: SessionProfile,
    counts: ActivityCounts,
    usage: SessionUsage,
    unknown: Vec<UnknownCount>,
    title: Title,
    ending: EndingState,
    epochs: EpochCount,
    steps: RingBuffer<CountedRequest, STEPS_MAX>,
    torn: TornRecords,
    is_child: bool,
}

/// Names a session goes by, each as it was told last.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionProfile {
    pub agent: Option<String>,
    pub agent_version: Option<String>,
    pub model: Option<String>,
    pub cwd: Option<String>,
    pub project: Option<String>,
    pub branch: Option<String>,
    pub remote: Option<String>,
    pub entry_point: Option<String>,
    pub permission_mode: Option<String>,
    /// All folders it worked in, in the order it came to them.
    pub cwds: Vec<String>,
    /// All branches it worked on, in the order it came to them.
    pub branches: Vec<String>,
}

/// What a session did by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ActivityCounts {
    /// What a person typed and sent.
    pub prompts: u64,
    /// What a person typed while the agent was busy.
    pub queued: u64,
    /// Answers of a model, however many blocks each has.
    pub responses: u64,
    pub tool_calls: u64,
    pub tool_results: u64,
    pub compactions: u64,
    pub events: u64,
    /// Records that no adapter understood.
    pub unknown: u64,
}

/// How many records of one type no adapter understood.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UnknownCount {
    pub agent_version: Option<String>,
    pub record_type: Option<String>,
    pub count: u64,
}

/// A request that was counted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct CountedRequest {
    /// The event that told it first, and the one that told it last.
    first: EventId,
    last: EventId,
    /// The row where it was counted, or among the inherited ones; nowhere if it used nothing.
    counted: Option<(RowNumber, UsageTotals)>,
    is_own: bool,
}

impl Default for Facts {
    fn default() -> Facts {
        Facts {
            version: Facts::VERSION,
            seq: 0,
            about: SessionProfile::default(),
            counts: ActivityCounts::default(),
            usage: SessionUsage::default(),
            unknown: Vec::new(),
            title: Title::default(),
            ending: EndingState::default(),
            epochs: EpochCount::default(),
            steps: RingBuffer::default(),
            torn: TornRecords::default(),
            is_child: false,
        }
    }
}

impl Projection for Facts {
    const NAME: &'static str = "facts";
    const SAVE_AFTER: Option<u64> = Some(2_000);

    fn seq(&self) -> u64 {
        self.seq
    }

    fn apply(&mut self, event: &Event) {
        self.apply_committed(event.seq, event);
    }

    /// Facts need no copy of the event: history is recorded at some 100,000 events a second.
    fn apply_committed(&mut self, seq: u64, event: &Draft) {
        if seq <= self.seq {
            return;
        }
        self.seq = seq;
        // Inherited events tell names and the ending, but count for the session they were made in.
        let is_own = event.fork_origin().is_none();
        let news = self.torn.inspect_event(event);
        // The torn or unknown record was counted as one. It is taken back here, and the mended
        // event is counted below like any other.
        if let EventNovelty::Mended(torn) = news {
            self.ending.mend_torn(torn);
            self.counts.unknown = self.counts.unknown.saturating_sub(u64::from(is_own));
            self.counts.events = self.counts.events.saturating_sub(u64::from(is_own));
            self.understand(event, is_own);
        }
        let is_news = news != EventNovelty::Again;
        if is_own && is_news {
            self.counts.events += 1;
            self.epochs.apply(event);
        }
        // Requests take amendments themselves, so they come before the test for news.
        if event.kind == Kind::StepCompleted {
            self.count_step(event, is_own);
        } else if event.kind == Kind::UsageReported {
            self.take_report(event, is_own);
        } else if is_own && let Some(cost) = event.cost {
            let key = self.usage_key(event, None, &UsageTotals::default());
            self.usage.add(key, &UsageTotals::from_cost(cost));
        }
        // An amendment may bring a title or a model that the first account did not have.
        self.apply_names(event);
        if is_news {
            self.count_event(event, is_own);
        }
    }

    fn save(&self) -> Option<Vec<u8>> {
        Some(serde_json::to_vec(self).expect("names and numbers always encode"))
    }

    fn load(saved: &[u8]) -> Option<Facts> {
        // A list of sessions loads thousands: the bytes are read once, and the version is looked at
        // afterwards. Bytes of another version that do not fit fail to parse, which is as good.
        let facts: Facts = serde_json::from_slice(saved).ok()?;
        (facts.version == Facts::VERSION).then_some(facts)
    }
}

impl Facts {
    const VERSION: u32 = 4;

    pub fn about(&self) -> &SessionProfile {
        &self.about
    }

    pub fn counts(&self) -> &ActivityCounts {
        &self.counts
    }

    pub fn usage(&self) -> &SessionUsage {
        &self.usage
    }

    pub fn unknown(&self) -> &[UnknownCount] {
        &self.unknown
    }

    /// The provider's title, else a model's, else one made from the first prompt.
    pub fn title(&self) -> Option<&str> {
        self.title.best()
    }

    /// Where that title comes from.
    pub fn title_origin(&self) -> Option<TitleOrigin> {
        self.title.origin()
    }

    pub fn ending(&self) -> Ending {
        self.ending.ending()
    }

    /// Epochs between starts, compactions, clears and long silences. The first one begins with
    /// the session.
    pub fn epochs(&self) -> u64 {
        self.epochs.count().max(1)
    }

    /// How sure the tokens are.
    pub fn tokens_basis(&self) -> Basis {
        if self.is_untold() {
            return Basis::Incomplete;
        }
        self.usage.total().tokens_basis()
    }

    /// Models answered, and the agent recorded not a single request.
    pub(crate) fn is_untold(&self) -> bool {
        self.counts.responses > 0 && self.usage.total().tokens.requests == 0
    }

    /// Counts what was said and done, and what it says about the ending.
    fn count_event(&mut self, event: &Draft, is_own: bool) {
        let own = u64::from(is_own);
        let turn_id = event.turn_id.as_deref();
        match event.kind {
            Kind::UserPrompt => {
                let is_queued = is_queued(event);
                *(if is_queued { &mut self.counts.queued } else { &mut self.counts.prompts }) +=
                    own;
                self.ending.apply(LastRecord::Prompted { is_queued }, turn_id);
                // Prompts may be long, and after the first good one no other can change the title.
                if !self.title.is_settled()
                    && let Some(prompt) = event.readable::<UserPrompt>()
                {
                    self.title.consider_prompt(&prompt.content.joined_text());
                }
            }
            Kind::AssistantMessage | Kind::AssistantThinking | Kind::ToolCall => {
                // One answer has many blocks, each an event of its own. The first of them counts
                // the answer.
                let answer = AnswerHead::from_data(&event.data);
                if answer.block == 0 && !answer.message_id.is_empty() {
                    self.counts.responses += own;
                }
                if event.kind == Kind::ToolCall {
                    self.counts.tool_calls += own;
                    if Deed::of_tool(&answer.tool) == Deed::Delegate {
                        self.usage.include_others();
                    }
                    self.ending.apply(LastRecord::Called(&answer.call_id), turn_id);
                } else {
                    self.ending.apply(LastRecord::Answered, turn_id);
                }
            }
            Kind::ToolResult => {
                self.counts.tool_results += own;
                let result = AnswerHead::from_data(&event.data);
                self.ending.apply(LastRecord::Returned(&result.call_id), turn_id);
            }
            Kind::TurnCompleted => {
                let completed = event.readable::<TurnCompleted>().unwrap_or_default();
                let outcome = TurnOutcome::from_completed(&completed);
                self.ending.apply(LastRecord::TurnCompleted(outcome), turn_id);
            }
            Kind::Compaction => self.counts.compactions += own,
            Kind::SessionExited => self.ending.apply(LastRecord::Exited, turn_id),
            Kind::SessionStarted => self.ending.apply(LastRecord::Resumed, turn_id),
            Kind::Unknown => self.unknown_record(event, own),
            _ => {}
        }
    }

    fn unknown_record(&mut self, event: &Draft, own: u64) {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct UnknownRecordHead {
            record_type: Option<String>,
        }
        self.counts.unknown += own;
        if is_torn(event) {
            // It says nothing about the format.
            self.ending.apply(LastRecord::TornRecords(event.id), None);
            return;
        }
        if own == 0 {
            return;
        }
        let head: UnknownRecordHead = event.data.read().unwrap_or_default();
        let agent_version = self.about.agent_version.clone();
        let record_type = head.record_type.as_deref().map(limit_name);
        // By version, because a new version of an agent is what brings new records.
        let is_it = |known: &UnknownCount| {
            known.agent_version == agent_version && known.record_type == record_type
        };
        // The list is bounded; its last place gathers the rest:
        //
        //     0 ........ UNKNOWN_TYPES_MAX - 1 | UNKNOWN_TYPES_MAX
        //     one type each                    | all others, without a name
        if let Some(known) = self.unknown.iter_mut().find(|known| is_it(known)) {
            known.count += 1;
        } else if self.unknown.len() < UNKNOWN_TYPES_MAX {
            self.unknown.push(UnknownCount { agent_version, record_type, count: 1 });
        } else if self.unknown.len() == UNKNOWN_TYPES_MAX {
            self.unknown.push(UnknownCount { agent_version: None, record_type: None, count: 1 });
        } else if let Some(rest) = self.unknown.last_mut() {
            rest.count += 1;
        }
    }

    /// A record is understood now that was counted as unknown.
    fn understand(&mut self, event: &Draft, is_own: bool) {
        let record_type = event.understood().filter(|_| is_own).map(|told| limit_name(&told));
        // Without the version: the agent may have been updated since the record was read.
        let is_it = |known: &&mut UnknownCount| known.record_type == record_type;
        if record_type.is_some()
            && let Some(known) = self.unknown.iter_mut().filter(|known| known.count > 0).find(is_it)
        {
            known.count -= 1;
        }
        self.unknown.retain(|known| known.count > 0);
    }

    /// Counts a request once: an amendment replaces what the first account added.
    fn count_step(&mut self, event: &Draft, is_own: bool) {
        let step = event.readable::<StepCompleted>().unwrap_or_default();
        // A start or a change of settings names the model of the session; a single request only
        // fills in for them.
        if let Some(model) = &step.model
            && self.about.model.is_none()
        {
            self.about.model = Some(limit_name(model));
        }
        let mut used = UsageTotals::from_step(&step, event.cost);
        // The key has the time, model and place of this account. The row of the first one may be
        // another.
        let key = UsageKey {
            mode: step.usage.as_ref().and_then(|usage| usage.mode.as_deref()).map(limit_name),
            ..self.usage_key(event, step.model.as_deref(), &used.unwrap_or_default())
        };
        let amended = event.amends();
        let known = amended.and_then(|amended| {
            self.steps.iter_mut().rfind(|known| known.first == amended || known.last == amended)
        });
        match known {
            // Replace what the first account added, in the row it was added to.
            Some(known) => {
                known.last = event.id;
                if !known.is_own {
                    if let Some((number, before)) = known.counted.take() {
                        self.usage.remove_inherited(number, &before);
                    }
                    known.counted = used.and_then(|used| {
                        let number = self.usage.add_inherited(key.model.as_deref(), &used)?;
                        Some((number, used))
                    });
                    return;
                }
                if let Some((row, before)) = known.counted.take() {
                    self.usage.remove(row, &before);
                    // A report has named the money of this request meanwhile.
                    if !before.covered.is_zero()
                        && let Some(used) = &mut used
                    {
                        used.cover();
                    }
                }
                known.counted = used.map(|used| (self.usage.add(key, &used), used));
            }
            // The first account is forgotten, so its numbers cannot be taken back. To add these
            // would count the request twice.
            None if amended.is_some() => {
                if is_own {
                    self.usage.mark_incomplete(key);
                }
            }
            // An inherited request is remembered, too: its amendment must not look like one of our
            // own.
            None => {
                let counted = used.and_then(|used| {
                    let number = match is_own {
                        true => self.usage.add(key, &used),
                        false => self.usage.add_inherited(key.model.as_deref(), &used)?,
                    };
                    Some((number, used))
                });
                let step = CountedRequest { first: event.id, last: event.id, counted, is_own };
                self.steps.push(step);
            }
        }
    }

    /// Takes the agent's own sums, by model.
    fn take_report(&mut self, event: &Draft, is_own: bool) {
        let report = event.readable::<UsageReported>().unwrap_or_default();
        // One sum per model: a report may have it by several names, such as with `[1m]`.
        let mut sums = ModelSums::new();
        for ModelUsage { model, usage } in &report.models {
            let Some(usd) = usage.cost.filter(|usd| *usd >= Cost::ZERO) else { continue };
            let sum = sums.entry(bare_name(model)).or_default();
            sum.usd += usd;
            sum.tokens += TokenTotals { requests: 0, ..TokenTotals::from_usage(usage) };
        }
        if sums.is_empty() {
            return;
        }
        // An amendment of these requests changes their tokens and no longer their money.
        let own = self.steps.iter_mut().filter(|step| step.is_own);
        for (row, used) in own.filter_map(|step| step.counted.as_mut()) {
            if sums.keys().any(|model| self.usage.is_of_model(*row, model)) {
                used.cover();
            }
        }
        let key = self.usage_key(event, None, &UsageTotals::default());
        self.usage.add_report(&key, sums, is_own);
    }

    fn usage_key(&self, event: &Draft, model: Option<&str>, used: &UsageTotals) -> UsageKey {
        UsageKey {
            quarter: QuarterHour::from_time(event.created_at),
            model: model.map(limit_name).or_else(|| self.about.model.clone()),
            project: self.about.project.clone(),
            cwd: self.about.cwd.clone(),
            context_above: context_step(used.tokens.context()),
            mode: None,
        }
    }

    /// Takes the names an event tells.
    fn apply_names(&mut self, event: &Draft) {
        match event.kind {
            Kind::SessionStarted => {
                let Some(started) = event.readable::<SessionStarted>() else { return };
                // A later start without a mode does not take it back.
                self.is_child |= started.mode == Some(SessionMode::Child);
                self.about.take_started(&started);
                if let Some(title) = &started.title {
                    self.title.set_given_title(title);
                }
            }
            Kind::SettingsChanged => {
                let Some(changed) = event.readable::<SettingsChanged>() else { return };
                self.about.take_changed(&changed);
                if let Some(title) = &changed.title {
                    self.title.set_given_title(title);
                }
            }
            Kind::Note => {
                if let Some(title) = ModelWords::from_event(event).and_then(|words| words.title) {
                    self.title.set_model_title(&title);
                }
            }
            // The task of a child is its prompt, though no user typed it.
            Kind::ContextAdded if self.is_child && !self.title.is_settled() => {
                if let Some(context) = event.readable::<ContextAdded>() {
                    self.title.consider_prompt(&context.content.joined_text());
                }
            }
            _ => {}
        }
    }
}

impl SessionProfile {
    fn take_started(&mut self, started: &SessionStarted) {
        set_if_told(&mut self.agent, &started.agent);
        set_if_told(&mut self.agent_version, &started.agent_version);
        set_if_told(&mut self.model, &started.model);
        set_if_told(&mut self.project, &started.project);
        set_if_told(&mut self.remote, &started.remote);
        set_if_told(&mut self.entry_point, &started.entry_point);
        set_if_told(&mut self.permission_mode, &started.permission_mode);
        self.move_to_place(&started.cwd, &started.branch);
    }

    fn take_changed(&mut self, changed: &SettingsChanged) {
        set_if_told(&mut self.agent_version, &changed.agent_version);
        set_if_told(&mut self.model, &changed.model);
        set_if_told(&mut self.project, &changed.project);
        set_if_told(&mut self.permission_mode, &changed.permission_mode);
        self.move_to_place(&changed.cwd, &changed.branch);
    }

    fn move_to_place(&mut self, cwd: &Option<String>, branch: &Option<String>) {
        set_if_told(&mut self.cwd, cwd);
        set_if_told(&mut self.branch, branch);
        for (place, places) in [(cwd, &mut self.cwds), (branch, &mut self.branches)] {
            let place = place.as_deref().map(limit_name).filter(|place| !place.is_empty());
            if let Some(place) = place
                && places.len() < PLACES_MAX
                && !places.contains(&place)
            {
                places.push(place);
            }
        }
    }
}

/// What is read of an answer or a result to count it. Both may be megabytes long.
#[derive(Default)]
struct AnswerHead<'a> {
    message_id: Cow<'a, str>,
    block: u32,
    call_id: Cow<'a, str>,
    tool: Cow<'a, str>,
}

impl AnswerHead<'_> {
    fn from_data(data: &Raw) -> AnswerHead<'_> {
        let mut head = AnswerHead::default();
        // Fields are walked without decoding the others: the text beside them may be megabytes
        // long.
        for field in data.fields() {
            match &*field.name {
                "message_id" => head.message_id = field.text().unwrap_or_default(),
                "block" => head.block = field.json.parse().unwrap_or_default(),
                "call_id" => head.call_id = field.text().unwrap_or_default(),
                "tool" => head.tool = field.text().unwrap_or_default(),
                _ => {}
            }
        }
        head
    }
}

fn set_if_told(slot: &mut Option<String>, told: &Option<String>) {
    // An agent that says nothing, or an empty text, takes no name back.
    if let Some(told) = told.as_deref().filter(|told| !told.is_empty()) {
        *slot = Some(limit_name(told));
    }
}

/// A name as it is kept: as it was told, unless it is absurdly long.
fn limit_name(told: &str) -> String {
    excerpt::take_head(told, NAME_CHARS_MAX).to_owned()
}
