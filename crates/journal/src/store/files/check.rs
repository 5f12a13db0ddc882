//! Is everything as it should be: every line, every number, every payload, and the catalogue
//! against the files.
//!
//! A check reads. Only a repair writes, and what it takes out of the way it keeps.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::PathBuf;

use super::commit::length_note;
use super::index::Index;
use super::line::{self, Line};
use super::lines::Lines;
use super::remembered::Remembered;
use super::scan::{Place, Scan, Scanned, line_number};
use super::session_file::Header;
use super::{FilesStore, damage};
use crate::name::{digest_from_hex, hex};
use crate::store::catalogue::{Reading, View};
use crate::store::{Direction, Finding, Reader, SeqRange, SessionCursor, SessionRow};
use crate::{Damage, StorageError};

type ReadView<'a> = View<'a, Reading<'a>, Lines<'a>>;

/// What was found so far.
#[derive(Default)]
struct Examined {
    findings: Vec<Finding>,
    /// Findings that making the catalogue anew mends.
    outdated: Vec<Finding>,
    /// Payloads that no event has.
    orphans: Vec<PathBuf>,
    /// Payloads that were looked at.
    payloads: HashSet<[u8; 32]>,
}

const PAGE: usize = 1_000;
const REBUILT: &str = "the catalogue is made anew from the files";
const KEPT: &str = "its place is kept, and shown as unknown";
const RESTORE: &str = "restore it from a backup";
const SET_ASIDE: &str = "moved to the quarantine";
const MOVE_AWAY: &str = "move it elsewhere";

impl FilesStore {
    /// Looks at everything, and repairs what can be if told to.
    pub(super) fn verify(&self, repair: bool) -> Result<Vec<Finding>, StorageError> {
        let mut examined = self.examine()?;
        self.compare(&mut examined)?;
        if repair && !examined.outdated.is_empty() {
            self.repair().map_err(|error| StorageError::new("repair", &self.dir, error))?;
            examined.outdated.iter_mut().for_each(|finding| finding.repaired = true);
        }
        for path in &examined.orphans {
            if repair {
                self.quarantine.move_here(path)?;
            }
            let damage = damage(path, None, "no event has this payload");
            examined.findings.push(Finding { damage, remedy: SET_ASIDE, repaired: repair });
        }
        for path in self.quarantine.list()? {
            let damage = damage(&path, None, "it was set aside");
            let remedy = "look at it, then delete it";
            examined.findings.push(Finding { damage, remedy, repaired: true });
        }
        examined.findings.append(&mut examined.outdated);
        examined.findings.append(&mut self.found_so_far());
        Ok(examined.findings)
    }

    fn repair(&self) -> Result<(), crate::AppendError> {
        let view = self.write()?;
        self.settle_with(&view)?;
        let rebuilt = Index::new(self, &view)?.rebuild().and_then(|()| view.finish());
        rebuilt.map_err(|error| StorageError::new("repair", &self.dir, error).into())
    }

    fn examine(&self) -> Result<Examined, StorageError> {
        let view = self.catalogue.read(Lines::of(self))?;
        let mut examined = Examined::default();
        for fault in view.faults()? {
            examined.outdated(damage(self.catalogue.file(), None, fault));
        }
        for wrong in view.wrong_tails()? {
            examined.outdated(wrong);
        }
        let mut after = None;
        loop {
            let page = view.sessions(after, PAGE)?;
            let Some(last) = page.last() else { break };
            after = Some(SessionCursor { last_at: last.last_at, number: last.number });
            for row in page {
                self.examine_session(&view, &row, &mut examined)?;
                self.examine_rows(&view, &row, &mut examined)?;
            }
        }
        for damage in Remembered::of(&self.ledger, 0)?.damages {
            examined.find(damage, "left where it is");
        }
        for digest in self.payloads.list()? {
            let known = digest_from_hex(&digest).map(|digest| view.has_payload(&digest));
            if !known.transpose()?.unwrap_or(false) {
                examined.orphans.push(self.payloads.path(&digest));
            }
        }
        Ok(examined)
    }

    /// Looks for rows of a session that cannot be believed although their lines can.
    fn examine_rows(
        &self,
        view: &ReadView<'_>,
        row: &SessionRow,
        examined: &mut Examined,
    ) -> Result<(), StorageError> {
        let order = Direction::OldestFirst;
        let mut rest = SeqRange { from: row.base_seq + 1, to: row.tail_seq, order };
        loop {
            let page = view.events(row.number, rest)?;
            let Some(last) = page.last() else { return Ok(()) };
            rest.from = last.seq + 1;
            let broken = page.into_iter().filter_map(|stored| stored.event.err());
            for broken in broken.filter(|broken| broken.damage.file == self.catalogue.file()) {
                examined.outdated(broken.damage);
            }
        }
    }

    /// Looks for files that are not as the catalogue says, while nobody commits.
    fn compare(&self, examined: &mut Examined) -> Result<(), StorageError> {
        let view = self.write().map_err(|error| StorageError::new("check", &self.dir, error))?;
        let differences = self.differences(&view)?;
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

    /// Looks at the part of a session's file that the catalogue knows.
    fn examine_session(
        &self,
        view: &ReadView<'_>,
        row: &SessionRow,
        examined: &mut Examined,
    ) -> Result<(), StorageError> {
        let length = view.noted(&length_note(row.number))?.unwrap_or(0);
        let Some(file) = self.sessions.get(&row.id)? else { return Ok(()) };
        let mut rows: HashMap<u64, (u64, Place)> = HashMap::new();
        view.each_body(row.number, |seq, _, body| {
            rows.extend(Place::decode(body).map(|place| (place.offset, (seq, place))));
        })?;
        let own = row.tail_seq.saturating_sub(row.base_seq);
        if (rows.len() as u64) < own {
            let missing = own - rows.len() as u64;
            let damage = self.damage_of(row, None, format!("{missing} events have no row"));
            examined.find(damage, RESTORE);
        }
        let failed = self.sessions.failed("read", &row.id);
        let mut scan = Scan::from(&file, 0);
        let mut is_first = true;
        while let Some(scanned) = scan.next().map_err(&failed)? {
            if scanned.place.offset >= length {
                break;
            }
            if std::mem::take(&mut is_first) && Header::read(scanned.bytes).is_some() {
                continue;
            }
            let known = rows.remove(&scanned.place.offset);
            self.examine_line(view, row, &file, &scanned, known, examined)?;
        }
        for (offset, (seq, _)) in rows {
            let why = "the catalogue knows a line that is not there".to_owned();
            let damage = Damage { seq: Some(seq), ..self.damage_of(row, Some(offset), why) };
            examined.outdated(damage);
        }
        Ok(())
    }

    fn examine_line(
        &self,
        view: &ReadView<'_>,
        row: &SessionRow,
        file: &File,
        scanned: &Scanned<'_>,
        known: Option<(u64, Place)>,
        examined: &mut Examined,
    ) -> Result<(), StorageError> {
        let at = |why: String| Damage {
            line: line_number(file, scanned.place.offset).ok(),
            seq: known.map(|(seq, _)| seq),
            ..self.damage_of(row, Some(scanned.place.offset), why)
        };
        match (line::read(scanned.bytes), known) {
            (Ok(line), Some((seq, place))) => {
                if place != scanned.place || line.seq.is_some_and(|own| own != seq) {
                    examined.outdated(at("the catalogue knows another line here".to_owned()));
                }
                self.examine_payload(&line, at, examined);
            }
            (Ok(line), None) => match view.locate(&line.draft.id)? {
                Some(_) => examined.find(at("its event is there already".to_owned()), MOVE_AWAY),
                None => examined.outdated(at("the catalogue does not know this line".to_owned())),
            },
            (Err(error), Some(_)) => examined.find(at(error.to_string()), KEPT),
            (Err(error), None) => {
                examined.find(at(format!("it has no place: {error}")), MOVE_AWAY);
            }
        }
        Ok(())
    }

    fn examine_payload(&self, line: &Line, at: impl Fn(String) -> Damage, examined: &mut Examined) {
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

impl Examined {
    fn find(&mut self, damage: Damage, remedy: &'static str) {
        self.findings.push(Finding { damage, remedy, repaired: false });
    }

    fn outdated(&mut self, damage: Damage) {
        self.outdated.push(Finding { damage, remedy: REBUILT, repaired: false });
    }
}
