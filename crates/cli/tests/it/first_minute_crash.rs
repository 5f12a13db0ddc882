//! Killed at any instant of an import of the sample, or while it takes newer prices, the program
//! leaves the journal as it was or as it shall be, and doing it again ends where an undisturbed run
//! does.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use testkit::{Dice, World};

use crate::chain_crash::journal;
use crate::ingest_crash::{assert_held, crashes, held, share, timed};
use crate::up::up;
use crate::web::ways_in;
use crate::{empty, json};

/// What is killed less often than `ingest`, because each run does less: a part of the kills.
const SHARE: u32 = 10;

fn import(world: &World) -> serde_json::Value {
    json(&world.run(&["--json", "import", "--sample"])).remove(0)
}

#[track_caller]
fn assert_sound(world: &World) {
    let doctor = json(&world.run(&["--json", "doctor"])).remove(0);
    assert_eq!(doctor["ok"], true, "{doctor}");
}

#[test]
fn killed_import_of_the_sample_resumes() {
    let undisturbed = empty();
    let time = timed(|| drop(import(&undisturbed)));
    let events = held(&undisturbed);

    let rounds = crashes().div_ceil(SHARE);
    let mut dice = Dice::from_environment();
    println!("{rounds} kills within {time:?}, HANSARD_TEST_SEED={}", dice.seed());
    for _ in 0..rounds {
        let world = empty();
        let mut running = world.start(&["--json", "import", "--sample"]);
        if !running.ends_within(share(time, &mut dice)) {
            running.kill();
        }
        import(&world);
        assert_held(&world, &events);
        assert_sound(&world);
    }
}

#[test]
fn killed_daemon_imports_the_sample_again() {
    let undisturbed = empty();
    import(&undisturbed);
    let events = held(&undisturbed);

    let rounds = crashes().div_ceil(SHARE);
    let mut dice = Dice::from_environment();
    println!("{rounds} kills, HANSARD_TEST_SEED={}", dice.seed());
    for _ in 0..rounds {
        let world = empty();
        let mut daemon = up(&world);
        let (address, token) = ways_in(&world);
        // Not waited for: the daemon is killed while it imports.
        let mut asked = TcpStream::connect(&address).unwrap();
        let head = format!(
            "POST /api/sample HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
             Content-Length: 0\r\nConnection: close\r\n\r\n"
        );
        asked.write_all(head.as_bytes()).unwrap();
        daemon.goes_on_for(share(Duration::from_millis(60), &mut dice));
        daemon.kill();
        import(&world);
        assert_held(&world, &events);
        assert_sound(&world);
    }
}

#[test]
fn killed_update_leaves_old_prices_or_new_ones() {
    let world = empty();
    import(&world);
    let list = |price: u32| {
        let models: Vec<String> = (0..2_000)
            .map(|number| format!(r#""model-{number}": {{"input": {price}, "output": 1}}"#))
            .collect();
        format!(r#"{{"version": 1, "models": {{{}}}}}"#, models.join(","))
    };
    let path = world.home().join("newer.json");
    let update = ["--json", "prices", "update", path.to_str().unwrap()];
    fs::write(&path, list(1)).unwrap();
    let time = timed(|| drop(world.run(&update)));
    let own = journal(&world).join("prices.json");
    let mut before = fs::read(&own).unwrap();

    let rounds = crashes().div_ceil(SHARE);
    let mut dice = Dice::from_environment();
    println!("{rounds} kills within {time:?}, HANSARD_TEST_SEED={}", dice.seed());
    for round in 0..rounds {
        fs::write(&path, list(round + 2)).unwrap();
        let mut running = world.start(&update);
        if !running.ends_within(share(time, &mut dice)) {
            running.kill();
        }
        let after = fs::read(&own).unwrap();
        let dry = json(&world.run(&[&update[..], &["--dry-run"]].concat())).remove(0);
        let left = dry["changes"].as_array().unwrap().len();
        assert_eq!(left, if after == before { 2_000 } else { 0 }, "all of them or none");
        json(&world.run(&update));
        before = fs::read(&own).unwrap();
    }
    assert_eq!(world.run(&["usage"]).code, Some(0));
}
