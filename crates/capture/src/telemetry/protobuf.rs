//! Iterates over the fields of a protobuf message. The caller skips fields it does not need.

/// A field as it stands there.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum WireField<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

/// The bytes are no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Malformed;

/// What is left of a message.
pub(super) struct WireFields<'a>(pub &'a [u8]);

impl<'a> Iterator for WireFields<'a> {
    type Item = Result<(u64, WireField<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.next_field();
        // Behind a malformed field no byte can be trusted, and a caller that goes on has to come to
        // an end.
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or(Malformed))
    }
}

impl<'a> WireFields<'a> {
    fn next_field(&mut self) -> Option<(u64, WireField<'a>)> {
        // The low 3 bits are the type of the field, the others its number.
        let key = self.read_varint()?;
        let field = match key & 7 {
            0 => WireField::Varint(self.read_varint()?),
            1 => WireField::Fixed64(u64::from_le_bytes(*self.take_bytes(8)?.first_chunk()?)),
            2 => {
                let length = usize::try_from(self.read_varint()?).ok()?;
                WireField::Bytes(self.take_bytes(length)?)
            }
            5 => WireField::Fixed32(u32::from_le_bytes(*self.take_bytes(4)?.first_chunk()?)),
            // Groups are long gone, and nothing else was ever defined.
            _ => return None,
        };
        Some((key >> 3, field))
    }

    fn read_varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        // 10 bytes hold 64 bits. A hostile varint without an end is malformed.
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn take_bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        // The length is foreign: one beyond the end is malformed, and nothing is reserved for it.
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_fields(bytes: &[u8]) -> Vec<Result<(u64, WireField<'_>), Malformed>> {
        WireFields(bytes).collect()
    }

    #[test]
    fn every_sort_of_field_is_read() {
        let bytes = [
            0x08, 0x96, 0x01, // 1: 150
            0x11, 1, 0, 0, 0, 0, 0, 0, 0, // 2: 1, in eight bytes
            0x1a, 2, b'h', b'i', // 3: two bytes
            0x25, 7, 0, 0, 0, // 4: 7, in four bytes
        ];
        let read = [
            Ok((1, WireField::Varint(150))),
            Ok((2, WireField::Fixed64(1))),
            Ok((3, WireField::Bytes(b"hi"))),
            Ok((4, WireField::Fixed32(7))),
        ];
        assert_eq!(read_fields(&bytes), read);
    }

    #[test]
    fn what_ends_too_early_or_never_is_malformed() {
        for bytes in [&[0x08][..], &[0x1a, 3, b'h'], &[0x11, 1], &[0x0b], &[0xff; 11]] {
            assert_eq!(read_fields(bytes), [Err(Malformed)], "{bytes:?}");
        }
    }
}
