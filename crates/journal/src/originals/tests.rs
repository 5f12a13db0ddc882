//! What is kept of a source reads back unchanged, also behind damage.

use super::frame::{ENCODER_BYTES_MAX, HEADER_LEN, buffer_capacity};
use super::*;

fn append(originals: &Originals, source: &str, generation: u32, offset: u64, bytes: &[u8]) {
    let part = OriginalPart { offset, bytes, ..OriginalPart::default() };
    originals.append(source, generation, part).unwrap();
}

/// What zstd makes of a file, headers and tags skipped.
fn read(originals: &Originals, source: &str, generation: u32) -> Option<Vec<u8>> {
    let path = originals.dir.as_ref().unwrap().join(file_name(source, generation));
    zstd::decode_all(File::open(path).ok()?).ok()
}

fn kept(originals: &Originals) -> String {
    String::from_utf8(read(originals, "a", 0).unwrap()).unwrap()
}

fn offsets(originals: &Originals) -> Vec<u64> {
    originals.parts("a", 0).unwrap().map(|part| part.offset).collect()
}

#[test]
fn source_reads_back_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let originals = Originals::in_folder(dir.path().join("originals"));
    append(&originals, "a", 0, 0, b"one\n");
    append(&originals, "a", 0, 4, b"two\n");
    assert_eq!(kept(&originals), "one\ntwo\n");
    let again = Originals::in_folder(dir.path().join("originals"));
    append(&again, "a", 0, 8, b"three\n");
    assert_eq!(kept(&again), "one\ntwo\nthree\n");
}

#[test]
fn long_record_frees_its_buffer() {
    let dir = tempfile::tempdir().unwrap();
    let originals = Originals::in_folder(dir.path().join("originals"));
    let long: Vec<u8> = (0..8 * 1024 * 1024_u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
    append(&originals, "a", 0, 0, &long);
    let room = buffer_capacity();
    assert!(room <= ENCODER_BYTES_MAX, "{room}");
    append(&originals, "a", 0, long.len() as u64, b"end\n");
    let again = read(&originals, "a", 0).unwrap();
    assert!(again.starts_with(&long) && again.ends_with(b"end\n"));
}

#[test]
fn range_reads_only_its_frames() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("originals");
    let originals = Originals::in_folder(path.clone());
    // The first part was never kept.
    append(&originals, "a", 0, 4, b"two\n");
    append(&originals, "a", 0, 8, b"three\n");
    let stretch = |range| originals.read_range("a", 0, range).unwrap();
    for (range, kept) in [
        (4..8, Some(&b"two\n"[..])),
        (5..10, Some(b"wo\nth")),
        (8..14, Some(b"three\n")),
        (9..9, Some(b"")),
        (0..8, None),
        (12..15, None),
        (20..21, None),
    ] {
        assert_eq!(stretch(range.clone()).as_deref(), kept, "{range:?}");
    }
    assert_eq!(originals.read_range("a", 1, 4..8).unwrap(), None);
    // Damage in an earlier frame does not matter.
    let file = File::options().write(true).open(path.join("a.0.zst")).unwrap();
    file.write_all_at(&[0xff; 4], HEADER_LEN).unwrap();
    assert_eq!(stretch(8..14).as_deref(), Some(&b"three\n"[..]));
    assert!(!matches!(originals.read_range("a", 0, 4..8), Ok(Some(_))));
}

#[test]
fn repeated_bytes_are_kept_once() {
    let dir = tempfile::tempdir().unwrap();
    let originals = Originals::in_folder(dir.path().join("originals"));
    append(&originals, "a", 0, 0, b"one\n");
    append(&originals, "a", 0, 4, b"two\nthree\n");
    append(&originals, "a", 0, 8, b"THREE\n");
    assert_eq!(kept(&originals), "one\ntwo\nTHREE\n");
    append(&originals, "a", 0, 0, b"anew\n");
    assert_eq!(kept(&originals), "anew\n");
}

#[test]
fn torn_frame_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("originals");
    let originals = Originals::in_folder(path.clone());
    append(&originals, "a", 0, 0, b"one\n");
    append(&originals, "a", 0, 4, b"two\n");
    let file = File::options().write(true).open(path.join("a.0.zst")).unwrap();
    file.set_len(file.metadata().unwrap().len() - 3).unwrap();
    let again = Originals::in_folder(path);
    append(&again, "a", 0, 4, b"two\n");
    assert_eq!(kept(&again), "one\ntwo\n");
}

#[test]
fn removed_source_begins_anew() {
    let dir = tempfile::tempdir().unwrap();
    let originals = Originals::in_folder(dir.path().join("originals"));
    for (source, generation) in [("a", 0), ("a", 1), ("ab", 0)] {
        append(&originals, source, generation, 0, b"one\n");
    }
    originals.remove("a").unwrap();
    assert!(read(&originals, "a", 0).is_none());
    assert!(read(&originals, "a", 1).is_none());
    assert!(read(&originals, "ab", 0).is_some());
    append(&originals, "a", 0, 4, b"two\n");
    assert_eq!(kept(&originals), "two\n");
    assert_eq!(offsets(&originals), [4]);
}

#[test]
fn source_removed_elsewhere_begins_anew() {
    let dir = tempfile::tempdir().unwrap();
    let originals = Originals::in_folder(dir.path().join("originals"));
    append(&originals, "a", 0, 0, b"one\n");
    Originals::in_folder(dir.path().join("originals")).remove("a").unwrap();
    append(&originals, "a", 0, 4, b"two\n");
    assert_eq!(kept(&originals), "two\n");
    assert_eq!(offsets(&originals), [4]);
}

#[test]
fn retention_removes_oldest_first() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("originals");
    let originals = Originals::in_folder(path.clone());
    for (number, source) in ["a", "b", "c"].into_iter().enumerate() {
        append(&originals, source, 0, 0, b"one\n");
        let file = File::options().append(true).open(path.join(format!("{source}.0.zst")));
        let at = std::time::Duration::from_secs(100 * number as u64);
        file.unwrap().set_modified(std::time::UNIX_EPOCH + at).unwrap();
    }
    let has = |source| read(&originals, source, 0).is_some();
    originals.retain(Time::from_millis(50_000), u64::MAX).unwrap();
    assert_eq!(["a", "b", "c"].map(has), [false, true, true]);
    originals.retain(Time::from_millis(0), 100).unwrap();
    assert_eq!(["a", "b", "c"].map(has), [false, false, true]);
    originals.retain(Time::from_millis(0), 0).unwrap();
    assert_eq!(["a", "b", "c"].map(has), [false, false, false]);
}

#[test]
fn file_name_stays_in_folder() {
    let name = file_name("../../etc/passwd", 7);
    assert!(!name.contains('/') && name.ends_with(".7.zst"), "{name}");
}

#[test]
fn different_sources_have_different_files() {
    let long = "x".repeat(100);
    for (one, other) in [("a-b", "ab"), ("a/b", "ab"), ("A", "a"), (&long, &long[..80])] {
        assert_ne!(file_name(one, 0), file_name(other, 0));
    }
    // The names of sources are hex digits and stay as they are.
    assert_eq!(file_name("00c0ffee00c0ffee", 1), "00c0ffee00c0ffee.1.zst");
}

#[test]
fn parts_tell_what_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let originals = Originals::in_folder(dir.path().join("originals"));
    let part = OriginalPart { offset: 4, bytes: b"two\n", label: "s1", begin: "state", note: "n" };
    originals.append("a", 0, part).unwrap();
    originals.append("a", 0, OriginalPart { offset: 8, note: "m", ..part }).unwrap();
    // Another process tells of a source that has moved.
    let again = Originals::in_folder(dir.path().join("originals"));
    let moved = OriginalPart { label: "s2", note: "", ..part };
    again.append("a", 0, OriginalPart { offset: 12, ..moved }).unwrap();
    let parts: Vec<StoredPart> = again.parts("a", 0).unwrap().collect();
    let told =
        |part: &StoredPart| format!("{} {} {} {}", part.offset, part.label, part.begin, part.note);
    assert_eq!(parts.iter().map(told).collect::<Vec<_>>(), ["4 s1 state n", "8   m", "12 s2  "]);
    assert!(parts.iter().all(|part| part.bytes == b"two\n"));
    assert_eq!(again.sources().unwrap(), BTreeSet::from([("a".to_owned(), 0)]));
}

#[test]
fn bytes_that_are_kept_already_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("originals");
    let originals = Originals::in_folder(path.clone());
    append(&originals, "a", 0, 0, b"one\n");
    append(&originals, "a", 0, 4, b"two\nthree\n");
    let before = std::fs::read(path.join("a.0.zst")).unwrap();
    append(&originals, "a", 0, 0, b"one\ntwo\n");
    append(&originals, "a", 0, 8, b"three\n");
    assert_eq!(std::fs::read(path.join("a.0.zst")).unwrap(), before);
    append(&originals, "a", 0, 14, b"four\n");
    assert_eq!(kept(&originals), "one\ntwo\nthree\nfour\n");
}

#[test]
fn replaced_bytes_stay_until_the_new_ones_stand() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("originals");
    let originals = Originals::in_folder(path.clone());
    append(&originals, "a", 0, 0, b"one\ntwo\n");
    // The file before the replacement is a file of its own: a crash leaves one of the two.
    let before = File::open(path.join("a.0.zst")).unwrap();
    append(&originals, "a", 0, 4, b"TWO\n");
    assert_eq!(kept(&originals), "one\nTWO\n");
    assert_eq!(zstd::decode_all(&before).unwrap(), b"one\ntwo\n");
    let left = std::fs::read_dir(&path).unwrap().count();
    assert_eq!(left, 1, "no temporary file stays");
}

#[test]
fn every_flipped_byte_costs_one_part_at_most() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("originals");
    let texts = ["one\n", "two\n", "three\n", "four\n"];
    let originals = Originals::in_folder(path.clone());
    let mut offset = 0;
    for text in texts {
        let part =
            OriginalPart { offset, bytes: text.as_bytes(), label: "s", begin: "b", note: "n" };
        originals.append("a", 0, part).unwrap();
        offset += text.len() as u64;
    }
    let whole: Vec<StoredPart> = originals.parts("a", 0).unwrap().collect();
    let bytes = std::fs::read(path.join("a.0.zst")).unwrap();
    for place in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[place] ^= 0xff;
        std::fs::write(path.join("a.0.zst"), &flipped).unwrap();
        let left: Vec<StoredPart> = originals.parts("a", 0).unwrap().collect();
        assert!(left.len() >= texts.len() - 1, "byte {place}: {left:?}");
        assert!(left.iter().all(|part| whole.contains(part)), "byte {place}: {left:?}");
    }
}
