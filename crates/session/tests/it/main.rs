//! What the crate promises, data in and data out.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod drafts; // drafts and logs in a few words
mod rules;
mod open_work;
mod execution;
mod recover;
mod children;
mod spawn;
mod settings;
mod scope;
mod replay;
mod run;
mod episode;
mod log; // sessions written down in a few words
mod view; // the effective history, case by case
mod view_properties; // the maintained view against the oracle, over random logs
mod compaction; // what compactions keep and refuse
mod snapshot; // when snapshots are due, and what they say
mod worlds; // a journal of each kind
mod handle; // a session and its handles
mod forks; // forks, snapshots and lineage in a journal
mod saved_views; // the state beside the log
mod mirrors; // sessions copied while they grow
mod bundles; // sessions as files
mod answers; // approvals, waits and questions
mod artifacts; // bodies and their descriptions
mod children_run; // children, from the request to the end
mod restarts; // what is open after a restart
mod journal_runs; // runs of sessions in a journal
mod properties; // what holds for every session, over random ones
