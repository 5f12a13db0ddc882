//! Search over a journal that has grown, against `grep` on the same text; and what all of it
//! takes on the disk.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use event::{Draft, Kind};
use journal::{Journal, Query};
use testkit::corpus::{Corpus, Description};

use crate::Outcome;
use crate::floor::RawTable;
use crate::load::{self, Load, index_all};
use crate::meter::{Cost, best_of, race_rounds, time_work};
use crate::report::{Bar, Growth, Quantity, Report, Row};
use crate::stage::{self, Stage, disk_bytes};

/// What is looked for: what it shows, the words of the query, and the same for `grep`.
struct Question {
    name: &'static str,
    query: &'static str,
    pattern: &'static str,
}

const QUESTIONS: &[Question] = &[
    Question { name: "a rare word", query: RARE, pattern: RARE },
    Question { name: "an unusual word", query: "palimpsest", pattern: "palimpsest" },
    Question { name: "a common word", query: "error", pattern: "error" },
    Question { name: "a beginning", query: "palimp", pattern: "palimp" },
    Question {
        name: "a phrase",
        query: "\"amber lantern harbour\"",
        pattern: "amber lantern harbour",
    },
    Question { name: "two words", query: "palimpsest error", pattern: "palimpsest" },
    Question { name: "a file name", query: "foo-bar.rs", pattern: "foo-bar.rs" },
    Question { name: "Chinese", query: "用户", pattern: "用户" },
    Question { name: "two letters", query: "go", pattern: "go" },
    Question { name: "a word nobody used", query: "zyzzyvaxil", pattern: "zyzzyvaxil" },
];

/// A word that was said a few times at the very beginning, and never again: as many hits in a
/// journal of any size.
const RARE: &str = "zephyrine";
const RARE_COUNT: usize = 8;

/// A twentieth of the time `grep -c` takes.
const AGAINST_GREP: Bar = Bar::AtMost { must: 0.05, aim: 0.01 };

pub(crate) fn measure(stage: &mut Stage, report: &mut Report) -> Outcome<()> {
    kept_current(stage, report)?;
    let dir = stage.fresh_path();
    let mut grown = Grown::new(stage::open_journal(&dir)?, stage.fresh_path())?;
    // Said first, so that a search has to reach back through everything that comes later.
    grown.say_rare_words()?;
    let all = stage.scale.events;
    let mut costs: Vec<Vec<(u64, Quantity)>> = QUESTIONS.iter().map(|_| Vec::new()).collect();
    // One journal that grows, so that each size contains the ones before.
    for at in [all / 100, all / 10, all] {
        stage.announce(&format!("filling a journal up to {at} events"))?;
        grown.grow_journal(at)?;
        for (question, costs) in QUESTIONS.iter().zip(&mut costs) {
            let cost = best_of(stage.scale.rounds * 2, || ask_journal(&grown.journal, question))?;
            costs.push((at as u64, cost.per_item(1)));
        }
    }
    report.add_note("search", grown.description.to_string());
    stage.announce("searching beside grep")?;
    beside_grep(stage.scale.rounds, report, &mut grown)?;
    for (question, points) in QUESTIONS.iter().zip(costs) {
        let measure = format!("search, {}", question.name);
        let bar = Bar::AtMost { must: 3.0, aim: 1.5 };
        // Only this question has the same hits at every size; the others find more as the journal
        // grows.
        let bar = (question.name == "a rare word").then_some(bar);
        report.add_growth(Growth { measure, points, bar });
    }
    report_sizes(report, grown, &dir)
}

/// A journal with its index, and the same text in a file.
struct Grown {
    journal: Journal,
    corpus: Corpus,
    events: usize,
    text: BufWriter<File>,
    text_path: PathBuf,
    description: Description,
}

impl Grown {
    fn new(journal: Journal, text_path: PathBuf) -> Outcome<Grown> {
        let text = BufWriter::new(File::create(&text_path)?);
        let (corpus, description) = (Corpus::new(71), Description::default());
        Ok(Grown { journal, corpus, events: 0, text, text_path, description })
    }

    fn say_rare_words(&mut self) -> Outcome<()> {
        let mut rare = Corpus::one_session(73)
            .filter(|draft| draft.kind == Kind::UserPrompt)
            .take(RARE_COUNT)
            // The word stands in the text for people, which search indexes and the JSON for `grep`
            // contains.
            .map(|draft| Draft { text: Some(format!("about {RARE}")), ..draft });
        load::fill_journal(&self.journal, &mut rare, RARE_COUNT, |draft| {
            Ok(writeln!(self.text, "{}", draft.encode())?)
        })
    }

    fn grow_journal(&mut self, to: usize) -> Outcome<()> {
        let Grown { journal, corpus, text, description, .. } = self;
        load::fill_journal(journal, corpus, to - self.events, |draft: &Draft| {
            let json = draft.encode();
            description.add_draft(draft, json.len());
            writeln!(text, "{json}")?;
            Ok(())
        })?;
        self.events = to;
        Ok(())
    }
}

fn ask_journal(journal: &Journal, question: &Question) -> Outcome<Cost> {
    let query = Query::new(question.query);
    let (cost, found) = time_work(|| Ok(journal.search(&query)?))?;
    black_box(found);
    Ok(cost)
}

fn beside_grep(rounds: u32, report: &mut Report, grown: &mut Grown) -> Outcome<()> {
    grown.text.flush()?;
    // The first reading brings the file into memory; it does not count.
    time_grep(&grown.text_path, "nothing like this")?;
    for question in QUESTIONS {
        let race = race_rounds(
            rounds,
            || ask_journal(&grown.journal, question),
            || time_grep(&grown.text_path, question.pattern),
        )?;
        // Searched once more for the count, outside of the race.
        let found = grown.journal.search(&Query::new(question.query))?;
        let about = if found.total_is_exact { "" } else { "at least " };
        let measure = format!(
            "search in {} events, {} ({about}{} found), against grep",
            grown.events, question.name, found.total
        );
        report.add_row(race.into_row(measure, 1).with_bar(AGAINST_GREP));
    }
    Ok(())
}

/// Counts the lines with a text, as quickly as `grep` can: bytes, no locale.
fn time_grep(file: &Path, pattern: &str) -> Outcome<Cost> {
    let mut command = Command::new("grep");
    command.env("LC_ALL", "C").args(["-c", "-F", "-e", pattern]).arg(file);
    let (cost, output) = time_work(|| Ok(command.output()?))?;
    // 1 is "not found".
    if output.status.code().is_none_or(|code| code > 1) {
        return Err(format!("grep failed: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    black_box(output);
    Ok(cost)
}

/// Appends in batches of 100 until everything is also indexed.
fn kept_current(stage: &mut Stage, report: &mut Report) -> Outcome<()> {
    let load = Load::new(Corpus::new(72).events(stage.scale.batched));
    let rounds = stage.scale.rounds;
    let paths: Vec<_> = (0..rounds).map(|_| stage.fresh_path()).collect();
    let mut paths = paths.iter();
    let race = race_rounds(
        rounds,
        || {
            let scratch = stage.make_scratch()?;
            let batches = load::split_batches(&load.drafts, 100);
            let (cost, ()) = time_work(|| {
                for batch in batches {
                    scratch.journal.append(batch)?;
                }
                // Inside the measurement: the indexer may be behind when the last append returns.
                index_all(&scratch.journal)
            })?;
            Ok(cost)
        },
        || {
            let table = RawTable::create(paths.next().expect("a path for every round"))?;
            let (cost, ()) =
                time_work(|| load.rows.chunks(100).try_for_each(|chunk| table.insert_rows(chunk)))?;
            Ok(cost)
        },
    )?;
    let row = race.into_row("append in batches of 100 until it is indexed, too", load.drafts.len());
    report.add_row(row.with_bar(Bar::AtMost { must: 6.0, aim: 3.0 }));
    Ok(())
}

fn report_sizes(report: &mut Report, grown: Grown, dir: &Path) -> Outcome<()> {
    let json = Quantity::Bytes(grown.description.bytes());
    // Closed, a journal has nothing left in its log.
    grown.journal.close();
    drop(grown);
    let whole = Quantity::Bytes(disk_bytes(dir, &|_| true)?);
    // The index and other derived data have files of their own and can be deleted.
    let bare = Quantity::Bytes(disk_bytes(dir, &|name| !name.starts_with("derived"))?);
    let measure = "size of the journal with search, against the events' JSON";
    report.add_row(
        Row::against_floor(measure, whole, json).with_bar(Bar::AtMost { must: 0.8, aim: 0.6 }),
    );
    let measure = "size without search, against the events' JSON";
    report.add_row(
        Row::against_floor(measure, bare, json).with_bar(Bar::AtMost { must: 1.2, aim: 0.6 }),
    );
    Ok(())
}
