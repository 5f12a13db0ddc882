//! Projections of sessions as of now: loaded from what is saved beside the log, continued with the
//! events recorded since, held in memory, and saved again.
//!
//! Everything here is written once for all projections (`projection::Projection`). [`load_current`]
//! is for a command that looks once, [`ViewCache`] for the daemon that is asked again and again,
//! and [`FreshViews`] for the recorder, which folds the events it has just committed.
//!
//! Not here: what an event means for a view (`projection`).

mod saved; // one state: load, catch up, save
mod cache; // states that were asked for, held in memory
mod fresh; // states folded while events are recorded
mod chronicles; // epochs and their digests, with the open epoch
mod unknown; // records that no adapter understood, over all sessions

pub use cache::ViewCache;
pub use chronicles::{chronicle_if_exists, chronicle_of};
pub use fresh::{FreshViews, save_current};
pub use saved::{
    SavedViews, catch_up, current_if_exists, is_nearly_current, load_current, load_saved,
    prepare_state, save_all,
};
pub use unknown::{UnknownKind, count_unknown_records};
