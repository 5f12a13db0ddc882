//! How the work went: tests that failed before they passed, and what kinds of things went wrong.

use std::collections::VecDeque;

use event::payload::{ErrorRaised, ToolCall, ToolResult};
use event::{Event, Time};

use crate::tool::{ToolUse, has_failed};
use crate::{command, problem};

/// Calls that wait for a result; with more, the oldest is taken to have none.
const CALLS_MAX: usize = 256;

/// Faults that are held of one session; with more, the oldest are forgotten.
const FAULTS_MAX: usize = 512;

/// What went wrong and right in one session.
#[derive(Clone, Debug, Default)]
pub struct Quality {
    calls: VecDeque<(String, bool)>,
    /// Tests that failed since they last passed.
    failed_tests: u64,
    loops: Vec<Time>,
    faults: VecDeque<SessionFault>,
}

/// A call or a request that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionFault {
    pub kind: &'static str,
    pub at: Time,
    pub seq: u64,
    /// The line that says most about it.
    pub line: String,
}

/// Kinds of faults by words that programs use for them. The first that fits counts.
const KINDS: &[(&str, &[&str])] = &[
    ("rate limit", &["rate limit", "too many requests", "429", "overloaded", "quota"]),
    ("auth", &["unauthorized", "401", "authentication", "invalid api key", "not logged in", "403"]),
    ("merge conflict", &["merge conflict", "conflict (", "needs merge", "rebase in progress"]),
    ("disk", &["no space left", "disk full", "disk quota", "read-only file system"]),
    ("permission", &["permission denied", "operation not permitted", "access denied", "eacces"]),
    ("timeout", &["timed out", "timeout", "deadline exceeded"]),
    (
        "network",
        &["connection refused", "could not resolve", "network", "econnreset", "unreachable", "dns"],
    ),
    (
        "missing dependency",
        &[
            "command not found",
            "modulenotfound",
            "no module named",
            "cannot find module",
            "unresolved import",
            "cannot find package",
            "no matching package",
        ],
    ),
    ("not found", &["no such file", "not found", "does not exist", "enoent"]),
    (
        "compile",
        &[
            "error[e",
            "cannot find",
            "mismatched types",
            "syntaxerror",
            "syntax error",
            "typeerror",
            "is not assignable",
            "undefined reference",
            "could not compile",
            "ts(",
        ],
    ),
    ("test", &["test failed", "assertion", "assert", "failures:", "tests failed", "panicked"]),
    ("edit", &["string to replace", "old_string", "has been modified", "has not been read"]),
];

impl Quality {
    pub fn apply(&mut self, event: &Event) {
        // Tests are known by the command of the call, but how they went only by its result.
        if let Some(call) = event.readable::<ToolCall>() {
            let used = ToolUse::from_call(&call.tool, &call.input);
            let is_test = used.command().is_some_and(|line| command::tests_of_line(line).is_some());
            self.calls.push_back((call.call_id, is_test));
            if self.calls.len() > CALLS_MAX {
                self.calls.pop_front();
            }
        } else if let Some(result) = event.readable::<ToolResult>() {
            let at = self.calls.iter().position(|(id, _)| *id == result.call_id);
            let is_test = at.and_then(|at| self.calls.remove(at)).is_some_and(|(_, test)| test);
            self.take_result(event, &result, is_test);
        } else if let Some(error) = event.readable::<ErrorRaised>() {
            self.add_fault(
                event,
                fault_kind(&error.message, "provider"),
                problem::problem_line(&error.message),
            );
        }
    }

    /// When tests passed that had failed before.
    pub fn loops(&self) -> &[Time] {
        &self.loops
    }

    pub fn faults(&self) -> impl Iterator<Item = &SessionFault> {
        self.faults.iter()
    }

    fn take_result(&mut self, event: &Event, result: &ToolResult, is_test: bool) {
        if has_failed(result) {
            self.failed_tests += u64::from(is_test);
            let line = problem::of_result(result);
            // The line decides before the command: tests also fail for a missing package or a full
            // disk.
            let otherwise = if is_test { "test" } else { "other" };
            self.add_fault(event, fault_kind(&line, otherwise), line);
        } else if is_test && self.failed_tests > 0 {
            self.failed_tests = 0;
            self.loops.push(event.created_at);
        }
    }

    fn add_fault(&mut self, event: &Event, kind: &'static str, line: String) {
        self.faults.push_back(SessionFault { kind, at: event.created_at, seq: event.seq, line });
        if self.faults.len() > FAULTS_MAX {
            self.faults.pop_front();
        }
    }
}

fn fault_kind(line: &str, otherwise: &'static str) -> &'static str {
    let line = line.to_lowercase();
    let known = KINDS.iter().find(|(_, words)| words.iter().any(|word| line.contains(word)));
    known.map_or(otherwise, |(kind, _)| kind)
}
