//! The lower bound of ingesting transcripts, for any program: every byte is read, every line is
//! parsed once, and all of it is compressed once and written.
//!
//! The result cannot be searched, counted or shown. Costs above this bound pay for these features.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::de::IgnoredAny;
use zstd::bulk::Compressor;

use crate::Outcome;

/// As much as capture takes at once, packed as quickly as the journal packs.
const CHUNK_BYTES: usize = 1024 * 1024;
const LEVEL: i32 = 1;

/// Takes in every transcript in a folder and below.
pub(crate) fn parse_folder(folder: &Path, into: &Path) -> Outcome<()> {
    let mut packed = File::create(into)?;
    let mut compressor = Compressor::new(LEVEL)?;
    let mut chunk = Vec::new();
    for path in transcripts(folder)? {
        let mut file = BufReader::with_capacity(CHUNK_BYTES, File::open(path)?);
        loop {
            let start = chunk.len();
            let is_over = file.read_until(b'\n', &mut chunk)? == 0;
            // A line that was cut off is none, and is packed like the others.
            let _ = serde_json::from_slice::<IgnoredAny>(&chunk[start..]);
            if is_over || chunk.len() >= CHUNK_BYTES {
                packed.write_all(&compressor.compress(&chunk)?)?;
                chunk.clear();
            }
            if is_over {
                break;
            }
        }
    }
    // A journal is durable when it is done, so the lower bound is, too.
    packed.sync_all()?;
    Ok(())
}

fn transcripts(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(transcripts(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "jsonl") {
            found.push(path);
        }
    }
    Ok(found)
}
