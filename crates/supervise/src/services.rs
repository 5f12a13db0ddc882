//! Service states. Starts, exits and time go in; starts, stops and reports come out.
//!
//! Services are independent: no state of one delays another.
//!
//! Not here: processes, messages, clocks. The caller passes the time.

use std::time::Duration;

use crate::alert::Alert;
use crate::clock::Moment;
use crate::queue::{Reason, RunId, Stopped};
use crate::run_ref::Ref;
use crate::services_file::{Restart, Service};

/// The delay before a start, by attempts in a row; the last one repeats.
const DELAYS: [Duration; 3] = [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(5)];

/// An uptime of this length resets the attempts.
const GOOD_LIFE: Duration = Duration::from_secs(60);

/// The exit code (`EX_TEMPFAIL`) of a program that is not ready yet, and the delay after it.
const NOT_READY: i32 = 75;
const NOT_READY_DELAY: Duration = Duration::from_secs(15);

/// The attempt in a row from which the user is alerted.
const ALERT_FROM: u32 = 5;

/// How long all services together may take to stop, unless one was granted more.
const STOP_ALL: Duration = Duration::from_secs(30);

/// What the caller has to do, in this order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// Start it, then call [`Services::started`] or [`Services::start_failed`].
    Start(String),
    /// Send SIGTERM to its processes, and SIGKILL after the grace time.
    End {
        run: RunId,
        grace: Duration,
    },
    /// Send SIGKILL to its processes.
    Kill(RunId),
    Restarting(Instance),
    Stopped(Stopped),
    /// Everything about the run is reported.
    Over(RunId),
    Alert {
        name: String,
        attempts: u32,
    },
}

/// One run of a service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Instance {
    pub name: String,
    pub run: RunId,
    pub pid: u32,
    pub reference: Ref,
    pub since: Moment,
}

/// All services, in the order of the file.
#[derive(Debug, Default)]
pub(crate) struct Services {
    slots: Vec<ServiceSlot>,
    /// Set while stopping: when the rest is killed.
    stopping: Option<Moment>,
}

#[derive(Debug)]
struct ServiceSlot {
    service: Service,
    state: ServiceState,
    attempts: u32,
    alert: Alert,
}

#[derive(Debug)]
enum ServiceState {
    /// It does not run and is not going to.
    Idle,
    Waiting {
        until: Moment,
    },
    /// It is being started in this turn.
    Starting,
    Running(Instance),
    Ending {
        instance: Instance,
        then: AfterStop,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AfterStop {
    Start,
    StayStopped,
    Remove,
}

impl Services {
    /// Applies the services of a file: new ones start, removed ones stop, changed ones restart.
    pub(crate) fn load(&mut self, services: &[Service]) -> Vec<Effect> {
        let mut effects = Vec::new();
        for slot in &mut self.slots {
            if !services.iter().any(|service| service.name == slot.service.name) {
                slot.stop_instance(AfterStop::Remove, &mut effects);
            }
        }
        // A removed service that still runs keeps its slot until it has exited, so that it is
        // reported.
        self.slots.retain(|slot| {
            let is_wanted = services.iter().any(|service| service.name == slot.service.name);
            is_wanted || matches!(slot.state, ServiceState::Ending { .. })
        });
        // Rebuilt in the order of the file, because services stop in the reverse of it.
        let mut before = std::mem::take(&mut self.slots);
        for service in services {
            let at = before.iter().position(|slot| slot.service.name == service.name);
            let slot = match at.map(|at| before.remove(at)) {
                None => ServiceSlot::new(service.clone(), &mut effects),
                Some(mut slot) => {
                    slot.apply_definition(service.clone(), &mut effects);
                    slot
                }
            };
            self.slots.push(slot);
        }
        self.slots.extend(before);
        effects
    }

    /// Restarts a service on request; returns whether there is such a service.
    pub(crate) fn restart(&mut self, name: &str) -> (bool, Vec<Effect>) {
        let mut effects = Vec::new();
        let is_stopping = self.stopping.is_some();
        let slot = self.slots.iter_mut().find(|slot| slot.service.name == name);
        let Some(slot) = slot.filter(|slot| slot.service.enabled && !is_stopping) else {
            return (false, effects);
        };
        match &mut slot.state {
            ServiceState::Starting => {}
            ServiceState::Idle | ServiceState::Waiting { .. } => slot.start(&mut effects),
            ServiceState::Running(instance) => {
                effects.push(Effect::Restarting(instance.clone()));
                slot.stop_instance(AfterStop::Start, &mut effects);
            }
            // It is no longer in the file, so it counts as unknown.
            ServiceState::Ending { then: AfterStop::Remove, .. } => return (false, effects),
            ServiceState::Ending { then, .. } => *then = AfterStop::Start,
        }
        (true, effects)
    }

    pub(crate) fn service(&self, name: &str) -> Option<&Service> {
        self.find(name).map(|slot| &slot.service)
    }

    pub(crate) fn started(&mut self, instance: Instance) {
        if let Some(slot) = self.find_mut(&instance.name) {
            slot.state = ServiceState::Running(instance);
        }
    }

    /// Takes note that a service could not be started.
    pub(crate) fn start_failed(
        &mut self,
        name: &str,
        reference: Ref,
        error: &str,
        now: Moment,
    ) -> Vec<Effect> {
        let stopped = Stopped::never_ran(name, reference, Reason::CannotStart);
        let stopped = Stopped { error: Some(error.to_owned()), ..stopped };
        let mut effects = vec![Effect::Stopped(stopped)];
        if let Some(slot) = self.find_mut(name) {
            // Like a crash right after the start: the same delays and alerts apply.
            slot.handle_exit(-1, Duration::ZERO, now, &mut effects);
        }
        effects
    }

    /// Takes note that a run has exited, by itself or on request.
    pub(crate) fn exited(&mut self, run: RunId, exit_code: i32, now: Moment) -> Vec<Effect> {
        let mut effects = Vec::new();
        let is_stopping = self.stopping.is_some();
        let at = self.slots.iter().position(|slot| slot.instance().is_some_and(|it| it.run == run));
        let Some(at) = at else { return effects };
        let slot = &mut self.slots[at];
        let (instance, then) = match std::mem::replace(&mut slot.state, ServiceState::Idle) {
            ServiceState::Running(instance) => (instance, None),
            ServiceState::Ending { instance, then } => (instance, Some(then)),
            ServiceState::Idle | ServiceState::Waiting { .. } | ServiceState::Starting => {
                return effects;
            }
        };
        effects.push(Effect::Stopped(Stopped {
            service: instance.name.clone(),
            pid: instance.pid,
            reference: instance.reference.clone(),
            exit_code,
            reason: None,
            error: None,
        }));
        effects.push(Effect::Over(run));
        match then {
            // An exit of its own accord. While the supervisor stops, it is as good as a requested
            // one.
            None if is_stopping => {}
            None => {
                let life = now.saturating_sub(instance.since);
                slot.handle_exit(exit_code, life, now, &mut effects);
            }
            // A requested exit: what happens now was decided when the stop was requested.
            Some(AfterStop::Start) if !is_stopping => {
                slot.attempts = 0;
                slot.start(&mut effects);
            }
            Some(AfterStop::Start | AfterStop::StayStopped) => {}
            Some(AfterStop::Remove) => {
                self.slots.remove(at);
            }
        }
        if is_stopping {
            self.stop_next(&mut effects);
        }
        effects
    }

    /// Starts services after their delay, and kills those that take too long to stop.
    pub(crate) fn tick(&mut self, now: Moment) -> Vec<Effect> {
        let mut effects = Vec::new();
        if let Some(limit) = self.stopping {
            if limit <= now {
                // Kill once.
                self.stopping = Some(Moment::MAX);
                let rest = self.slots.iter().filter_map(ServiceSlot::instance);
                effects.extend(rest.map(|instance| Effect::Kill(instance.run)));
            }
            return effects;
        }
        for slot in &mut self.slots {
            if matches!(slot.state, ServiceState::Waiting { until } if until <= now) {
                slot.start(&mut effects);
            }
        }
        effects
    }

    /// Returns when [`Services::tick`] has work again.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        if self.stopping.is_some() {
            return self.stopping;
        }
        let waits = self.slots.iter().filter_map(|slot| match slot.state {
            ServiceState::Waiting { until } => Some(until),
            _ => None,
        });
        waits.min()
    }

    /// Stops services one after the other, in reverse order.
    pub(crate) fn stop(&mut self, now: Moment) -> Vec<Effect> {
        // They stop one after the other, within a limit for all of them together. It is long enough
        // for the slowest alone.
        let promised = self.slots.iter().map(|slot| slot.service.stop).max();
        self.stopping = Some(now + promised.unwrap_or_default().max(STOP_ALL));
        for slot in &mut self.slots {
            if matches!(slot.state, ServiceState::Waiting { .. }) {
                slot.state = ServiceState::Idle;
            }
        }
        let mut effects = Vec::new();
        self.stop_next(&mut effects);
        effects
    }

    /// Returns whether no service runs.
    pub(crate) fn is_idle(&self) -> bool {
        self.slots.iter().all(|slot| slot.instance().is_none())
    }

    /// Lists running services.
    pub(crate) fn running(&self) -> impl Iterator<Item = &Instance> {
        self.slots.iter().filter_map(ServiceSlot::instance)
    }

    /// Lists services that exited and have not run long enough since, with the attempts made.
    pub(crate) fn crashed(&self, now: Moment) -> impl Iterator<Item = (&str, u32)> {
        let fallen = self.slots.iter().filter(move |slot| {
            let lives_well = matches!(&slot.state, ServiceState::Running(instance)
                if now.saturating_sub(instance.since) >= GOOD_LIFE);
            slot.attempts > 0 && !lives_well
        });
        fallen.map(|slot| (slot.service.name.as_str(), slot.attempts))
    }

    fn stop_next(&mut self, effects: &mut Vec<Effect>) {
        let is_ending = |slot: &ServiceSlot| matches!(slot.state, ServiceState::Ending { .. });
        // One at a time: a service may need those before it in the file until its end.
        if self.slots.iter().any(is_ending) {
            return;
        }
        let last = self.slots.iter_mut().rev().find(|slot| slot.instance().is_some());
        if let Some(slot) = last {
            slot.stop_instance(AfterStop::StayStopped, effects);
        }
    }

    fn find(&self, name: &str) -> Option<&ServiceSlot> {
        self.slots.iter().find(|slot| slot.service.name == name)
    }

    fn find_mut(&mut self, name: &str) -> Option<&mut ServiceSlot> {
        self.slots.iter_mut().find(|slot| slot.service.name == name)
    }
}

impl ServiceSlot {
    fn new(service: Service, effects: &mut Vec<Effect>) -> ServiceSlot {
        let state = ServiceState::Idle;
        let mut slot = ServiceSlot { service, state, attempts: 0, alert: Alert::default() };
        if slot.service.enabled {
            slot.start(effects);
        }
        slot
    }

    fn instance(&self) -> Option<&Instance> {
        match &self.state {
            ServiceState::Running(instance) | ServiceState::Ending { instance, .. } => {
                Some(instance)
            }
            ServiceState::Idle | ServiceState::Waiting { .. } | ServiceState::Starting => None,
        }
    }

    fn start(&mut self, effects: &mut Vec<Effect>) {
        self.state = ServiceState::Starting;
        effects.push(Effect::Start(self.service.name.clone()));
    }

    /// Stops the instance on purpose.
    fn stop_instance(&mut self, then: AfterStop, effects: &mut Vec<Effect>) {
        match std::mem::replace(&mut self.state, ServiceState::Idle) {
            ServiceState::Running(instance) => {
                effects.push(Effect::End { run: instance.run, grace: self.service.stop });
                self.state = ServiceState::Ending { instance, then };
            }
            // It has its SIGTERM already; only what comes after it changes.
            ServiceState::Ending { instance, .. } => {
                self.state = ServiceState::Ending { instance, then }
            }
            ServiceState::Idle | ServiceState::Waiting { .. } | ServiceState::Starting => {}
        }
    }

    /// Applies a reloaded definition.
    fn apply_definition(&mut self, service: Service, effects: &mut Vec<Effect>) {
        // A service that was removed and came back unchanged while it was ending: it has to start
        // again.
        let is_forgotten =
            matches!(self.state, ServiceState::Ending { then: AfterStop::Remove, .. });
        if self.service == service && !is_forgotten {
            return;
        }
        let then = if service.enabled { AfterStop::Start } else { AfterStop::StayStopped };
        // A running one starts again when it has exited. Two of them would fight for a port or a
        // lock.
        let is_there = self.instance().is_some();
        if let ServiceState::Running(instance) = &self.state
            && service.enabled
        {
            effects.push(Effect::Restarting(instance.clone()));
        }
        self.stop_instance(then, effects);
        self.service = service;
        self.attempts = 0;
        self.alert.clear();
        if !is_there && self.service.enabled {
            self.start(effects);
        }
    }

    /// Handles an exit that was not requested.
    fn handle_exit(
        &mut self,
        exit_code: i32,
        life: Duration,
        now: Moment,
        effects: &mut Vec<Effect>,
    ) {
        let is_wanted = match self.service.restart {
            Restart::Always => true,
            Restart::OnFailure => exit_code != 0,
            Restart::Never => false,
        };
        if !is_wanted {
            self.state = ServiceState::Idle;
            return;
        }
        // A crash after a good life is a new story: the first restart follows at once again.
        if life >= GOOD_LIFE {
            self.attempts = 0;
            self.alert.clear();
        }
        // "Not ready" is no failure: it neither counts as an attempt nor raises an alert.
        if exit_code == NOT_READY {
            self.state = ServiceState::Waiting { until: now + NOT_READY_DELAY };
            return;
        }
        let delay = DELAYS[(self.attempts as usize).min(DELAYS.len() - 1)];
        self.attempts = self.attempts.saturating_add(1);
        if self.attempts >= ALERT_FROM && self.alert.is_due(now) {
            let name = self.service.name.clone();
            effects.push(Effect::Alert { name, attempts: self.attempts });
        }
        if delay.is_zero() {
            self.start(effects);
        } else {
            self.state = ServiceState::Waiting { until: now + delay };
        }
    }
}

#[cfg(test)]
mod tests;
