//! Asks a server for its `callosum.stats`.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::message::Message;
use crate::relay::LINE_MAX;
use crate::socket::connect_path;

/// How long a server may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum StatsError {
    #[error("no bus listens at `{path}`")]
    NotRunning { path: PathBuf, source: io::Error },
    #[error("the bus at `{path}` does not answer a request for its stats")]
    NoAnswer { path: PathBuf },
}

/// Asks the server at a path for its `callosum.stats`.
pub fn query_stats(path: &Path) -> Result<Message, StatsError> {
    let not_running = |source| StatsError::NotRunning { path: path.to_owned(), source };
    let stream = UnixStream::connect(connect_path(path)).map_err(not_running)?;
    let until = Instant::now() + ANSWER_WITHIN;
    ask(stream, until).ok().flatten().ok_or_else(|| StatsError::NoAnswer { path: path.to_owned() })
}

fn ask(mut stream: UnixStream, until: Instant) -> io::Result<Option<Message>> {
    stream.set_write_timeout(Some(ANSWER_WITHIN))?;
    // A server without subscriptions also sends all messages; they are skipped until the time is
    // over.
    stream.write_all(b"{\"tract\":\"callosum\",\"event\":\"stats\"}\n")?;
    let mut reader = BufReader::new(stream);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        reader.get_ref().set_read_timeout(Some(left))?;
        let mut line = Vec::new();
        // Escaping can make a line three times as long as its sender wrote it.
        let limit = LINE_MAX as u64 * 3;
        if reader.by_ref().take(limit).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        // A server that does not know the request relays it back. Only an answer has `clients`.
        if let Ok(message) = Message::parse(&line)
            && message.is_event("callosum", "stats")
            && message.field("clients").is_some()
        {
            return Ok(Some(message));
        }
    }
}
