//! What agents write, as events.
