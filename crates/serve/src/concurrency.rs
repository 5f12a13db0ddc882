//! Limits on requests that run at a time and on those that wait.
//!
//! Each kind of work has its own limit, so that followers do not wait behind long queries and a
//! health check waits behind neither.

use std::sync::Arc;

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::answer::Refusal;

/// A limit on running and waiting requests of one kind.
pub(crate) struct ConcurrencyLimit {
    /// Running and waiting requests together.
    admitted: Arc<Semaphore>,
    running: Arc<Semaphore>,
}

/// The right to run a request, until it is dropped.
pub(crate) struct Permit {
    _admitted: OwnedSemaphorePermit,
    _running: OwnedSemaphorePermit,
}

impl ConcurrencyLimit {
    /// Allows `running_max` requests to run while `waiting_max` more wait.
    pub(crate) fn new(running_max: usize, waiting_max: usize) -> ConcurrencyLimit {
        let admitted = Arc::new(Semaphore::new(running_max + waiting_max));
        ConcurrencyLimit { admitted, running: Arc::new(Semaphore::new(running_max)) }
    }

    /// Waits for a permit; fails at once if too many requests already wait.
    pub(crate) async fn acquire(&self) -> Result<Permit, Refusal> {
        // The first semaphore refuses at once, the second one waits.
        let admitted =
            Arc::clone(&self.admitted).try_acquire_owned().map_err(|_| busy_refusal())?;
        let running =
            Arc::clone(&self.running).acquire_owned().await.map_err(|_| busy_refusal())?;
        Ok(Permit { _admitted: admitted, _running: running })
    }
}

fn busy_refusal() -> Refusal {
    let told = "so many wait for an answer already that there is no room for another";
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "busy", told).hint("try again in a while")
}
