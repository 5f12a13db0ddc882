//! Splits a stream of bytes into checked messages, however the stream is cut.

use crate::message::Message;
use crate::relay::LINE_MAX;
use crate::scan::{LineFault, LineVerdict, Scanner};

/// Bytes of a received line. Escaping can make it three times as long as the sender wrote it.
const WIRE_LINE_MAX: usize = 3 * LINE_MAX;

/// Assembles lines and checks them while their bytes arrive.
#[derive(Default)]
pub struct LineDecoder {
    scanner: Scanner,
    partial: Vec<u8>,
}

impl LineDecoder {
    /// Takes a piece of the stream and passes each completed line to `take`. Blank lines are skipped.
    pub fn feed(&mut self, bytes: &[u8], mut take: impl FnMut(Result<Message, LineFault>)) {
        let mut rest = bytes;
        while let Some((used, verdict)) = self.scanner.feed(rest) {
            let (piece, behind) = rest.split_at(used);
            rest = behind;
            self.partial.extend_from_slice(piece);
            match verdict {
                LineVerdict::Blank => {}
                LineVerdict::Bad(fault) => take(Err(fault)),
                LineVerdict::Good(_) if self.partial.len() > WIRE_LINE_MAX => {
                    take(Err(LineFault::TooLong))
                }
                LineVerdict::Good(layout) => {
                    let line = self.partial.trim_ascii_end();
                    take(Ok(Message::checked(line.into(), layout)));
                }
            }
            self.partial.clear();
        }
        // A line that never ends must not fill the memory.
        if self.scanner.line_len() > WIRE_LINE_MAX {
            self.scanner.give_up(LineFault::TooLong);
        }
        if self.scanner.has_fault() {
            self.partial.clear();
        } else {
            self.partial.extend_from_slice(rest);
        }
    }
}
