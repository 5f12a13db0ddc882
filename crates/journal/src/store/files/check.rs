//! Verification: every line, every number, every payload, and the catalogue against the files.
//!
//! A check only reads. A repair rebuilds the catalogue, and moves what is in the way to the
//! quarantine.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::PathBuf;

use super::commit::length_key;
use super::event_line::{self, EventLine};
use super::ledger_state::LedgerState;
use super::line_bodies::LineBodies;
use super::line_scanner::{LineScanner, LineSpan, ScannedLine, line_number};
use super::reindex::Reindexer;
use super::session_file::SessionHeader;
use super::{FilesStore, damage};
use crate::name::{digest_from_hex, hex};
use crate::store::catalogue::{CatalogueTx, ReadConnection};
use crate::store::{CheckFinding, Direction, SeqRange, SessionRow, StoreReader, for_each_session};
use crate::{Damage, StorageError};

type ReadTx<'a> = CatalogueTx<'a, ReadConnection<'a>, LineBodies<'a>>;

/// The findings of a check.
#[derive(Default)]
struct CheckReport {
    findings: Vec<CheckFinding>,
    /// Findings that a rebuild of the catalogue repairs.
    outdated: Vec<CheckFinding>,
    /// Payload files that no event uses.
    orphans: Vec<PathBuf>,
    /// Payloads that were verified already.
    payloads: HashSet<[u8; 32]>,
}

const REBUILT: &str = "the catalogue is rebuilt from the files";
const KEPT: &str = "its span is kept, and shown as unknown";
const RESTORE: &str = "restore it from a backup";
const SET_ASIDE: &str = "moved to the quarantine";
const MOVE_AWAY: &str = "move it elsewhere";

impl FilesStore {
    /// Verifies everything, and repairs what it can if `repair` is set.
    pub(super) fn verify(&self, repair: bool) -> Result<Vec<CheckFinding>, StorageError> {
        // First without the lock, over every line, which takes long. Then `compare` under the lock,
        // over the lengths only.
        let mut examined = self.examine()?;
        self.compare(&mut examined)?;
        if repair && !examined.outdated.is_empty() {
            self.repair().map_err(|error| StorageError::new("repair", &self.dir, error))?;
            examined.outdated.iter_mut().for_each(|finding| finding.repaired = true);
            // The rebuild may have taken events in whose payloads the old catalogue did not know.
            examined.orphans = self.unused_payloads()?;
        }
        for path in &examined.orphans {
            if repair {
                self.quarantine.move_here(path)?;
            }
            let damage = damage(path, None, "no event has this payload");
            examined.findings.push(CheckFinding { damage, remedy: SET_ASIDE, repaired: repair });
        }
        // Reported until the user deletes it, so that no damaged piece is forgotten.
        for path in self.quarantine.list()? {
            let damage = damage(&path, None, "it was set aside");
            let remedy = "look at it, then delete it";
            examined.findings.push(CheckFinding { damage, remedy, repaired: true });
        }
        examined.findings.append(&mut examined.outdated);
        examined.findings.append(&mut self.lock_findings());
        Ok(examined.findings)
    }

    fn repair(&self) -> Result<(), crate::AppendError> {
        let tx = self.write()?;
        // A rebuild needs an empty log: its records name offsets and numbers of the old rows.
        self.checkpoint_with(&tx)?;
        let rebuilt = Reindexer::new(self, &tx)?.rebuild().and_then(|()| tx.finish());
        rebuilt.map_err(|error| StorageError::new("repair", &self.dir, error).into())
    }

    fn examine(&self) -> Result<CheckReport, StorageError> {
        let tx = self.catalogue.read(LineBodies::new(self))?;
        let mut examined = CheckReport::default();
        for fault in tx.faults()? {
            examined.outdated(damage(self.catalogue.file(), None, fault));
        }
        for wrong in tx.wrong_tails()? {
            examined.outdated(wrong);
        }
        for_each_session(&tx, |row| {
            self.examine_session(&tx, &row, &mut examined)?;
            self.examine_rows(&tx, &row, &mut examined)
        })?;
        for damage in LedgerState::read(&self.ledger, 0)?.damages {
            examined.find(damage, "left where it is");
        }
        examined.orphans = self.unused_payloads()?;
        Ok(examined)
    }

    /// Lists the payload files that no event of the catalogue uses.
    fn unused_payloads(&self) -> Result<Vec<PathBuf>, StorageError> {
        let tx = self.catalogue.read(LineBodies::new(self))?;
        let mut unused = Vec::new();
        for digest in self.payloads.list()? {
            // A name that is no digest belongs to no event either.
            let known = digest_from_hex(&digest).map(|digest| tx.has_payload(&digest));
            if !known.transpose()?.unwrap_or(false) {
                unused.push(self.payloads.path(&digest));
            }
        }
        Ok(unused)
    }

    /// Reports rows of a session that are damaged although their lines are whole.
    fn examine_rows(
        &self,
        tx: &ReadTx<'_>,
        row: &SessionRow,
        examined: &mut CheckReport,
    ) -> Result<(), StorageError> {
        let order = Direction::OldestFirst;
        let mut rest = SeqRange { from: row.base_seq + 1, to: row.tail_seq, order };
        loop {
            let page = tx.events(row.number, rest)?;
            let Some(last) = page.last() else { return Ok(()) };
            rest.from = last.seq + 1;
            let broken = page.into_iter().filter_map(|stored| stored.event.err());
            // Damage in the file of a session is `examine_session`'s to report.
            for broken in broken.filter(|broken| broken.damage.file == self.catalogue.file()) {
                examined.outdated(broken.damage);
            }
        }
    }

    /// Compares the files with the catalogue, inside a write transaction: no commit may come
    /// between the two looks.
    fn compare(&self, examined: &mut CheckReport) -> Result<(), StorageError> {
        let tx = self.write().map_err(|error| StorageError::new("check", &self.dir, error))?;
        let differences = self.differences(&tx)?;
        for id in &differences.grown {
            let why = "it has lines that the catalogue does not know";
            examined.outdated(damage(&self.sessions.path(id), None, why));
        }
        for path in &differences.shrunk {
            examined.outdated(damage(path, None, "it has fewer lines than the catalogue knows"));
        }
        examined.findings.extend(differences.findings);
        Ok(())
    }

    /// Verifies the part of a session's file that the catalogue covers.
    fn examine_session(
        &self,
        tx: &ReadTx<'_>,
        row: &SessionRow,
        examined: &mut CheckReport,
    ) -> Result<(), StorageError> {
        // The transaction sees one state, but the file goes on growing. Lines behind this length
        // belong to later commits.
        let length = tx.meta_value(&length_key(row.number))?.unwrap_or(0);
        let Some(file) = self.sessions.get(&row.id)? else { return Ok(()) };
        // By offset, to go over the file once and look each line up.
        let mut rows: HashMap<u64, (u64, LineSpan)> = HashMap::new();
        tx.for_each_body(row.number, |seq, _, body| {
            rows.extend(LineSpan::decode(body).map(|span| (span.offset, (seq, span))));
        })?;
        // Damaged lines have rows too, so every `seq` has one.
        let own = row.tail_seq.saturating_sub(row.base_seq);
        if (rows.len() as u64) < own {
            let missing = own - rows.len() as u64;
            let damage = self.damage_of(row, None, format!("{missing} events have no row"));
            examined.find(damage, RESTORE);
        }
        let failed = self.sessions.failed("read", &row.id);
        let mut scan = LineScanner::new(&file, 0);
        let mut is_first = true;
        while let Some(scanned) = scan.next().map_err(&failed)? {
            if scanned.span.offset >= length {
                break;
            }
            if std::mem::take(&mut is_first) && SessionHeader::read(scanned.bytes).is_some() {
                continue;
            }
            let known = rows.remove(&scanned.span.offset);
            self.examine_line(tx, row, &file, &scanned, known, examined)?;
        }
        // Each line removed its row, so these are left over.
        for (offset, (seq, _)) in rows {
            let why = "the catalogue knows a line that is not there".to_owned();
            let damage = Damage { seq: Some(seq), ..self.damage_of(row, Some(offset), why) };
            examined.outdated(damage);
        }
        Ok(())
    }

    fn examine_line(
        &self,
        tx: &ReadTx<'_>,
        row: &SessionRow,
        file: &File,
        scanned: &ScannedLine<'_>,
        known: Option<(u64, LineSpan)>,
        examined: &mut CheckReport,
    ) -> Result<(), StorageError> {
        let at = |why: String| Damage {
            line: line_number(file, scanned.span.offset).ok(),
            seq: known.map(|(seq, _)| seq),
            ..self.damage_of(row, Some(scanned.span.offset), why)
        };
        match (event_line::read(scanned.bytes), known) {
            (Ok(line), Some((seq, span))) => {
                if span != scanned.span || line.seq.is_some_and(|own| own != seq) {
                    examined.outdated(at("the catalogue knows another line here".to_owned()));
                }
                self.examine_payload(&line, at, examined);
            }
            // A whole line without a row: a copy of one that has a row, or a line that the
            // catalogue missed.
            (Ok(line), None) => match tx.locate(&line.draft.id)? {
                Some(_) => examined.find(at("its event is there already".to_owned()), MOVE_AWAY),
                None => examined.outdated(at("the catalogue does not know this line".to_owned())),
            },
            (Err(error), Some(_)) => examined.find(at(error.to_string()), KEPT),
            (Err(error), None) => {
                examined.find(at(format!("it has no span: {error}")), MOVE_AWAY);
            }
        }
        Ok(())
    }

    fn examine_payload(
        &self,
        line: &EventLine,
        at: impl Fn(String) -> Damage,
        examined: &mut CheckReport,
    ) {
        // Many events share a payload, and reading one unpacks and hashes it.
        let Some(digest) = line.payload.filter(|digest| examined.payloads.insert(*digest)) else {
            return;
        };
        if let Err(error) = self.payloads.read(&digest) {
            let path = self.payloads.path(&hex(&digest));
            let damage = Damage { file: path, line: None, byte: None, ..at(error.to_string()) };
            examined.find(damage, RESTORE);
        }
    }

    fn damage_of(&self, row: &SessionRow, byte: Option<u64>, why: String) -> Damage {
        let path = self.sessions.path(&row.id);
        Damage { session_id: Some(row.id.clone()), ..damage(&path, byte, why) }
    }
}

impl CheckReport {
    fn find(&mut self, damage: Damage, remedy: &'static str) {
        self.findings.push(CheckFinding { damage, remedy, repaired: false });
    }

    fn outdated(&mut self, damage: Damage) {
        self.outdated.push(CheckFinding { damage, remedy: REBUILT, repaired: false });
    }
}
