//! What a look costs. Nothing is asserted: the figures stand in `docs/decisions/process-table.md`.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use capture::Environment;
use event::Time;
use host::{HostProbe, Pairings, ProbeTarget, Processes};
use tempfile::TempDir;

/// So many that they take some ticks of the clock by which the kernel counts.
const LOOKS: u32 = 20_000;
const SCANS: u32 = 20;

/// A process that runs until it is dropped.
struct Sleeper(Child);

impl Sleeper {
    fn start(name: &str) -> Sleeper {
        Sleeper(Command::new("/bin/sleep").arg0(name).arg("3600").spawn().unwrap())
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The processor time of this thread, in nanoseconds.
fn used_nanos() -> u64 {
    let told = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    told.split_whitespace().next().unwrap().parse().unwrap()
}

fn millis_of(times: u32, mut act: impl FnMut()) -> f64 {
    let begun = used_nanos();
    (0..times).for_each(|_| act());
    (used_nanos() - begun) as f64 / f64::from(times) / 1e6
}

#[test]
#[ignore = "it measures: run it alone, in a process namespace of its own, optimised"]
fn processor_time_of_a_look() {
    let home = TempDir::new().unwrap();
    let environment = Environment::new(home.path(), []);
    let agent = Sleeper::start("gemini");
    let target = ProbeTarget {
        provider: "gemini".to_owned(),
        session: "s1".to_owned(),
        folders: vec![std::env::current_dir().unwrap()],
        began_at: Some(Time::from_millis(1)),
        last_at: Some(Time::MAX),
        ..ProbeTarget::default()
    };
    let mut others = Vec::new();
    for count in [10, 300, 3_000, 10_000] {
        while others.len() < count {
            others.push(Sleeper::start("sleep"));
        }
        let scan = millis_of(SCANS, || {
            let processes = Processes::default();
            let probe = HostProbe::look(&environment, &processes);
            probe.pair(&mut Pairings::default(), [&target], Time::MIN, Time::MAX);
        });
        let (processes, mut pairings) = (Processes::default(), Pairings::default());
        HostProbe::look(&environment, &processes).pair(
            &mut pairings,
            [&target],
            Time::MIN,
            Time::MAX,
        );
        let look = millis_of(LOOKS, || {
            let probe = HostProbe::look(&environment, &processes);
            assert!(probe.is_current(&mut pairings, Time::MAX));
            let evidence = probe.evidence_for(&target, &pairings);
            assert_eq!(evidence.process.map(|process| process.pid), Some(agent.0.id()));
        });
        println!("{count} processes: {scan:.3} ms with a scan, {look:.3} ms without a change");
    }
}
