//! Messages out of a stream of bytes, however it is cut.

use crate::message::Message;
use crate::relay::LINE_MAX;
use crate::scan::{Fault, Scanner, Verdict};

/// Bytes of a line on its way to us: escapes can make it three times as long as it was sent.
const WIRE_LINE_MAX: usize = 3 * LINE_MAX;

/// Puts lines together and checks them as they come.
#[derive(Default)]
pub struct Lines {
    scanner: Scanner,
    partial: Vec<u8>,
}

impl Lines {
    /// Takes a piece of the stream and gives each line that it completes to `take`; blank ones
    /// are nothing.
    pub fn feed(&mut self, bytes: &[u8], mut take: impl FnMut(Result<Message, Fault>)) {
        let mut rest = bytes;
        while let Some((used, verdict)) = self.scanner.feed(rest) {
            let (piece, behind) = rest.split_at(used);
            rest = behind;
            self.partial.extend_from_slice(piece);
            match verdict {
                Verdict::Blank => {}
                Verdict::Bad(fault) => take(Err(fault)),
                Verdict::Good(_) if self.partial.len() > WIRE_LINE_MAX => take(Err(Fault::TooLong)),
                Verdict::Good(shape) => {
                    let line = self.partial.trim_ascii_end();
                    take(Ok(Message::checked(line.into(), shape)));
                }
            }
            self.partial.clear();
        }
        if self.scanner.line_len() > WIRE_LINE_MAX {
            self.scanner.give_up(Fault::TooLong);
        }
        if self.scanner.has_fault() {
            self.partial.clear();
        } else {
            self.partial.extend_from_slice(rest);
        }
    }
}
