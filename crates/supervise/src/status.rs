//! Builds `supervisor.status`.

use bus::{Draft, Json};
use serde_json::{Map, Value, json};

use crate::announce::{self, RunLabel};
use crate::clock::{Clock, Moment};
use crate::heartbeat::Heartbeats;
use crate::queue::TaskQueue;
use crate::run_ref::Ref;
use crate::schedule::Schedules;
use crate::services::Services;
use crate::services_file::Every;
use crate::supervisor::DaemonHealth;

/// What the status is built from.
pub(crate) struct StatusReport<'a> {
    pub own: &'a RunLabel,
    pub clock: &'a Clock,
    pub services: &'a Services,
    pub queue: &'a TaskQueue,
    pub heartbeats: &'a Heartbeats,
    pub schedules: &'a Schedules,
    pub health: DaemonHealth,
    pub log_error: Option<String>,
    pub clients: usize,
    pub faults: &'a [String],
    pub ignored: u64,
}

impl StatusReport<'_> {
    pub(crate) fn build(&self) -> Draft {
        let now = self.clock.moment();
        let disk_error = self.health.disk_error.as_ref().or(self.log_error.as_ref());
        let parts = self.health.parts.iter();
        announce::draft("supervisor", "status")
            .with_json("services", &self.services(now))
            .with("crashed", self.crashed(now))
            .with_json("tasks", &self.tasks(now))
            .with("queues", self.queues())
            .with("stale_heartbeats", self.heartbeats.stale_names().collect::<Vec<String>>())
            .with("schedules", self.schedules())
            .with("callosum_clients", self.clients)
            .with(
                "parts",
                parts
                    .map(|(name, state)| json!({"name": name, "state": state}))
                    .collect::<Vec<Value>>(),
            )
            .with("disk", disk_error.map_or("ok", String::as_str))
            .with("faults", self.faults)
            .with("ignored", self.ignored)
    }

    fn services(&self, now: Moment) -> Json {
        let one = |name: &str, reference: &Ref, pid: u32, since: Moment| {
            Json::object([
                ("name", Json::from_value(name)),
                ("ref", reference.json().clone()),
                ("pid", Json::from_value(pid)),
                ("uptime_seconds", Json::from_value(now.saturating_sub(since).as_secs())),
            ])
        };
        // The daemon itself comes first. It started at moment zero.
        let own = one(&self.own.name, &self.own.reference, self.own.pid, Moment::ZERO);
        let others = self
            .services
            .running()
            .map(|instance| one(&instance.name, &instance.reference, instance.pid, instance.since));
        Json::list(std::iter::once(own).chain(others))
    }

    fn crashed(&self, now: Moment) -> Vec<Value> {
        let crashed = self.services.crashed(now);
        crashed
            .map(|(name, attempts)| json!({"name": name, "restart_attempts": attempts}))
            .collect()
    }

    fn tasks(&self, now: Moment) -> Json {
        Json::list(self.queue.running().map(|(reference, name, since)| {
            Json::object([
                ("ref", reference.json().clone()),
                ("name", Json::from_value(name)),
                ("duration_seconds", Json::from_value(now.saturating_sub(since).as_secs())),
            ])
        }))
    }

    fn queues(&self) -> Map<String, Value> {
        self.queue.waiting_counts().map(|(name, len)| (name.to_owned(), json!(len))).collect()
    }

    fn schedules(&self) -> Vec<Value> {
        let now_ms = self.clock.now_ms();
        let all = self.schedules.all(&self.clock.zone).map(|(schedule, last_run, next_run)| {
            let every = match schedule.every {
                Every::Hourly => "hourly",
                Every::Daily => "daily",
                Every::Weekly => "weekly",
            };
            json!({
                "name": schedule.name,
                "every": every,
                "last_run": last_run,
                "due": next_run <= now_ms,
                "next_run": next_run,
            })
        });
        all.collect()
    }
}
