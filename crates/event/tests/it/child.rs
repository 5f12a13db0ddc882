//! The life cycle of a child run.

use event::{ChildStatus, Kind};

/// Every legal transition.
const LEGAL: [(&str, &str, &str); 15] = [
    ("", "child.requested", "requested"),
    ("requested", "child.started", "running"),
    ("requested", "child.failed", "failed"),
    ("requested", "child.canceled", "canceled"),
    ("running", "child.progressed", "running"),
    ("running", "child.blocked", "blocked"),
    ("running", "child.completed", "completed"),
    ("running", "child.failed", "failed"),
    ("running", "child.canceled", "canceled"),
    ("blocked", "child.started", "running"),
    ("blocked", "child.progressed", "blocked"),
    ("blocked", "child.completed", "completed"),
    ("blocked", "child.failed", "failed"),
    ("blocked", "child.canceled", "canceled"),
    ("completed", "child.merged", "merged"),
];

#[test]
fn only_listed_transitions_are_legal() {
    let statuses = [
        "",
        "requested",
        "running",
        "blocked",
        "completed",
        "failed",
        "canceled",
        "merged",
        "lost",
    ];
    for from in statuses {
        let status = (!from.is_empty()).then(|| ChildStatus::from(from));
        for kind in Kind::KNOWN.iter().cloned().chain([Kind::from("child.adopted")]) {
            let expected = LEGAL
                .iter()
                .find(|(start, step, _)| *start == from && *step == kind.as_str())
                .map(|(_, _, end)| ChildStatus::from(*end));
            assert_eq!(ChildStatus::after(status.as_ref(), &kind), expected, "{from:?} {kind}");
        }
    }
}

#[test]
fn final_status_has_no_transition() {
    for name in ["requested", "running", "blocked", "completed", "failed", "canceled", "merged"] {
        let status = ChildStatus::from(name);
        let has_way_out =
            Kind::KNOWN.iter().any(|kind| ChildStatus::after(Some(&status), kind).is_some());
        assert_eq!(status.is_final(), !has_way_out, "{name}");
    }
}
