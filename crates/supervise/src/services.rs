//! Programs that are kept alive: starts, ends and time in; starts, ends and words out.
//!
//! Each service waits for itself: nothing one does or fails to do delays another.
//!
//! Not here: processes, messages, clocks. Time is handed in.

use std::time::Duration;

use crate::alert::Alert;
use crate::clock::Moment;
use crate::queue::{Reason, RunId, Stopped};
use crate::run_ref::Ref;
use crate::services_file::{Restart, Service};

/// The wait before a start, by attempts in a row; the last one stays.
const DELAYS: [Duration; 3] = [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(5)];

/// A life of this length ends the row of attempts.
const GOOD_LIFE: Duration = Duration::from_secs(60);

/// The exit code of a program that is not ready yet, and how long it is left alone.
const NOT_READY: i32 = 75;
const NOT_READY_DELAY: Duration = Duration::from_secs(15);

/// From this attempt in a row on somebody is told.
const ALERT_FROM: u32 = 5;

/// How long all services together may take to end. A service may have been promised more.
const STOP_ALL: Duration = Duration::from_secs(30);

/// What has to be done, in this order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// Start it; then tell [`Services::started`] or [`Services::not_started`].
    Start(String),
    /// Ask its processes to end, and make them after a while.
    End {
        run: RunId,
        grace: Duration,
    },
    /// End its processes now.
    Kill(RunId),
    Restarting(Instance),
    Stopped(Stopped),
    /// Everything about the run is told.
    Over(RunId),
    Alert {
        name: String,
        attempts: u32,
    },
}

/// One life of a service.
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
    kept: Vec<Kept>,
    /// When the rest is killed, once the end has begun.
    stopping: Option<Moment>,
}

#[derive(Debug)]
struct Kept {
    service: Service,
    state: State,
    attempts: u32,
    alert: Alert,
}

#[derive(Debug)]
enum State {
    /// It does not run and is not about to.
    Idle,
    Waiting {
        until: Moment,
    },
    /// It is being started in this very turn.
    Starting,
    Running(Instance),
    Ending {
        instance: Instance,
        then: Then,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Then {
    Start,
    Rest,
    Forget,
}

impl Services {
    /// Takes the services of a file: new ones start, removed ones end, changed ones start anew.
    pub(crate) fn load(&mut self, services: &[Service]) -> Vec<Effect> {
        let mut effects = Vec::new();
        for kept in &mut self.kept {
            if !services.iter().any(|service| service.name == kept.service.name) {
                kept.leave(Then::Forget, &mut effects);
            }
        }
        self.kept.retain(|kept| {
            let is_wanted = services.iter().any(|service| service.name == kept.service.name);
            is_wanted || matches!(kept.state, State::Ending { .. })
        });
        let mut before = std::mem::take(&mut self.kept);
        for service in services {
            let at = before.iter().position(|kept| kept.service.name == service.name);
            let kept = match at.map(|at| before.remove(at)) {
                None => Kept::new(service.clone(), &mut effects),
                Some(mut kept) => {
                    kept.change(service.clone(), &mut effects);
                    kept
                }
            };
            self.kept.push(kept);
        }
        self.kept.extend(before);
        effects
    }

    /// Somebody wants it ended and started anew; whether there is such a service.
    pub(crate) fn restart(&mut self, name: &str) -> (bool, Vec<Effect>) {
        let mut effects = Vec::new();
        let is_stopping = self.stopping.is_some();
        let kept = self.kept.iter_mut().find(|kept| kept.service.name == name);
        let Some(kept) = kept.filter(|kept| kept.service.enabled && !is_stopping) else {
            return (false, effects);
        };
        match &mut kept.state {
            State::Starting => {}
            State::Idle | State::Waiting { .. } => kept.start(&mut effects),
            State::Running(instance) => {
                effects.push(Effect::Restarting(instance.clone()));
                kept.leave(Then::Start, &mut effects);
            }
            State::Ending { then: Then::Forget, .. } => return (false, effects),
            State::Ending { then, .. } => *then = Then::Start,
        }
        (true, effects)
    }

    pub(crate) fn service(&self, name: &str) -> Option<&Service> {
        self.find(name).map(|kept| &kept.service)
    }

    pub(crate) fn started(&mut self, instance: Instance) {
        if let Some(kept) = self.find_mut(&instance.name) {
            kept.state = State::Running(instance);
        }
    }

    /// It could not be started.
    pub(crate) fn not_started(
        &mut self,
        name: &str,
        reference: Ref,
        error: &str,
        now: Moment,
    ) -> Vec<Effect> {
        let stopped = Stopped::never_ran(name, reference, Reason::CannotStart);
        let stopped = Stopped { error: Some(error.to_owned()), ..stopped };
        let mut effects = vec![Effect::Stopped(stopped)];
        if let Some(kept) = self.find_mut(name) {
            kept.fell(-1, Duration::ZERO, now, &mut effects);
        }
        effects
    }

    /// A run has ended, by itself or because it was asked to.
    pub(crate) fn exited(&mut self, run: RunId, exit_code: i32, now: Moment) -> Vec<Effect> {
        let mut effects = Vec::new();
        let is_stopping = self.stopping.is_some();
        let at = self.kept.iter().position(|kept| kept.instance().is_some_and(|it| it.run == run));
        let Some(at) = at else { return effects };
        let kept = &mut self.kept[at];
        let (instance, then) = match std::mem::replace(&mut kept.state, State::Idle) {
            State::Running(instance) => (instance, None),
            State::Ending { instance, then } => (instance, Some(then)),
            State::Idle | State::Waiting { .. } | State::Starting => return effects,
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
            None if is_stopping => {}
            None => {
                let life = now.saturating_sub(instance.since);
                kept.fell(exit_code, life, now, &mut effects);
            }
            Some(Then::Start) if !is_stopping => {
                kept.attempts = 0;
                kept.start(&mut effects);
            }
            Some(Then::Start | Then::Rest) => {}
            Some(Then::Forget) => {
                self.kept.remove(at);
            }
        }
        if is_stopping {
            self.stop_next(&mut effects);
        }
        effects
    }

    /// Starts what has waited long enough, and kills what takes too long to end.
    pub(crate) fn tick(&mut self, now: Moment) -> Vec<Effect> {
        let mut effects = Vec::new();
        if let Some(limit) = self.stopping {
            if limit <= now {
                self.stopping = Some(Moment::MAX);
                let rest = self.kept.iter().filter_map(Kept::instance);
                effects.extend(rest.map(|instance| Effect::Kill(instance.run)));
            }
            return effects;
        }
        for kept in &mut self.kept {
            if matches!(kept.state, State::Waiting { until } if until <= now) {
                kept.start(&mut effects);
            }
        }
        effects
    }

    /// When [`Services::tick`] has something to do.
    pub(crate) fn due(&self) -> Option<Moment> {
        if self.stopping.is_some() {
            return self.stopping;
        }
        let waits = self.kept.iter().filter_map(|kept| match kept.state {
            State::Waiting { until } => Some(until),
            _ => None,
        });
        waits.min()
    }

    /// Ends them one after the other, the last one first.
    pub(crate) fn stop(&mut self, now: Moment) -> Vec<Effect> {
        let promised = self.kept.iter().map(|kept| kept.service.stop).max();
        self.stopping = Some(now + promised.unwrap_or_default().max(STOP_ALL));
        for kept in &mut self.kept {
            if matches!(kept.state, State::Waiting { .. }) {
                kept.state = State::Idle;
            }
        }
        let mut effects = Vec::new();
        self.stop_next(&mut effects);
        effects
    }

    /// Whether none runs.
    pub(crate) fn is_quiet(&self) -> bool {
        self.kept.iter().all(|kept| kept.instance().is_none())
    }

    /// Those that run.
    pub(crate) fn running(&self) -> impl Iterator<Item = &Instance> {
        self.kept.iter().filter_map(Kept::instance)
    }

    /// Those that fell and have not lived long enough since, with the attempts made.
    pub(crate) fn crashed(&self, now: Moment) -> impl Iterator<Item = (&str, u32)> {
        let fallen = self.kept.iter().filter(move |kept| {
            let lives_well = matches!(&kept.state, State::Running(instance)
                if now.saturating_sub(instance.since) >= GOOD_LIFE);
            kept.attempts > 0 && !lives_well
        });
        fallen.map(|kept| (kept.service.name.as_str(), kept.attempts))
    }

    fn stop_next(&mut self, effects: &mut Vec<Effect>) {
        let is_ending = |kept: &Kept| matches!(kept.state, State::Ending { .. });
        if self.kept.iter().any(is_ending) {
            return;
        }
        let last = self.kept.iter_mut().rev().find(|kept| kept.instance().is_some());
        if let Some(kept) = last {
            kept.leave(Then::Rest, effects);
        }
    }

    fn find(&self, name: &str) -> Option<&Kept> {
        self.kept.iter().find(|kept| kept.service.name == name)
    }

    fn find_mut(&mut self, name: &str) -> Option<&mut Kept> {
        self.kept.iter_mut().find(|kept| kept.service.name == name)
    }
}

impl Kept {
    fn new(service: Service, effects: &mut Vec<Effect>) -> Kept {
        let state = State::Idle;
        let mut kept = Kept { service, state, attempts: 0, alert: Alert::default() };
        if kept.service.enabled {
            kept.start(effects);
        }
        kept
    }

    fn instance(&self) -> Option<&Instance> {
        match &self.state {
            State::Running(instance) | State::Ending { instance, .. } => Some(instance),
            State::Idle | State::Waiting { .. } | State::Starting => None,
        }
    }

    fn start(&mut self, effects: &mut Vec<Effect>) {
        self.state = State::Starting;
        effects.push(Effect::Start(self.service.name.clone()));
    }

    /// Ends it, on purpose.
    fn leave(&mut self, then: Then, effects: &mut Vec<Effect>) {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Running(instance) => {
                effects.push(Effect::End { run: instance.run, grace: self.service.stop });
                self.state = State::Ending { instance, then };
            }
            State::Ending { instance, .. } => self.state = State::Ending { instance, then },
            State::Idle | State::Waiting { .. } | State::Starting => {}
        }
    }

    /// Takes what a file that was read again says of it.
    fn change(&mut self, service: Service, effects: &mut Vec<Effect>) {
        let is_forgotten = matches!(self.state, State::Ending { then: Then::Forget, .. });
        if self.service == service && !is_forgotten {
            return;
        }
        let then = if service.enabled { Then::Start } else { Then::Rest };
        let is_there = self.instance().is_some();
        if let State::Running(instance) = &self.state
            && service.enabled
        {
            effects.push(Effect::Restarting(instance.clone()));
        }
        self.leave(then, effects);
        self.service = service;
        self.attempts = 0;
        self.alert.clear();
        if !is_there && self.service.enabled {
            self.start(effects);
        }
    }

    /// It ended without having been asked to.
    fn fell(&mut self, exit_code: i32, life: Duration, now: Moment, effects: &mut Vec<Effect>) {
        let is_wanted = match self.service.restart {
            Restart::Always => true,
            Restart::OnFailure => exit_code != 0,
            Restart::Never => false,
        };
        if !is_wanted {
            self.state = State::Idle;
            return;
        }
        if life >= GOOD_LIFE {
            self.attempts = 0;
            self.alert.clear();
        }
        if exit_code == NOT_READY {
            self.state = State::Waiting { until: now + NOT_READY_DELAY };
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
            self.state = State::Waiting { until: now + delay };
        }
    }
}

#[cfg(test)]
mod tests;
