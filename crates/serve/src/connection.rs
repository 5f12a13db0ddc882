//! The places for connections.
//!
//! A connection is unproven until it has sent a request with a valid token. When all places are
//! taken, a newcomer gets the place of the oldest unproven connection. So a program that opens
//! connections and sends nothing, or sends no token, pushes out only its own kind, and the owner
//! gets in.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Hands out places for connections.
#[derive(Clone)]
pub(crate) struct ConnectionLimit {
    places_max: usize,
    places: Arc<Mutex<ConnectionSlots>>,
}

/// The connections that hold a place, by their number. Dropping a sender closes its connection.
#[derive(Default)]
struct ConnectionSlots {
    next: u64,
    unproven: BTreeMap<u64, oneshot::Sender<()>>,
    proven: BTreeMap<u64, oneshot::Sender<()>>,
}

/// The place of one connection, until it is dropped.
pub(crate) struct ConnectionPlace {
    number: u64,
    is_proven: AtomicBool,
    limit: ConnectionLimit,
}

impl ConnectionLimit {
    pub(crate) fn new(places_max: usize) -> ConnectionLimit {
        ConnectionLimit { places_max, places: Arc::default() }
    }

    /// Takes a place, if need be that of the oldest unproven connection. The receiver ends when
    /// another connection takes this one. Without an unproven connection there is no place.
    pub(crate) fn admit(&self) -> Option<(Arc<ConnectionPlace>, oneshot::Receiver<()>)> {
        let mut places = self.places();
        if places.unproven.len() + places.proven.len() >= self.places_max {
            // Numbers rise, so the first one is the oldest.
            places.unproven.pop_first()?;
        }
        let number = places.next;
        places.next += 1;
        let (close, closed) = oneshot::channel();
        places.unproven.insert(number, close);
        let place =
            ConnectionPlace { number, is_proven: AtomicBool::new(false), limit: self.clone() };
        Some((Arc::new(place), closed))
    }

    fn places(&self) -> MutexGuard<'_, ConnectionSlots> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionPlace {
    /// Notes that the connection has shown a token: it keeps its place.
    pub(crate) fn mark_proven(&self) {
        // Most requests come on a connection that is proven already.
        if self.is_proven.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut places = self.limit.places();
        if let Some(close) = places.unproven.remove(&self.number) {
            places.proven.insert(self.number, close);
        }
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut places = self.limit.places();
        places.unproven.remove(&self.number);
        places.proven.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_unproven_connection_gives_way() {
        let limit = ConnectionLimit::new(2);
        let (owner, mut owner_closed) = limit.admit().unwrap();
        owner.mark_proven();
        let (_stranger, mut stranger_closed) = limit.admit().unwrap();
        assert!(limit.admit().is_some());
        let closed = Err(oneshot::error::TryRecvError::Closed);
        assert_eq!(stranger_closed.try_recv(), closed);
        assert_eq!(owner_closed.try_recv(), Err(oneshot::error::TryRecvError::Empty));
    }

    #[test]
    fn proven_connections_keep_their_places() {
        let limit = ConnectionLimit::new(1);
        let (owner, _closed) = limit.admit().unwrap();
        owner.mark_proven();
        assert!(limit.admit().is_none());
        drop(owner);
        assert!(limit.admit().is_some());
    }
}
