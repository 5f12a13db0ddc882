//! What somebody may want to log.

use std::fmt;

use crate::scan::Fault;

/// What somebody may want to log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// A client said something that is not relayed; told once per client and minute.
    Ignored { pid: Option<u32>, fault: Fault },
    /// Somebody else tried to connect; told once per user.
    RefusedPeer { uid: u32 },
    /// A client was cut off: it sent a line without end, or there was no room for all.
    CutOff { pid: Option<u32> },
    /// There was no room for a newcomer.
    TooManyClients,
    /// What was recorded could not be read for a client.
    Unreadable { pid: Option<u32>, why: String },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Ignored { pid, fault } => {
                write!(f, "{} sent a line that was not relayed: {fault}", Who(*pid))
            }
            Notice::RefusedPeer { uid } => {
                write!(f, "user {uid} tried to connect and was refused")
            }
            Notice::CutOff { pid } => write!(f, "{} was cut off", Who(*pid)),
            Notice::TooManyClients => f.write_str("there was no room for another client"),
            Notice::Unreadable { pid, why } => {
                write!(f, "what was recorded cannot be read for {}: {why}", Who(*pid))
            }
        }
    }
}

struct Who(Option<u32>);

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(pid) => write!(f, "process {pid}"),
            None => f.write_str("a client"),
        }
    }
}
