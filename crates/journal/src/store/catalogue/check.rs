//! Verifies the database: the file, every row, every number, every reference.
//!
//! Not here: the repair (`rebuild`).

use std::collections::HashSet;
use std::ops::Deref;

use event::{Cost, Event};
use rusqlite::Connection;

use super::page::key;
use super::rebuild::RebuildReport;
use super::row::{RowKey, SEQ_MAX, read_session, session_columns};
use super::{BodyDecoder, CatalogueTx, fault};
use crate::id_cache::StoredIds;
use crate::prepare::json_size;
use crate::recovery::{LostPlace, Recovery, is_stand_in, place_events};
use crate::store::{BrokenEvent, CheckFinding, Direction, SeqRange, SessionRow, StoreReader};
use crate::{Damage, StorageError};

/// Faults of SQLite's own integrity check that are listed one by one.
const FAULTS_MAX: u32 = 100;

const REBUILT: &str = "the database is rebuilt from what can be read";
const KEPT: &str = "its place is kept, and shown as unknown; what is left of it is set aside";
const FOUND_AGAIN: &str = "found again in the bytes of the file";
const RETOLD: &str = "taken back from the originals";
const READ_AGAIN: &str = "removed; the source is read again, and nothing of it is recorded twice";
const RECOUNTED: &str = "the session is counted again";
const REMOVED: &str = "removed";
const RESTORE: &str = "restore the journal from a backup";

/// Marks the findings about events that a repair has found again: those that are not gone.
pub(crate) fn mark_recovered(findings: &mut [CheckFinding], report: &RebuildReport) {
    let place = |damage: &Damage| (damage.session_id.clone(), damage.seq);
    let gone: HashSet<_> = report.gone.iter().map(place).collect();
    let retold: HashSet<_> = report.retold.iter().map(place).collect();
    for finding in findings.iter_mut().filter(|finding| finding.remedy == KEPT) {
        let place = place(&finding.damage);
        if retold.contains(&place) {
            finding.remedy = RETOLD;
        } else if !gone.contains(&place) {
            finding.remedy = FOUND_AGAIN;
        }
    }
}

/// A session row counted again from its events.
pub(super) struct Recount {
    pub row: SessionRow,
    /// The damaged events.
    pub damages: Vec<Damage>,
    /// Events that stand in for lost ones.
    pub stand_ins: Vec<Event>,
    /// Whether positions rise with `seq`, copies in a fork left out.
    pub is_ordered: bool,
}

impl<C: Deref<Target = Connection>, B: BodyDecoder> CatalogueTx<'_, C, B> {
    /// Verifies everything and returns the damage. Events that an earlier repair gave up count as
    /// damage if `recovery` can tell them again.
    pub(crate) fn examine(
        &self,
        recovery: Option<&dyn Recovery>,
    ) -> Result<Vec<CheckFinding>, StorageError> {
        let mut findings = Vec::new();
        for why in self.faults()? {
            findings.push(finding(self.damage(why), REBUILT));
        }
        let mut known = HashSet::new();
        let mut last = 0;
        while let Some(row) = self.session_above(last)? {
            last = row.number;
            known.insert(row.number);
            self.examine_session(&row, recovery, &mut findings)?;
        }
        // Their events may be whole, but no listing leads to them.
        for session in self.sessions_of_events()?.difference(&known) {
            let why = format!("events of session number {session} have no session");
            findings.push(finding(self.damage(why), REBUILT));
        }
        for damage in self.wrong_tails()? {
            findings.push(finding(damage, REBUILT));
        }
        for source in self.unreadable_sources()? {
            let why = format!("how far the source `{source}` was read cannot be read");
            findings.push(finding(self.damage(why), READ_AGAIN));
        }
        for digest in self.unused_payloads()? {
            let why = format!("no event has the payload {}", crate::name::hex(&digest));
            findings.push(finding(self.damage(why), REMOVED));
        }
        Ok(findings)
    }

    fn examine_session(
        &self,
        row: &SessionRow,
        recovery: Option<&dyn Recovery>,
        findings: &mut Vec<CheckFinding>,
    ) -> Result<(), StorageError> {
        let at_session =
            |why: &str| Damage { session_id: Some(row.id.clone()), ..self.damage(why.to_owned()) };
        let recount = self.recount(row)?;
        if !recount.is_ordered {
            findings.push(finding(at_session("its positions do not rise"), RESTORE));
        }
        // A damaged event is missing in the count, so the counters cannot agree.
        if recount.damages.is_empty() && !is_counted_alike(row, &recount.row) {
            findings.push(finding(at_session("its counters do not fit its events"), RECOUNTED));
        }
        findings.extend(recount.damages.into_iter().map(|damage| finding(damage, KEPT)));
        if let Some(recovery) = recovery.filter(|_| !recount.stand_ins.is_empty()) {
            let places: Vec<LostPlace> =
                recount.stand_ins.iter().map(LostPlace::of_stand_in).collect();
            let recorded = self.ids(row.number, 0)?;
            let placed = place_events(&recorded, &places, recovery.events_of(&row.id));
            for event in recount.stand_ins.iter().filter(|event| placed.contains_key(&event.seq)) {
                findings.push(finding(self.given_up(event).damage, RETOLD));
            }
        }
        // A session that inherits nothing does not need its parent, which may have been deleted.
        if let Some(parent) = row.parent.as_ref().filter(|_| row.base_seq > 0) {
            match self.session(&parent.session_id)? {
                None => findings.push(finding(at_session("its parent is missing"), RESTORE)),
                Some(parent) if parent.tail_seq < row.base_seq => {
                    findings.push(finding(at_session("its parent ends before it begins"), RESTORE));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Counts a session's own events again.
    pub(super) fn recount(&self, row: &SessionRow) -> Result<Recount, StorageError> {
        let uncounted = SessionRow {
            tail_seq: row.base_seq,
            last_position: 0,
            events: 0,
            bytes: 0,
            cost: Cost::ZERO,
            ..row.clone()
        };
        let mut recount = Recount {
            row: uncounted,
            damages: Vec::new(),
            stand_ins: Vec::new(),
            is_ordered: true,
        };
        let (mut from, mut last_position) = (1, 0);
        loop {
            let range = SeqRange { from, to: SEQ_MAX, order: Direction::OldestFirst };
            let page = self.page(row.number, range)?;
            let (Some(first), Some(last)) = (page.first(), page.last()) else {
                return Ok(recount);
            };
            // The events decide: a wrong `base_seq` is one of the counters to find.
            if from == 1 {
                recount.row.base_seq = first.seq - 1;
            }
            from = last.seq + 1;
            for stored in page {
                match stored.event {
                    Ok(event) => {
                        // Copies got their positions when a parent was deleted, later than the
                        // events that follow them by `seq`.
                        if event.fork_origin().is_none() {
                            recount.is_ordered &= stored.position > last_position;
                            last_position = stored.position;
                        }
                        let size = json_size(&event.draft);
                        recount.row.apply_event(&event.draft, stored.seq, stored.position, size);
                        if is_stand_in(&event) {
                            recount.stand_ins.push(event);
                        }
                    }
                    Err(broken) => recount.damages.push(broken.damage),
                }
            }
        }
    }

    /// Returns the session with the next number; `None` also where damage ends the table.
    pub(super) fn session_above(&self, number: u32) -> Result<Option<SessionRow>, StorageError> {
        const SQL: &str = concat!(
            "SELECT ",
            session_columns!(),
            " FROM session WHERE number > ?1 ORDER BY number LIMIT 1"
        );
        let next = self
            .db
            .prepare_cached(SQL)
            .and_then(|mut sql| sql.query_map([number], read_session)?.next().transpose());
        // A damaged page may answer with what was not asked for.
        Ok(self.despite_damage(next)?.filter(|row| row.number > number))
    }

    /// Collects the session numbers in the keys of events, with one lookup per session.
    pub(super) fn sessions_of_events(&self) -> Result<HashSet<u32>, StorageError> {
        const SQL: &str = "SELECT pk FROM event WHERE pk > ?1 ORDER BY pk LIMIT 1";
        let mut sessions = HashSet::new();
        let mut last = RowKey(0);
        loop {
            let next = self
                .db
                .prepare_cached(SQL)
                .and_then(|mut sql| sql.query_map([last.0], key)?.next().transpose());
            // A damaged page may answer with what was not asked for.
            let found = self.despite_damage(next)?.filter(|found| *found > last);
            let Some(found) = found else { return Ok(sessions) };
            sessions.insert(found.session());
            // Past all events of the session, so that a session costs one descent of the b-tree.
            last = RowKey::new(found.session(), SEQ_MAX);
        }
    }

    /// Finds sessions with rows in `tails` that do not agree with their ids.
    pub(crate) fn wrong_tails(&self) -> Result<Vec<Damage>, StorageError> {
        let sessions = self.despite_damage(self.sessions_of_tails().map(Some))?;
        let mut damages = Vec::new();
        for session in sessions.unwrap_or_default() {
            if self.despite_damage(self.fits_tails(session).map(Some))? == Some(false) {
                let why = "its rows in `tails` do not fit its events".to_owned();
                let session_id = self.session_numbered(session).ok().flatten().map(|row| row.id);
                damages.push(Damage { session_id, ..self.damage(why) });
            }
        }
        Ok(damages)
    }

    /// The damage of an event that an earlier repair gave up.
    pub(super) fn given_up(&self, stand_in: &Event) -> Box<BrokenEvent> {
        let damage = Damage {
            session_id: Some(stand_in.session_id.clone()),
            seq: Some(stand_in.seq),
            ..self.damage("an earlier repair gave it up".to_owned())
        };
        Box::new(BrokenEvent { damage, bytes: Vec::new() })
    }

    /// Lists the sources with a row that is no text.
    fn unreadable_sources(&self) -> Result<Vec<String>, StorageError> {
        let unreadable =
            self.db.prepare("SELECT source_id, position FROM source").and_then(|mut sql| {
                let mut rows = sql.query([])?;
                let mut unreadable = Vec::new();
                while let Some(row) = rows.next()? {
                    let texts = [row.get_ref(0)?, row.get_ref(1)?];
                    if texts.iter().any(|text| text.as_str().is_err()) {
                        let bytes = texts[0].as_bytes().unwrap_or_default();
                        unreadable.push(String::from_utf8_lossy(bytes).into_owned());
                    }
                }
                Ok(unreadable)
            });
        Ok(self.despite_damage(unreadable.map(Some))?.unwrap_or_default())
    }

    fn unused_payloads(&self) -> Result<Vec<[u8; 32]>, StorageError> {
        const SQL: &str = "SELECT digest FROM payload WHERE NOT EXISTS \
            (SELECT 1 FROM event WHERE event.payload = payload.digest)";
        let unused = self.db.prepare_cached(SQL).and_then(|mut sql| {
            sql.query_map([], |row| row.get(0))?.collect::<Result<Vec<_>, _>>()
        });
        Ok(self.despite_damage(unused.map(Some))?.unwrap_or_default())
    }

    /// Runs SQLite's integrity check; empty if the file is whole.
    pub(crate) fn faults(&self) -> Result<Vec<String>, StorageError> {
        let faults = || -> rusqlite::Result<Vec<String>> {
            let mut sql = self.db.prepare(&format!("PRAGMA integrity_check({FAULTS_MAX})"))?;
            sql.query_map([], |row| row.get(0))?.collect()
        };
        match faults() {
            Ok(faults) if faults == ["ok"] => Ok(Vec::new()),
            Ok(faults) => Ok(faults),
            Err(error) if fault::is_damage(&error) => Ok(vec![error.to_string()]),
            Err(error) => Err(self.read_failed()(error)),
        }
    }

    /// Turns damage into `None`: the integrity check has reported it already.
    fn despite_damage<T>(
        &self,
        found: rusqlite::Result<Option<T>>,
    ) -> Result<Option<T>, StorageError> {
        match found {
            Err(error) if fault::is_damage(&error) => Ok(None),
            found => found.map_err(self.read_failed()),
        }
    }

    fn damage(&self, why: String) -> Damage {
        fault::damage(self.catalogue.store, &self.catalogue.file, why)
    }
}

fn is_counted_alike(row: &SessionRow, recounted: &SessionRow) -> bool {
    let counters = |row: &SessionRow| {
        let places = (row.base_seq, row.tail_seq, row.last_position);
        (places, row.events, row.bytes, row.cost, row.last_at)
    };
    counters(row) == counters(recounted)
}

fn finding(damage: Damage, remedy: &'static str) -> CheckFinding {
    CheckFinding { damage, remedy, repaired: false }
}
