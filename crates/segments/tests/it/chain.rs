//! The chain from an epoch that closes to its dream: in order, once, and after any crash.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};

use event::{SessionId, Time};
use journal::ForkPolicy;
use proptest::prelude::{ProptestConfig, any, proptest};
use segments::{
    Begun, Chain, ChainError, Day, Dream, Hands, HandsError, Segment, Site, Went, Zone,
};
use serde_json::{Value, json};

use crate::segments::{MINUTE, MORNING, World};

/// Hands that do at once what they are told, until they are cut off.
struct Doing<'a> {
    world: &'a World,
    published: Vec<Value>,
    dreams: Vec<Dream>,
    runs: BTreeMap<String, i32>,
    /// Handlers of the user.
    own: Vec<&'static str>,
    /// The handler that fails.
    failing: Option<&'static str>,
    /// What was started: a handler and its file.
    started: Vec<String>,
    /// What has ended, however.
    finished: Vec<String>,
    alarms: Vec<String>,
    /// The user has commands for what is dreamt of.
    has_own_dreams: bool,
    /// What they say cannot be run.
    has_bad_dreams: bool,
    /// There is no room for another task.
    is_full: bool,
    /// Things that are done before somebody pulls the plug.
    left: Option<u32>,
}

/// The plug was pulled.
struct CutOff;

impl<'a> Doing<'a> {
    fn new(world: &'a World) -> Doing<'a> {
        Doing {
            world,
            published: Vec::new(),
            dreams: Vec::new(),
            runs: BTreeMap::new(),
            own: Vec::new(),
            failing: None,
            started: Vec::new(),
            finished: Vec::new(),
            alarms: Vec::new(),
            has_own_dreams: false,
            has_bad_dreams: false,
            is_full: false,
            left: None,
        }
    }

    fn step(&mut self) {
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1).unwrap_or_else(|| panic_any(CutOff));
        }
    }

    fn names(&self) -> Vec<String> {
        let name = |message: &Value| {
            let handler =
                message["handler"].as_str().map_or(String::new(), |name| format!(" {name}"));
            format!("{}.{}{handler}", message["tract"], message["event"]).replace('"', "")
        };
        self.published.iter().map(name).collect()
    }
}

impl Hands for Doing<'_> {
    fn publish(&mut self, message: &Value) {
        self.step();
        self.published.push(message.clone());
    }

    fn now(&self) -> Time {
        at(1)
    }

    fn is_stopping(&self) -> bool {
        false
    }

    fn warn(&mut self, _words: &str) {}

    fn alarm(&mut self, title: &str, words: &str) {
        self.step();
        self.alarms.push(format!("{title}: {words}"));
    }

    /// Each is for one kind of file: `count` for those of segments, `see` for pictures.
    fn handlers(&self, file: &str) -> Vec<String> {
        let fits = |name: &&&str| match **name {
            "see" => file.ends_with(".png"),
            _ => file == "segment.json",
        };
        self.own.iter().filter(fits).map(|name| (*name).to_owned()).collect()
    }

    fn start(&mut self, site: &Site, handler: &str, file: &str) -> Result<Begun, HandsError> {
        self.step();
        self.started.push(format!("{handler} {file}"));
        let run = format!("run-{}", self.runs.len());
        let is_failing = self.failing == Some(handler);
        if !is_failing {
            let segment = || Segment::open(&site.folder).unwrap();
            match handler {
                "transcribe" => drop(segment().transcribe(&self.world.journal).unwrap()),
                "describe" => drop(segment().describe(&self.world.journal).unwrap()),
                _ => {}
            }
        }
        self.runs.insert(run.clone(), i32::from(is_failing));
        Ok(Begun::Running(run))
    }

    /// The last one is the quickest.
    fn finish(&mut self, runs: &[&str]) -> Option<(usize, i32)> {
        self.step();
        let run = *runs.last()?;
        let number = self.runs.keys().position(|known| known == run).unwrap();
        self.finished.push(self.started[number].clone());
        Some((runs.len() - 1, self.runs[run]))
    }

    fn dream(&mut self, dream: &Dream) -> Result<(), HandsError> {
        self.step();
        if self.has_bad_dreams {
            return Err(HandsError::Never("nothing is left of it".to_owned()));
        }
        if self.is_full {
            return Err(HandsError::NotNow("too many wait".to_owned()));
        }
        self.dreams.push(dream.clone());
        Ok(())
    }

    fn is_replaced(&self, _dream: &Dream) -> bool {
        self.has_own_dreams
    }
}

fn at(minutes: i64) -> Time {
    Time::from_millis(MORNING + minutes * MINUTE)
}

/// Lets the chain take everything that is recorded.
fn follow(world: &World, hands: &mut Doing<'_>, minutes: i64) {
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    loop {
        assert_eq!(chain.make_up(at(minutes), hands).unwrap(), Went::On);
        let page = chain.page().unwrap();
        assert_eq!(chain.take(&page, at(minutes), hands).unwrap(), Went::On);
        if page.is_empty() {
            return;
        }
    }
}

/// Hears a message as a daemon does.
fn hear(
    chain: &mut Chain,
    message: &Value,
    now: Time,
    hands: &mut Doing<'_>,
) -> Result<(), ChainError> {
    let message = bus::Message::parse(message.to_string().as_bytes()).unwrap();
    chain.note(&message)?;
    chain.heed(&message, now, hands)
}

/// The names of the messages in the event logs of all segments.
fn logged(world: &World) -> Vec<Vec<String>> {
    let day = Day::parse("20261116").unwrap();
    let segments = Segment::of_day(&world.root(), day).unwrap();
    let names = |segment: &Segment| {
        let text = fs::read_to_string(segment.folder().join("events.jsonl")).unwrap();
        let name = |line: &str| {
            let message: Value = serde_json::from_str(line).unwrap();
            let handler =
                message["handler"].as_str().map_or(String::new(), |name| format!(" {name}"));
            format!("{}{handler}", message["event"].as_str().unwrap())
        };
        text.lines().map(name).collect()
    };
    segments.iter().map(names).collect()
}

const STEPS: [&str; 6] = [
    "observing",
    "detected transcribe",
    "detected describe",
    "transcribed",
    "described",
    "observed",
];

#[test]
fn an_epoch_goes_through_the_chain_in_order() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").edit("a.rs").close();
    let mut hands = Doing::new(&world);
    follow(&world, &mut hands, 1);
    assert_eq!(hands.names(), STEPS.map(|step| format!("observe.{step}")));
    assert_eq!(logged(&world), [STEPS]);
    let observing = &hands.published[0];
    assert_eq!(observing["meta"]["session_id"], "claude:a");
    assert_eq!((&observing["day"], &observing["stream"]), (&json!("20261116"), &json!("claude")));
    assert_eq!(hands.published[1]["ref"], "run-0");
    assert_eq!(observing["ts"], MORNING + MINUTE);
    assert_eq!(hands.dreams, [Dream::Segment(world.claim("a").key())]);
    // Nothing is left to do.
    let mut again = Doing::new(&world);
    follow(&world, &mut again, 1);
    assert!(again.published.is_empty() && again.dreams.is_empty());
}

/// Does what is owed at these seconds after a minute, with a chain that begins anew each time.
fn make_up(world: &World, hands: &mut Doing<'_>, seconds: &[i64]) {
    for seconds in seconds {
        let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
        let now = Time::from_millis(MORNING + MINUTE + seconds * 1_000);
        assert_eq!(chain.make_up(now, hands).unwrap(), Went::On);
    }
}

#[test]
fn a_handler_that_fails_is_tried_again_and_then_told_and_stops_nothing() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").close();
    let mut hands = Doing::new(&world);
    hands.failing = Some("describe");
    hands.own = vec!["count"];
    follow(&world, &mut hands, 1);
    assert!(!hands.names().contains(&"observe.observed".to_owned()), "{:?}", hands.names());
    make_up(&world, &mut hands, &[9, 10, 11, 69, 70, 71, 669]);
    assert!(hands.dreams.is_empty() && hands.alarms.is_empty());
    make_up(&world, &mut hands, &[670, 700, 10_000]);
    let observed = hands.published.iter().find(|message| message["event"] == "observed").unwrap();
    assert_eq!(
        (&observed["error"], &observed["errors"]),
        (&json!(true), &json!(["describe exit 1"]))
    );
    assert_eq!(hands.alarms.len(), 1);
    assert_eq!(hands.dreams.len(), 1);
    // What went well is not done again.
    let tries = |name: &str| hands.started.iter().filter(|it| it.starts_with(name)).count();
    assert_eq!((tries("describe"), tries("transcribe"), tries("count")), (4, 1, 1));
}

#[test]
fn a_handler_that_fails_once_is_no_failure() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").close();
    let mut hands = Doing::new(&world);
    hands.failing = Some("describe");
    follow(&world, &mut hands, 1);
    hands.failing = None;
    make_up(&world, &mut hands, &[10, 70, 670]);
    assert_eq!(logged(&world), [STEPS]);
    assert!(hands.alarms.is_empty());
    assert_eq!(hands.dreams.len(), 1);
}

#[test]
fn an_epoch_that_cannot_be_taken_holds_up_nobody_and_is_made_up_for() {
    let world = World::new();
    world.begin("blocked", "app", -24 * 60).ask("Yesterday").close();
    world.begin("a", "app", 0).ask("Write the parser").close();
    fs::write(world.root().join("20261115"), "no folder").unwrap();
    let mut hands = Doing::new(&world);
    follow(&world, &mut hands, 1);
    assert_eq!(logged(&world), [STEPS]);
    make_up(&world, &mut hands, &[10]);
    fs::remove_file(world.root().join("20261115")).unwrap();
    make_up(&world, &mut hands, &[70, 670, 10_000]);
    let yesterday = Day::parse("20261115").unwrap();
    assert_eq!(Segment::of_day(&world.root(), yesterday).unwrap().len(), 1);
    assert!(hands.dreams.contains(&Dream::Segments(yesterday)));
    assert!(hands.alarms.is_empty());
}

#[test]
fn an_epoch_that_never_can_be_taken_is_given_up_and_said() {
    let world = World::new();
    world.begin("blocked", "app", -24 * 60).ask("Yesterday").close();
    fs::write(world.root().join("20261115"), "no folder").unwrap();
    let mut hands = Doing::new(&world);
    follow(&world, &mut hands, 1);
    make_up(&world, &mut hands, &[10, 70, 670, 10_000, 20_000]);
    assert_eq!(hands.alarms.len(), 1);
    assert!(hands.alarms[0].contains("20261115"), "{:?}", hands.alarms);
}

#[test]
fn handlers_of_the_user_run_beside_ours() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").close();
    let mut hands = Doing::new(&world);
    hands.own = vec!["count"];
    follow(&world, &mut hands, 1);
    assert!(hands.names().contains(&"observe.detected count".to_owned()), "{:?}", hands.names());
    assert_eq!(hands.names().last().unwrap(), "observe.observed");
}

#[test]
fn history_is_described_on_the_way_and_dreamt_of_by_the_day() {
    let world = World::new();
    for number in 0..20 {
        world.begin(&format!("s{number}"), "app", number).ask("Write the parser").close();
    }
    let mut hands = Doing::new(&world);
    follow(&world, &mut hands, 24 * 60);
    assert!(hands.runs.is_empty(), "no process for history");
    assert_eq!(hands.published.len(), 20);
    assert!(hands.published.iter().all(|message| message["batch"] == true));
    assert_eq!(hands.dreams, [Dream::Segments(Day::parse("20261116").unwrap())]);
    assert!(logged(&world).iter().all(|log| *log == ["observed"]));
}

#[test]
fn files_that_others_announce_get_their_handlers_once() {
    let world = World::new();
    let folder = world.root().join("20261116/phone/080001_5");
    fs::create_dir_all(&folder).unwrap();
    for name in ["a.png", "b.png", "note.txt"] {
        fs::write(folder.join(name), "x").unwrap();
    }
    let observing = |files: Value| {
        json!({"tract": "observe", "event": "observing", "day": "20261116", "stream": "phone",
            "segment": "080001_5", "files": files, "meta": {"host": "phone"}})
    };
    let mut hands = Doing::new(&world);
    hands.own = vec!["see", "count"];
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    // One is named twice, one is missing, one leads elsewhere, one has no handler.
    let files = json!(["a.png", "a.png", "gone.png", "../b.png", "b.png", "note.txt", 7]);
    hear(&mut chain, &observing(files), at(1), &mut hands).unwrap();
    // After a crash it is still owed.
    drop(chain);
    make_up(&world, &mut hands, &[0]);
    assert_eq!(hands.started, ["see a.png", "see b.png"]);
    let names = ["observe.detected see", "observe.detected see", "observe.observed"];
    assert_eq!(hands.names(), names);
    assert!(hands.dreams.is_empty(), "nothing else happens");
    // Nobody is for it: it is done at once.
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    hear(&mut chain, &observing(json!(["note.txt"])), at(2), &mut hands).unwrap();
    assert_eq!(chain.make_up(at(2), &mut hands).unwrap(), Went::On);
    assert_eq!(hands.names().len(), 4);
    // These name nothing that is there.
    let before = chain.unheard();
    for (name, value) in [
        ("day", json!("20261345")),
        ("segment", json!("../..")),
        ("segment", Value::Null),
        ("stream", json!("nobody")),
        ("files", json!("a.png")),
    ] {
        let mut message = observing(json!(["a.png"]));
        message[name] = value;
        hear(&mut chain, &message, at(3), &mut hands).unwrap();
    }
    assert!(chain.unheard() - before >= 5);
    make_up(&world, &mut hands, &[180]);
    assert_eq!(hands.started.len(), 2);
}

#[test]
fn files_that_are_announced_again_are_handled_and_told_again() {
    let world = World::new();
    let folder = world.root().join("20261116/phone/080001_5");
    fs::create_dir_all(&folder).unwrap();
    let mut hands = Doing::new(&world);
    hands.own = vec!["see"];
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    for ts in [1, 2] {
        fs::write(folder.join("a.png"), "x").unwrap();
        let observing = json!({"tract": "observe", "event": "observing", "day": "20261116",
            "stream": "phone", "segment": "080001_5", "files": ["a.png"], "ts": ts});
        hear(&mut chain, &observing, at(1), &mut hands).unwrap();
        assert_eq!(chain.make_up(at(1), &mut hands).unwrap(), Went::On);
    }
    assert_eq!(hands.started, ["see a.png", "see a.png"]);
    let names = ["observe.detected see", "observe.observed"];
    assert_eq!(hands.names(), [names, names].concat());
    let of: Vec<&Value> = hands.published.iter().map(|message| &message["announced"]).collect();
    assert_eq!(of, [1, 1, 2, 2]);
    assert_ne!(hands.published[0]["ref"], hands.published[2]["ref"]);
}

#[test]
fn announcements_are_told_apart_also_where_they_say_no_time_or_the_same() {
    let world = World::new();
    let folder = world.root().join("20261116/phone/080001_5");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("a.png"), "x").unwrap();
    let mut hands = Doing::new(&world);
    hands.own = vec!["see"];
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    let announce = |chain: &mut Chain, ts: Value, hands: &mut Doing<'_>| {
        let observing = json!({"tract": "observe", "event": "observing", "day": "20261116",
            "stream": "phone", "segment": "080001_5", "files": ["a.png"], "ts": ts});
        hear(chain, &observing, at(1), hands).unwrap();
    };
    // Two that wait together, and one when both are done.
    announce(&mut chain, json!(7), &mut hands);
    announce(&mut chain, json!(7), &mut hands);
    assert_eq!(chain.make_up(at(1), &mut hands).unwrap(), Went::On);
    announce(&mut chain, json!(7), &mut hands);
    assert_eq!(chain.make_up(at(1), &mut hands).unwrap(), Went::On);
    // Some say no time, or none that can be.
    for ts in [Value::Null, json!("soon"), Value::Null] {
        announce(&mut chain, ts, &mut hands);
        assert_eq!(chain.make_up(at(1), &mut hands).unwrap(), Went::On);
    }
    assert_eq!(hands.started, ["see a.png"; 6]);
    let of = |event: &str| -> Vec<i64> {
        let told = hands.published.iter().filter(|message| message["event"] == event);
        told.map(|message| message["announced"].as_i64().unwrap()).collect()
    };
    let now = MORNING + MINUTE;
    assert_eq!(of("observed"), [7, 8, 9, now, now + 1, now + 2]);
    assert_eq!(of("detected"), of("observed"));
}

#[test]
fn what_is_announced_in_a_segment_of_ours_ends_nothing_of_our_own() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").close();
    let mut hands = Doing::new(&world);
    hands.own = vec!["see"];
    hands.failing = Some("describe");
    follow(&world, &mut hands, 1);
    // While the epoch waits for its next try, somebody adds a picture.
    let segment = world.claim("a");
    fs::write(segment.folder().join("a.png"), "x").unwrap();
    let observing = json!({"tract": "observe", "event": "observing", "day": "20261116",
        "stream": "claude", "segment": segment.meta.segment, "files": ["a.png"], "ts": 7});
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    hear(&mut chain, &observing, at(1), &mut hands).unwrap();
    assert_eq!(chain.make_up(at(1), &mut hands).unwrap(), Went::On);
    hands.failing = None;
    make_up(&world, &mut hands, &[10]);
    let ends = hands.published.iter().filter(|message| message["event"] == "observed");
    let ends: Vec<&Value> = ends.map(|message| &message["announced"]).collect();
    assert_eq!(ends, [&json!(7), &Value::Null]);
}

#[test]
fn an_announcement_that_cannot_be_kept_is_heard_again_as_the_same() {
    let world = World::new();
    fs::create_dir_all(world.root().join("20261116/phone/080001_5")).unwrap();
    let mut hands = Doing::new(&world);
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    let observing = json!({"tract": "observe", "event": "observing", "day": "20261116",
        "stream": "phone", "segment": "080001_5", "files": [], "ts": 7});
    let message = bus::Message::parse(observing.to_string().as_bytes()).unwrap();
    let health = world.root().join("health");
    fs::write(&health, "in the way").unwrap();
    assert!(chain.heed(&message, at(1), &mut hands).is_err());
    fs::remove_file(&health).unwrap();
    chain.heed(&message, at(1), &mut hands).unwrap();
    assert_eq!(chain.make_up(at(1), &mut hands).unwrap(), Went::On);
    let told: Vec<&Value> = hands.published.iter().map(|it| &it["announced"]).collect();
    assert_eq!(told, [7]);
}

#[test]
fn a_handler_that_is_done_is_not_run_again_because_that_could_not_be_written_down() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").close();
    let mut hands = Doing::new(&world);
    hands.own = vec!["count"];
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    let health = world.root().join("health");
    fs::write(&health, "in the way").unwrap();
    let page = chain.page().unwrap();
    assert!(chain.take(&page, at(1), &mut hands).is_err());
    fs::remove_file(&health).unwrap();
    // The journal is opened again meanwhile.
    chain.reopen(world.journal.clone());
    assert_eq!(chain.make_up(at(1), &mut hands).unwrap(), Went::On);
    let page = chain.page().unwrap();
    assert_eq!(chain.take(&page, at(1), &mut hands).unwrap(), Went::On);
    assert_eq!(hands.started.iter().filter(|it| *it == "count segment.json").count(), 1);
    assert_eq!(logged(&world)[0].last().unwrap(), "observed");
    assert_eq!(hands.dreams.len(), 1);
    assert!(!chain.is_behind());
}

#[test]
fn what_is_due_and_finds_no_room_is_due_again() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").close();
    let mut hands = Doing::new(&world);
    follow(&world, &mut hands, 1);
    hands.dreams.clear();
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    hands.is_full = true;
    assert!(chain.tick(at(61), &mut hands).is_err());
    hands.is_full = false;
    chain.tick(at(62), &mut hands).unwrap();
    chain.tick(at(63), &mut hands).unwrap();
    assert_eq!(hands.dreams, [Dream::Flush(world.claim("a").key())]);
}

#[test]
fn what_happened_to_a_segment_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").close();
    follow(&world, &mut Doing::new(&world), 1);
    let log = world.claim("a").folder().join("events.jsonl");
    assert_eq!(fs::metadata(log).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn what_others_say_of_segments_is_written_down_and_dreamt_of() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").close();
    let key = world.claim("a").key();
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    let mut hands = Doing::new(&world);
    let about = json!({"day": "20261116", "segment": key.segment(), "stream": "claude"});
    let told = |tract: &str, event: &str, more: Value| {
        let mut message = about.clone();
        message["tract"] = json!(tract);
        message["event"] = json!(event);
        for (name, value) in more.as_object().unwrap() {
            message[name.as_str()] = value.clone();
        }
        message
    };
    hear(&mut chain, &told("observe", "observed", json!({})), at(1), &mut hands).unwrap();
    let recorded = json!({"facet": "owner/app", "id": "coding_080001_3"});
    hear(&mut chain, &told("activity", "recorded", recorded), at(1), &mut hands).unwrap();
    // These are written down, and nothing is run for them.
    let nameless = told("activity", "recorded", json!({"id": "coding_1"}));
    hear(&mut chain, &nameless, at(1), &mut hands).unwrap();
    let hostile = [("--x", "a"), ("a/../b", "a"), ("a//b", "a"), ("app", "../x"), ("app", "a/b")];
    for (facet, id) in hostile {
        let hostile = json!({"facet": facet, "id": id});
        hear(&mut chain, &told("activity", "recorded", hostile), at(1), &mut hands).unwrap();
    }
    assert_eq!(logged(&world)[0].len(), 8);
    assert_eq!(chain.unheard(), 6);
    assert_eq!(hands.dreams.len(), 2);
    assert!(matches!(&hands.dreams[1], Dream::Activity { facet, .. } if facet == "owner/app"));
    // A project that is in no repository goes by its folder.
    let folder = json!({"facet": "/home/dev/my projects/.app", "id": "coding_080001_3"});
    hear(&mut chain, &told("activity", "recorded", folder), at(1), &mut hands).unwrap();
    assert_eq!((chain.unheard(), hands.dreams.len()), (6, 3));
    // A day may be a number, and a stream be left out where there is only one.
    let mut bare = told("observe", "observed", json!({"day": 20261116}));
    bare.as_object_mut().unwrap().remove("stream");
    hear(&mut chain, &bare, at(1), &mut hands).unwrap();
    let numbered = json!({"facet": "app", "id": "coding_080001_3", "day": 20261116});
    hear(&mut chain, &told("activity", "recorded", numbered), at(1), &mut hands).unwrap();
    assert_eq!((chain.unheard(), hands.dreams.len()), (6, 5));
    // Some languages have a word for what is left out.
    let absent = told("observe", "observed", json!({"stream": null}));
    hear(&mut chain, &absent, at(1), &mut hands).unwrap();
    assert_eq!((chain.unheard(), hands.dreams.len()), (6, 6));
}

#[test]
fn an_hour_of_silence_is_flushed_once_also_after_a_restart() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").close();
    let mut hands = Doing::new(&world);
    follow(&world, &mut hands, 1);
    hands.dreams.clear();
    for minutes in [30, 61, 62, 120] {
        let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
        chain.tick(at(minutes), &mut hands).unwrap();
    }
    assert_eq!(hands.dreams, [Dream::Flush(world.claim("a").key())]);
}

#[test]
fn a_dream_that_can_never_be_run_is_counted_and_holds_up_nobody() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").close();
    let mut hands = Doing::new(&world);
    follow(&world, &mut hands, 1);
    hands.has_bad_dreams = true;
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    chain.tick(at(61), &mut hands).unwrap();
    assert_eq!(chain.unheard(), 1);
    chain.tick(at(62), &mut hands).unwrap();
    assert_eq!(chain.unheard(), 1);
}

#[test]
fn a_dream_that_nobody_wrote_down_is_dreamt_again() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").close();
    let mut hands = Doing::new(&world);
    follow(&world, &mut hands, 1);
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    hands.dreams.clear();
    chain.recover(at(2), &mut hands).unwrap();
    assert_eq!(hands.dreams, [Dream::Segment(world.claim("a").key())]);
    let completed = json!({"tract": "dream", "event": "completed", "mode": "segment",
        "day": "20261116", "stream": "claude", "segment": world.claim("a").meta.segment});
    hear(&mut chain, &completed, at(2), &mut hands).unwrap();
    hands.dreams.clear();
    chain.recover(at(3), &mut hands).unwrap();
    assert!(hands.dreams.is_empty());
}

#[test]
fn a_command_of_the_user_instead_of_a_dream_is_not_run_again_at_every_start() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").edit("a.rs").close();
    let mut hands = Doing::new(&world);
    hands.has_own_dreams = true;
    follow(&world, &mut hands, 1);
    world.dream(&Dream::Flush(world.claim("a").key()), 2);
    hands.dreams.clear();
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    chain.recover(at(3), &mut hands).unwrap();
    assert!(hands.dreams.is_empty());
}

#[test]
fn an_activity_whose_end_nobody_heard_is_dreamt_of_at_the_next_start() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").edit("a.rs").close();
    world.dream(&Dream::Flush(world.claim("a").key()), 2);
    let mut hands = Doing::new(&world);
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    chain.recover(at(3), &mut hands).unwrap();
    let [dream @ Dream::Activity { .. }] = &hands.dreams[..] else { panic!("{:?}", hands.dreams) };
    world.dream(dream, 4);
    let mut hands = Doing::new(&world);
    chain.recover(at(5), &mut hands).unwrap();
    assert!(hands.dreams.is_empty());
}

#[test]
fn a_step_that_somebody_else_told_is_not_ours() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").close();
    let key = world.claim("a").key();
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    let mut hands = Doing::new(&world);
    let observed = json!({"tract": "observe", "event": "observed", "day": "20261116",
        "segment": key.segment(), "stream": "claude", "rev": "0.1.0"});
    hear(&mut chain, &observed, at(1), &mut hands).unwrap();
    follow(&world, &mut hands, 1);
    assert_eq!(hands.names(), STEPS.map(|step| format!("observe.{step}")));
}

#[test]
fn handlers_that_are_done_are_not_run_again_after_a_crash() {
    let mut spared = 0;
    for left in 0..14 {
        let world = World::new();
        world.begin("a", "app", 0).ask("Write the parser").close();
        let mut hands = Doing::new(&world);
        hands.own = vec!["count", "weigh"];
        hands.left = Some(left);
        // Where there is nothing left to be cut off, it is simply done.
        let _ = catch_unwind(AssertUnwindSafe(|| follow(&world, &mut hands, 1)));
        let mut again = Doing::new(&world);
        again.own = vec!["count", "weigh"];
        follow(&world, &mut again, 1);
        for handler in ["count segment.json", "weigh segment.json"].map(str::to_owned) {
            let is_done = hands.finished.contains(&handler);
            assert!(!is_done || !again.started.contains(&handler), "{handler} with {left} steps");
            spared += u32::from(is_done && !again.published.is_empty());
        }
    }
    assert!(spared > 2, "it was cut off behind the end of a handler");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whenever_it_is_cut_off_every_step_is_taken_once(
        cuts in proptest::collection::vec(0_u32..12, 0..8),
        is_history in any::<bool>(),
    ) {
        let world = World::new();
        for number in 0..3 {
            world.begin(&format!("s{number}"), "app", number).ask("Write the parser").close();
        }
        let minutes = if is_history { 24 * 60 } else { 5 };
        let mut dreams = Vec::new();
        for left in cuts.into_iter().map(Some).chain([None]) {
            let mut hands = Doing::new(&world);
            hands.left = left;
            let followed = catch_unwind(AssertUnwindSafe(|| follow(&world, &mut hands, minutes)));
            if let Err(cause) = followed {
                assert!(cause.is::<CutOff>(), "it failed by itself");
            }
            dreams.extend(hands.dreams);
        }
        for log in logged(&world) {
            let expected: &[&str] = if is_history { &["observed"] } else { &STEPS };
            assert_eq!(log.iter().filter(|step| !step.starts_with("detected")).count(),
                expected.iter().filter(|step| !step.starts_with("detected")).count(), "{log:?}");
            for step in expected.iter().filter(|step| !step.starts_with("detected")) {
                assert_eq!(log.iter().filter(|logged| logged == step).count(), 1, "{log:?}");
            }
        }
        // Every segment is dreamt of at least once.
        let days = dreams.iter().filter(|dream| matches!(dream, Dream::Segments(_))).count();
        for number in 0..3 {
            let key = world.claim(&format!("s{number}")).key();
            assert!(dreams.contains(&Dream::Segment(key)) || (is_history && days > 0));
        }
    }
}

#[test]
fn a_deletion_that_was_cut_off_is_finished_by_the_next_chain() {
    let world = World::new();
    world.begin("a", "app", 0).ask("Write the parser").close();
    let segment = world.claim("a");
    // As if it was killed behind the first step.
    let id = SessionId::new("claude:a").unwrap();
    world.journal.delete(&id, at(10), ForkPolicy::Refuse).unwrap();
    assert!(segment.folder().exists());
    let mut chain = Chain::open(world.journal.clone(), Zone::UTC).unwrap();
    chain.recover(at(11), &mut Doing::new(&world)).unwrap();
    assert!(!segment.folder().exists());
}

#[test]
fn what_was_owed_and_cannot_be_read_is_set_aside() {
    let world = World::new();
    let health = world.root().join("health");
    fs::create_dir_all(&health).unwrap();
    fs::write(health.join("chain.json"), "{").unwrap();
    assert!(!Chain::open(world.journal.clone(), Zone::UTC).unwrap().is_behind());
    assert_eq!(fs::read_to_string(health.join("chain.json.damaged")).unwrap(), "{");
}
