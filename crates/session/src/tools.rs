//! Tools of a session: whether a call may run, and what is known of earlier tries.

use event::payload::{Effect, ToolStarted};
use journal::AppendError;

use crate::execution::{self, CallAction, ToolExecution, decide_call};
use crate::origin::first_origin;
use crate::{OpenCall, Session, SessionError};

/// What came of trying to begin a tool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolStart {
    /// Whether to run it, or what to do instead.
    pub next: CallAction,
    /// The key of the call, for its result.
    pub key: String,
}

impl Session {
    /// What is recorded under an idempotency key, of its newest occurrence.
    pub fn find_execution(&self, key: &str) -> Result<Option<ToolExecution>, SessionError> {
        Ok(execution::find_execution(&self.reader(), key)?)
    }

    /// The output of a call as far as it was stored before its result.
    pub fn partial_output(&self, call_id: &str) -> Result<Option<String>, SessionError> {
        Ok(execution::partial_output(&self.reader(), call_id)?)
    }

    /// The key of an open call: the same in every fork that shows it.
    pub fn call_key(&self, call: &OpenCall) -> Result<String, SessionError> {
        match (&call.idempotency_key, self.open_work().answer_origin()) {
            (Some(key), _) => Ok(key.clone()),
            (None, Some(origin)) => Ok(call.execution_key(&first_origin(self.journal(), origin)?)),
            (None, None) => Err(self.not_open(call)),
        }
    }

    /// Asks whether a call may run and, if so, records that it begins.
    ///
    /// If several callers try at once, one of them begins; the others get the action that follows
    /// from it.
    pub fn begin_tool(&self, call: &OpenCall, effect: Effect) -> Result<ToolStart, SessionError> {
        loop {
            self.refresh()?;
            let open = self.open_work();
            // By the opening event: providers reuse call ids, and the call may have been answered
            // since.
            let same = |open: &&OpenCall| open.opened.event_id == call.opened.event_id;
            let call = open.calls().iter().find(same).ok_or_else(|| self.not_open(call))?;
            let key = self.call_key(call)?;
            let next = decide_call(self.find_execution(&key)?.as_ref(), &effect);
            if next != CallAction::Run {
                return Ok(ToolStart { next, key });
            }
            let started = self.draft(&ToolStarted {
                call_id: call.call_id.clone(),
                tool: call.tool.clone(),
                idempotency_key: key.clone(),
                effect: effect.clone(),
            })?;
            // Only behind the state that the decision was made on. Otherwise two callers could both
            // begin.
            match self.append_after(open.up_to_seq(), vec![started]) {
                Ok(_) => return Ok(ToolStart { next, key }),
                // Another event came in between; another caller may have begun the tool.
                Err(SessionError::Append(AppendError::Conflict { .. })) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn not_open(&self, call: &OpenCall) -> SessionError {
        SessionError::CallNotOpen {
            session_id: self.session_id().clone(),
            call_id: call.call_id.clone(),
            seq: call.opened.seq,
        }
    }
}
