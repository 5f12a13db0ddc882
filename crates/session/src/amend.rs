//! Puts amendments in the place of the events they replace.

use std::collections::HashMap;

use event::{Cost, Event, EventId};

/// An event in its latest form, at its first place.
pub(crate) struct AmendedEvent<'a> {
    /// The newest amendment, or the event itself.
    pub(crate) event: &'a Event,
    /// The cost; an amendment without one keeps the earlier cost.
    pub(crate) cost: Option<Cost>,
}

/// Puts each amendment in the place of the event it amends. An amendment of an event that is not
/// in the list keeps its own place.
pub(crate) fn in_place(events: &[Event]) -> Vec<AmendedEvent<'_>> {
    let mut places: HashMap<EventId, usize> = HashMap::new();
    let mut told: Vec<AmendedEvent> = Vec::with_capacity(events.len());
    for event in events {
        let place = event.amends().and_then(|first| places.get(&first).copied());
        let place = match place {
            Some(place) => {
                told[place] = AmendedEvent { event, cost: event.cost.or(told[place].cost) };
                place
            }
            None => {
                told.push(AmendedEvent { event, cost: event.cost });
                told.len() - 1
            }
        };
        // An amendment can be amended too, and leads to the same place.
        places.insert(event.id, place);
    }
    told
}
