//! Events, ready for both sides: drafts for the journal, rows for the floor.

use std::collections::HashMap;

use event::{Draft, SessionId};
use journal::{Batch, Journal};
use testkit::corpus::Description;

use crate::Outcome;
use crate::floor::RawRow;
use crate::meter::{Cost, time_work};

/// Some events and the same as rows.
pub(crate) struct Load {
    pub(crate) drafts: Vec<Draft>,
    pub(crate) rows: Vec<RawRow>,
    pub(crate) description: Description,
}

impl Load {
    pub(crate) fn new(drafts: impl Iterator<Item = Draft>) -> Load {
        let mut load =
            Load { drafts: Vec::new(), rows: Vec::new(), description: Description::default() };
        let mut sessions: HashMap<SessionId, (u32, u64)> = HashMap::new();
        for draft in drafts {
            let next = sessions.len() as u32 + 1;
            let (session, seq) = sessions.entry(draft.session_id.clone()).or_insert((next, 0));
            *seq += 1;
            let json = draft.encode();
            load.description.add_draft(&draft, json.len());
            // Encoded here, outside of the measurement: the floor is SQLite without any work of
            // ours.
            load.rows.push(RawRow { session: *session, seq: *seq, id: *draft.id.bytes(), json });
            load.drafts.push(draft);
        }
        load
    }
}

/// The drafts as batches of a size.
pub(crate) fn split_batches(drafts: &[Draft], size: usize) -> Vec<Batch> {
    drafts.chunks(size).map(|chunk| Batch::observed().with_all(chunk.iter().cloned())).collect()
}

/// Appends the drafts in batches of a size, one caller, each durable before the next.
pub(crate) fn append_batches(journal: &Journal, drafts: &[Draft], size: usize) -> Outcome<Cost> {
    let batches = split_batches(drafts, size);
    let (cost, ()) = time_work(|| {
        for batch in batches {
            journal.append(batch)?;
        }
        Ok(())
    })?;
    Ok(cost)
}

/// Events in a batch when a journal is only being filled.
const FILLING: usize = 1_000;

/// Appends the next `count` events of a corpus and indexes them, without counting what it costs.
pub(crate) fn fill_journal(
    journal: &Journal,
    corpus: &mut impl Iterator<Item = Draft>,
    count: usize,
    mut each: impl FnMut(&Draft) -> Outcome<()>,
) -> Outcome<()> {
    let mut left = count;
    let mut waiting = None;
    while left > 0 {
        let drafts: Vec<Draft> = corpus.take(left.min(FILLING)).collect();
        left -= drafts.len();
        for draft in &drafts {
            each(draft)?;
        }
        // The next batch is generated while this one is written.
        let ticket = journal.submit(Batch::observed().with_all(drafts))?;
        if let Some(earlier) = waiting.replace(ticket) {
            journal::PendingAppend::wait(earlier)?;
        }
    }
    if let Some(last) = waiting {
        last.wait()?;
    }
    index_all(journal)
}

/// Waits until search has everything, so that nothing measured next runs beside it.
pub(crate) fn index_all(journal: &Journal) -> Outcome<()> {
    while journal.index()?.is_some() {}
    Ok(())
}
