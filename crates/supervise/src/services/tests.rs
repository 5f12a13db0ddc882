//! Services under a clock that the test sets.

use super::*;
use crate::services_file::ServicesFile;

/// Performs starts and records what was reported.
struct World {
    services: Services,
    now: Moment,
    next_run: u64,
    said: Vec<String>,
    cannot_start: bool,
}

impl World {
    fn new(file: &str) -> World {
        let mut world = World {
            services: Services::default(),
            now: Moment::ZERO,
            next_run: 1,
            said: Vec::new(),
            cannot_start: false,
        };
        world.load(file);
        world
    }

    fn load(&mut self, file: &str) {
        let effects = self.services.load(&ServicesFile::parse(file).unwrap().services);
        self.work_off(effects);
    }

    fn work_off(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            let said = match effect {
                Effect::Start(name) => {
                    let reference = Ref::text(self.next_run.to_string()).unwrap();
                    let run = RunId(self.next_run);
                    self.next_run += 1;
                    if self.cannot_start {
                        let more = self.services.start_failed(&name, reference, "no", self.now);
                        self.work_off(more);
                        continue;
                    }
                    let (pid, since) = (run.0 as u32, self.now);
                    self.said.push(format!("start {name} {}", run.0));
                    self.services.started(Instance { name, run, pid, reference, since });
                    continue;
                }
                Effect::End { run, grace } => format!("end {} within {}", run.0, grace.as_secs()),
                Effect::Kill(run) => format!("kill {}", run.0),
                Effect::Restarting(instance) => format!("restarting {}", instance.run.0),
                Effect::Stopped(stopped) => {
                    format!("stopped {} {}", stopped.service, stopped.exit_code)
                }
                Effect::Over(_) => continue,
                Effect::Alert { name, attempts } => format!("alert {name} {attempts}"),
            };
            self.said.push(said);
        }
    }

    fn exit(&mut self, run: u64, code: i32) {
        let effects = self.services.exited(RunId(run), code, self.now);
        self.work_off(effects);
    }

    fn restart(&mut self, name: &str) -> bool {
        let (is_known, effects) = self.services.restart(name);
        self.work_off(effects);
        is_known
    }

    /// Advances the time to the next thing that is due.
    fn wait(&mut self) -> Duration {
        let due = self.services.next_due().unwrap();
        let waited = due.saturating_sub(self.now);
        self.now = due;
        let effects = self.services.tick(self.now);
        self.work_off(effects);
        waited
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        let effects = self.services.tick(self.now);
        self.work_off(effects);
    }

    #[track_caller]
    fn check(&mut self, expected: &[&str]) {
        assert_eq!(std::mem::take(&mut self.said), expected);
    }
}

const TWO: &str = "
    [[service]]
    name = 'a'
    cmd = ['one']
    [[service]]
    name = 'b'
    cmd = ['two']
    stop_seconds = 40
";

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn restart_delays_are_0_1_5_5_seconds() {
    let mut world = World::new(TWO);
    world.check(&["start a 1", "start b 2"]);
    world.exit(1, 1);
    world.check(&["stopped a 1", "start a 3"]);
    world.exit(3, -9);
    world.check(&["stopped a -9"]);
    // Another service exits while the first waits, and restarts at once.
    world.exit(2, 0);
    world.check(&["stopped b 0", "start b 4"]);
    assert_eq!(world.wait(), seconds(1));
    world.check(&["start a 5"]);
    for run in [5, 6] {
        world.exit(run, 1);
        assert_eq!(world.wait(), seconds(5));
    }
    world.check(&["stopped a 1", "start a 6", "stopped a 1", "start a 7"]);
    assert_eq!(world.services.crashed(world.now).collect::<Vec<_>>(), [("a", 4), ("b", 1)]);
    // A minute of uptime resets the attempts.
    world.pass(60);
    assert_eq!(world.services.crashed(world.now).count(), 0);
    world.exit(7, 1);
    world.check(&["stopped a 1", "start a 8"]);
}

#[test]
fn fifth_attempt_raises_an_alert() {
    let mut world = World::new("[[service]]\nname = 'a'\ncmd = ['one']");
    let mut told = Vec::new();
    let mut run = 1;
    while world.now < seconds(900) {
        world.said.clear();
        world.exit(run, 1);
        if world.said.iter().any(|said| said.starts_with("alert")) {
            told.push(world.now.as_secs());
        }
        if world.services.next_due().is_some() {
            world.wait();
        }
        run = world.next_run - 1;
    }
    // 0, 1, 5, 5: the fifth exit is at 11 s; later alerts come with the next exit.
    assert_eq!(told, [11, 71, 191, 431]);
}

#[test]
fn unready_service_waits_longer() {
    let mut world = World::new("[[service]]\nname = 'a'\ncmd = ['one']");
    for run in 1..20 {
        world.exit(run, 75);
        assert_eq!(world.wait(), seconds(15));
    }
    assert!(!world.said.iter().any(|said| said.starts_with("alert")));
    assert_eq!(world.services.crashed(world.now).count(), 0);
}

#[test]
fn restart_policy_decides_after_exit() {
    let file = "
        [[service]]
        name = 'always'
        cmd = ['x']
        [[service]]
        name = 'failure'
        cmd = ['x']
        restart = 'on-failure'
        [[service]]
        name = 'never'
        cmd = ['x']
        restart = 'never'
        [[service]]
        name = 'off'
        cmd = ['x']
        enabled = false
    ";
    let mut world = World::new(file);
    world.check(&["start always 1", "start failure 2", "start never 3"]);
    world.exit(1, 0);
    world.exit(2, 1);
    world.exit(3, 1);
    world.check(&[
        "stopped always 0",
        "start always 4",
        "stopped failure 1",
        "start failure 5",
        "stopped never 1",
    ]);
    world.exit(5, 0);
    world.check(&["stopped failure 0"]);
    assert!(world.restart("never"), "a restart on request still works");
    assert!(!world.restart("off"));
    assert!(!world.restart("unheard-of"));
    world.check(&["start never 6"]);
}

#[test]
fn restart_has_no_delay() {
    let mut world = World::new(TWO);
    world.exit(1, 1);
    world.exit(3, 1);
    world.said.clear();
    // It was waiting for its delay: it starts now.
    assert!(world.restart("a"));
    world.check(&["start a 4"]);
    assert!(world.restart("a"));
    world.check(&["restarting 4", "end 4 within 15"]);
    assert!(world.restart("a"), "again is the same");
    world.check(&[]);
    world.exit(4, -15);
    world.check(&["stopped a -15", "start a 5"]);
    assert!(!world.restart("supervisor"));
}

#[test]
fn failed_start_counts_as_exit() {
    let mut world = World::new("");
    world.cannot_start = true;
    world.load("[[service]]\nname = 'a'\ncmd = ['one']");
    // At once, and once more.
    world.check(&["stopped a -1", "stopped a -1"]);
    assert_eq!(world.wait(), seconds(1));
    assert_eq!(world.wait(), seconds(5));
    world.cannot_start = false;
    world.said.clear();
    assert_eq!(world.wait(), seconds(5));
    world.check(&["start a 5"]);
}

#[test]
fn reload_touches_only_changed_services() {
    let mut world = World::new(TWO);
    world.said.clear();
    world.load(
        "
        [[service]]
        name = 'a'
        cmd = ['one']
        [[service]]
        name = 'b'
        cmd = ['two', 'more']
        [[service]]
        name = 'c'
        cmd = ['three']
    ",
    );
    world.check(&["restarting 2", "end 2 within 40", "start c 3"]);
    world.exit(2, 0);
    world.check(&["stopped b 0", "start b 4"]);
    world.load("[[service]]\nname = 'b'\ncmd = ['two', 'more']");
    world.check(&["end 1 within 15", "end 3 within 15"]);
    world.exit(1, -15);
    // A service that is re-added while it stops starts when it has stopped.
    world.load(
        "[[service]]\nname = 'b'\ncmd = ['two', 'more']\n[[service]]\nname = 'c'\ncmd = ['new']",
    );
    world.exit(3, -15);
    world.check(&["stopped a -15", "stopped c -15", "start c 5"]);
    assert!(!world.restart("a"));
}

#[test]
fn services_stop_in_reverse_order() {
    let mut world = World::new(TWO);
    world.said.clear();
    let effects = world.services.stop(world.now);
    world.work_off(effects);
    world.check(&["end 2 within 40"]);
    world.exit(2, -15);
    world.check(&["stopped b -15", "end 1 within 15"]);
    assert!(!world.services.is_idle());
    world.exit(1, 0);
    world.check(&["stopped a 0"]);
    assert!(world.services.is_idle());
}

#[test]
fn slow_services_are_killed_together() {
    let mut world = World::new(TWO);
    world.said.clear();
    let effects = world.services.stop(world.now);
    world.work_off(effects);
    // As long as the slowest was granted.
    assert_eq!(world.wait(), seconds(40));
    world.check(&["end 2 within 40", "kill 1", "kill 2"]);
}
