//! Blocks: the texts of events that were recorded together, packed together.
//!
//! Packed by itself, a text of a kilobyte or two takes several times as long for each of its bytes
//! and stays larger, dictionary or not. A block has texts of one session only, so that it goes when
//! the session is deleted, and few enough of them for one to be read at little more cost than if it
//! stood alone. What one damaged byte costs is bounded by the same.

use event::Draft;
use sha2::{Digest, Sha256};

use crate::limit::INLINE_DATA_MAX;
use crate::store::{Packed, Payload, pack};

/// Bytes of text after which a block is full. Half as many take a tenth longer to pack; with more,
/// reading a single event would begin to show.
const BLOCK_BYTES: usize = 64 * 1024;

/// Less than this is not worth a row of its own: a few small events pack as well by themselves,
/// with the dictionary.
const BLOCK_BYTES_MIN: usize = 4 * 1024;

/// Packs events in blocks, and those that belong in none by themselves.
pub(super) fn pack_all(drafts: &[&Draft], pack_alone: impl Fn(&Draft) -> Packed) -> Vec<Packed> {
    let mut all = Vec::with_capacity(drafts.len());
    let mut texts = Vec::new();
    for group in drafts.chunk_by(|draft, next| draft.session_id == next.session_id) {
        let mut rest = group;
        while let Some(first) = rest.first() {
            if !belongs_in_block(first) {
                all.push(pack_alone(first));
                rest = &rest[1..];
                continue;
            }
            texts.clear();
            let mut ends = Vec::new();
            for draft in rest.iter().take_while(|draft| belongs_in_block(draft)) {
                draft.encode_rest_into(&mut texts);
                ends.push(texts.len());
                if texts.len() >= BLOCK_BYTES {
                    break;
                }
            }
            let (together, others) = rest.split_at(ends.len());
            if together.len() > 1 && texts.len() >= BLOCK_BYTES_MIN {
                all.extend(pack_block(first, &texts, &ends));
            } else {
                all.extend(together.iter().map(|draft| pack_alone(draft)));
            }
            rest = others;
        }
    }
    all
}

/// What is large has a payload of its own, once for all who carry it, and nobody's neighbour is
/// read at the cost of a long text.
fn belongs_in_block(draft: &Draft) -> bool {
    let text = draft.text.as_ref().map_or(0, String::len);
    draft.data.get().len() + text <= INLINE_DATA_MAX
}

fn pack_block(first: &Draft, texts: &[u8], ends: &[usize]) -> impl Iterator<Item = Packed> {
    let bytes = pack::pack(std::str::from_utf8(texts).expect("JSON is text"));
    // Named by its first event, so that what is written together stands together in the index of
    // names, and by what is in it: another reading may begin with the same event and go on
    // differently.
    let mut digest: [u8; 32] = Sha256::digest(&bytes).into();
    digest[..16].copy_from_slice(first.id.bytes());
    let payload = Payload { digest, bytes: bytes.into() };
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(ends).map(move |(start, end)| Packed {
        rest: pack::pack_place(start..*end),
        payload: Some(payload.clone()),
    })
}
