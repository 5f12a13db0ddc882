//! A session that appears after those that repeat it: links and sums are those of any other order.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use capture::{Agent, Environment, IngestSummary, Ingester, Sink, SourceIndex, SourceWatcher};
use event::payload::{SessionStarted, SettingsChanged, UserPrompt};
use event::{Kind, Time};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tempfile::TempDir;
use testkit::Dice;

use crate::files::Failing;
use crate::memory::Memory;
use crate::scenario::{File, NOW, agent, files, fixtures, read, stamp, told};

/// Which session comes from which, as far as anybody was told.
pub(crate) fn links(sink: &Memory) -> BTreeMap<String, String> {
    let mut links = BTreeMap::new();
    for event in sink.events() {
        let started = event.payload::<SessionStarted>().unwrap().and_then(|it| it.parent);
        let changed = event.payload::<SettingsChanged>().unwrap().and_then(|it| it.parent);
        if let Some(parent) = started.or(changed) {
            let child = event.session_id.as_str().to_owned();
            links.insert(child, parent.session_id.as_str().to_owned());
        }
    }
    links
}

/// Everything that people asked, in no order.
fn prompts(sink: &Memory) -> Vec<String> {
    let prompts = sink.events().filter_map(|event| event.payload::<UserPrompt>().unwrap());
    let mut prompts: Vec<String> = prompts.map(|prompt| prompt.content.joined_text()).collect();
    prompts.sort();
    prompts
}

/// Reads these files as they appear one after the other.
fn one_by_one(agent: &dyn Agent, home: &Path, files: &[File]) -> Memory {
    let mut sink = Memory::default();
    let mut last = None;
    for file in files {
        last = put_later(home, file, last);
        read(agent, home, &mut sink);
    }
    // Nothing is left to say.
    let told = sink.events().count();
    read(agent, home, &mut sink);
    assert_eq!(sink.events().count(), told);
    sink
}

/// Makes a file that is younger than the one before: those that are made in one tick of the clock
/// are of one age. When it was made, if the system says so.
pub(crate) fn put_later(home: &Path, file: &File, last: Option<SystemTime>) -> Option<SystemTime> {
    loop {
        put(home, file);
        let path = home.join(&file.0);
        let made = fs::metadata(&path).unwrap().created().ok();
        if made.is_none() || made != last {
            return made;
        }
        fs::remove_file(path).unwrap();
    }
}

fn put(home: &Path, (path, bytes): &File) {
    let path = home.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Files that are read in each of these orders have the links that are wanted, also for one who has
/// forgotten how far everything was read.
#[track_caller]
fn check(agent: &dyn Agent, files: &[File], orders: &[&[usize]], wanted: &[(&str, &str)]) {
    check_followed(agent, files, orders, wanted);
    for order in orders {
        let files: Vec<File> = order.iter().map(|number| files[*number].clone()).collect();
        let home = TempDir::new().unwrap();
        let mut sink = one_by_one(agent, home.path(), &files);
        let before = told(&sink);
        sink.positions.values_mut().for_each(|position| "no position".clone_into(position));
        read(agent, home.path(), &mut sink);
        assert_eq!(told(&sink), before, "in the order {order:?}");
    }
}

/// The same for those who forget nothing: copies under other times are known by what was read, and so
/// is who had told nothing then.
#[track_caller]
fn check_followed(agent: &dyn Agent, files: &[File], orders: &[&[usize]], wanted: &[(&str, &str)]) {
    let named = |name: &str| format!("{}:{name}", agent.provider());
    let wanted = wanted.iter().map(|(child, parent)| (named(child), named(parent))).collect();
    let mut said: Option<Vec<String>> = None;
    for order in orders {
        let files: Vec<File> = order.iter().map(|number| files[*number].clone()).collect();
        let home = TempDir::new().unwrap();
        let sink = one_by_one(agent, home.path(), &files);
        assert_eq!(links(&sink), wanted, "in the order {order:?}");
        let prompts = prompts(&sink);
        assert_eq!(said.get_or_insert_with(|| prompts.clone()), &prompts, "in {order:?}");
    }
}

/// The orders of three files, but for the one in which the last goes on behind the first, because
/// the one between them was not there to be shown.
const ORDERS: [&[usize]; 5] = [&[0, 1, 2], &[1, 0, 2], &[1, 2, 0], &[2, 0, 1], &[2, 1, 0]];
const MIDDLE_LAST: &[usize] = &[0, 2, 1];

/// A transcript of Claude: prompts by their names, each a minute after the one before, below a mark
/// of the minute it was begun in.
fn transcript(name: &str, begun: Option<u32>, prompts: &[&str], more: &str) -> File {
    let mark = begun.map(|minute| {
        format!(
            r#"{{"type":"queue-operation","operation":"dequeue","timestamp":"2026-01-01T00:{minute:02}:00Z","sessionId":"{name}"}}"#
        ) + "\n"
    });
    let line = |(minute, prompt): (usize, &&str)| {
        format!(
            r#"{{"type":"user","uuid":"u-{prompt}","sessionId":"{name}","timestamp":"2026-01-01T00:{minute:02}:00Z"{more},"message":{{"role":"user","content":"{prompt}"}}}}"#
        ) + "\n"
    };
    let lines: String = prompts.iter().enumerate().map(line).collect();
    let path = PathBuf::from(format!(".claude/projects/-home-dev-project/{name}.jsonl"));
    (path, (mark.unwrap_or_default() + &lines).into_bytes())
}

/// The id of a thread of Codex.
fn thread(name: &str) -> String {
    format!("00000000-0000-0000-0000-00000000000{name}")
}

/// A rollout of Codex, with a turn for each prompt.
fn rollout(name: &str, parent: Option<&str>, prompts: &[&str]) -> File {
    rollout_at("2026-11-15T10:00:01.000Z", name, parent, prompts)
}

/// The same, written down at this time.
fn rollout_at(at: &str, name: &str, parent: Option<&str>, prompts: &[&str]) -> File {
    let from = parent.map(|parent| format!(r#","forked_from_id":"{}""#, thread(parent)));
    let (id, from) = (thread(name), from.unwrap_or_default());
    let line = |kind: &str, payload: &str| {
        format!(r#"{{"timestamp":"{at}","type":"{kind}","payload":{payload}}}"#) + "\n"
    };
    let mut lines = line("session_meta", &format!(r#"{{"id":"{id}"{from}}}"#));
    for prompt in prompts {
        let turn = format!(r#"{{"type":"task_started","turn_id":"turn {prompt}"}}"#);
        let said = format!(
            r#"{{"type":"message","role":"user","content":[{{"type":"input_text","text":"{prompt}"}}]}}"#
        );
        lines += &(line("event_msg", &turn) + &line("response_item", &said));
    }
    let path = format!(".codex/sessions/2026/11/15/rollout-2026-11-15T10-00-00-{id}.jsonl");
    (PathBuf::from(path), lines.into_bytes())
}

/// The same without the turns: nothing in it has a name.
fn unnamed(mut rollout: File) -> File {
    let text = String::from_utf8(rollout.1).unwrap();
    let lines = text.split_inclusive('\n').filter(|line| !line.contains("task_started"));
    rollout.1 = lines.collect::<String>().into_bytes();
    rollout
}

/// A log of Copilot: a start that names a session, then these events, each a name, a type and data.
fn log(name: &str, start: &str, events: &[(&str, &str)]) -> File {
    let start = format!(r#"session.start {{"sessionId":"{start}"}}"#);
    let events = [("start", start.as_str())].into_iter().chain(events.iter().copied());
    let line = |(second, (id, event)): (usize, (&str, &str))| {
        let (kind, data) = event.split_once(' ').expect("a type and data");
        format!(
            r#"{{"type":"{kind}","data":{data},"id":"{id}","timestamp":"2026-11-15T10:00:{second:02}.000Z"}}"#
        ) + "\n"
    };
    let lines: String = events.enumerate().map(line).collect();
    let path = PathBuf::from(format!(".copilot/session-state/{name}/events.jsonl"));
    (path, lines.into_bytes())
}

#[test]
fn recorded_forks_have_the_same_parent_in_any_order() {
    let home = |provider: &str| fixtures().join(provider).join("s9_fork/home");
    let recorded: Vec<&str> =
        ["claude", "codex", "copilot", "pi"].into_iter().filter(|it| home(it).is_dir()).collect();
    assert!(recorded.contains(&"claude") && recorded.contains(&"codex"), "{recorded:?}");
    for provider in recorded {
        let home = home(provider);
        let mut whole = Memory::default();
        read(agent(provider), &home, &mut whole);
        let is_source = |(path, _): &File| path.extension().is_some_and(|kind| kind == "jsonl");
        let (sources, mut all): (Vec<File>, Vec<File>) =
            files(&home).into_iter().partition(is_source);
        all.extend(sources);
        for _ in 0..2 {
            all.reverse();
            let elsewhere = TempDir::new().unwrap();
            let sink = one_by_one(agent(provider), elsewhere.path(), &all);
            assert_eq!(links(&sink), links(&whole), "{provider}");
            assert_eq!(prompts(&sink), prompts(&whole), "{provider}");
        }
    }
}

#[test]
fn earlier_session_is_the_parent() {
    // Both went on by themselves.
    let parent = transcript("parent", Some(0), &["one", "two", "three"], "");
    let fork = transcript("fork", Some(9), &["one", "two", "other"], "");
    check(agent("claude"), &[parent, fork], &[&[0, 1], &[1, 0]], &[("fork", "parent")]);
}

#[test]
fn what_another_session_goes_on_with_is_its_parent() {
    // Nothing in them says which was begun first.
    let parent = transcript("parent", None, &["one", "two"], "");
    let fork = transcript("fork", None, &["one", "two", "three"], "");
    check(agent("claude"), &[parent, fork], &[&[0, 1], &[1, 0]], &[("fork", "parent")]);
}

#[test]
fn a_parent_that_is_named_is_the_parent_before_it_appears() {
    let parent = transcript("parent", None, &["one", "two"], "");
    let more = r#","forkedFrom":{"sessionId":"parent","messageUuid":"u-two"}"#;
    let fork = transcript("fork", None, &["one", "two", "three"], more);
    let orders: [&[usize]; 2] = [&[0, 1], &[1, 0]];
    check(agent("claude"), &[parent, fork.clone()], &orders, &[("fork", "parent")]);
    check(agent("claude"), &[fork], &[&[0]], &[("fork", "parent")]);
}

#[test]
fn fork_chain_follows_start_times() {
    let root = transcript("root", Some(0), &["one"], "");
    let middle = transcript("middle", Some(10), &["one", "two"], "");
    let last = transcript("last", Some(20), &["one", "two", "three"], "");
    let files = [root, middle, last];
    let row = [("last", "middle"), ("middle", "root")];
    check(agent("claude"), &files, &[&[0, 1, 2], &[1, 0, 2], &[2, 1, 0], &[1, 2, 0]], &row);
    // One that has a parent keeps it, also if a nearer one appears.
    let short = [("last", "root"), ("middle", "root")];
    check(agent("claude"), &files, &[&[2, 0, 1], &[0, 2, 1]], &short);
}

#[test]
fn named_fork_chain_has_no_cycle() {
    let files = [
        rollout("a", None, &["one"]),
        rollout("b", Some("a"), &["one", "two"]),
        rollout("c", Some("b"), &["one", "two", "three"]),
    ];
    let row = ["a", "b", "c"].map(thread);
    let wanted = [(&*row[1], &*row[0]), (&*row[2], &*row[1])];
    check(agent("codex"), &files, &ORDERS, &wanted);
    let short = [(&*row[1], &*row[0]), (&*row[2], &*row[0])];
    check_followed(agent("codex"), &files, &[MIDDLE_LAST], &short);
}

#[test]
fn sources_of_session_are_cached_over_passes() {
    let home = TempDir::new().unwrap();
    let environment = Environment::new(home.path(), []);
    let clock = || Time::from_millis(NOW);
    let agents = [agent("codex")];
    let mut sink = Memory::default();
    let mut known = SourceIndex::default();
    for (name, parent, asked_for_all) in [("c", Some("b"), 2), ("d", None, 1), ("a", None, 1)] {
        put(home.path(), &rollout(name, parent, &["one", name]));
        sink.asked_for_all.set(0);
        let pump = Ingester::new(&agents, &environment, &clock).with_index(known);
        pump.ingest_all(&mut sink, &mut |_| {}).unwrap();
        known = pump.into_known();
        // Once to see who has news, and once to see who tells of whom.
        assert_eq!(sink.asked_for_all.get(), asked_for_all, "{name}");
    }
    assert_eq!(prompts(&sink), ["a", "c", "d", "one"], "all three begin alike");
}

/// Follows what Claude writes in a home, until `is_enough` says so: it is asked after every round.
fn follow(home: &Path, is_enough: &mut dyn FnMut(&dyn Sink, &IngestSummary) -> bool) -> Memory {
    let environment = Environment::new(home, []);
    let clock = || Time::from_millis(NOW);
    let agents = [agent("claude")];
    let mut watch = SourceWatcher::new(Ingester::new(&agents, &environment, &clock), Vec::new());
    let stopper = watch.stopper();
    let mut sink = Memory::default();
    let mut errand = |_: &Ingester<'_>, sink: &mut dyn Sink, summary: &mut IngestSummary| {
        if is_enough(sink, summary) {
            stopper.stop();
        }
        Ok(())
    };
    watch.run(&mut sink, &mut errand, &mut |_| {}).unwrap();
    sink
}

#[test]
fn parent_appearing_later_is_linked() {
    let home = TempDir::new().unwrap();
    let real = home.path().canonicalize().unwrap();
    put(&real, &transcript("fork", Some(9), &["one", "two", "other"], ""));
    let parent = transcript("parent", Some(0), &["one", "two", "three"], "");
    let mut is_there = false;
    let sink = follow(&real, &mut |_, summary| {
        let has_read = summary.bytes > 0;
        if has_read && !is_there {
            put(&real, &parent);
            is_there = true;
            return false;
        }
        has_read
    });
    let fork_of = BTreeMap::from([("claude:fork".to_owned(), "claude:parent".to_owned())]);
    assert_eq!(links(&sink), fork_of);
    assert_eq!(prompts(&sink), ["one", "other", "three", "two"]);
}

#[test]
fn a_row_of_forks_that_appears_at_once_is_told_once() {
    let home = TempDir::new().unwrap();
    let real = home.path().canonicalize().unwrap();
    let from = |parent: &str| format!(r#","forkedFrom":{{"sessionId":"{parent}"}}"#);
    // Looked at in this order: what the second comes from has to be read first.
    let row = [
        transcript("a", None, &["one", "two"], ""),
        transcript("b", None, &["one", "two", "three", "other"], &from("c")),
        transcript("c", None, &["one", "two", "three"], &from("a")),
    ];
    row.iter().for_each(|file| put(&real.join("away"), file));
    let projects = real.join(".claude/projects");
    fs::create_dir_all(&projects).unwrap();
    let mut is_there = false;
    let sink = follow(&real, &mut |sink, _| {
        if !is_there {
            let folder = real.join("away/.claude/projects/-home-dev-project");
            fs::rename(folder, projects.join("-home-dev-project")).unwrap();
            is_there = true;
        }
        let mut sources = 0;
        sink.show_sources(&mut |_| sources += 1).unwrap();
        sources == row.len()
    });
    assert_eq!(prompts(&sink), ["one", "other", "three", "two"]);
    let named = |name: &str| format!("claude:{name}");
    let row = [("b", "c"), ("c", "a")].map(|(child, parent)| (named(child), named(parent)));
    assert_eq!(links(&sink), BTreeMap::from(row));
}

#[test]
fn fork_with_other_times_is_recognized() {
    let parent = rollout("1", None, &["a", "b", "c"]);
    let fork = rollout_at("2026-11-15T11:00:00.000Z", "2", Some("1"), &["a", "b", "other"]);
    let link = [(&*thread("2"), &*thread("1"))];
    check_followed(agent("codex"), &[parent, fork], &[&[0, 1], &[1, 0]], &link);
}

#[test]
fn sessions_without_names_are_there_while_they_are_used() {
    // A fork of one that is gone, and one that has nothing to do with it.
    let fork = unnamed(rollout("2", Some("1"), &["of the fork"]));
    let other = unnamed(rollout("3", None, &["of another"]));
    let home = TempDir::new().unwrap();
    let mut sink = Memory::default();
    for (file, said) in [(&fork, &["of the fork"][..]), (&other, &["of another", "of the fork"])] {
        put(home.path(), file);
        stamp(&home.path().join(&file.0));
        read(agent("codex"), home.path(), &mut sink);
        assert_eq!(prompts(&sink), said);
    }
}

#[test]
fn a_session_that_has_only_begun_is_there_after_a_second() {
    let begun = log("one", "one", &[]);
    let home = TempDir::new().unwrap();
    put(home.path(), &begun);
    stamp(&home.path().join(&begun.0));
    let environment = Environment::new(home.path(), []);
    let agents = [agent("copilot")];
    let mut sink = Memory::default();
    // What follows at once shows whether it is a copy.
    for (millis, sessions) in [(999, 0), (1_000, 1)] {
        let clock = || Time::from_millis(NOW + millis);
        Ingester::new(&agents, &environment, &clock).ingest_all(&mut sink, &mut |_| {}).unwrap();
        assert_eq!(sink.sessions.len(), sessions, "after {millis} ms");
    }
}

const ASKED: (&str, &str) = ("asked", r#"user.message {"content":"first"}"#);
const WENT_ON: (&str, &str) = ("went on", r#"user.message {"content":"the same way"}"#);
const OTHERWISE: (&str, &str) = ("otherwise", r#"user.message {"content":"another way"}"#);

/// What a fork of Copilot says where it leaves its parent.
fn forked(words: &str) -> String {
    let words = words.replace('"', "\\\"");
    format!(r#"session.info {{"infoType":"fork","message":"{words}"}}"#)
}

#[test]
fn copilot_fork_names_its_parent() {
    let parent = log("one", "one", &[ASKED, WENT_ON]);
    for (start, words) in [
        ("two", r#"Forked from "used as one" (one) before event asked as "used as two" (two)."#),
        ("two", r#"Forked from "explain "foo" (bar)" (one) as two."#),
        ("two", "Forked from one as two."),
        ("one", "Forked session"),
    ] {
        let words = forked(words);
        let fork = log("two", start, &[ASKED, ("forked", &words), OTHERWISE]);
        check(agent("copilot"), std::slice::from_ref(&fork), &[&[0]], &[("two", "one")]);
        let orders: [&[usize]; 2] = [&[0, 1], &[1, 0]];
        check(agent("copilot"), &[parent.clone(), fork], &orders, &[("two", "one")]);
    }
}

#[test]
fn a_fork_of_a_fork_of_copilot_comes_from_the_nearer() {
    let [first, second] = ["Forked from one as two.", "Forked from two as three."].map(forked);
    let (first, second) = (("first", &*first), ("second", &*second));
    let files = [
        log("one", "one", &[ASKED]),
        log("two", "two", &[ASKED, first, WENT_ON]),
        log("three", "three", &[ASKED, first, WENT_ON, second, OTHERWISE]),
    ];
    let row = [("three", "two"), ("two", "one")];
    check(agent("copilot"), &files, &ORDERS, &row);
    let short = [("three", "one"), ("two", "one")];
    check(agent("copilot"), &files, &[MIDDLE_LAST], &short);
}

#[test]
fn simultaneous_copilot_forks_repeat_nothing() {
    let home = TempDir::new().unwrap();
    // Of the one that is named there is only half a line yet, so that it is of no family.
    let (path, mut start) = log("one", "one", &[]);
    start.truncate(start.len() / 2);
    let files = [
        (path, start),
        log("two", "two", &[ASKED, WENT_ON]),
        log("three", "one", &[ASKED, OTHERWISE]),
    ];
    let mut last = None;
    for file in &files {
        last = put_later(home.path(), file, last);
    }
    let mut sink = Memory::default();
    read(agent("copilot"), home.path(), &mut sink);
    let said = prompts(&sink);
    let mut once = said.clone();
    once.dedup();
    assert_eq!(said, once);
}

#[test]
fn copilot_fork_without_name_finds_its_parent() {
    let files = [
        log("one", "one", &[ASKED]),
        log("two", "two", &[ASKED, ("forked", &forked("Forked session")), OTHERWISE]),
    ];
    check(agent("copilot"), &files, &[&[0, 1], &[1, 0]], &[("two", "one")]);
}

#[test]
fn forks_under_other_times_are_known_though_their_parents_name_others() {
    let at = |hour: u32| format!("2026-11-15T{hour}:00:00.000Z");
    let fork = rollout_at(&at(12), "3", Some("2"), &["a", "b", "other"]);
    // Its own parent never appears.
    let parent = rollout_at(&at(11), "2", Some("1"), &["a", "b", "c"]);
    let [one, two, three] = ["1", "2", "3"].map(thread);
    let row = [(&*three, &*two), (&*two, &*one)];
    check_followed(agent("codex"), &[parent, fork], &[&[0, 1], &[1, 0]], &row);
}

#[test]
fn retimed_forks_repeat_nothing() {
    let at = |hour: u32| format!("2026-11-15T{hour}:00:00.000Z");
    let files = [
        rollout_at(&at(10), "1", None, &["a", "b", "c", "d"]),
        rollout_at(&at(11), "2", Some("1"), &["a", "b", "other"]),
        rollout_at(&at(12), "3", Some("1"), &["a", "b", "c", "another"]),
        rollout_at(&at(13), "4", Some("1"), &["a", "b", "c", "a third"]),
    ];
    let [one, two, three, four] = ["1", "2", "3", "4"].map(thread);
    let wanted = [(&*two, &*one), (&*three, &*one), (&*four, &*one)];
    let orders: [&[usize]; 6] =
        [&[0, 1, 2, 3], &[1, 2, 3, 0], &[2, 1, 0, 3], &[3, 1, 2, 0], &[1, 0, 3, 2], &[2, 3, 0, 1]];
    check_followed(agent("codex"), &files, &orders, &wanted);
    check_followed(agent("codex"), &files[1..], &[&[0, 1, 2], &[2, 1, 0]], &wanted);
}

#[test]
fn retimed_fork_chain_is_recorded_once() {
    let at = |hour: u32| format!("2026-11-15T{hour}:00:00.000Z");
    let files = [
        rollout_at(&at(10), "1", None, &["a", "b"]),
        rollout_at(&at(11), "2", Some("1"), &["a", "b", "c"]),
        rollout_at(&at(12), "3", Some("2"), &["a", "b", "c", "d"]),
    ];
    let row = ["1", "2", "3"].map(thread);
    let wanted = [(&*row[1], &*row[0]), (&*row[2], &*row[1])];
    // With the first and the last alone nothing tells that they have to do with each other.
    let orders: [&[usize]; 4] = [&[0, 1, 2], &[1, 0, 2], &[1, 2, 0], &[2, 1, 0]];
    check_followed(agent("codex"), &files, &orders, &wanted);
}

#[test]
fn file_age_alone_makes_no_parent() {
    // What lies between them is gone.
    let mut root = rollout("1", None, &["a"]);
    let went_on = rollout_at("2026-11-15T11:00:00.000Z", "1", None, &["b"]).1;
    root.1.extend(went_on.split_inclusive(|byte| *byte == b'\n').skip(1).flatten());
    let files = [root, rollout("4", Some("3"), &["a", "other"])];
    let home = TempDir::new().unwrap();
    let mut sink = Memory::default();
    for ((path, bytes), day) in files.iter().zip([2, 1]) {
        put(home.path(), &(path.clone(), bytes.clone()));
        let file = fs::File::options().append(true).open(home.path().join(path)).unwrap();
        file.set_modified(UNIX_EPOCH + day * Duration::from_secs(24 * 60 * 60)).unwrap();
        read(agent("codex"), home.path(), &mut sink);
    }
    let [root, last] = ["1", "4"].map(|name| format!("codex:{}", thread(name)));
    assert_eq!(links(&sink), BTreeMap::from([(last, root)]));
    assert_eq!(prompts(&sink), ["a", "b", "other"]);
}

#[test]
fn packed_late_parent_repeats_nothing() {
    let fork = rollout_at("2026-11-15T11:00:00.000Z", "2", Some("1"), &["a", "b", "other"]);
    let parent = rollout("1", None, &["a", "b", "c"]);
    let home = TempDir::new().unwrap();
    let mut sink = one_by_one(agent("codex"), home.path(), &[fork, parent.clone()]);
    let told = sink.events().count();
    let (path, bytes) = parent;
    let packed = zstd::encode_all(&bytes[..], 1).unwrap();
    put(home.path(), &(path.with_extension("jsonl.zst"), packed));
    fs::remove_file(home.path().join(&path)).unwrap();
    read(agent("codex"), home.path(), &mut sink);
    assert_eq!(prompts(&sink), ["a", "b", "c", "other"]);
    assert_eq!(sink.events().count(), told);
}

#[test]
fn fork_without_name_finds_its_parent() {
    let parent = transcript("parent", None, &["one", "two", "four"], "");
    let (path, bytes) = transcript("fork", None, &["one", "two", "three"], "");
    let named = r#""forkedFrom":{"sessionId":"parent","messageUuid":"u-two"},"message""#;
    let text = String::from_utf8(bytes).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines[1] = lines[1].replace(r#""message""#, named);
    let fork: File = (path, (lines.join("\n") + "\n").into_bytes());
    check(agent("claude"), std::slice::from_ref(&fork), &[&[0]], &[("fork", "parent")]);
    check(agent("claude"), &[parent, fork], &[&[0, 1], &[1, 0]], &[("fork", "parent")]);
}

#[test]
fn silent_copy_is_no_parent() {
    let parent = transcript("parent", None, &["one", "two", "three"], "");
    let more = r#","forkedFrom":{"sessionId":"parent","messageUuid":"u-two"}"#;
    let fork = transcript("fork", None, &["one", "two"], more);
    check(agent("claude"), &[parent, fork], &[&[0, 1], &[1, 0]], &[("fork", "parent")]);
}

#[test]
fn prefix_of_another_session_is_its_parent() {
    let whole = transcript("whole", None, &["one", "two", "three"], "");
    let beginning = transcript("beginning", None, &["one", "two"], "");
    let files = [whole, beginning];
    check(agent("claude"), &files, &[&[0, 1], &[1, 0]], &[("whole", "beginning")]);
    // The file that goes on may well be the older one on this disk.
    let home = TempDir::new().unwrap();
    let made = |file: &File| fs::metadata(home.path().join(&file.0)).unwrap().created().ok();
    put(home.path(), &(files[0].0.clone(), Vec::new()));
    loop {
        put(home.path(), &files[1]);
        // Files that are made in one tick of the clock are of one age.
        if made(&files[1]).is_none() || made(&files[1]) != made(&files[0]) {
            break;
        }
        fs::remove_file(home.path().join(&files[1].0)).unwrap();
    }
    let mut sink = Memory::default();
    read(agent("claude"), home.path(), &mut sink);
    put(home.path(), &files[0]);
    read(agent("claude"), home.path(), &mut sink);
    let link = ("claude:whole".to_owned(), "claude:beginning".to_owned());
    assert_eq!(links(&sink), BTreeMap::from([link]));
}

#[test]
fn plain_copy_comes_from_its_original() {
    let parent = transcript("parent", None, &["one", "two", "three"], "");
    let (_, copied) = transcript("parent", None, &["one", "two", "other"], "");
    let copy: File = (PathBuf::from(".claude/projects/-home-dev-project/copy.jsonl"), copied);
    check(agent("claude"), &[parent, copy], &[&[0, 1], &[1, 0]], &[("copy", "parent")]);
}

#[test]
fn named_parent_beats_shared_beginning() {
    // From 1 to 4 in a row, of which two are left.
    let files =
        [rollout("2", Some("1"), &["a", "b", "other"]), rollout("4", Some("3"), &["a", "b", "c"])];
    let [one, two, three, four] = ["1", "2", "3", "4"].map(thread);
    let wanted = [(&*four, &*three), (&*two, &*one)];
    check(agent("codex"), &files, &[&[0, 1], &[1, 0]], &wanted);
    // One that names no parent may be a fork of the same.
    let named = r#","forkedFrom":{"sessionId":"parent","messageUuid":"u-two"}"#;
    let files = [
        transcript("parent", Some(0), &["one", "two", "three"], ""),
        transcript("fork", Some(9), &["one", "two", "other"], ""),
        transcript("branch", Some(10), &["one", "two", "another"], named),
    ];
    let orders: [&[usize]; 4] = [&[0, 1, 2], &[0, 2, 1], &[1, 0, 2], &[2, 0, 1]];
    check(agent("claude"), &files, &orders, &[("branch", "parent"), ("fork", "parent")]);
    // Whose parent is not there goes on behind the one that has told its beginning.
    let beside = [("branch", "fork"), ("fork", "parent")];
    check_followed(agent("claude"), &files, &[&[1, 2, 0]], &beside);
    // Of what stood beside another when its parent was not there yet, nobody says that it comes
    // from it.
    check(agent("claude"), &files, &[&[2, 1, 0]], &[("branch", "parent")]);
}

#[test]
fn named_fork_chain_beats_file_age() {
    let named = |parent: &str| format!(r#","forkedFrom":{{"sessionId":"{parent}"}}"#);
    // By its mark the last of them is the oldest.
    let files = [
        transcript("root", Some(5), &["one", "two"], ""),
        transcript("middle", Some(9), &["one", "two", "three"], &named("root")),
        transcript("last", Some(0), &["one", "other"], &named("middle")),
    ];
    let row = [("last", "middle"), ("middle", "root")];
    check(agent("claude"), &files, &[&[0, 1, 2], &[1, 0, 2], &[1, 2, 0], &[2, 1, 0]], &row);
}

#[test]
fn two_that_name_each_other_are_no_circle() {
    let [one, other] = [("one", "other"), ("other", "one")].map(|(name, parent)| {
        let copied = format!(r#","forkedFrom":{{"sessionId":"{parent}"}}"#);
        let (path, mut text) = transcript(name, None, &["a", "b"], &copied);
        text.extend(transcript(name, None, &[name], "").1);
        (path, text)
    });
    let files = [one, other];
    check(agent("claude"), &files, &[&[0, 1]], &[("one", "other")]);
    check(agent("claude"), &files, &[&[1, 0]], &[("other", "one")]);
}

#[test]
fn crash_before_late_parent_loses_nothing() {
    let home = TempDir::new().unwrap();
    let environment = Environment::new(home.path(), []);
    let clock = || Time::from_millis(NOW);
    let agents = [agent("claude")];
    let once = |sink: &mut Failing| {
        Ingester::new(&agents, &environment, &clock).ingest_all(sink, &mut |_| {})
    };
    let fork = transcript("fork", Some(9), &["one", "two", "other"], "");
    let parent = transcript("parent", Some(0), &["one", "two", "three"], "");
    let whole =
        one_by_one(agents[0], TempDir::new().unwrap().path(), &[fork.clone(), parent.clone()]);
    let link = BTreeMap::from([("claude:fork".to_owned(), "claude:parent".to_owned())]);
    // The fork's, its link, and what the parent says.
    for (puts, links_then) in [(1, BTreeMap::new()), (2, link.clone()), (3, link)] {
        let mut sink = Failing { memory: Memory::default(), puts_left: puts };
        put(home.path(), &fork);
        once(&mut sink).unwrap();
        put(home.path(), &parent);
        let cut_off = once(&mut sink);
        assert_eq!((cut_off.is_ok(), links(&sink.memory)), (puts == 3, links_then));
        sink.puts_left = usize::MAX;
        once(&mut sink).unwrap();
        assert_eq!(told(&sink.memory), told(&whole), "after {puts} batches");
        assert_eq!(sink.memory.sightings, 0, "after {puts} batches");
        fs::remove_dir_all(home.path().join(".claude")).unwrap();
    }
}

#[test]
fn a_subagent_that_repeats_its_parent_may_be_read_first() {
    let parent = rollout_at("2026-11-15T10:00:00.000Z", "1", None, &["a", "b", "c"]);
    let (path, bytes) = rollout_at("2026-11-15T11:00:00.000Z", "2", Some("1"), &["a", "b", "task"]);
    let works = format!(r#","parent_thread_id":"{}","thread_source":"subagent"}}}}"#, thread("1"));
    let text = String::from_utf8(bytes).unwrap().replacen("}}", &works, 1);
    let subagent: File = (path, text.into_bytes());
    let said = |sink: &Memory| {
        let mut said: Vec<&str> = sink
            .events()
            .filter(|event| event.kind.is_shown())
            .filter_map(|event| event.text.as_deref())
            .collect();
        said.sort_unstable();
        said.join(" ")
    };
    for files in [[&parent, &subagent], [&subagent, &parent]] {
        let home = TempDir::new().unwrap();
        let sink = one_by_one(agent("codex"), home.path(), &files.map(Clone::clone));
        assert_eq!(said(&sink), "a b c task");
        let link = (format!("codex:{}", thread("2")), format!("codex:{}", thread("1")));
        assert_eq!(links(&sink), BTreeMap::from([link]));
    }
}

/// A parent and its forks, some of which name it, as one agent or another writes them.
fn families() -> Vec<(&'static str, Vec<File>)> {
    let at = |hour: u32| format!("2026-11-15T{hour}:00:00.000Z");
    let named = r#","forkedFrom":{"sessionId":"parent","messageUuid":"u-two"}"#;
    let (path, subagent) = rollout_at(&at(13), "4", Some("1"), &["a", "b", "task"]);
    let works = format!(r#","parent_thread_id":"{}","thread_source":"subagent"}}}}"#, thread("1"));
    let subagent = String::from_utf8(subagent).unwrap().replacen("}}", &works, 1);
    let from = forked("Forked from one as two.");
    vec![
        (
            "claude",
            vec![
                transcript("parent", Some(0), &["one", "two", "three"], ""),
                transcript("branch", Some(9), &["one", "two", "another"], named),
                transcript("other", Some(10), &["one", "two", "three", "other"], named),
            ],
        ),
        (
            "claude",
            vec![
                transcript("parent", Some(0), &["one", "two", "three"], ""),
                transcript("fork", Some(9), &["one", "two", "other"], ""),
            ],
        ),
        (
            "codex",
            vec![
                rollout_at(&at(10), "1", None, &["a", "b", "c"]),
                rollout_at(&at(11), "2", Some("1"), &["a", "b", "other"]),
                rollout_at(&at(12), "3", Some("1"), &["a", "b", "c", "another"]),
                (path, subagent.into_bytes()),
            ],
        ),
        (
            "copilot",
            vec![
                log("one", "one", &[ASKED, WENT_ON]),
                log("two", "two", &[ASKED, ("forked", &from), OTHERWISE]),
                log("three", "one", &[ASKED, ("third", r#"user.message {"content":"third"}"#)]),
            ],
        ),
    ]
}

/// What was said, whoever says it.
fn said(sink: &Memory) -> Vec<String> {
    let shown = sink.events().filter(|event| event.kind.is_shown() && event.kind != Kind::Note);
    let mut said: Vec<String> = shown.filter_map(|event| event.text.clone()).collect();
    said.sort();
    said
}

#[test]
fn family_links_are_independent_of_order() {
    let families = families();
    let mut runner = TestRunner::new(Config { cases: 150, ..Config::default() });
    let cuts = prop::collection::vec(0.0..1.0_f64, 0..4);
    let cases = (0..families.len(), any::<u64>(), cuts);
    let checked = runner.run(&cases, |(family, seed, cuts)| {
        let (provider, mut files) = families[family].clone();
        let home = TempDir::new().unwrap();
        let whole = one_by_one(agent(provider), home.path(), &files);
        let mut dice = Dice::new(seed);
        files.sort_by_cached_key(|_| dice.below(u64::MAX));
        let home = TempDir::new().unwrap();
        let mut sink = Memory::default();
        for (path, bytes) in &files {
            let mut cuts: Vec<usize> =
                cuts.iter().map(|cut| (cut * bytes.len() as f64) as usize).collect();
            cuts.sort_unstable();
            for cut in cuts {
                put(home.path(), &(path.clone(), bytes[..cut].to_vec()));
                // What is not finished is still being written.
                stamp(&home.path().join(path));
                read(agent(provider), home.path(), &mut sink);
            }
            put(home.path(), &(path.clone(), bytes.clone()));
            read(agent(provider), home.path(), &mut sink);
        }
        prop_assert_eq!(links(&sink), links(&whole));
        prop_assert_eq!(said(&sink), said(&whole));
        Ok(())
    });
    checked.unwrap();
}
