//! Where the newest event, message and answer stand.
//!
//! Only their places are held; the content is read from the log on request.

use event::{Event, EventId, Kind, Lane};
use serde::{Deserialize, Serialize};

use crate::answer::AnswerPart;

/// A message of the talk: all its events lie from `first_seq` to `last_seq`, perhaps with others
/// between them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MessagePlace {
    /// `user.prompt`, `tool.result`, or the kind of the answer's first event.
    pub kind: Kind,
    /// What the events of an answer share; `None` for prompts, results and answers without it.
    pub message_id: Option<String>,
    pub event_id: EventId,
    pub first_seq: u64,
    pub last_seq: u64,
}

/// The newest of everything, folded event by event.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Latest {
    event: Option<(u64, EventId)>,
    message: Option<MessagePlace>,
    /// The newest answer, with or without content.
    answer: Option<LatestAnswer>,
    /// The newest answer before it that has content and no tool call.
    final_answer: Option<MessagePlace>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct LatestAnswer {
    place: MessagePlace,
    has_substance: bool,
    has_calls: bool,
    /// A prompt or result came after it.
    is_closed: bool,
}

impl Latest {
    /// The newest event.
    pub fn event(&self) -> Option<(u64, EventId)> {
        self.event
    }

    /// The newest prompt, result or answer.
    pub fn message(&self) -> Option<&MessagePlace> {
        self.message.as_ref()
    }

    /// The newest answer with substance and without calls.
    pub fn answer(&self) -> Option<&MessagePlace> {
        let current = self.answer.as_ref().filter(|answer| answer.is_final());
        current.map(|answer| &answer.place).or(self.final_answer.as_ref())
    }

    /// The same places as a fork shows them, under the ids that `shown` gives.
    pub(crate) fn inherit(&self, shown: &dyn Fn(EventId) -> EventId) -> Latest {
        let place = |place: &MessagePlace| MessagePlace {
            event_id: shown(place.event_id),
            ..place.clone()
        };
        Latest {
            event: self.event.map(|(seq, id)| (seq, shown(id))),
            message: self.message.as_ref().map(place),
            answer: self
                .answer
                .as_ref()
                .map(|answer| LatestAnswer { place: place(&answer.place), ..answer.clone() }),
            final_answer: self.final_answer.as_ref().map(place),
        }
    }

    /// Takes in the next event.
    pub fn apply(&mut self, event: &Event) {
        self.apply_with_part(event, AnswerPart::from_draft(event).as_ref());
    }

    /// As [`Latest::apply`], for callers that have read the event's part of an answer already.
    pub(crate) fn apply_with_part(&mut self, event: &Event, part: Option<&AnswerPart>) {
        // Any event counts here, talk or not.
        self.event = Some((event.seq, event.id));
        if event.kind.lane() != Lane::Talk {
            return;
        }
        match part {
            Some(part) => self.apply_part(event, part),
            // An amendment keeps the place of the first event.
            None if event.amends().is_some() => {}
            None => {
                self.message = Some(MessagePlace::from_event(event, None));
                if let Some(answer) = &mut self.answer {
                    answer.is_closed = true;
                }
            }
        }
    }

    fn apply_part(&mut self, event: &Event, part: &AnswerPart) {
        let current = self.answer.as_mut().filter(|answer| {
            let message_id = answer.place.message_id.as_deref().unwrap_or_default();
            part.continues(message_id, answer.is_closed)
        });
        if let Some(answer) = current {
            // An amendment of a part counts as well: the message is read up to its last event.
            answer.place.last_seq = event.seq;
            answer.has_substance |= part.has_substance;
            answer.has_calls |= part.call.is_some();
        } else if event.amends().is_some() {
            return;
        } else {
            let message_id = Some(part.message_id.clone()).filter(|id| !id.is_empty());
            let next = LatestAnswer {
                place: MessagePlace::from_event(event, message_id),
                has_substance: part.has_substance,
                has_calls: part.call.is_some(),
                is_closed: false,
            };
            // Whether an answer is final shows only when the next one begins: a call may come as
            // its last part.
            let before = self.answer.replace(next).filter(LatestAnswer::is_final);
            self.final_answer = before.map(|answer| answer.place).or(self.final_answer.take());
        }
        self.message = self.answer.as_ref().map(|answer| answer.place.clone());
    }
}

impl LatestAnswer {
    fn is_final(&self) -> bool {
        self.has_substance && !self.has_calls
    }
}

impl MessagePlace {
    /// Whether an event between the two ends is part of the message.
    pub(crate) fn includes(&self, event: &Event) -> bool {
        // Without an id only the first event is known to belong to it.
        let Some(message_id) = &self.message_id else { return event.seq == self.first_seq };
        AnswerPart::from_draft(event).is_some_and(|part| part.message_id == *message_id)
    }

    fn from_event(event: &Event, message_id: Option<String>) -> MessagePlace {
        MessagePlace {
            kind: event.kind.clone(),
            message_id,
            event_id: event.id,
            first_seq: event.seq,
            last_seq: event.seq,
        }
    }
}
