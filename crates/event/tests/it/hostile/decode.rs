//! Arbitrary bytes as a line of the log.

use event::payload::*;
use event::{Draft, Event};

/// Calls a macro with every payload type.
macro_rules! for_each_payload {
    ($call:ident) => {
        $call! {
            SessionStarted SessionExited StatusChanged ErrorRaised
            TurnStarted TurnCompleted StepStarted StepCompleted UsageReported Retry
            UserPrompt AssistantMessage AssistantThinking AssistantDelta ContextAdded
            ExternalInput Handoff
            ToolCall ToolStarted ToolDelta ToolResult
            ApprovalRequested ApprovalResolved ApprovalCanceled WaitStarted WaitResolved
            CompactionStarted Compaction Snapshot EpochClosed SettingsChanged
            ChildRequested ChildStarted ChildProgressed ChildBlocked ChildCompleted ChildFailed
            ChildCanceled ChildMerged
            ArtifactRecorded Note Unknown
            RuleAdded RuleRemoved RuleMatched
        }
    };
}

/// Decodes the bytes as an event and calls every function of this crate on it.
pub(super) fn check(bytes: &[u8]) {
    let Ok(line) = std::str::from_utf8(bytes) else { return };
    let Ok((draft, seq)) = Draft::decode(line) else {
        assert!(Event::decode(line).is_err());
        return;
    };
    check_round_trip(&draft, seq);
    check_all_accessors(&draft);
    check_identity_translation(&draft);
}

fn check_round_trip(draft: &Draft, seq: Option<u64>) {
    let line = draft.encode();
    assert!(!line.contains(['\n', '\r']));
    let (again, no_seq) = Draft::decode(&line).expect("what was written can be read");
    assert_eq!((&again, no_seq), (draft, None));
    assert_eq!(again.encode(), line);
    assert!(again.has_same_content(draft));

    let rest = draft.encode_rest();
    assert_eq!(&Draft::decode_rest(draft.head(), &rest).expect("the rest can be read"), draft);
    if let Some(seq) = seq {
        let event = draft.clone().with_seq(seq);
        assert_eq!(Event::decode(&event.encode()).expect("an event can be read"), event);
    }
}

fn check_all_accessors(draft: &Draft) {
    macro_rules! read {
        ($($payload:ident)*) => { $(read::<$payload>(draft);)* };
    }
    for_each_payload!(read);
    for text in draft.search_texts() {
        assert!(!text.trim().is_empty() && !text.contains('\0'));
    }
    for key in draft.keys() {
        assert!(!key.name.trim().is_empty());
    }
    let _ = (
        draft.artifact_ids(),
        draft.tool(),
        draft.fork_origin(),
        draft.amends(),
        check_hosted(draft),
    );
    let _ = (draft.data.depth(), draft.data.members(), draft.data.elements(), draft.data.bytes());
}

/// Checks that a payload that can be read survives writing and reading again.
fn read<P: Payload>(draft: &Draft) {
    let Ok(Some(payload)) = draft.payload::<P>() else { return };
    let built = Draft::new(draft.id, draft.session_id.clone(), draft.created_at, &payload)
        .expect("a payload can be written");
    let again: P = built.payload().expect("what was written can be read").expect("its own kind");
    let rebuilt = Draft::new(draft.id, draft.session_id.clone(), draft.created_at, &again)
        .expect("a payload can be written");
    assert_eq!(built.data, rebuilt.data);
}

fn check_identity_translation(draft: &Draft) {
    let mut same = draft.clone();
    same.translate_references(&|_| None);
    assert_eq!(&same, draft);
    let mut named = draft.clone();
    named.translate_references(&Some);
    assert_eq!(named.data.depth(), draft.data.depth());
    let mut again = named.clone();
    again.translate_references(&Some);
    assert_eq!(again, named);
}
