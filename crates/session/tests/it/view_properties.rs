//! The maintained view against the oracle, over random logs.

use event::{Draft, EventId, Kind, Raw};
use std::collections::HashSet;

use event::payload::{
    Compaction, Content, ContextKind, Outcome, Placement, SavedEntry, Snapshot, ToolCall,
};
use proptest::prelude::*;
use session::builder::{Mode, ViewBuilder};
use session::compaction::{self, CompactionOptions};
use session::snapshot::{Snapshotter, Trigger};
use session::view::{EffectiveView, HistoryEntry, Repair, SavedView, View, ViewOptions};

use crate::log::{TestLog, id_at, render, result, shown};

/// Something that happens next in a random session. Numbers are taken modulo what there is.
#[derive(Clone, Debug)]
enum Step {
    Prompt { text: &'static str, parent_back: Option<u64> },
    Message { message: usize, block: u32, text: &'static str },
    Thinking { message: usize, block: u32, text: &'static str },
    Call { message: usize, block: u32, call: usize },
    Started { call: usize },
    Result { call: usize, outcome: Outcome },
    Context { kind: ContextKind, placement: Option<Placement>, text: &'static str },
    Fact,
    Unknown,
    Broken { kind: Kind },
    Amend { back: u64, what: Box<Step> },
    Compaction { cutoff: Cut, entries: Vec<Saved>, bare: bool, files: bool, fault: Fault },
    Snapshot { cutoff: Cut, entries: Vec<Saved>, base: Below, files: bool },
}

/// What of a compaction cannot be read.
#[derive(Clone, Debug)]
enum Fault {
    None,
    Informing,
    Cutoff,
    Entry,
    Entries,
    Files,
}

/// How a base names its cutoff.
#[derive(Clone, Debug)]
enum Cut {
    Back(u64),
    ById(u64),
    Unknown,
    Contradiction(u64),
}

#[derive(Clone, Debug)]
enum Saved {
    One { back: u64 },
    ById { back: u64 },
    Range { back: u64, len: u64 },
    Replaced { back: u64 },
    Below,
    Inline { role: Option<&'static str>, kind: Option<ContextKind>, text: &'static str },
    Answer { calls: Vec<usize>, text: &'static str, back: Option<u64> },
    Result { call: usize, text: Option<&'static str> },
}

#[derive(Clone, Debug)]
enum Below {
    Newest,
    None,
    Wrong,
}

const MESSAGES: [&str; 4] = ["", "m1", "m2", "m3"];
const CALLS: [&str; 4] = ["a", "b", "c", ""];

fn text() -> impl Strategy<Value = &'static str> {
    prop_oneof![8 => Just("words"), 1 => Just(""), 1 => Just(" \n\t ")]
}

fn context_kind() -> impl Strategy<Value = ContextKind> {
    prop_oneof![
        Just(ContextKind::Generic),
        Just(ContextKind::Bootstrap),
        Just(ContextKind::Summary)
    ]
}

fn talk() -> impl Strategy<Value = Step> {
    let back = 1..12u64;
    let message = || (0..MESSAGES.len(), 0..3u32);
    let placement = prop_oneof![
        3 => Just(None),
        1 => Just(Some(Placement::Prefix)),
        1 => Just(Some(Placement::History))
    ];
    let outcome = prop_oneof![3 => Just(Outcome::Ok), 1 => Just(Outcome::Error)];
    let broken = prop_oneof![
        Just(Kind::UserPrompt),
        Just(Kind::AssistantMessage),
        Just(Kind::ToolResult),
        Just(Kind::ToolStarted),
        Just(Kind::Compaction),
        Just(Kind::Snapshot),
    ];
    prop_oneof![
        3 => (text(), prop::option::weighted(0.3, back))
            .prop_map(|(text, parent_back)| Step::Prompt { text, parent_back }),
        3 => (message(), text())
            .prop_map(|((message, block), text)| Step::Message { message, block, text }),
        1 => (message(), text())
            .prop_map(|((message, block), text)| Step::Thinking { message, block, text }),
        5 => (message(), 0..CALLS.len())
            .prop_map(|((message, block), call)| Step::Call { message, block, call }),
        1 => (0..CALLS.len()).prop_map(|call| Step::Started { call }),
        5 => (0..CALLS.len(), outcome).prop_map(|(call, outcome)| Step::Result { call, outcome }),
        2 => (context_kind(), placement, text())
            .prop_map(|(kind, placement, text)| Step::Context { kind, placement, text }),
        1 => Just(Step::Fact),
        1 => prop_oneof![Just(Step::Unknown), broken.prop_map(|kind| Step::Broken { kind })],
    ]
}

fn cut() -> impl Strategy<Value = Cut> {
    prop_oneof![
        5 => (1..8u64).prop_map(Cut::Back),
        3 => (1..8u64).prop_map(Cut::ById),
        1 => Just(Cut::Unknown),
        1 => (1..8u64).prop_map(Cut::Contradiction),
    ]
}

fn saved() -> impl Strategy<Value = Saved> {
    let role = prop::option::weighted(
        0.9,
        prop_oneof![Just("user"), Just("assistant"), Just("tool"), Just("system")],
    );
    prop_oneof![
        3 => (1..15u64).prop_map(|back| Saved::One { back }),
        1 => (1..15u64).prop_map(|back| Saved::ById { back }),
        3 => (1..15u64, 0..8u64).prop_map(|(back, len)| Saved::Range { back, len }),
        1 => (1..15u64).prop_map(|back| Saved::Replaced { back }),
        1 => Just(Saved::Below),
        1 => (prop::collection::vec(0..CALLS.len(), 0..3), text(), prop::option::of(1..15u64))
            .prop_map(|(calls, text, back)| Saved::Answer { calls, text, back }),
        2 => (0..CALLS.len(), prop::option::of(text()))
            .prop_map(|(call, text)| Saved::Result { call, text }),
        2 => (role, prop::option::of(context_kind()), text())
            .prop_map(|(role, kind, text)| Saved::Inline { role, kind, text }),
    ]
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        10 => Just(Fault::None),
        1 => Just(Fault::Informing),
        1 => Just(Fault::Cutoff),
        1 => Just(Fault::Entry),
        1 => Just(Fault::Entries),
        1 => Just(Fault::Files),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let entries = || prop::collection::vec(saved(), 0..5);
    let below =
        prop_oneof![4 => Just(Below::Newest), 1 => Just(Below::None), 1 => Just(Below::Wrong)];
    prop_oneof![
        20 => talk(),
        1 => (1..10u64, talk())
            .prop_map(|(back, what)| Step::Amend { back, what: Box::new(what) }),
        2 => (cut(), entries(), prop::bool::weighted(0.1), any::<bool>(), fault())
            .prop_map(|(cutoff, entries, bare, files, fault)| {
                Step::Compaction { cutoff, entries, bare, files, fault }
            }),
        1 => (cut(), entries(), below, any::<bool>())
            .prop_map(|(cutoff, entries, base, files)| {
                Step::Snapshot { cutoff, entries, base, files }
            }),
    ]
}

impl Step {
    fn take(&self, log: &mut TestLog) {
        let next = log.tail() + 1;
        match self {
            Step::Prompt { text, parent_back } => {
                log.prompt(text);
                if let Some(back) = parent_back {
                    // Sometimes out of the log: an unknown parent.
                    log.last().parent_id = Some(id_at(next.abs_diff(*back)));
                }
            }
            Step::Message { message, block, text } => {
                log.message(MESSAGES[*message], *block, text);
            }
            Step::Thinking { message, block, text } => {
                log.thinking(MESSAGES[*message], *block, text);
            }
            Step::Call { message, block, call } => {
                log.call(MESSAGES[*message], *block, CALLS[*call]);
            }
            Step::Started { call } => {
                log.started(CALLS[*call], &format!("key{next}"));
            }
            Step::Result { call, outcome } => {
                let mut result = result(CALLS[*call], "output");
                result.outcome = outcome.clone();
                result.error = (*outcome == Outcome::Error).then(|| "broken".to_owned());
                result.idempotency_key = next.is_multiple_of(2).then(|| format!("key{next}"));
                log.add(&result);
            }
            Step::Context { kind, placement, text } => {
                log.context_placed(kind.clone(), placement.clone(), text);
            }
            Step::Fact => {
                log.fact();
            }
            Step::Unknown => {
                log.raw(Kind::Unknown, r#"{"raw":"?"}"#);
            }
            Step::Broken { kind } => {
                log.raw(kind.clone(), r#"{"content":7,"outcome":7,"call_id":7,"entries":7}"#);
            }
            Step::Amend { back, what } => {
                what.take(log);
                if next > *back {
                    log.amending(next - back);
                }
            }
            Step::Compaction { cutoff, entries, bare, files, fault } => {
                let mut compaction =
                    Compaction { strategy: "test".to_owned(), ..Compaction::default() };
                (compaction.cutoff_seq, compaction.cutoff_event_id) = cutoff.of(next);
                let entries = entries.iter().map(|saved| saved.of(log)).collect();
                match bare {
                    true => compaction.messages = entries,
                    false => compaction.entries = entries,
                }
                if *files {
                    compaction.read_files = vec![format!("read{next}")];
                }
                log.add(&compaction);
                fault.spoil(log.last());
            }
            Step::Snapshot { cutoff, entries, base, files } => {
                let mut snapshot = Snapshot { strategy: "test".to_owned(), ..Snapshot::default() };
                (snapshot.cutoff_seq, snapshot.cutoff_event_id) = cutoff.of(next);
                snapshot.entries = entries.iter().map(|saved| saved.of(log)).collect();
                snapshot.base_seq = match base {
                    Below::Newest => newest(log, &[Kind::Compaction]),
                    Below::None => None,
                    Below::Wrong => Some(1),
                };
                if *files {
                    snapshot.modified_files = vec![format!("modified{next}")];
                }
                log.add(&snapshot);
            }
        }
    }
}

fn newest(log: &TestLog, kinds: &[Kind]) -> Option<u64> {
    log.events.iter().rev().find(|event| kinds.contains(&event.kind)).map(|event| event.seq)
}

impl Fault {
    fn spoil(&self, draft: &mut Draft) {
        let (field, bad) = match self {
            Fault::None => return,
            Fault::Informing => ("{", r#"{"max_tokens":"many","#),
            Fault::Cutoff => (r#""cutoff_seq":"#, r#""cutoff_seq":-"#),
            Fault::Entry => (r#""entries":["#, r#""entries":[7,"#),
            Fault::Entries => (r#""entries":["#, r#""entries":"none","raw":["#),
            Fault::Files => ("{", r#"{"modified_files":["m",7],"#),
        };
        let data = draft.data.get().replacen(field, bad, 1).replace("[7,]", "[7]");
        draft.data = Raw::parse(data).unwrap();
    }
}

impl Cut {
    fn of(&self, next: u64) -> (u64, Option<event::EventId>) {
        match self {
            Cut::Back(back) => (next.saturating_sub(*back), None),
            Cut::ById(back) => (0, Some(id_at(next.abs_diff(*back)))),
            Cut::Unknown => (0, Some(id_at(9_999))),
            Cut::Contradiction(back) => (next, Some(id_at(next.abs_diff(*back)))),
        }
    }
}

impl Saved {
    fn of(&self, log: &TestLog) -> SavedEntry {
        let next = log.tail() + 1;
        let at = |back: &u64| Some(next.saturating_sub(*back));
        let entry = SavedEntry::default();
        match self {
            Saved::One { back } => SavedEntry { seq: at(back), ..entry },
            Saved::ById { back } => {
                SavedEntry { event_id: Some(id_at(next.abs_diff(*back))), ..entry }
            }
            Saved::Range { back, len } => {
                let seq = at(back);
                SavedEntry { seq, to_seq: seq.map(|seq| seq + len), ..entry }
            }
            Saved::Replaced { back } => SavedEntry {
                seq: at(back),
                shown: Some("shorter".to_owned()),
                artifact: Some("art".to_owned()),
                ..entry
            },
            Saved::Below => {
                SavedEntry { seq: newest(log, &[Kind::Compaction, Kind::Snapshot]), ..entry }
            }
            Saved::Inline { role, kind, text } => SavedEntry {
                role: role.map(str::to_owned),
                context_kind: kind.clone(),
                content: Some(Content::text(*text)),
                ..entry
            },
            Saved::Answer { calls, text, back } => SavedEntry {
                role: Some("assistant".to_owned()),
                event_id: back.map(|back| id_at(next.abs_diff(back))),
                content: Some(Content::text(*text)),
                calls: calls.iter().map(|call| in_full_call(CALLS[*call])).collect(),
                ..entry
            },
            Saved::Result { call, text } => SavedEntry {
                role: Some("tool".to_owned()),
                content: text.map(Content::text),
                result: Some(result(CALLS[*call], "in full")),
                ..entry
            },
        }
    }
}

fn in_full_call(call_id: &str) -> ToolCall {
    ToolCall { call_id: call_id.to_owned(), tool: "run".to_owned(), ..ToolCall::default() }
}

fn entries(view: &EffectiveView) -> Vec<HistoryEntry> {
    view.entries().map(|entry| entry.as_ref().clone()).collect()
}

/// Everything two views of one log can be told apart by.
fn assert_same(maintained: &EffectiveView, built: &EffectiveView, log: &TestLog) {
    let story = || {
        let events = log.events.iter().map(|event| event.encode() + "\n").collect::<String>();
        format!("{}---\n{}---\n{events}", render(maintained), render(built))
    };
    assert_eq!(render(maintained), render(built), "{}", story());
    assert_eq!(entries(maintained), entries(built), "{}", story());
    assert_eq!(maintained.up_to_seq(), built.up_to_seq());
    assert_eq!(maintained.files(), built.files());
    assert_eq!(maintained.len(), entries(built).len());
    let errors = (maintained.strict(), built.strict());
    let errors = (format!("{:?}", errors.0), format!("{:?}", errors.1));
    assert_eq!(errors.0, errors.1, "{}", story());
}

/// Bases that do not refer to other bases: what a snapshot adds is then only its own doing.
fn step_without_nesting() -> impl Strategy<Value = Step> {
    step().prop_map(|mut step| {
        if let Step::Compaction { entries, .. } | Step::Snapshot { entries, .. } = &mut step {
            let is_flat =
                |saved: &Saved| matches!(saved, Saved::Range { .. } | Saved::Inline { .. });
            entries.retain(is_flat);
        }
        step
    })
}

/// What the session's own housekeeping does after an event.
#[derive(Clone, Debug)]
enum Care {
    Nothing,
    Snapshot,
    Summarize,
    Offload,
}

fn care() -> impl Strategy<Value = Care> {
    prop_oneof![
        6 => Just(Care::Nothing),
        3 => Just(Care::Snapshot),
        1 => Just(Care::Summarize),
        1 => Just(Care::Offload),
    ]
}

/// The repairs of talk and context; which bases were skipped depends on which were looked at.
fn repairs(view: &EffectiveView, log: &TestLog) -> Vec<(u64, String)> {
    let is_base =
        |seq: u64| matches!(log.events[seq as usize - 1].kind, Kind::Compaction | Kind::Snapshot);
    let repairs = view.repairs().filter(|repair| !is_base(repair.seq));
    let repairs = repairs.map(|repair| (repair.seq, repair.why.to_string()));
    let mut repairs: Vec<_> = repairs.collect();
    repairs.sort();
    repairs
}

/// Takes the steps and compares both views after each.
fn follow(steps: &[Step]) {
    let mut log = TestLog::new();
    let mut view = View::new(ViewOptions::default());
    for step in steps {
        step.take(&mut log);
        view.apply(log.events.last().unwrap(), &log).unwrap();
        let built = ViewBuilder::default().build(&log.events).unwrap();
        assert_same(view.effective(&log).unwrap(), &built, &log);
        let strict = ViewBuilder { mode: Mode::Strict, files_max: 0 }.build(&log.events);
        assert_eq!(strict.is_err(), built.strict().is_err());
    }
}

/// A talk that goes back, and back to where it had been before, again and again.
fn wandering_step() -> impl Strategy<Value = Step> {
    let rewind =
        (1..20u64).prop_map(|back| Step::Prompt { text: "words", parent_back: Some(back) });
    let amend =
        (1..10u64, talk()).prop_map(|(back, what)| Step::Amend { back, what: Box::new(what) });
    prop_oneof![3 => rewind, 4 => talk(), 1 => amend]
}

/// The same events under fresh ids, references translated.
fn fork_of(log: &TestLog) -> TestLog {
    let fresh = |id: EventId| {
        let mut tail = id.tail();
        tail[0] = 7;
        id.with_tail(tail)
    };
    let known: HashSet<EventId> = log.events.iter().map(|event| event.id).collect();
    let mut fork = log.clone();
    for event in &mut fork.events {
        event.draft.id = fresh(event.draft.id);
        event.draft.translate_references(&|id| known.contains(&id).then(|| fresh(id)));
    }
    fork
}

fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig { cases: config.cases / 2, failure_persistence: None, ..config }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_maintained_view_is_the_built_one_after_every_event(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        follow(&steps);
    }

    #[test]
    fn maintained_view_follows_rewinds(
        steps in prop::collection::vec(wandering_step(), 1..25),
    ) {
        follow(&steps);
    }

    #[test]
    fn a_saved_view_changes_nothing(
        steps in prop::collection::vec((step(), 0..4u8), 1..40),
    ) {
        let mut log = TestLog::new();
        let mut view = View::new(ViewOptions::default());
        for (step, care) in &steps {
            step.take(&mut log);
            view.apply(log.events.last().unwrap(), &log).unwrap();
            match care {
                0 => view.unload(),
                1 => {
                    let saved = SavedView::from_bytes(&view.save().to_bytes()).unwrap();
                    view = View::restore(&saved, ViewOptions::default(), &log).unwrap().unwrap();
                }
                _ => {}
            }
        }
        let built = ViewBuilder::default().build(&log.events).unwrap();
        assert_same(view.effective(&log).unwrap(), &built, &log);
    }

    #[test]
    fn a_streamed_history_is_the_built_one(
        steps in prop::collection::vec(step(), 1..40),
        padding in 0..3usize,
    ) {
        let mut log = TestLog::new();
        for (at, step) in steps.iter().enumerate() {
            step.take(&mut log);
            // Hidden facts spread the steps over several pieces of the reading.
            for _ in 0..[0, 7, 70][padding] * (at % 2) {
                log.fact();
            }
        }
        let mut view = View::new(ViewOptions::default());
        log.events.iter().for_each(|event| view.apply(event, &log).unwrap());
        let built = ViewBuilder::default().build(&log.events).unwrap();
        let mut stream = view.into_stream(log.clone()).unwrap();
        let streamed: Vec<HistoryEntry> =
            stream.by_ref().map(|entry| entry.unwrap().as_ref().clone()).collect();
        prop_assert_eq!(streamed, entries(&built));
        prop_assert_eq!(stream.base_seq(), built.base_seq());
        let sorted = |repairs: Vec<(u64, String)>| {
            let mut repairs = repairs;
            repairs.sort();
            repairs
        };
        let named = |repair: &Repair| (repair.seq, repair.why.to_string());
        prop_assert_eq!(
            sorted(stream.repairs().into_iter().map(named).collect()),
            sorted(built.repairs().map(named).collect())
        );
    }

    #[test]
    fn a_fork_shows_the_same_history(steps in prop::collection::vec(step(), 1..40)) {
        let mut log = TestLog::new();
        steps.iter().for_each(|step| step.take(&mut log));
        let fork = fork_of(&log);
        prop_assert_eq!(shown(&log), shown(&fork));
    }

    #[test]
    fn snapshots_change_no_history(
        steps in prop::collection::vec((step_without_nesting(), care()), 1..40),
    ) {
        let mut log = TestLog::new();
        let mut bare = TestLog::new();
        let mut view = View::new(ViewOptions::default());
        let options = CompactionOptions { keep: 2, output_max: 3, ..Default::default() };
        for (step, care) in &steps {
            step.take(&mut log);
            bare.events.push(log.events.last().unwrap().clone());
            view.apply(log.events.last().unwrap(), &log).unwrap();
            let is_snapshot = matches!(care, Care::Snapshot);
            let before = entries(view.effective(&log).unwrap());
            let kept = match care {
                Care::Nothing => None,
                Care::Snapshot => Snapshotter::default()
                    .snapshot(&view, Trigger::Manual, &log)
                    .unwrap()
                    .map(|snapshot| log.add(&snapshot)),
                Care::Summarize => compaction::summarize(&mut view, &log, "summary", &options)
                    .unwrap()
                    .map(|compaction| log.add(&compaction)),
                Care::Offload => {
                    let long = compaction::long_outputs(&mut view, &log, &options).unwrap();
                    let short: Vec<_> = long.iter().map(|output| output.replaced_by("art")).collect();
                    compaction::offload_outputs(&mut view, &log, &short, &options)
                        .unwrap()
                        .map(|compaction| log.add(&compaction))
                }
            };
            if kept.is_some() {
                let event = log.events.last().unwrap();
                view.apply(event, &log).unwrap();
                match is_snapshot {
                    // One that nobody can use.
                    true => bare.raw(Kind::Snapshot, "{}"),
                    false => {
                        bare.events.push(event.clone());
                        event.seq
                    }
                };
            }
            let with = ViewBuilder::default().build(&log.events).unwrap();
            assert_same(view.effective(&log).unwrap(), &with, &log);
            let without = ViewBuilder::default().build(&bare.events).unwrap();
            prop_assert_eq!(entries(&with), entries(&without));
            if is_snapshot {
                prop_assert_eq!(before, entries(&with));
                prop_assert_eq!(repairs(&with, &log), repairs(&without, &log));
            }
        }
    }
}
