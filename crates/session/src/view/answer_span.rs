//! The answer that is open at a given event, and its calls without results.

use event::{Event, Kind};
use journal::ReadError;

use super::amends::Amends;
use super::contribution::{Contribution, joins_answer};
use super::log::EventLog;
use super::path::{Path, Range};

/// The number of events of the first read backwards; each further read doubles it, so that a short
/// answer costs little and a long one few reads.
const WINDOW: u64 = 16;

/// An answer and the events after it, up to the next prompt or answer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct AnswerSpan {
    /// Its parts, starts and results, in order.
    pub(crate) places: Vec<u64>,
    /// The parts among them.
    pub(crate) parts: Vec<u64>,
    /// The calls without a result.
    pub(crate) waiting: Vec<UnansweredCall>,
}

/// A call without a result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct UnansweredCall {
    pub(crate) call_id: String,
    pub(crate) place: u64,
}

impl AnswerSpan {
    /// Reads the span at the end of the path to `seq`. The cost is proportional to its length.
    pub(crate) fn ending_at(
        seq: u64,
        path: &Path,
        amends: &Amends,
        log: &dyn EventLog,
    ) -> Result<AnswerSpan, ReadError> {
        let mut back: Vec<PlacedContribution> = Vec::new();
        let mut answer: Option<String> = None;
        // Backwards, because only the end of the path matters and sessions can be very long.
        'back: for range in path.back_from(seq) {
            let (mut to_seq, mut window) = (range.to_seq, WINDOW);
            while to_seq >= range.from_seq {
                let from_seq = range.from_seq.max((to_seq + 1).saturating_sub(window));
                let range = Range { from_seq, to_seq };
                for heard in read_contributions(range, amends, log)?.into_iter().rev() {
                    let other = match (&answer, heard.said.message_id()) {
                        // A part with another id belongs to the answer before; the span begins
                        // behind it.
                        (Some(answer), Some(id)) => answer != id,
                        (None, Some(id)) => {
                            answer = Some(id.to_owned());
                            false
                        }
                        _ => false,
                    };
                    if other || heard.is_prompt {
                        break 'back;
                    }
                    back.push(heard);
                }
                (to_seq, window) = (from_seq - 1, window * 2);
            }
        }
        // Parts without ids look alike from behind. Read forwards, `joins_answer` tells their
        // answers apart.
        Ok(AnswerSpan::last_span(back.into_iter().rev()))
    }

    /// Returns the last span of events without prompts.
    fn last_span(talk: impl Iterator<Item = PlacedContribution>) -> AnswerSpan {
        let mut span = AnswerSpan::default();
        let mut open: Option<(String, bool)> = None;
        for PlacedContribution { place, said, .. } in talk {
            if let Some(id) = said.message_id() {
                if !open.as_ref().is_some_and(|(open, answered)| joins_answer(open, *answered, id))
                {
                    span = AnswerSpan::default();
                    open = Some((id.to_owned(), false));
                }
                span.places.push(place);
                span.parts.push(place);
            }
            match (said, &mut open) {
                (Contribution::Call(call), _) if !call.call_id.trim().is_empty() => {
                    span.waiting.push(UnansweredCall { call_id: call.call_id, place });
                }
                (Contribution::Started(_), Some(_)) => span.places.push(place),
                // Results before the first part belong to an answer that the walk did not reach.
                (Contribution::Result(result), Some((_, answered))) => {
                    *answered = true;
                    span.places.push(place);
                    let mut waiting = span.waiting.iter();
                    if let Some(at) = waiting.position(|call| call.call_id == result.call_id) {
                        span.waiting.remove(at);
                    }
                }
                _ => {}
            }
        }
        span
    }

    /// Returns the span if one of its calls has no result.
    pub(crate) fn if_open(self) -> Option<AnswerSpan> {
        (!self.waiting.is_empty()).then_some(self)
    }
}

/// The contribution of the event at a place.
struct PlacedContribution {
    place: u64,
    said: Contribution,
    is_prompt: bool,
}

/// Reads the contributions of a range, amendments at the places of the events they replace.
fn read_contributions(
    range: Range,
    amends: &Amends,
    log: &dyn EventLog,
) -> Result<Vec<PlacedContribution>, ReadError> {
    let mut heard = Vec::new();
    for_each_account(range, amends, log, &mut |place, event| {
        let is_prompt = event.kind == Kind::UserPrompt;
        heard.push(PlacedContribution { place, said: Contribution::from_event(event), is_prompt });
    })?;
    Ok(heard)
}

/// Calls `each` with every place of the range and the event that is shown there: the newest
/// amendment, or the event itself.
pub(crate) fn for_each_account(
    range: Range,
    amends: &Amends,
    log: &dyn EventLog,
    each: &mut dyn FnMut(u64, &Event),
) -> Result<(), ReadError> {
    let plain = |from_seq, to_seq, each: &mut dyn FnMut(u64, &Event)| match from_seq > to_seq {
        true => Ok(()),
        false => log.read(from_seq, to_seq, &mut |event| {
            if !amends.is_amending(event.seq) {
                each(event.seq, event);
            }
        }),
    };
    let mut from_seq = range.from_seq;
    for (place, seq) in amends.within(range.from_seq, range.to_seq) {
        // The log is read in stretches between the amended places, so that places come in order.
        // The amendment itself stands further behind, often outside of the range.
        plain(from_seq, place - 1, each)?;
        log.read(seq, seq, &mut |event| each(place, event))?;
        from_seq = place + 1;
    }
    plain(from_seq, range.to_seq, each)
}
