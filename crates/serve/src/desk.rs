//! How many are answered at a time, and how many wait for it.
//!
//! Each kind of work has a desk of its own: those who follow do not stand behind those who ask
//! something long, and who wants to know whether the daemon is well stands behind neither.

use std::sync::Arc;

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::answer::Refusal;

pub(crate) struct Desk {
    /// Places before it, those at it included.
    line: Arc<Semaphore>,
    seats: Arc<Semaphore>,
}

/// A seat at a desk, until it is dropped.
pub(crate) struct Seat {
    _line: OwnedSemaphorePermit,
    _seat: OwnedSemaphorePermit,
}

impl Desk {
    /// One that answers so many at a time while so many wait.
    pub(crate) fn new(answering_max: usize, waiting_max: usize) -> Desk {
        let seats = Arc::new(Semaphore::new(answering_max));
        Desk { line: Arc::new(Semaphore::new(answering_max + waiting_max)), seats }
    }

    /// Waits for a seat; if too many do so already, it is refused at once.
    pub(crate) async fn seat(&self) -> Result<Seat, Refusal> {
        let line = Arc::clone(&self.line).try_acquire_owned().map_err(|_| busy())?;
        let seat = Arc::clone(&self.seats).acquire_owned().await.map_err(|_| busy())?;
        Ok(Seat { _line: line, _seat: seat })
    }
}

fn busy() -> Refusal {
    let told = "so many wait for an answer already that there is no room for another";
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "busy", told).hint("try again in a while")
}
