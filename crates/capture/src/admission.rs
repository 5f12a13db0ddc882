//! What the user does not want recorded: it is read past, and neither recorded nor stored.

use std::collections::BTreeMap;

use event::payload::{SessionStarted, SettingsChanged};
use event::{Draft, Kind, Raw};

use crate::event_builder::session_id;
use crate::sink::Sink;
use crate::thread_state::ThreadState;

/// How much of a session is recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Admission {
    #[default]
    All,
    /// That it was there and when it worked, not what was said.
    Status,
    Nothing,
    /// It depends on the folder of the session, which is not known yet.
    ByFolder,
}

/// Takes out what the sink does not want; whether nothing was taken out. A session that has not
/// named its folder stays: a source whose folder is awaited is held back before ([`awaits_folder`]).
pub(crate) fn admit(
    provider: &str,
    threads: &BTreeMap<String, ThreadState>,
    drafts: &mut Vec<Draft>,
    sink: &mut dyn Sink,
) -> bool {
    let mut is_whole = true;
    for name in threads.keys() {
        let session = session_id(provider, name);
        // Asked with every batch: any record may name the folder of the session, or change it.
        let admission = sink.admits(&session, folder(threads, name));
        if matches!(admission, Admission::Status | Admission::Nothing) {
            is_whole = false;
            drafts.retain_mut(|draft| {
                draft.session_id != session || (admission == Admission::Status && is_status(draft))
            });
        }
    }
    is_whole
}

/// Whether an event belongs to a session whose folder decides about it, and is not known yet.
pub(crate) fn awaits_folder<'a, Drafts: Iterator<Item = &'a Draft>>(
    provider: &str,
    threads: &BTreeMap<String, ThreadState>,
    drafts: impl Fn() -> Drafts,
    sink: &mut dyn Sink,
) -> bool {
    threads.keys().filter(|name| folder(threads, name).is_none()).any(|name| {
        let session = session_id(provider, name);
        drafts().any(|draft| draft.session_id == session)
            && sink.admits(&session, None) == Admission::ByFolder
    })
}

/// The folder of a session. A subagent that names none works in that of its parent.
fn folder<'a>(threads: &'a BTreeMap<String, ThreadState>, name: &str) -> Option<&'a str> {
    let thread = threads.get(name)?;
    let own = thread.settings.cwd.as_deref();
    own.or_else(|| threads.get(&thread.works_for()?.session)?.settings.cwd.as_deref())
}

/// Whether an event says only that a session works; what else it says is taken out.
fn is_status(draft: &mut Draft) -> bool {
    if draft.kind == Kind::SessionStarted
        && let Some(mut started) = draft.readable::<SessionStarted>()
    {
        // The title sums up what was said.
        started.title = None;
        draft.data = Raw::from_value(&started).expect("payloads always encode");
        draft.text = None;
    }
    if draft.kind == Kind::SettingsChanged {
        let process = draft.readable::<SettingsChanged>().and_then(|changed| changed.process);
        let changed = SettingsChanged { process, ..SettingsChanged::default() };
        draft.data = Raw::from_value(&changed).expect("payloads always encode");
        return process.is_some();
    }
    matches!(
        draft.kind,
        Kind::SessionStarted
            | Kind::SessionExited
            | Kind::TurnStarted
            | Kind::TurnCompleted
            | Kind::EpochClosed
    )
}
