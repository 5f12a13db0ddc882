//! Splits output into lines.
//!
//! A long line is passed on in pieces, so that memory stays bounded.

use memchr::memchr;

/// Bytes of a piece. A longer line comes in several.
pub(crate) const PIECE_MAX: usize = 64 << 10;

/// A line or a piece of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LinePiece<'a> {
    /// The bytes without the line break.
    pub bytes: &'a [u8],
    /// The number of the piece, from 1; `None` for a whole line.
    pub part: Option<u32>,
    /// Whether it ends its line.
    pub is_last: bool,
}

/// Splits a stream into lines.
#[derive(Debug, Default)]
pub(crate) struct LineSplitter {
    held: Vec<u8>,
    parts: u32,
}

impl LineSplitter {
    /// Takes bytes and passes on the lines they complete.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(LinePiece<'_>)) {
        while let Some(at) = memchr(b'\n', bytes) {
            let line = &bytes[..at];
            bytes = &bytes[at + 1..];
            // Most lines lie whole in the buffer of the read and are passed on without a copy.
            if self.held.is_empty() && line.len() <= PIECE_MAX {
                each(self.last_piece(without_return(line)));
                self.parts = 0;
            } else {
                self.hold_bytes(line, &mut each);
                self.end_line(&mut each);
            }
        }
        self.hold_bytes(bytes, &mut each);
    }

    /// Ends the stream: an unfinished last line counts too.
    pub(crate) fn finish(&mut self, mut each: impl FnMut(LinePiece<'_>)) {
        if !self.held.is_empty() || self.parts > 0 {
            let held = std::mem::take(&mut self.held);
            each(self.last_piece(&held));
            self.parts = 0;
        }
    }

    fn hold_bytes(&mut self, bytes: &[u8], each: &mut impl FnMut(LinePiece<'_>)) {
        self.held.extend_from_slice(bytes);
        let mut start = 0;
        while self.held.len() - start > PIECE_MAX {
            let end = start + cut_position(&self.held[start..start + PIECE_MAX]);
            self.parts += 1;
            let bytes = &self.held[start..end];
            each(LinePiece { bytes, part: Some(self.parts), is_last: false });
            start = end;
        }
        self.held.drain(..start);
    }

    fn end_line(&mut self, each: &mut impl FnMut(LinePiece<'_>)) {
        let mut held = std::mem::take(&mut self.held);
        each(self.last_piece(without_return(&held)));
        self.parts = 0;
        // Free the memory of a long line, but keep enough for ordinary ones.
        held.clear();
        held.shrink_to(PIECE_MAX);
        self.held = held;
    }

    fn last_piece<'a>(&self, bytes: &'a [u8]) -> LinePiece<'a> {
        let part = (self.parts > 0).then_some(self.parts + 1);
        LinePiece { bytes, part, is_last: true }
    }
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns where to cut: not inside a character, and not before a possible `\r\n`.
fn cut_position(bytes: &[u8]) -> usize {
    let mut at = bytes.len();
    // A UTF-8 sequence has at most four bytes.
    for back in 1..=3 {
        let byte = bytes[bytes.len() - back];
        if byte & 0xC0 == 0x80 {
            continue;
        }
        let len = match byte {
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            _ => 1,
        };
        // The last character is not complete here, so the cut is before it.
        if len > back {
            at = bytes.len() - back;
        }
        break;
    }
    // A `\r` here may belong to a `\r\n` that the next read completes, and then is no text.
    if bytes[at - 1] == b'\r' { at - 1 } else { at }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces(chunks: &[&[u8]]) -> Vec<(Vec<u8>, Option<u32>, bool)> {
        let mut lines = LineSplitter::default();
        let mut pieces = Vec::new();
        let mut each = |piece: LinePiece<'_>| {
            assert!(piece.bytes.len() <= PIECE_MAX);
            pieces.push((piece.bytes.to_vec(), piece.part, piece.is_last));
        };
        for chunk in chunks {
            lines.feed(chunk, &mut each);
            assert!(lines.held.len() <= PIECE_MAX);
        }
        lines.finish(&mut each);
        pieces
    }

    fn whole(line: &[u8]) -> (Vec<u8>, Option<u32>, bool) {
        (line.to_vec(), None, true)
    }

    #[test]
    fn lines_are_split_at_breaks() {
        assert_eq!(
            pieces(&[b"a\nb\r\n\nc\r\r\n"]),
            [whole(b"a"), whole(b"b"), whole(b""), whole(b"c\r")]
        );
        assert_eq!(pieces(&[b"a\nno break"]), [whole(b"a"), whole(b"no break")]);
        assert_eq!(pieces(&[b"a\n"]), [whole(b"a")]);
        assert_eq!(pieces(&[b""]), []);
        assert_eq!(pieces(&[b"a\r", b"\nb"]), [whole(b"a"), whole(b"b")]);
    }

    #[test]
    fn long_line_comes_in_numbered_pieces() {
        let exact = vec![b'x'; PIECE_MAX];
        let line = [&exact[..], b"\n"].concat();
        assert_eq!(pieces(&[&line]), [whole(&exact)]);
        let line = [&exact[..], b"y\nz\n"].concat();
        let expected =
            [(exact.clone(), Some(1), false), (b"y".to_vec(), Some(2), true), whole(b"z")];
        assert_eq!(pieces(&[&line]), expected);
    }

    #[test]
    fn pieces_keep_characters_and_breaks_whole() {
        for letter in ["\u{e9}", "\u{20ac}", "\u{1f600}", "\r"] {
            for before in 0..4 {
                let text = "x".repeat(PIECE_MAX - before) + letter + "y\n";
                for (piece, ..) in pieces(&[text.as_bytes()]) {
                    assert!(std::str::from_utf8(&piece).is_ok(), "{letter} {before}");
                }
            }
        }
        let text = [&vec![b'x'; PIECE_MAX - 1][..], b"\r", b"\n"].concat();
        assert_eq!(pieces(&[&text]), [whole(&vec![b'x'; PIECE_MAX - 1])]);
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_lines(
            words in prop::collection::vec("[a\r\u{e9}]{0,6}\n?", 0..20),
            long in 0..3 * PIECE_MAX,
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let mut text = words.concat().into_bytes();
            text.extend(std::iter::repeat_n(b'x', long));
            text.extend_from_slice(b"\nend");
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len())).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut start = 0;
            for cut in cuts {
                chunks.push(&text[start..cut]);
                start = cut;
            }
            chunks.push(&text[start..]);
            prop_assert_eq!(pieces(&chunks), pieces(&[&text]));
        }
    }
}
