//! What the daemon and its clients say to each other, and a small client. No server.

pub mod hook; // a call of a hook
