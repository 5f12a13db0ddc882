//! What failed, and the next thing of its kind that went well.

use event::payload::ToolResult;
use serde::{Deserialize, Serialize};

use super::SeqSpan;
use crate::command;
use crate::id_hash::IdHash;
use crate::problem;
use crate::ring_buffer::RingBuffer;
use crate::tool::ToolUse;
use crate::tool_lines::object_text;

/// Calls that wait for a result, and problems that wait for a fix. When there are more the oldest
/// is given up.
const WAITING_MAX: usize = 64;

/// Calls and problems that are not over yet.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Fixes {
    calls: RingBuffer<(IdHash, ToolUse), WAITING_MAX>,
    problems: RingBuffer<Problem, WAITING_MAX>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Problem {
    /// What has to go well: a program, or a tool.
    kind: String,
    line: String,
    place: SeqSpan,
}

impl Fixes {
    pub(super) fn apply_call(&mut self, call_id: &str, used: ToolUse) {
        self.calls.push((IdHash::from_id(call_id), used));
    }

    /// Takes a result, and tells the problem that is over with it.
    pub(super) fn apply_result(
        &mut self,
        result: &ToolResult,
        has_failed: bool,
        is_problem: bool,
        place: SeqSpan,
    ) -> Option<(String, SeqSpan)> {
        let mark = IdHash::from_id(&result.call_id);
        let (_, used) = self.calls.take(|(call, _)| *call == mark)?;
        let kind = kind_of_use(&used);
        let is_it = |problem: &Problem| problem.kind == kind;
        if is_problem {
            // The first error of a row is the problem; what follows are tries.
            if !self.problems.iter().any(is_it) {
                self.problems.push(Problem { kind, line: problem::of_result(result), place });
            }
            return None;
        }
        // Refused or stopped by the user: neither a problem nor a fix.
        if has_failed {
            return None;
        }
        // The next success of the same program or tool is taken for the fix. It is a guess, and the
        // place of the fact covers both, so that a reader can look.
        let problem = self.problems.take(is_it)?;
        let fix = object_text(&used).unwrap_or(used.tool);
        Some((format!("{} → {fix}", problem.line), problem.place.up_to(place)))
    }
}

fn kind_of_use(used: &ToolUse) -> String {
    match used.command() {
        Some(line) => format!("$ {}", command::program_of_line(line)),
        None => used.tool.clone(),
    }
}
