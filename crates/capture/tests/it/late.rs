//! A session that appears after those that repeat it: links and sums are those of any other order.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use capture::{Agent, Environment, Pump, Sink, Summary, Tellers, Watch};
use event::Time;
use event::payload::{SessionStarted, SettingsChanged, UserPrompt};
use tempfile::TempDir;

use crate::memory::Memory;
use crate::scenario::{File, NOW, agent, files, fixtures, read};

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
fn one_by_one(agent: &dyn Agent, files: &[File]) -> Memory {
    let home = TempDir::new().unwrap();
    let mut sink = Memory::default();
    for file in files {
        put(home.path(), file);
        read(agent, home.path(), &mut sink);
    }
    // Nothing is left to say, also for one who has forgotten how far everything was read.
    let told = sink.events().count();
    read(agent, home.path(), &mut sink);
    sink.positions.values_mut().for_each(|position| "no position".clone_into(position));
    read(agent, home.path(), &mut sink);
    assert_eq!(sink.events().count(), told);
    sink
}

fn put(home: &Path, (path, bytes): &File) {
    let path = home.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Files that are read in each of these orders have the links that are wanted.
#[track_caller]
fn check(agent: &dyn Agent, files: &[File], orders: &[&[usize]], wanted: &[(&str, &str)]) {
    let named = |name: &str| format!("{}:{name}", agent.provider());
    let wanted = wanted.iter().map(|(child, parent)| (named(child), named(parent))).collect();
    let mut said: Option<Vec<String>> = None;
    for order in orders {
        let files: Vec<File> = order.iter().map(|number| files[*number].clone()).collect();
        let sink = one_by_one(agent, &files);
        assert_eq!(links(&sink), wanted, "in the order {order:?}");
        let prompts = prompts(&sink);
        assert_eq!(said.get_or_insert_with(|| prompts.clone()), &prompts, "in {order:?}");
    }
}

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
            let sink = one_by_one(agent(provider), &all);
            assert_eq!(links(&sink), links(&whole), "{provider}");
            assert_eq!(prompts(&sink), prompts(&whole), "{provider}");
        }
    }
}

#[test]
fn a_parent_whose_fork_began_later_is_the_parent() {
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
fn no_session_in_a_row_of_forks_comes_from_one_that_was_begun_later() {
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
fn a_row_of_forks_that_name_their_parents_has_no_link_backwards() {
    let files = [
        rollout("a", None, &["one"]),
        rollout("b", Some("a"), &["one", "two"]),
        rollout("c", Some("b"), &["one", "two", "three"]),
    ];
    let row = ["a", "b", "c"].map(thread);
    let wanted = [(&*row[1], &*row[0]), (&*row[2], &*row[1])];
    let orders: [&[usize]; 5] = [&[0, 1, 2], &[1, 0, 2], &[1, 2, 0], &[2, 0, 1], &[2, 1, 0]];
    check(agent("codex"), &files, &orders, &wanted);
    // Where the named one has not appeared, it comes from the nearest that has.
    let nearest = [(&*row[1], &*row[0]), (&*row[2], &*row[0])];
    check(agent("codex"), &files, &[&[0, 2, 1]], &nearest);
}

#[test]
fn who_tells_of_a_session_is_looked_up_once_for_many_passes() {
    let home = TempDir::new().unwrap();
    let environment = Environment::new(home.path(), []);
    let clock = || Time::from_millis(NOW);
    let agents = [agent("codex")];
    let mut sink = Memory::default();
    let mut known = Tellers::default();
    for (name, parent, asked_for_all) in [("c", Some("b"), 2), ("d", None, 1), ("a", None, 1)] {
        put(home.path(), &rollout(name, parent, &["one", name]));
        sink.asked_for_all.set(0);
        let pump = Pump::new(&agents, &environment, &clock).knowing(known);
        pump.once(&mut sink, &mut |_| {}).unwrap();
        known = pump.into_known();
        // Once to see who has news, and once to see who tells of whom.
        assert_eq!(sink.asked_for_all.get(), asked_for_all, "{name}");
    }
    assert_eq!(prompts(&sink), ["a", "c", "d", "one"], "all three begin alike");
}

#[test]
fn a_parent_that_appears_while_its_fork_is_followed_is_its_parent() {
    let home = TempDir::new().unwrap();
    let real = home.path().canonicalize().unwrap();
    let fork = transcript("fork", Some(9), &["one", "two", "other"], "");
    let parent = transcript("parent", Some(0), &["one", "two", "three"], "");
    put(&real, &fork);
    let environment = Environment::new(&real, []);
    let clock = || Time::from_millis(NOW);
    let agents = [agent("claude")];
    let mut watch = Watch::new(Pump::new(&agents, &environment, &clock), Vec::new());
    let stopper = watch.stopper();
    let mut sink = Memory::default();
    let mut is_there = false;
    let mut errand = |_: &Pump<'_>, _: &mut dyn Sink, summary: &mut Summary| {
        let has_read = summary.bytes > 0;
        if has_read && is_there {
            stopper.stop();
        } else if has_read {
            put(&real, &parent);
            is_there = true;
        }
        Ok(())
    };
    watch.run(&mut sink, &mut errand, &mut |_| {}).unwrap();
    let fork_of = BTreeMap::from([("claude:fork".to_owned(), "claude:parent".to_owned())]);
    assert_eq!(links(&sink), fork_of);
    assert_eq!(prompts(&sink), ["one", "other", "three", "two"]);
}

#[test]
fn a_fork_that_repeats_under_other_times_is_known_all_the_same() {
    let parent = rollout("1", None, &["a", "b", "c"]);
    let fork = rollout_at("2026-11-15T11:00:00.000Z", "2", Some("1"), &["a", "b", "other"]);
    for files in [[&parent, &fork], [&fork, &parent]] {
        let home = TempDir::new().unwrap();
        let mut sink = Memory::default();
        for file in files {
            put(home.path(), file);
            read(agent("codex"), home.path(), &mut sink);
        }
        let (child, parent) = (thread("2"), thread("1"));
        let fork_of = BTreeMap::from([(format!("codex:{child}"), format!("codex:{parent}"))]);
        assert_eq!(links(&sink), fork_of);
        assert_eq!(prompts(&sink), ["a", "b", "c", "other"]);
    }
}
