//! What a rule has to say: where, and why it matters.

use std::fmt;

/// A place that breaks a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Finding {
    pub path: String,
    /// 1 for the first line; `None` when it is about the file or package as a whole.
    pub line: Option<usize>,
    pub why: String,
}

impl Finding {
    pub(crate) fn about(path: impl Into<String>, why: impl Into<String>) -> Finding {
        Finding { path: path.into(), line: None, why: why.into() }
    }

    pub(crate) fn at(path: impl Into<String>, line: usize, why: impl Into<String>) -> Finding {
        Finding { path: path.into(), line: Some(line), why: why.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.why),
            None => write!(f, "{}: {}", self.path, self.why),
        }
    }
}

/// Fails with every finding, one per line.
#[track_caller]
pub(crate) fn assert_none(findings: &[Finding]) {
    let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
    assert!(findings.is_empty(), "{} findings\n{}\n", findings.len(), lines.join("\n"));
}

/// The lines that findings are about, for tests of rules that look at lines.
pub(crate) fn lines(findings: &[Finding]) -> Vec<usize> {
    findings.iter().filter_map(|finding| finding.line).collect()
}
