//! Compression of texts, small ones above all.
//!
//! The first byte of a packed text tells how the rest is to be read, so that dictionaries can
//! change while everything written before stays readable.

use std::cell::RefCell;
use std::io;
use std::ops::Range;
use std::sync::OnceLock;

use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::{DecoderDictionary, EncoderDictionary};

use crate::limit::EVENT_BYTES_MAX;

/// As it is: what compression would not make smaller.
const PLAIN: u8 = 0;
/// zstd with the dictionary below. Another dictionary would be another form.
const ZSTD_EVENTS_1: u8 = 1;
/// zstd alone.
const ZSTD: u8 = 2;
/// A place in a block of texts that were packed together: where it begins and how long it is.
const IN_BLOCK: u8 = 3;

/// A text this long has enough of its own to refer to, and without the dictionary it is packed
/// a tenth quicker.
const ALONE_BYTES_MIN: usize = 8 * 1024;

/// What the texts of small events have in common. Trained with `zstd --train-fastcover` on events
/// of all kinds and providers, made from recorded sessions and from our own code and prose; on
/// text it was not trained on it makes small events half as large as zstd alone does.
const EVENTS_1: &[u8] = include_bytes!("../../assets/events-1.zdict");

/// The fastest level that is compression: with the dictionary it is within a tenth of slower ones.
/// Faster ones would make a journal a quarter larger, for a twentieth of the time of reading it in.
const LEVEL: i32 = 1;

/// More than the text of any event; a length beyond it is damage, not a reason to reserve memory.
const TEXT_BYTES_MAX: usize = 2 * EVENT_BYTES_MAX;

/// What a thread keeps for the next text; after a longer one it is given back.
const SCRATCH_BYTES_MAX: usize = 256 * 1024;

/// A packed text that cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadPack {
    #[error("nothing is there")]
    Empty,
    #[error("it is packed in form {0}, which this program does not know")]
    UnknownForm(u8),
    #[error("it claims to unpack to more than an event can have")]
    TooLarge,
    #[error("it does not unpack: {0}")]
    Zstd(#[from] io::Error),
    #[error("it is not text: {0}")]
    NotText(#[from] std::str::Utf8Error),
}

/// Packs a text.
pub(crate) fn pack(text: &str) -> Vec<u8> {
    let plain = || [&[PLAIN], text.as_bytes()].concat();
    PACKING.with_borrow_mut(|packing| {
        let packing = packing.get_or_insert_with(Packing::new);
        let form = if text.len() < ALONE_BYTES_MIN { ZSTD_EVENTS_1 } else { ZSTD };
        match packing.compress(form, text) {
            Ok(compressed) if compressed.len() < text.len() => [&[form], compressed].concat(),
            // One that could not be compressed is kept all the same: packing is no reason to
            // lose an event.
            _ => plain(),
        }
    })
}

/// What stands for a text that is in a block.
pub(crate) fn pack_place(place: Range<usize>) -> Vec<u8> {
    let number = |number: usize| (number as u32).to_le_bytes();
    [&[IN_BLOCK][..], &number(place.start), &number(place.len())].concat()
}

/// Where in a block a text is; `None` for one that stands for itself.
pub(crate) fn place_in_block(packed: &[u8]) -> Option<Range<usize>> {
    let (form, place) = packed.split_first()?;
    let (start, len) = place.split_first_chunk::<4>().filter(|_| *form == IN_BLOCK)?;
    let [start, len] =
        [*start, len.try_into().ok()?].map(|bytes| u32::from_le_bytes(bytes) as usize);
    Some(start..start + len)
}

/// Unpacks the block with a name for `read`. Neighbours are read one after the other, so that the
/// last block of a thread stays unpacked.
pub(crate) fn unpack_block<T>(
    name: &[u8; 32],
    packed: &[u8],
    read: impl FnOnce(&str) -> T,
) -> Result<T, BadPack> {
    HELD_BLOCK.with_borrow_mut(|held| {
        if held.as_ref().is_none_or(|held| held.name != *name) {
            let text = unpack(packed, str::to_owned)?;
            *held = Some(HeldBlock { name: *name, text });
        }
        Ok(read(held.as_ref().map_or("", |held| &held.text)))
    })
}

/// Unpacks a text for `read`.
pub(crate) fn unpack<T>(packed: &[u8], read: impl FnOnce(&str) -> T) -> Result<T, BadPack> {
    let (form, bytes) = packed.split_first().ok_or(BadPack::Empty)?;
    match *form {
        PLAIN => Ok(read(std::str::from_utf8(bytes)?)),
        ZSTD_EVENTS_1 | ZSTD => UNPACKING.with_borrow_mut(|unpacking| {
            let unpacking = unpacking.get_or_insert_with(Unpacking::new);
            Ok(read(std::str::from_utf8(unpacking.decompress(*form, bytes)?)?))
        }),
        other => Err(BadPack::UnknownForm(other)),
    }
}

thread_local! {
    static PACKING: RefCell<Option<Packing>> = const { RefCell::new(None) };
    static UNPACKING: RefCell<Option<Unpacking>> = const { RefCell::new(None) };
    static HELD_BLOCK: RefCell<Option<HeldBlock>> = const { RefCell::new(None) };
}

/// A block that was unpacked. Its name tells what is in it, so it can never be out of date.
struct HeldBlock {
    name: [u8; 32],
    text: String,
}

struct Packing {
    with_dictionary: Compressor<'static>,
    alone: Compressor<'static>,
    scratch: Vec<u8>,
}

impl Packing {
    fn new() -> Packing {
        static DICTIONARY: OnceLock<EncoderDictionary<'static>> = OnceLock::new();
        let dictionary = DICTIONARY.get_or_init(|| EncoderDictionary::copy(EVENTS_1, LEVEL));
        let mut with_dictionary = Compressor::with_prepared_dictionary(dictionary)
            .expect("the dictionary is part of the program");
        // The form names it already.
        with_dictionary.include_dictid(false).expect("a parameter every zstd has");
        let alone = Compressor::new(LEVEL).expect("a level every zstd has");
        Packing { with_dictionary, alone, scratch: Vec::new() }
    }

    fn compress(&mut self, form: u8, text: &str) -> io::Result<&[u8]> {
        clear(&mut self.scratch, zstd::zstd_safe::compress_bound(text.len()));
        let compressor = if form == ZSTD { &mut self.alone } else { &mut self.with_dictionary };
        compressor.compress_to_buffer(text.as_bytes(), &mut self.scratch)?;
        Ok(&self.scratch)
    }
}

struct Unpacking {
    with_dictionary: Decompressor<'static>,
    alone: Decompressor<'static>,
    scratch: Vec<u8>,
}

impl Unpacking {
    fn new() -> Unpacking {
        static DICTIONARY: OnceLock<DecoderDictionary<'static>> = OnceLock::new();
        let dictionary = DICTIONARY.get_or_init(|| DecoderDictionary::copy(EVENTS_1));
        let with_dictionary = Decompressor::with_prepared_dictionary(dictionary)
            .expect("the dictionary is part of the program");
        let alone = Decompressor::new().expect("there is memory for a few tables");
        Unpacking { with_dictionary, alone, scratch: Vec::new() }
    }

    fn decompress(&mut self, form: u8, bytes: &[u8]) -> Result<&[u8], BadPack> {
        let len = Decompressor::upper_bound(bytes).filter(|len| *len <= TEXT_BYTES_MAX);
        clear(&mut self.scratch, len.ok_or(BadPack::TooLarge)?);
        let decompressor = if form == ZSTD { &mut self.alone } else { &mut self.with_dictionary };
        decompressor.decompress_to_buffer(bytes, &mut self.scratch)?;
        Ok(&self.scratch)
    }
}

/// Empties the buffer and makes room for `len` bytes.
fn clear(scratch: &mut Vec<u8>, len: usize) {
    scratch.clear();
    if len < SCRATCH_BYTES_MAX {
        scratch.shrink_to(SCRATCH_BYTES_MAX);
    }
    scratch.reserve(len);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn packed_len(text: &str) -> usize {
        let packed = pack(text);
        assert_eq!(unpack(&packed, str::to_owned).unwrap(), text);
        packed.len()
    }

    #[test]
    fn a_text_comes_back_as_it_was() {
        packed_len("");
        packed_len("null");
        packed_len("\u{0}\u{10FFFF}");
        packed_len(&"ab\n".repeat(1_000_000));
        for len in [ALONE_BYTES_MIN - 1, ALONE_BYTES_MIN] {
            assert!(packed_len(&"text ".repeat(len)[..len]) < len / 10);
        }
    }

    #[test]
    fn what_does_not_compress_grows_by_one_byte() {
        // Every character once: nothing repeats, and the dictionary does not know them.
        let text: String = ('\u{4E00}'..'\u{4F00}').collect();
        assert!(packed_len(&text) <= text.len() + 1);
        assert_eq!(packed_len("null"), 5);
    }

    #[test]
    fn small_events_share_what_they_have_in_common() {
        let text = r#"{"kind":"turn.started","provider":"claude","provider_session_id":"0f8fad5b-d9cb-469f-a165-70867728950e","source":"transcript","confidence":"high","turn_id":"7c9e6679-7425-40de-944b-e07fc1f90ae7","data":{"agent_id":"main"}}"#;
        assert!(packed_len(text) < text.len() / 2);
    }

    #[test]
    fn damage_is_an_error_and_asks_for_no_memory() {
        assert!(matches!(unpack(&[], drop_text), Err(BadPack::Empty)));
        assert!(matches!(unpack(&[9, 1, 2], drop_text), Err(BadPack::UnknownForm(9))));
        let packed = pack(&"some text ".repeat(100));
        for place in 1..packed.len() {
            for bit in 0..8 {
                let mut flipped = packed.clone();
                flipped[place] ^= 1 << bit;
                // Wrong text is the checksum's to notice; here nothing may panic.
                let _ = unpack(&flipped, drop_text);
            }
        }
    }

    fn drop_text(_: &str) {}
}
