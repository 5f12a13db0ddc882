//! Events of a plain list, searched with the index in a file and by reading through.

mod log; // a log in memory
mod texts; // which texts of which events are searched
mod filters; // sessions, projects, kinds, tools, times, keys
mod pages; // cursors as texts
mod recovery; // an index that lags, was deleted or is damaged
mod segments; // indexed in many small transactions
