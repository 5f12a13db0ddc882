//! Damage around payloads, which hold the texts of most events: what only leads to them costs
//! nothing, and a page of theirs costs the blocks on it.

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;

use super::*;

/// Small, so that few payloads have pages above the ones that lead to them.
const PAGE_BYTES: u32 = 512;

/// What the repair says of an event that is gone, and of one that is not.
const KEPT: &str = "its place is kept, and shown as unknown; what is left of it is set aside";
const FOUND_AGAIN: &str = "found again in the bytes of the file";

/// A journal whose events are in blocks, two in each, with a large one here and there, and what is
/// known of it while it is whole.
struct Sound {
    bytes: Vec<u8>,
    lines: Vec<String>,
    /// The payload of every event.
    names: Vec<[u8; 32]>,
    pages: Vec<PageOf>,
}

/// A page of a table or an index.
struct PageOf {
    of: String,
    number: usize,
    /// The way to it from the root, which is `/`.
    path: String,
    kind: String,
    cells: usize,
}

impl Sound {
    fn new(page_bytes: u32, blocks: usize) -> Sound {
        let mut bench = with_pages_of(page_bytes);
        let mut noise = Noise(1);
        for block in 0..blocks {
            let length = if block % 40 == 7 { INLINE_DATA_MAX } else { 2_100 };
            let texts = [noise.text(length), noise.text(length)];
            let changes = bench.changes_together("one", &texts.each_ref().map(String::as_str));
            bench.store.begin().unwrap().apply(&changes).unwrap();
        }
        let bytes = bench.bytes();
        let db = Connection::open(bench.file()).unwrap();
        let names = all(&db, "SELECT payload FROM event ORDER BY pk", |row| row.get(0));
        let sql = "SELECT name, pageno, path, pagetype, ncell FROM dbstat ORDER BY pageno";
        let pages = all(&db, sql, |row| {
            Ok(PageOf {
                of: row.get(0)?,
                number: row.get::<_, u32>(1)? as usize,
                path: row.get(2)?,
                kind: row.get(3)?,
                cells: row.get::<_, u32>(4)? as usize,
            })
        });
        Sound { bytes, lines: bench.render(), names, pages }
    }

    fn pages(&self, of: &str, kind: &str) -> Vec<&PageOf> {
        self.pages.iter().filter(|page| page.of == of && page.kind == kind).collect()
    }

    /// The page that everything of a table or an index hangs on.
    fn root(&self, of: &str) -> &PageOf {
        self.pages.iter().find(|page| page.of == of && page.path == "/").unwrap()
    }

    /// The same journal with the beginning of some pages overwritten.
    fn with_damaged(&self, pages: &[&PageOf], length: usize) -> Bench {
        let page_bytes = usize::from(u16::from_be_bytes([self.bytes[16], self.bytes[17]]));
        let mut bytes = self.bytes.clone();
        for page in pages {
            let start = (page.number - 1) * page_bytes;
            bytes[start..start + length.min(page_bytes)].fill(0xA5);
        }
        Bench::with_bytes(&bytes).unwrap()
    }

    /// The payloads of events that are not what they were.
    fn lost(&self, bench: &Bench) -> BTreeSet<[u8; 32]> {
        let lines = bench.render();
        assert_eq!(lines.len(), self.lines.len());
        let places = lines.iter().zip(&self.lines).zip(&self.names);
        places.filter(|((line, right), _)| line != right).map(|(_, name)| *name).collect()
    }
}

fn with_pages_of(bytes: u32) -> Bench {
    let dir = private_dir();
    let db = Connection::open(dir.path().join(FILE_NAME)).unwrap();
    db.pragma_update(None, "page_size", bytes).unwrap();
    db.pragma_update(None, "journal_mode", "WAL").unwrap();
    drop(db);
    let store = SqliteStore::open_or_create(dir.path(), Durability::Relaxed).unwrap();
    Bench { dir, store, sessions: Vec::new(), tail: 0 }
}

fn all<T>(
    db: &Connection,
    sql: &str,
    read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Vec<T> {
    let mut sql = db.prepare(sql).unwrap();
    sql.query_map([], read).unwrap().collect::<Result<_, _>>().unwrap()
}

const INDEX: &str = "sqlite_autoindex_payload_1";

#[test]
fn interior_pages_cost_no_payload() {
    let sound = Sound::new(PAGE_BYTES, 150);
    let (table, index) = (sound.root("payload"), sound.root(INDEX));
    let inner = sound.pages("payload", "internal");
    assert!(inner.len() > 2, "there are pages between the root and the leaves");
    let leaf_of_index = sound.pages(INDEX, "leaf")[3];
    let mut cases: Vec<Vec<&PageOf>> = inner.iter().map(|page| vec![*page]).collect();
    cases.extend([vec![index], vec![leaf_of_index], vec![table, index], inner]);
    for pages in cases {
        let bench = sound.with_damaged(&pages, usize::MAX);
        let told = bench.check(true);
        let numbers: Vec<usize> = pages.iter().map(|page| page.number).collect();
        assert!(!told.is_empty() && !told.iter().any(|line| line.contains(KEPT)), "{numbers:?}");
        assert_eq!(sound.lost(&bench).len(), 0, "{numbers:?}");
        assert_eq!(bench.check(false), [""; 0], "{numbers:?}");
    }
}

#[test]
fn damaged_index_costs_no_payload() {
    let sound = Sound::new(PAGE_BYTES, 60);
    let leaves = sound.pages(INDEX, "leaf");
    for page in [sound.root(INDEX), leaves[0], leaves[leaves.len() - 1]] {
        let bench = sound.with_damaged(&[page], usize::MAX);
        assert_eq!(bench.render(), sound.lines);
        assert!(!bench.check(false).is_empty());
    }
}

#[test]
fn payload_rows_are_scanned_once() {
    let sound = Sound::new(PAGE_BYTES, 60);
    let bench = sound.with_damaged(&[sound.root(INDEX)], usize::MAX);
    let first = bench.store.reader().unwrap();
    assert_eq!(render(&first.events(1, ALL).unwrap()), sound.lines);
    // A scan of all payloads stops at the first of these pages, and from the end at the last.
    let leaves = sound.pages("payload", "leaf");
    let damaged = [leaves[1], leaves[leaves.len() - 2]];
    let file = std::fs::OpenOptions::new().write(true).open(bench.file()).unwrap();
    for page in damaged {
        let start = (page.number - 1) as u64 * u64::from(PAGE_BYTES);
        file.write_all_at(&[0xA5; PAGE_BYTES as usize], start).unwrap();
    }
    // The first reader is still there, so this one has nothing in its memory.
    let second = bench.store.reader().unwrap();
    let lines = render(&second.events(1, ALL).unwrap());
    let broken = lines.iter().zip(&sound.lines).filter(|(line, right)| line != right).count();
    let on_them: usize = damaged.iter().map(|page| 2 * page.cells).sum();
    assert_eq!(broken, on_them);
}

#[test]
fn foreign_repair_resets_payload_rows() {
    let sound = Sound::new(PAGE_BYTES, 60);
    let bench = sound.with_damaged(&[sound.root(INDEX)], usize::MAX);
    assert_eq!(bench.render(), sound.lines);
    let other = SqliteStore::open_or_create(bench.dir.path(), Durability::Relaxed).unwrap();
    other.check(true, None).unwrap();
    assert_eq!(other.check(false, None).unwrap(), []);
    other.checkpoint().unwrap();
    // Packed otherwise now, under other names and numbers; and the index is damaged again.
    let db = Connection::open(bench.file()).unwrap();
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    let root: u32 = db.query_row(root, [INDEX], |row| row.get(0)).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(bench.file()).unwrap();
    let start = u64::from((root - 1) * PAGE_BYTES);
    file.write_all_at(&[0xA5; PAGE_BYTES as usize], start).unwrap();
    // The first reader has the connection that remembers the page.
    let _first = bench.store.reader().unwrap();
    let second = bench.store.reader().unwrap();
    assert_eq!(render(&second.events(1, ALL).unwrap()), sound.lines);
}

#[test]
fn misleading_index_is_noticed() {
    let sound = Sound::new(8_192, 10);
    let start = (sound.root(INDEX).number - 1) * 8_192;
    let name = sound.names[sound.names.len() / 2];
    let page = &sound.bytes[start..start + 8_192];
    let entry = page.windows(name.len()).position(|bytes| *bytes == name).unwrap();
    let mut bytes = sound.bytes.clone();
    // Behind the name stands the number of the row.
    bytes[start + entry + name.len()] ^= 3;
    let bench = Bench::with_bytes(&bytes).unwrap();
    assert_eq!(bench.render(), sound.lines);
    assert!(!bench.check(true).is_empty());
    assert_eq!(bench.render(), sound.lines);
    assert_eq!(bench.check(false), [""; 0]);
}

#[test]
fn lost_page_costs_its_payloads() {
    let sound = Sound::new(PAGE_BYTES, 60);
    let leaves = sound.pages("payload", "leaf");
    let overflow = sound.pages("payload", "overflow");
    let pages = leaves.iter().step_by(7).chain(overflow.iter().step_by(97));
    for page in pages {
        // What is on a page of the chain behind a row is part of that one row.
        let on_it = if page.kind == "leaf" { page.cells } else { 1 };
        let bench = sound.with_damaged(&[page], usize::MAX);
        let told = bench.check(true);
        let lost = sound.lost(&bench);
        assert_eq!(lost.len(), on_it, "{} {}", page.kind, page.number);
        let gone = sound.names.iter().filter(|name| lost.contains(*name)).count();
        let count = |what: &str| told.iter().filter(|line| line.contains(what)).count();
        assert_eq!(count(&format!("{KEPT}; repaired")), gone);
        assert_eq!(bench.check(false), [""; 0]);
    }
}

#[test]
fn payloads_on_unordered_page_are_carved() {
    let sound = Sound::new(PAGE_BYTES, 60);
    let page = sound.pages("payload", "leaf")[5];
    // The head of a page says what is where on it.
    let bench = sound.with_damaged(&[page], 8);
    let told = bench.check(true);
    assert_eq!(sound.lost(&bench).len(), 0);
    let found = told.iter().filter(|line| line.ends_with(&format!("{FOUND_AGAIN}; repaired")));
    assert_eq!(found.count(), 2 * page.cells);
    assert_eq!(bench.check(false), [""; 0]);
}

#[test]
fn flipped_byte_costs_one_block() {
    let sound = Sound::new(8_192, 10);
    let (mut refused, mut told, mut cost) = (0, 0, 0);
    // A prime, so that every part of a page is met, and the head of every page besides.
    let heads = (0..sound.bytes.len()).step_by(8_192).flat_map(|page| [page, page + 4, page + 8]);
    for place in (0..sound.bytes.len()).step_by(1_301).chain(heads) {
        let mut flipped = sound.bytes.clone();
        flipped[place] ^= 0x41;
        let Ok(bench) = Bench::with_bytes(&flipped) else {
            refused += 1;
            continue;
        };
        for (line, right) in bench.render().iter().zip(&sound.lines) {
            assert!(line == right || line.contains("broken"), "byte {place}: {line}");
        }
        told += usize::from(!bench.check(true).is_empty());
        let lost = sound.lost(&bench).len();
        assert!(lost <= 1, "byte {place}: {lost} blocks are lost");
        cost += lost;
        assert_eq!(bench.check(false), [""; 0], "byte {place}");
    }
    assert!(refused < told && cost <= told && cost > 10, "{refused}, {told}, {cost}");
}
