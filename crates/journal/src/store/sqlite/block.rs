//! Blocks: the texts of events that were committed together, packed together.
//!
//! Packed by itself, a text of one or two kilobytes takes several times as long per byte and stays
//! larger, with or without a dictionary. A block has texts of one session only, so that deleting the
//! session removes it. It is small enough for a single event to be read at little extra cost, which
//! also bounds what one damaged byte costs.

use event::Draft;
use sha2::{Digest, Sha256};

use crate::limit::INLINE_DATA_MAX;
use crate::store::{PackedEvent, StoredPayload, pack};

/// Bytes of text after which a block is full. With half as many, packing takes a tenth longer; with
/// more, the cost of reading a single event would begin to show.
const BLOCK_BYTES: usize = 64 * 1024;

/// Fewer bytes are not worth a row of their own: a few small events pack as well by themselves, with
/// the dictionary.
const BLOCK_BYTES_MIN: usize = 4 * 1024;

/// Packs events in blocks, and events that belong in none by themselves.
pub(super) fn pack_all(
    drafts: &[&Draft],
    pack_alone: impl Fn(&Draft) -> PackedEvent,
) -> Vec<PackedEvent> {
    let mut all = Vec::with_capacity(drafts.len());
    // One buffer for all blocks of the commit.
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
            // A block ends when it is full, and before the first event that belongs in none. So the
            // order of events stays, and `all` lines up with `drafts`.
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

/// A large event stays out: its `data` is a payload of its own, and its neighbours would be read at
/// the cost of a long text.
fn belongs_in_block(draft: &Draft) -> bool {
    let text = draft.text.as_ref().map_or(0, String::len);
    draft.data.get().len() + text <= INLINE_DATA_MAX
}

fn pack_block(first: &Draft, texts: &[u8], ends: &[usize]) -> impl Iterator<Item = PackedEvent> {
    let bytes = pack::pack(std::str::from_utf8(texts).expect("JSON is text"));
    // The name begins with the id of the first event, so that blocks of one time stand together in
    // the index over names, and ends with a hash of the bytes: another commit may pack a block that
    // begins with the same event and goes on differently.
    let mut digest: [u8; 32] = Sha256::digest(&bytes).into();
    digest[..16].copy_from_slice(first.id.bytes());
    let payload = StoredPayload { digest, bytes: bytes.into() };
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(ends).map(move |(start, end)| PackedEvent {
        rest: pack::pack_block_range(start..*end),
        payload: Some(payload.clone()),
    })
}
