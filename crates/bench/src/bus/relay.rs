//! The floor: bytes from one connection to all of them, and nothing else.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::Outcome;

/// Waits for so many clients, then copies the bytes of the last one to all until it closes.
pub(crate) fn relay_bytes(path: &Path, clients: usize) -> Outcome<()> {
    // Renamed after the bind, so that a client that finds the socket can connect.
    let private = path.with_extension("new");
    let listener = UnixListener::bind(&private)?;
    std::fs::rename(&private, path)?;
    let mut streams = Vec::new();
    for stream in listener.incoming().take(clients) {
        streams.push(stream?);
    }
    // The driver connects the publisher after all subscribers.
    let Some(mut publisher) = streams.last().map(|stream| stream.try_clone()).transpose()? else {
        return Ok(());
    };
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = publisher.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        for stream in &mut streams {
            stream.write_all(&buffer[..count])?;
        }
    }
}
