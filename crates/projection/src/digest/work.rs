//! What was done in a part: files, commands, tests, commits, branches and pull requests.

use event::payload::{ToolCall, ToolResult};
use event::{Deed, EventId};
use serde::{Deserialize, Serialize};

use super::SeqSpan;
use crate::command;
use crate::excerpt;
use crate::id_hash::IdHash;
use crate::problem;
use crate::ring_buffer::RingBuffer;
use crate::tool::{ToolUse, whole_command};

/// Different files, programs, commits and other things that are told apart in one part. Further
/// ones are left out.
const THINGS_MAX: usize = 500;

/// Calls with a result to come, which may say that they failed.
const CALLS_MAX: usize = 256;

/// Things that are named on one line; of the others only the number is told.
const NAMED_MAX: usize = 8;

/// Characters at the end of a test's output that are looked at for its verdict.
const VERDICT_CHARS: usize = 4_000;

/// The work of one part.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct WorkSummary {
    files: Vec<ThingCount<(Deed, String)>>,
    programs: Vec<ThingCount<String>>,
    tests: Option<(String, SeqSpan)>,
    /// Commits, branches and pull requests, with the calls that made them.
    things: Vec<(IdHash, String, SeqSpan)>,
    calls: RingBuffer<TrackedCall, CALLS_MAX>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct ThingCount<T> {
    thing: T,
    count: u64,
    place: SeqSpan,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct TrackedCall {
    mark: IdHash,
    event_id: EventId,
    files: Vec<(Deed, String)>,
    program: Option<String>,
    test: Option<String>,
    is_pull_request: bool,
}

impl WorkSummary {
    pub(super) fn apply_call(
        &mut self,
        call: &ToolCall,
        event_id: EventId,
        used: &ToolUse,
        place: SeqSpan,
    ) {
        let mark = IdHash::from_id(&call.call_id);
        let files = used.files().iter().filter(|(deed, _)| deed.modifies());
        let files: Vec<(Deed, String)> = files.cloned().collect();
        for file in &files {
            count_thing(&mut self.files, file.clone(), place);
        }
        let mut test = None;
        let mut is_pull_request = false;
        if let Some(line) = used.command() {
            count_thing(&mut self.programs, command::program_of_line(line).to_owned(), place);
            test = command::tests_of_line(line);
            // Commits stand further down in a script than its first line.
            let whole = whole_command(&call.input).unwrap_or_else(|| line.to_owned());
            is_pull_request = whole.contains("gh pr create");
            for thing in command::git_things(&whole) {
                self.add_thing(mark, thing, place);
            }
        }
        let program = used.command().map(|line| command::program_of_line(line).to_owned());
        // The work counts from its call on, as a result may never come. A failure takes it back.
        self.calls.push(TrackedCall { mark, event_id, files, program, test, is_pull_request });
    }

    /// What a program of the model calls is told in place of the program.
    pub(super) fn undo_program(&mut self, event_id: EventId) {
        let Some(call) = self.calls.take(|call| call.event_id == event_id) else { return };
        self.undo_call(&call);
        if let Some(program) = &call.program {
            uncount_thing(&mut self.programs, program);
        }
    }

    pub(super) fn apply_result(&mut self, result: &ToolResult, has_failed: bool, place: SeqSpan) {
        let mark = IdHash::from_id(&result.call_id);
        let Some(call) = self.calls.take(|call| call.mark == mark) else { return };
        if let Some(test) = &call.test {
            let output = result.output_text().unwrap_or_default();
            // Only the last run of tests is kept: it says how the part ended.
            let verdict =
                match has_failed || says_failed(excerpt::take_tail(&output, VERDICT_CHARS)) {
                    true => format!("Tests failed: {test} ({})", problem::of_result(result)),
                    false => format!("Tests passed: {test}"),
                };
            self.tests = Some((verdict, place));
        }
        if has_failed {
            self.undo_call(&call);
        } else if call.is_pull_request
            && let Some(number) = pull_request(&result.output_text().unwrap_or_default())
        {
            // The number is in the output only; the call that creates a pull request does not know
            // it.
            self.add_thing(mark, format!("Pull request #{number}"), place);
        }
    }

    pub(super) fn visit_branch(&mut self, branch: &str, place: SeqSpan) {
        // No call made it, so the failure of a call does not take it back.
        self.add_thing(IdHash::from_id(""), format!("On branch {branch}"), place);
    }

    /// What was done, a line each. Calls with a result to come go on.
    pub(super) fn take_lines(&mut self) -> Vec<(String, SeqSpan)> {
        let calls = std::mem::take(&mut self.calls);
        let done = std::mem::replace(self, WorkSummary { calls, ..WorkSummary::default() });
        done.into_lines()
    }

    fn into_lines(self) -> Vec<(String, SeqSpan)> {
        let mut lines = Vec::new();
        for (deed, word) in
            [(Deed::Edit, "Edited"), (Deed::Create, "Created"), (Deed::Delete, "Deleted")]
        {
            let files = self.files.iter().filter(|count| count.thing.0 == deed);
            let named = files.map(|count| (count.thing.1.as_str(), count.count, count.place));
            lines.extend(write_line(word, named.collect(), |name, count| match count {
                1 => name.to_owned(),
                count => format!("{name} ×{count}"),
            }));
        }
        let programs =
            self.programs.iter().map(|count| (count.thing.as_str(), count.count, count.place));
        lines
            .extend(write_line("Ran", programs.collect(), |name, count| format!("{name} {count}")));
        lines.extend(self.tests);
        lines.extend(self.things.into_iter().map(|(_, text, place)| (text, place)));
        lines
    }

    /// Takes back what a call would have made.
    fn undo_call(&mut self, call: &TrackedCall) {
        for file in &call.files {
            uncount_thing(&mut self.files, file);
        }
        // Programs stay counted: a command that failed was run all the same.
        self.things.retain(|(made_by, _, _)| *made_by != call.mark);
    }

    fn add_thing(&mut self, made_by: IdHash, text: String, place: SeqSpan) {
        let is_known = self.things.iter().any(|(_, known, _)| *known == text);
        if !is_known && self.things.len() < THINGS_MAX {
            self.things.push((made_by, text, place));
        }
    }
}

fn count_thing<T: PartialEq>(counts: &mut Vec<ThingCount<T>>, thing: T, place: SeqSpan) {
    if let Some(count) = counts.iter_mut().find(|count| count.thing == thing) {
        count.count += 1;
        count.place = count.place.up_to(place);
    } else if counts.len() < THINGS_MAX {
        counts.push(ThingCount { thing, count: 1, place });
    }
}

fn uncount_thing<T: PartialEq>(counts: &mut Vec<ThingCount<T>>, thing: &T) {
    if let Some(number) = counts.iter().position(|count| count.thing == *thing) {
        // Not below zero: an entry with a count of zero is removed at once.
        counts[number].count -= 1;
        if counts[number].count == 0 {
            counts.remove(number);
        }
    }
}

/// One line about several things, the most frequent first.
fn write_line(
    word: &str,
    mut named: Vec<(&str, u64, SeqSpan)>,
    text: impl Fn(&str, u64) -> String,
) -> Option<(String, SeqSpan)> {
    // `up_to` takes the end of its argument, so the later one has to be the argument.
    let place = named.iter().map(|(_, _, place)| *place).reduce(|first, last| {
        if first.to_seq <= last.to_seq { first.up_to(last) } else { last.up_to(first) }
    })?;
    // Stable: things with the same count stay in the order they came.
    named.sort_by_key(|(_, count, _)| std::cmp::Reverse(*count));
    let mut texts: Vec<String> =
        named.iter().take(NAMED_MAX).map(|(name, count, _)| text(name, *count)).collect();
    if named.len() > NAMED_MAX {
        texts.push(format!("{} more", named.len() - NAMED_MAX));
    }
    Some((format!("{word} {}", texts.join(", ")), place))
}

/// Whether output says that tests failed, though the command went well: it may end in a pipe.
fn says_failed(output: &str) -> bool {
    // `cargo test | tail` ends with the code of `tail`. The words tell: `2 failed`, not `0 failed`.
    let words: Vec<&str> = output.split_whitespace().collect();
    let counts = words.windows(2).any(|pair| {
        let is_number = pair[0].parse::<u64>().is_ok_and(|count| count > 0);
        is_number && matches!(pair[1].trim_matches([';', ',', '.', ')']), "failed" | "failures")
    });
    counts || output.contains("test result: FAILED")
}

/// The number in the first address of a pull request.
fn pull_request(output: &str) -> Option<u64> {
    let (_, rest) = output.split_once("/pull/")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}
