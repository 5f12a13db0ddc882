//! How a server does, in its own words.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::message::Message;
use crate::relay::LINE_MAX;

/// How long a server may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error("nobody listens at `{path}`")]
    Nobody { path: PathBuf, source: io::Error },
    #[error("the bus at `{path}` does not say how it does")]
    NoAnswer { path: PathBuf },
}

/// Asks the server at a path for its `callosum.stats`.
pub fn stats(path: &Path) -> Result<Message, AskError> {
    let nobody = |source| AskError::Nobody { path: path.to_owned(), source };
    let stream = UnixStream::connect(path).map_err(nobody)?;
    let until = Instant::now() + ANSWER_WITHIN;
    ask(stream, until).ok().flatten().ok_or_else(|| AskError::NoAnswer { path: path.to_owned() })
}

fn ask(mut stream: UnixStream, until: Instant) -> io::Result<Option<Message>> {
    stream.set_write_timeout(Some(ANSWER_WITHIN))?;
    // Nothing but the answer is of interest; a server that knows no subscriptions sends the rest
    // too, until our time is over.
    stream.write_all(b"{\"tract\":\"callosum\",\"event\":\"stats\"}\n")?;
    let mut reader = BufReader::new(stream);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        reader.get_ref().set_read_timeout(Some(left))?;
        let mut line = Vec::new();
        // Escapes can make a line three times as long as it was.
        let limit = LINE_MAX as u64 * 3;
        if reader.by_ref().take(limit).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        // A server that knows no questions gives ours back: an answer has something to say.
        if let Ok(message) = Message::parse(&line)
            && message.is("callosum", "stats")
            && message.field("clients").is_some()
        {
            return Ok(Some(message));
        }
    }
}
