//! What agents export: facts that nobody else tells go the way of hook calls, the rest is counted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use capture::{Telemetry, TelemetryFact};
use event::Source;
use wire::hook::{HookCall, HookFact, VERSION};

use ingest::HookQueue;

/// Names that are counted. Further ones are counted together.
const NAMES_MAX: usize = 1_000;

/// The name of those.
const OTHERS: &str = "others";

/// Takes exports. Clones are the same.
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
        let has_room = telemetry.reported.into_iter().all(|told| self.hook_queue.offer(call(told)));
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

fn call(told: TelemetryFact) -> HookCall {
    let TelemetryFact { name, provider, session, at, kind, data } = told;
    HookCall {
        v: VERSION,
        name,
        provider: provider.to_owned(),
        event: "otlp".to_owned(),
        session,
        at,
        source: Source::Telemetry,
        transcript: None,
        cwd: None,
        sign: None,
        reason: None,
        facts: vec![HookFact { kind, data }],
    }
}
