//! One frame of an original: written, read, and found again behind damage.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Cursor, ErrorKind, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use memchr::memmem;
use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use super::{OriginalPart, StoredPart};

/// Where a file ends: as an offset in the source, and in bytes on disk.
#[derive(Clone, Copy, Default)]
pub(super) struct OriginalEnd {
    pub plain: u64,
    pub packed: u64,
}

/// One frame of a file.
#[derive(Clone, Copy)]
pub(super) struct OriginalFrame {
    pub plain_from: u64,
    plain_len: u32,
    packed_from: u64,
    packed_len: u32,
}

/// The magic number of a skippable frame; the length of its content follows.
const MARK: u32 = 0x184D_2A5C;
pub(super) const HEADER_LEN: u64 = 8 + CONTENT_LEN;
const CONTENT_LEN: u64 = 16;

/// The magic number of a tag, and the bytes in front of its texts.
const TAG_MARK: u32 = 0x184D_2A5D;
const TAG_HEAD_LEN: usize = 8 + 4 + 3 * 4;

/// Texts of a tag that are longer are packed.
const TAG_PLAIN_MAX: usize = 256;

/// The texts of a tag. Longer ones are damage: a state has some KiB, the files beside the records of
/// a batch some MiB.
const TAG_LEN_MAX: usize = 256 * 1024 * 1024;

/// The bytes of a part. More is damage: a batch has some MiB, a document at most 256.
const PLAIN_LEN_MAX: u32 = 512 * 1024 * 1024;

/// Speed counts more than size here: originals are written for every byte read, and rarely read.
const LEVEL: i32 = 1;

/// Buffer that a thread keeps for the next frame. A few records are much longer than most, and
/// their memory is given back.
pub(super) const ENCODER_BYTES_MAX: usize = 2 * 1024 * 1024;

impl OriginalFrame {
    /// Where it ends.
    pub(super) fn end(&self) -> OriginalEnd {
        OriginalEnd {
            plain: self.plain_from + u64::from(self.plain_len),
            packed: self.packed_from + u64::from(self.packed_len),
        }
    }
}

/// Packs a part and passes it on: header, tag and frame.
pub(super) fn with_encoded(
    part: OriginalPart<'_>,
    write: impl FnOnce(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    FRAME_ENCODER.with_borrow_mut(|packing| {
        let FrameEncoder { compressor, frame } = match packing {
            Some(packing) => packing,
            None => packing.insert(FrameEncoder::new()?),
        };
        let OriginalPart { offset, bytes: plain, label, begin, note } = part;
        let texts = [label, begin, note];
        let mut told = texts.concat().into_bytes();
        if told.len() > TAG_PLAIN_MAX {
            told = compressor.compress(&told)?;
        }
        frame.clear();
        let tag_len = TAG_HEAD_LEN + told.len();
        frame.reserve(HEADER_LEN as usize + tag_len + zstd::zstd_safe::compress_bound(plain.len()));
        frame.extend(MARK.to_le_bytes());
        frame.extend((CONTENT_LEN as u32).to_le_bytes());
        frame.extend(offset.to_le_bytes());
        frame.extend((plain.len() as u32).to_le_bytes());
        // The packed length, which is known only afterwards.
        frame.extend([0; 4]);
        frame.extend(TAG_MARK.to_le_bytes());
        frame.extend(((tag_len - 8) as u32).to_le_bytes());
        frame.extend(tag_sum(offset, plain.len() as u32, texts).to_le_bytes());
        texts.iter().for_each(|text| frame.extend((text.len() as u32).to_le_bytes()));
        frame.extend(told);
        let mut behind = Cursor::new(&mut *frame);
        behind.set_position(HEADER_LEN + tag_len as u64);
        let packed_len = compressor.compress_to_buffer(plain, &mut behind)? + tag_len;
        let packed_len = (packed_len as u32).to_le_bytes();
        frame[HEADER_LEN as usize - 4..][..4].copy_from_slice(&packed_len);
        let written = write(frame);
        frame.clear();
        frame.shrink_to(ENCODER_BYTES_MAX);
        written
    })
}

/// Covers what the checksum of the frame does not: where it stands, and the texts.
fn tag_sum(offset: u64, plain_len: u32, texts: [&str; 3]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&offset.to_le_bytes());
    sum.update(&plain_len.to_le_bytes());
    for text in texts {
        sum.update(&(text.len() as u32).to_le_bytes());
        sum.update(text.as_bytes());
    }
    sum.finalize()
}

/// Reads a frame and what stands with it.
pub(super) fn read_part(file: &File, frame: OriginalFrame) -> io::Result<StoredPart> {
    let mut packed = vec![0; frame.packed_len as usize];
    file.read_exact_at(&mut packed, frame.packed_from)?;
    let part = read_tag(frame, &packed)?;
    // Skips the tag, as every decoder does.
    let bytes = zstd::bulk::decompress(&packed, frame.plain_len as usize)?;
    if bytes.len() != frame.plain_len as usize {
        return Err(damaged("it has another length than it says"));
    }
    Ok(StoredPart { bytes, ..part })
}

/// Reads the texts in front of a frame; none for one of an earlier version.
fn read_tag(frame: OriginalFrame, packed: &[u8]) -> io::Result<StoredPart> {
    let mut part = StoredPart { offset: frame.plain_from, ..StoredPart::default() };
    if word(packed, 0) != Some(TAG_MARK) {
        return Ok(part);
    }
    let lens: usize =
        [12, 16, 20].iter().filter_map(|at| word(packed, *at)).map(|len| len as usize).sum();
    let tag_len = word(packed, 4).map_or(0, |len| len as usize + 8);
    let told = packed.get(TAG_HEAD_LEN..tag_len).ok_or_else(|| damaged("its tag is too short"))?;
    let told = match lens {
        0..=TAG_PLAIN_MAX => told.to_vec(),
        TAG_LEN_MAX.. => return Err(damaged("its tag is too long")),
        _ => zstd::bulk::decompress(told, lens)?,
    };
    let mut rest = told.as_slice();
    for (text, at) in
        [&mut part.label, &mut part.begin, &mut part.note].into_iter().zip([12, 16, 20])
    {
        let len = word(packed, at).map_or(usize::MAX, |len| len as usize);
        let bytes = rest.split_at_checked(len).ok_or_else(|| damaged("its tag is too short"))?;
        *text = String::from_utf8(bytes.0.to_vec()).map_err(|_| damaged("its tag is no text"))?;
        rest = bytes.1;
    }
    let sum = tag_sum(frame.plain_from, frame.plain_len, [&part.label, &part.begin, &part.note]);
    match word(packed, 8) == Some(sum) {
        true => Ok(part),
        false => Err(damaged("its tag does not fit its checksum")),
    }
}

/// The label that the last frame with one has.
pub(super) fn last_label(file: &File, frames: &[OriginalFrame]) -> String {
    let labels = frames.iter().rev().filter_map(|frame| {
        let mut head = [0; TAG_HEAD_LEN];
        file.read_exact_at(&mut head, frame.packed_from).ok()?;
        let tag_len = word(&head, 4).filter(|_| word(&head, 0) == Some(TAG_MARK))? as usize + 8;
        // Most frames have no label, and their tags need not be read.
        if word(&head, 12) == Some(0) || tag_len > TAG_LEN_MAX {
            return None;
        }
        let mut tag = vec![0; tag_len];
        file.read_exact_at(&mut tag, frame.packed_from).ok()?;
        read_tag(*frame, &tag).ok().map(|part| part.label).filter(|label| !label.is_empty())
    });
    labels.into_iter().next().unwrap_or_default()
}

/// Reads a range of the source; `None` if not all of it is there.
pub(super) fn read_range(file: &File, wanted: Range<u64>) -> io::Result<Option<Vec<u8>>> {
    // Frames stand in the order of the source, so one walk over the headers is enough. Frames
    // before and behind the range are not unpacked.
    let mut stretch = Vec::new();
    let mut at = wanted.start;
    for frame in scan_frames(file)?.frames {
        if at == wanted.end {
            break;
        }
        if (frame.plain_from..frame.end().plain).contains(&at) {
            let plain = read_part(file, frame)?.bytes;
            let end = wanted.end.min(frame.end().plain);
            let part = (at - frame.plain_from) as usize..(end - frame.plain_from) as usize;
            stretch.extend_from_slice(&plain[part]);
            at = end;
        }
    }
    // A gap stops `at` for good: no later frame begins before it.
    Ok((at == wanted.end).then_some(stretch))
}

/// The frames of a file.
pub(super) struct ScannedFrames {
    pub frames: Vec<OriginalFrame>,
    /// Behind the last one.
    pub end: OriginalEnd,
    /// Places where no frame begins, though one should.
    pub damaged: u64,
}

/// Lists the whole frames of a file. One that a crash left half written at the end is left out;
/// damage before that is passed over up to the next header.
pub(super) fn scan_frames(file: &File) -> io::Result<ScannedFrames> {
    let length = file.metadata()?.len();
    let mut scan = ScannedFrames { frames: Vec::new(), end: OriginalEnd::default(), damaged: 0 };
    while scan.end.packed < length {
        if let Some(frame) = frame_at(file, scan.end.packed, length, scan.end.plain)? {
            scan.end = frame.end();
            scan.frames.push(frame);
            continue;
        }
        // From the content of the frame before: its length may be what is damaged.
        let from = scan.frames.last().map_or(1, |frame| frame.packed_from + 1);
        let before = scan.frames.len().checked_sub(2).map(|before| scan.frames[before].end());
        let plain_min = before.unwrap_or_default().plain;
        let Some(frame) = next_frame(file, from, length, plain_min)? else { break };
        scan.damaged += 1;
        scan.end = frame.end();
        scan.frames.push(frame);
    }
    Ok(scan)
}

/// The frame with a header at `at`; `None` if there is no header, or the frame goes beyond the file.
fn frame_at(
    file: &File,
    at: u64,
    length: u64,
    plain_min: u64,
) -> io::Result<Option<OriginalFrame>> {
    // Header, and the magic number of the tag or the frame behind it.
    let mut header = [0; HEADER_LEN as usize + 4];
    match file.read_exact_at(&mut header, at) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let word = |from| word(&header, from).expect("the header is whole");
    let frame = OriginalFrame {
        plain_from: u64::from(word(8)) | u64::from(word(12)) << 32,
        plain_len: word(16),
        packed_from: at + HEADER_LEN,
        packed_len: word(20),
    };
    let is_frame = word(0) == MARK
        && word(4) == CONTENT_LEN as u32
        && [TAG_MARK, zstd::zstd_safe::MAGICNUMBER].contains(&word(HEADER_LEN as usize))
        && frame.plain_len <= PLAIN_LEN_MAX
        && frame.end().packed <= length
        // Frames stand in the order of the source.
        && frame.plain_from >= plain_min;
    Ok(is_frame.then_some(frame))
}

/// The first frame with a header at `from` or behind.
fn next_frame(
    file: &File,
    from: u64,
    length: u64,
    plain_min: u64,
) -> io::Result<Option<OriginalFrame>> {
    const WINDOW: usize = 256 * 1024;
    let mut mark = MARK.to_le_bytes().to_vec();
    mark.extend((CONTENT_LEN as u32).to_le_bytes());
    let mut window = Vec::new();
    let mut at = from;
    while at < length {
        window.clear();
        ReadFrom { file, at }.take(WINDOW as u64).read_to_end(&mut window)?;
        for place in memmem::find_iter(&window, &mark) {
            let frame = frame_at(file, at + place as u64, length, plain_min)?;
            if frame.is_some() {
                return Ok(frame);
            }
        }
        // Windows overlap, so that a mark on their border is found.
        at += (window.len().saturating_sub(mark.len() - 1)).max(1) as u64;
    }
    Ok(None)
}

/// Reads a file from a place on, and leaves its position alone.
pub(super) struct ReadFrom<'a> {
    pub file: &'a File,
    pub at: u64,
}

impl Read for ReadFrom<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(bytes, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn damaged(why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

thread_local! {
    static FRAME_ENCODER: RefCell<Option<FrameEncoder>> = const { RefCell::new(None) };
}

/// What a thread keeps for the next frame.
struct FrameEncoder {
    compressor: Compressor<'static>,
    frame: Vec<u8>,
}

impl FrameEncoder {
    fn new() -> std::io::Result<FrameEncoder> {
        let mut compressor = Compressor::new(LEVEL)?;
        // Without it a flipped byte may unpack to another text.
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        Ok(FrameEncoder { compressor, frame: Vec::new() })
    }
}

/// How much memory this thread keeps for the next frame.
#[cfg(test)]
pub(super) fn buffer_capacity() -> usize {
    FRAME_ENCODER
        .with_borrow(|packing| packing.as_ref().map_or(0, |packing| packing.frame.capacity()))
}
