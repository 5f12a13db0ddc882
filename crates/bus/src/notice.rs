//! Events of the server that are worth logging.

use std::fmt;

use crate::scan::LineFault;

/// An event of the server that is worth logging.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// A client sent a line that is not relayed. Reported once per client and minute.
    Ignored { pid: Option<u32>, fault: LineFault },
    /// A process of another user tried to connect. Reported once per user.
    RefusedPeer { uid: u32 },
    /// The server hung up on a client that sent an endless line or used up shared room.
    CutOff { pid: Option<u32> },
    /// The server has no room for another client, so connections wait. Reported once per minute.
    TooManyClients,
    /// The journal could not be read for a client.
    Unreadable { pid: Option<u32>, why: String },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Ignored { pid, fault } => {
                write!(f, "{} sent a line that was not relayed: {fault}", PeerName(*pid))
            }
            Notice::RefusedPeer { uid } => {
                write!(f, "user {uid} tried to connect and was refused")
            }
            Notice::CutOff { pid } => write!(f, "{} was disconnected", PeerName(*pid)),
            Notice::TooManyClients => {
                f.write_str("there is no room for another client: new connections wait")
            }
            Notice::Unreadable { pid, why } => {
                write!(f, "cannot read the journal for {}: {why}", PeerName(*pid))
            }
        }
    }
}

struct PeerName(Option<u32>);

impl fmt::Display for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(pid) => write!(f, "process {pid}"),
            None => f.write_str("a client"),
        }
    }
}
