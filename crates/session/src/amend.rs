//! Fuller accounts in the place of the first ones.

use std::collections::HashMap;

use event::{Cost, Event, EventId};

/// An event at its place in the telling.
pub(crate) struct AmendedEvent<'a> {
    /// The fullest account there is.
    pub(crate) event: &'a Event,
    /// What it cost; a fuller account that does not say leaves what was known.
    pub(crate) cost: Option<Cost>,
}

/// The events with each fuller account standing where the event it amends stood. One that amends
/// nothing that is there keeps its own place.
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
        places.insert(event.id, place);
    }
    told
}
