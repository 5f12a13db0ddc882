//! What agents export with OpenTelemetry. Facts that no transcript has go into the hook queue, the rest
//! is counted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use capture::{Telemetry, TelemetryFact};
use event::{HookFact, HookMessage, Source};

use ingest::HookQueue;

/// Names that are counted one by one; further ones are counted together under `OTHERS`.
const NAMES_MAX: usize = 1_000;

const OTHERS: &str = "others";

/// Receives exports. Clones share their counters.
#[derive(Clone, Default)]
pub(crate) struct Telemeter {
    hook_queue: HookQueue,
    counted: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Telemeter {
    pub(crate) fn new(hook_queue: HookQueue) -> Telemeter {
        Telemeter { hook_queue, ..Telemeter::default() }
    }

    /// Takes what was exported; whether there was room for it. What an exporter brings again is
    /// known by its name and recorded once.
    pub(crate) fn take(&self, telemetry: Telemetry) -> bool {
        let mut messages = telemetry.reported.into_iter().map(hook_message);
        let has_room = messages.all(|message| self.hook_queue.push(message));
        if !has_room {
            return false;
        }
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        for ((service, name), count) in telemetry.counted {
            let key = format!("{service} {name}");
            let is_known = counted.len() < NAMES_MAX || counted.contains_key(&key);
            *counted.entry(if is_known { key } else { OTHERS.to_owned() }).or_default() += count;
        }
        true
    }

    /// How often each record came that told nothing new.
    pub(crate) fn counted(&self) -> BTreeMap<String, u64> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// An exported fact goes the way of a hook's message.
fn hook_message(fact: TelemetryFact) -> HookMessage {
    let TelemetryFact { name, provider, session, at, kind, data } = fact;
    HookMessage {
        event: "otlp".to_owned(),
        source: Source::Telemetry,
        facts: vec![HookFact { kind, data }],
        ..HookMessage::new(name, provider, &session, at)
    }
}
