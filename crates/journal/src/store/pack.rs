//! Compression of texts, most of them small.
//!
//! The first byte of a packed text is its form. A new dictionary is a new form, and everything
//! written before stays readable.

use std::cell::RefCell;
use std::io;
use std::ops::Range;
use std::sync::OnceLock;

use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::{DecoderDictionary, EncoderDictionary};

use crate::limit::EVENT_BYTES_MAX;

/// Uncompressed, because compression would not make it smaller.
const PLAIN: u8 = 0;
/// zstd with the dictionary below. Another dictionary would be another form.
const ZSTD_EVENTS_1: u8 = 1;
/// zstd alone.
const ZSTD: u8 = 2;
/// A range of a block: begin and length of the text in it.
const IN_BLOCK: u8 = 3;

/// A text this long compresses as well without the dictionary, and a tenth quicker: zstd would copy
/// the tables of the dictionary first.
const ALONE_BYTES_MIN: usize = 8 * 1024;

/// The dictionary: what the texts of small events have in common. Trained with
/// `zstd --train-fastcover` on events of all kinds and providers, made from recorded sessions and
/// from our own code and prose. On texts it was not trained on, small events become half as large
/// as with zstd alone.
const EVENTS_1: &[u8] = include_bytes!("../../assets/events-1.zdict");

/// The fastest level that is compression: with the dictionary it is within a tenth of slower ones.
/// Faster ones would make a journal a quarter larger, for a twentieth of the time of reading it in.
const LEVEL: i32 = 1;

/// More than the text of any event. A larger length is damage, and no reason to reserve memory.
const TEXT_BYTES_MAX: usize = 2 * EVENT_BYTES_MAX;

/// The buffer that a thread keeps for the next text; a longer one is freed.
const SCRATCH_BYTES_MAX: usize = 256 * 1024;

/// A packed text that cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnpackError {
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
    PACKER.with_borrow_mut(|packer| {
        let packer = packer.get_or_insert_with(Packer::new);
        let form = if text.len() < ALONE_BYTES_MIN { ZSTD_EVENTS_1 } else { ZSTD };
        match packer.compress(form, text) {
            // Equal is not enough: a plain text needs no unpacking.
            Ok(compressed) if compressed.len() < text.len() => [&[form], compressed].concat(),
            // A failed compression is no reason to lose an event: its text is kept as it is.
            _ => plain(),
        }
    })
}

/// Encodes the range of a text in its block.
pub(crate) fn pack_block_range(place: Range<usize>) -> Vec<u8> {
    // A block has some 64 KiB, or a single event more, so four bytes hold every offset in it.
    let number = |number: usize| (number as u32).to_le_bytes();
    [&[IN_BLOCK][..], &number(place.start), &number(place.len())].concat()
}

/// Decodes the range of a text in its block; `None` for a text that is in no block.
pub(crate) fn block_range(packed: &[u8]) -> Option<Range<usize>> {
    let (form, place) = packed.split_first()?;
    // The range has exactly eight bytes behind the form. Any other length is no range, and the text
    // is then reported as one in an unknown form.
    let (start, len) = place.split_first_chunk::<4>().filter(|_| *form == IN_BLOCK)?;
    let [start, len] =
        [*start, len.try_into().ok()?].map(|bytes| u32::from_le_bytes(bytes) as usize);
    Some(start..start + len)
}

/// Unpacks a block and passes its texts to `read`. Each thread keeps its last block unpacked,
/// because neighbouring events are read one after the other.
pub(crate) fn unpack_block<T>(
    name: &[u8; 32],
    packed: &[u8],
    read: impl FnOnce(&str) -> T,
) -> Result<T, UnpackError> {
    CACHED_BLOCK.with_borrow_mut(|cached| {
        // The caller verified the checksum of `packed` against the name, so a hit needs no second
        // look at the bytes.
        if cached.as_ref().is_none_or(|cached| cached.name != *name) {
            let text = unpack(packed, str::to_owned)?;
            *cached = Some(CachedBlock { name: *name, text });
        }
        Ok(read(cached.as_ref().map_or("", |cached| &cached.text)))
    })
}

/// Unpacks a text and passes it to `read`.
pub(crate) fn unpack<T>(packed: &[u8], read: impl FnOnce(&str) -> T) -> Result<T, UnpackError> {
    let (form, bytes) = packed.split_first().ok_or(UnpackError::Empty)?;
    match *form {
        PLAIN => Ok(read(std::str::from_utf8(bytes)?)),
        ZSTD_EVENTS_1 | ZSTD => UNPACKER.with_borrow_mut(|unpacker| {
            let unpacker = unpacker.get_or_insert_with(Unpacker::new);
            Ok(read(std::str::from_utf8(unpacker.decompress(*form, bytes)?)?))
        }),
        other => Err(UnpackError::UnknownForm(other)),
    }
}

thread_local! {
    // Per thread, because the tables of a zstd context cost more to set up than a small event to
    // pack, and because a lock around them would make readers wait for each other.
    static PACKER: RefCell<Option<Packer>> = const { RefCell::new(None) };
    static UNPACKER: RefCell<Option<Unpacker>> = const { RefCell::new(None) };
    static CACHED_BLOCK: RefCell<Option<CachedBlock>> = const { RefCell::new(None) };
}

/// An unpacked block. Its name is a hash of its content, so it can never be stale.
struct CachedBlock {
    name: [u8; 32],
    text: String,
}

struct Packer {
    with_dictionary: Compressor<'static>,
    alone: Compressor<'static>,
    scratch: Vec<u8>,
}

impl Packer {
    fn new() -> Packer {
        static DICTIONARY: OnceLock<EncoderDictionary<'static>> = OnceLock::new();
        let dictionary = DICTIONARY.get_or_init(|| EncoderDictionary::copy(EVENTS_1, LEVEL));
        let mut with_dictionary = Compressor::with_prepared_dictionary(dictionary)
            .expect("the dictionary is part of the program");
        // The form names the dictionary already.
        with_dictionary.include_dictid(false).expect("a parameter every zstd has");
        let alone = Compressor::new(LEVEL).expect("a level every zstd has");
        Packer { with_dictionary, alone, scratch: Vec::new() }
    }

    fn compress(&mut self, form: u8, text: &str) -> io::Result<&[u8]> {
        reset_buffer(&mut self.scratch, zstd::zstd_safe::compress_bound(text.len()));
        let compressor = if form == ZSTD { &mut self.alone } else { &mut self.with_dictionary };
        compressor.compress_to_buffer(text.as_bytes(), &mut self.scratch)?;
        Ok(&self.scratch)
    }
}

struct Unpacker {
    with_dictionary: Decompressor<'static>,
    alone: Decompressor<'static>,
    scratch: Vec<u8>,
}

impl Unpacker {
    fn new() -> Unpacker {
        static DICTIONARY: OnceLock<DecoderDictionary<'static>> = OnceLock::new();
        let dictionary = DICTIONARY.get_or_init(|| DecoderDictionary::copy(EVENTS_1));
        let with_dictionary = Decompressor::with_prepared_dictionary(dictionary)
            .expect("the dictionary is part of the program");
        let alone = Decompressor::new().expect("there is memory for a few tables");
        Unpacker { with_dictionary, alone, scratch: Vec::new() }
    }

    fn decompress(&mut self, form: u8, bytes: &[u8]) -> Result<&[u8], UnpackError> {
        // The length stands in the zstd frame itself. Damage there must not reserve gigabytes.
        let len = Decompressor::upper_bound(bytes).filter(|len| *len <= TEXT_BYTES_MAX);
        reset_buffer(&mut self.scratch, len.ok_or(UnpackError::TooLarge)?);
        let decompressor = if form == ZSTD { &mut self.alone } else { &mut self.with_dictionary };
        decompressor.decompress_to_buffer(bytes, &mut self.scratch)?;
        Ok(&self.scratch)
    }
}

/// Empties the buffer and makes room for `len` bytes.
fn reset_buffer(scratch: &mut Vec<u8>, len: usize) {
    scratch.clear();
    // One long text must not keep its memory for the life of the thread.
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
    fn text_unpacks_unchanged() {
        packed_len("");
        packed_len("null");
        packed_len("\u{0}\u{10FFFF}");
        packed_len(&"ab\n".repeat(1_000_000));
        for len in [ALONE_BYTES_MIN - 1, ALONE_BYTES_MIN] {
            assert!(packed_len(&"text ".repeat(len)[..len]) < len / 10);
        }
    }

    #[test]
    fn incompressible_text_grows_one_byte() {
        // Every character once: nothing repeats, and the dictionary does not know them.
        let text: String = ('\u{4E00}'..'\u{4F00}').collect();
        assert!(packed_len(&text) <= text.len() + 1);
        assert_eq!(packed_len("null"), 5);
    }

    #[test]
    fn dictionary_halves_small_events() {
        let text = r#"{"kind":"turn.started","provider":"claude","provider_session_id":"0f8fad5b-d9cb-469f-a165-70867728950e","source":"transcript","confidence":"high","turn_id":"7c9e6679-7425-40de-944b-e07fc1f90ae7","data":{"agent_id":"main"}}"#;
        assert!(packed_len(text) < text.len() / 2);
    }

    #[test]
    fn damage_is_an_error() {
        assert!(matches!(unpack(&[], drop_text), Err(UnpackError::Empty)));
        assert!(matches!(unpack(&[9, 1, 2], drop_text), Err(UnpackError::UnknownForm(9))));
        let packed = pack(&"some text ".repeat(100));
        for place in 1..packed.len() {
            for bit in 0..8 {
                let mut flipped = packed.clone();
                flipped[place] ^= 1 << bit;
                // The row's checksum notices a wrong text; here nothing may panic.
                let _ = unpack(&flipped, drop_text);
            }
        }
    }

    fn drop_text(_: &str) {}
}
