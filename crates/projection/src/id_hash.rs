//! Short stand-ins for ids that are only compared.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Eight bytes for an id of any length. Two ids with the same mark are possible and would cost a
/// wrong count, not a wrong record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct IdHash(u64);

impl IdHash {
    /// The same on every machine and in every version, because marks are saved: FNV-1a.
    pub(crate) fn from_id(id: &str) -> IdHash {
        IdHash(id.bytes().fold(0xcbf2_9ce4_8422_2325, |mark, byte| {
            (mark ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        }))
    }
}

impl fmt::Display for IdHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
