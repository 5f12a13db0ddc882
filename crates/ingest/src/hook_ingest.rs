//! What becomes of the calls of hooks: those that were handed over, those in the spool, and
//! signals, in this order.
//!
//! The sources that hooks named are read first, each once however many called; then each call is
//! recorded as far as it tells something that no record does. A call about a session that nobody
//! knows yet waits on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;

use capture::{
    CaptureError, Heard, HookMemory, Hooked, IngestSummary, Ingester, SignalOutcome, Sink, Warning,
};
use capture::{SessionSignal, WarningKind};
use event::{Kind, Raw, Source, Time};
use journal::Journal;
use std::path::{Path, PathBuf};
use wire::hook::{HookCall, HookFact, VERSION};

use crate::hook_queue::HookQueue;
use hooks::HookReport;
use hooks::Spool;
use hooks::{Signal, Signals, kind, word};
use hooks::{SpoolSummary, stamp};

/// A call as it travels. `dice` tells apart what happens at the same instant.
pub fn hook_call(hooked: Hooked, event: &str, at: Time, dice: [u8; 4]) -> HookCall {
    let fact = |(kind, data)| HookFact { kind, data };
    HookCall {
        v: VERSION,
        name: stamp(at, dice),
        provider: hooked.provider.to_owned(),
        event: event.to_owned(),
        session: hooked.session,
        at,
        source: Source::Hook,
        transcript: hooked.transcript,
        cwd: hooked.cwd,
        sign: hooked.sign.map(|kind| word(kind).to_owned()),
        reason: hooked.reason,
        facts: hooked.facts.into_iter().map(fact).collect(),
    }
}

/// The signal that a call gives.
pub fn signal_of(call: &HookCall) -> Option<Signal> {
    Some(Signal {
        kind: kind(call.sign.as_deref()?)?,
        provider: call.provider.clone(),
        session: call.session.clone(),
        at: call.at,
        cwd: call.cwd.clone(),
        transcript: call.transcript.clone(),
        reason: call.reason.clone(),
        hook: Some(call.event.clone()),
    })
}

/// Hears everything that hooks say.
pub struct HookIngest {
    hook_queue: HookQueue,
    spool: Spool,
    signals: Signals,
    log: HookReport,
    memory: HookMemory,
}

/// What reads sources, where it is recorded, and what is counted.
struct Ears<'a, 'p> {
    pump: &'a Ingester<'p>,
    sink: &'a mut dyn Sink,
    summary: &'a mut IngestSummary,
}

impl HookIngest {
    /// For a journal; one in memory has folders that are not there.
    pub fn of(journal: &Journal, hook_queue: HookQueue) -> HookIngest {
        let folder = journal.dir().unwrap_or(Path::new(""));
        let (spool, signals) = (Spool::of(folder), Signals::of(folder));
        let (log, memory) = (HookReport::of(folder), HookMemory::default());
        HookIngest { hook_queue, spool, signals, log, memory }
    }

    /// The folders in which something is left by who wants to be heard.
    pub fn watched_dirs(&self) -> [PathBuf; 2] {
        [self.signals.folder().to_owned(), self.spool.folder().to_owned()]
    }

    /// Makes them, so that they can be watched. Where that fails nothing is left there either.
    pub fn create_dirs(&self) {
        let _ = self.signals.make().and_then(|()| self.spool.make());
    }

    /// Hears what has come.
    pub fn round(
        &mut self,
        pump: &Ingester<'_>,
        sink: &mut dyn Sink,
        summary: &mut IngestSummary,
        now: Time,
    ) -> Result<(), CaptureError> {
        let HookIngest { hook_queue, spool, signals, log, memory } = self;
        let calls = hook_queue.take();
        note(&calls, log);
        let mut ears = Ears { pump, sink, summary };
        let mut kept = Vec::new();
        let done = ears.look(&calls).and_then(|()| {
            calls.iter().try_for_each(|call| {
                kept.push(ears.take(call, memory, spool, signals, log)?);
                Ok(())
            })
        });
        // What could not be recorded now waits with what else waits for a better time.
        let rest = &calls[kept.len()..];
        kept.extend(rest.iter().map(|call| leave(call, spool, signals, log)));
        if !calls.is_empty() {
            hook_queue.heard(unkept(calls, &kept));
        }
        done?;
        let spooled = spool.handle(now, &mut |call| ears.ingest_hook(call, memory))?;
        let signaled = signals.handle(now, &mut |sign| ears.apply_signal(sign))?;
        let warnings =
            warnings(spool.folder(), spooled).chain(warnings(signals.folder(), signaled));
        ears.summary.warnings.extend(warnings);
        Ok(())
    }
}

impl Ears<'_, '_> {
    /// Reads what is new in the sources that were named.
    fn look(&mut self, calls: &[HookCall]) -> Result<(), CaptureError> {
        let named = calls
            .iter()
            .filter_map(|call| Some((call.provider.as_str(), call.transcript.as_deref()?)));
        let named: BTreeSet<(&str, &Path)> = named.collect();
        for (provider, path) in &named {
            self.pump.look_at(provider, path, self.sink, self.summary)?;
        }
        if named.is_empty() {
            return Ok(());
        }
        self.sink.settle().map_err(CaptureError::Positions)
    }

    /// Takes a call; whether all of it is recorded or kept.
    fn take(
        &mut self,
        call: &HookCall,
        memory: &mut HookMemory,
        spool: &Spool,
        signals: &Signals,
        log: &HookReport,
    ) -> Result<bool, CaptureError> {
        let is_heard =
            self.ingest_hook(call, memory)? == SignalOutcome::Done || spooled(call, spool, log);
        let Some(signal) = signal_of(call) else { return Ok(is_heard) };
        let is_heeded = self.apply_signal(&signal.sign(&call.name))? == SignalOutcome::Done
            || signals.leave_as(&call.name, &signal).is_ok();
        Ok(is_heard && is_heeded)
    }

    fn ingest_hook(
        &mut self,
        call: &HookCall,
        memory: &mut HookMemory,
    ) -> Result<SignalOutcome, CaptureError> {
        let fact = |fact: &HookFact| (fact.kind.clone(), fact.data.clone());
        let facts: Vec<(Kind, Raw)> = call.facts.iter().map(fact).collect();
        let heard = Heard {
            name: &call.name,
            provider: &call.provider,
            session: &call.session,
            transcript: call.transcript.as_deref(),
            at: call.at,
            source: &call.source,
            sign: call.sign.as_deref().and_then(kind),
            facts: &facts,
        };
        self.pump.ingest_hook(&heard, memory, self.sink, self.summary)
    }

    fn apply_signal(&mut self, sign: &SessionSignal<'_>) -> Result<SignalOutcome, CaptureError> {
        self.pump.apply_signal(sign, self.sink, self.summary)
    }
}

/// Notes which agents' hooks have called: whoever hands a call over leaves that to us.
fn note(calls: &[HookCall], log: &HookReport) {
    let by_hooks = calls.iter().filter(|call| call.source == Source::Hook);
    let last: BTreeMap<&str, Time> =
        by_hooks.map(|call| (call.provider.as_str(), call.at)).collect();
    last.into_iter().for_each(|(agent, at)| log.called(agent, at));
}

/// Keeps on disk what was taken and nobody hears now. What cannot be kept there goes on waiting.
pub fn leave_all(hook_queue: &HookQueue, folder: &Path) {
    let (spool, signals) = (Spool::of(folder), Signals::of(folder));
    let log = HookReport::of(folder);
    let calls = hook_queue.take();
    if calls.is_empty() {
        return;
    }
    let kept: Vec<bool> = calls.iter().map(|call| leave(call, &spool, &signals, &log)).collect();
    hook_queue.heard(unkept(calls, &kept));
}

/// Keeps a call on disk, as far as there is something to keep; whether it is kept.
fn leave(call: &HookCall, spool: &Spool, signals: &Signals, log: &HookReport) -> bool {
    let is_spooled = call.facts.is_empty() || spooled(call, spool, log);
    let signal = signal_of(call);
    let is_signaled = signal.is_none_or(|signal| signals.leave_as(&call.name, &signal).is_ok());
    is_spooled && is_signaled
}

/// Keeps a call in the spool; whether nothing more is to be done about it. One that finds no room
/// among so many is dropped, as it is from whoever leaves it there, and so is one whose name no file
/// can have: held here it would only be in the way of the next.
fn spooled(call: &HookCall, spool: &Spool, log: &HookReport) -> bool {
    let problem = match spool.leave(call).map_err(|error| error.kind()) {
        Ok(true) => return true,
        Ok(false) => "the spool is full",
        Err(ErrorKind::InvalidFilename | ErrorKind::NotFound) => "no file can have its name",
        Err(_) => return false,
    };
    log.failed(&call.provider, &call.event, problem, call.at);
    true
}

/// The calls that are neither recorded nor kept.
fn unkept(calls: Vec<HookCall>, kept: &[bool]) -> Vec<HookCall> {
    let told = calls.into_iter().zip(kept);
    told.filter(|(_, is_kept)| !**is_kept).map(|(call, _)| call).collect()
}

/// What a person should know of a round.
fn warnings(folder: &Path, round: SpoolSummary) -> impl Iterator<Item = Warning> {
    let SpoolSummary { refused, orphaned, .. } = round;
    let folder: PathBuf = folder.to_owned();
    let refused = refused.into_iter().map(move |(name, why)| {
        (Some(folder.join(name)), format!("{why}; it was moved to `rejected`"), 1)
    });
    let orphans = (orphaned > 0).then(|| {
        (None, format!("{orphaned} signals of sessions nobody knows were dropped"), orphaned)
    });
    refused.chain(orphans).map(|(path, message, count)| Warning {
        kind: WarningKind::Signal,
        provider: "hansard",
        version: None,
        path,
        message,
        count,
    })
}

#[cfg(test)]
mod tests;
