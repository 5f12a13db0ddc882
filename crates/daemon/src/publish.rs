//! The journal's events as messages on the bus: published when they are committed, replayed for
//! subscribers that start in the past, and the answers to requests for an agent.

mod cortex; // turns events into messages
mod run; // a run of an agent, from its start to its end
mod words; // the fields of a message about an event
mod publisher; // publishes what was committed
mod running_report; // when the message about running agents is sent
mod replay; // reads messages of the past from the journal
mod requests; // answers requests for an agent

pub(crate) use cortex::REV;
pub(crate) use publisher::BusPublisher;
pub(crate) use replay::BusReplay;
pub use requests::RequestsError;
pub(crate) use requests::answer_all;
pub(crate) use words::compact;
