//! What the model was asked, and what it used.
//!
//! Every record of an answer has the usage, in older versions as far as it had got. The largest
//! counts, once per message and request: it is held back until the answer says that it is whole,
//! or a record of another kind follows.

use event::payload::{StepCompleted, TokenUsage};
use event::{AMENDS, EventId, Raw, Time};
use serde::{Deserialize, Serialize};

use super::line::{ClaudeLine, ClaudeMessage};
use super::shorten_id;
use crate::event_builder::EventBuilder;
use crate::identity::EventIdentity;
use crate::record::SourceRecord;

/// Answers that may be in the middle of coming. A block of an older one would begin it anew.
const REQUESTS_MAX: usize = 6;

/// The last answers, oldest first.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Requests(Vec<Request>);

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Request {
    message: String,
    request: String,
    /// Blocks that were told.
    pub blocks: u32,
    /// What was told of its usage last.
    #[serde(skip_serializing_if = "Option::is_none")]
    told: Option<(EventId, u64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<PendingUsage>,
}

/// A usage that is not told yet.
#[derive(Serialize, Deserialize)]
struct PendingUsage {
    /// The first record that had it.
    uuid: Option<String>,
    offset: u64,
    length: u64,
    at: Option<Time>,
    model: String,
    usage: TokenUsage,
}

impl Requests {
    pub(super) fn holds_usage(&self) -> bool {
        self.0.iter().any(|request| request.held.is_some())
    }

    /// Another record follows, so that nothing more is expected of what came before; but an
    /// answer that goes on is left alone.
    pub(super) fn tell_held(&mut self, builder: &mut EventBuilder<'_>) {
        for request in &mut self.0 {
            request.flush_usage(builder);
        }
    }

    /// The answer of this name; it begins if it is not known. Those before it are told.
    pub(super) fn open(
        &mut self,
        message: &str,
        request: Option<&str>,
        builder: &mut EventBuilder<'_>,
    ) -> &mut Request {
        // Shortened, because they go into the saved state, which may not grow with the source.
        let (message, request) = (shorten_id(message), shorten_id(request.unwrap_or_default()));
        let is_it = |other: &Request| other.message == message && other.request == request;
        // The model goes on with this answer, so the others have all their records. One that comes
        // late all the same amends what is told here.
        for other in self.0.iter_mut().filter(|other| !is_it(other)) {
            other.flush_usage(builder);
        }
        match self.0.iter().position(is_it) {
            Some(place) => &mut self.0[place],
            None => {
                // The loop above has told its usage, so that forgetting the oldest loses nothing.
                if self.0.len() == REQUESTS_MAX {
                    self.0.remove(0);
                }
                self.0.push(Request { message, request, ..Request::default() });
                self.0.last_mut().expect("it was just put there")
            }
        }
    }
}

impl Request {
    /// A record of the answer says what it used so far.
    pub(super) fn add_usage(
        &mut self,
        record: &SourceRecord<'_>,
        line: &ClaudeLine<'_>,
        message: &ClaudeMessage<'_>,
    ) -> Result<(), serde_json::Error> {
        let Some(raw) = message.usage.filter(|usage| usage.get() != "null") else { return Ok(()) };
        let usage = serde_json::from_str::<ClaudeCounts>(raw.get())?.token_usage();
        let output = usage.output_tokens.unwrap_or_default();
        let known = self.held.as_ref().map(|held| held.usage.output_tokens.unwrap_or_default());
        let known = known.or(self.told.map(|(_, output)| output));
        // All blocks of an answer repeat its usage: only more output is news.
        if known.is_some_and(|known| output <= known) {
            return Ok(());
        }
        // The first record stays the anchor of the event. With the uuid of the newest the event's
        // id would depend on how far the file was when it was read.
        match &mut self.held {
            Some(held) => {
                held.usage = usage;
                held.at = line.parse_time();
            }
            None => {
                self.held = Some(PendingUsage {
                    uuid: line.uuid.as_deref().map(shorten_id),
                    offset: record.offset,
                    length: record.length,
                    at: line.parse_time(),
                    model: message.model.as_deref().map(shorten_id).unwrap_or_default(),
                    usage,
                });
            }
        }
        Ok(())
    }

    /// Tells what is held back; a second time in place of the first.
    pub(super) fn flush_usage(&mut self, builder: &mut EventBuilder<'_>) {
        let Some(held) = self.held.take() else { return };
        let PendingUsage { uuid, offset, length, at, model, usage } = held;
        let output = usage.output_tokens.unwrap_or_default();
        let step = StepCompleted {
            agent_id: String::new(),
            model: Some(model).filter(|model| !model.is_empty()),
            response_id: Some(self.message.clone()),
            usage: Some(usage),
            error: None,
        };
        // The event stands where its usage was written first, although it is told later.
        builder.at_record(offset, length, |builder| {
            let identity = match uuid {
                Some(uuid) => EventIdentity::everywhere(&[&uuid, "step"]),
                None => EventIdentity::in_session(&["at", &builder.record_name(), "step"]),
            };
            let draft = builder.add_event(identity, at, &step);
            // An amendment replaces the first telling, so that its tokens are not counted twice.
            if let Some((first, _)) = self.told {
                let first = Raw::from_value(&first).expect("an id encodes");
                draft.metadata.insert(AMENDS.to_owned(), first);
            }
            self.told = Some((draft.id, output));
        });
    }
}

/// Usage in the words of the provider.
#[derive(Deserialize, Default)]
#[serde(default)]
struct ClaudeCounts {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_creation: Option<Creation>,
    output_tokens_details: Option<Details>,
    service_tier: Option<String>,
    speed: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Creation {
    ephemeral_1h_input_tokens: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Details {
    thinking_tokens: Option<u64>,
}

impl ClaudeCounts {
    fn token_usage(self) -> TokenUsage {
        TokenUsage {
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            cache_read_tokens: self.cache_read_input_tokens,
            cache_creation_tokens: self.cache_creation_input_tokens,
            cache_creation_1h_tokens: self
                .cache_creation
                .and_then(|creation| creation.ephemeral_1h_input_tokens),
            reasoning_tokens: self
                .output_tokens_details
                .and_then(|details| details.thinking_tokens),
            mode: TokenUsage::mode_from_tier(self.speed.as_deref())
                .or_else(|| TokenUsage::mode_from_tier(self.service_tier.as_deref())),
            ..TokenUsage::default()
        }
    }
}
