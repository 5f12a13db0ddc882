//! Search over a plain list of events: the index against reading through, case by case and by
//! generated texts and queries.

mod log; // a log in memory
mod cases; // what is found and what is not
mod filters; // sessions, projects, kinds, tools, times, keys
mod pages; // from page to page
mod agreement; // generated texts and queries
mod folding; // generated texts alone
mod care; // lagging, deleted, damaged
mod stretches; // fed in many goes
