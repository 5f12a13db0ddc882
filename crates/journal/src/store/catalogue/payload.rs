//! Reads payloads: through the index over their names, or by a scan where the index is damaged.
//!
//! Most texts of events are in payloads, so one damaged page of the index would otherwise cost all
//! texts it leads to.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::PoisonError;

use rusqlite::{Connection, OptionalExtension, Row, ToSql};

use super::row::payload_sum;
use super::{BodyDecoder, CatalogueTx, fault};
use crate::store::Direction;

/// Row numbers of payloads by name, from a scan of the table.
///
/// Kept while the catalogue is open, because every page of events behind a damaged index asks
/// again. Another process may repair the database meanwhile, and then all numbers change.
#[derive(Debug, Default)]
pub(super) struct PayloadNumbers {
    by_name: HashMap<[u8; 32], i64>,
    /// The highest row number that was scanned.
    last: i64,
    /// The highest row with a readable name, to check whether the numbers still hold.
    witness: Option<(i64, [u8; 32])>,
}

/// The result of a lookup, or why there is none.
type Lookup<T> = Result<T, String>;

impl<C: Deref<Target = Connection>, B: BodyDecoder> CatalogueTx<'_, C, B> {
    /// Passes the bytes of a payload to `read`, if they are there and whole.
    pub(super) fn payload<T>(
        &self,
        name: &[u8; 32],
        read: impl Fn(&[u8]) -> T,
    ) -> rusqlite::Result<Lookup<T>> {
        const BY_NAME: &str = "SELECT checksum, bytes FROM payload WHERE digest = ?1";
        const BY_NUMBER: &str = "SELECT checksum, bytes FROM payload WHERE number = ?1";
        // The index first, which answers nearly always. Only then the scan, which reads every row.
        let why = match self.whole_payload(BY_NAME, name, name, &read)? {
            Ok(found) => return Ok(Ok(found)),
            Err(why) => why,
        };
        // If the index led to the right row, the row itself is damaged and a scan finds no other.
        if !self.leads_nowhere(name)? {
            return Ok(Err(why));
        }
        match self.number_of_payload(name)? {
            Some(number) => {
                let found = self.whole_payload(BY_NUMBER, number, name, &read)?;
                Ok(found.map_err(|_| why))
            }
            None => Ok(Err(why)),
        }
    }

    /// Whether the index lacks a name, or leads to a row with another name.
    fn leads_nowhere(&self, name: &[u8; 32]) -> rusqlite::Result<bool> {
        const NUMBER: &str = "SELECT number FROM payload WHERE digest = ?1";
        let number = self.db.prepare_cached(NUMBER)?.query_row([name], |row| row.get::<_, i64>(0));
        let number = match number.optional() {
            Ok(Some(number)) => number,
            Err(error) if !fault::is_damage(&error) => return Err(error),
            Ok(None) | Err(_) => return Ok(true),
        };
        match self.name_of_payload(number) {
            Ok(told) => Ok(told != Some(*name)),
            // The row itself cannot be read, and a scan would meet the same page.
            Err(error) if fault::is_damage(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn whole_payload<T>(
        &self,
        sql: &str,
        key: impl ToSql,
        name: &[u8; 32],
        read: impl Fn(&[u8]) -> T,
    ) -> rusqlite::Result<Lookup<T>> {
        let mut statement = self.db.prepare_cached(sql)?;
        let whole = statement.query_row([key], |row| Ok(whole_bytes(row, name).map(&read)));
        match whole.optional() {
            Ok(Some(Some(found))) => Ok(Ok(found)),
            Ok(Some(None)) => Ok(Err("the checksum of its payload does not fit".to_owned())),
            Ok(None) => Ok(Err("its payload is missing".to_owned())),
            Err(error) if fault::is_damage(&error) => {
                Ok(Err(format!("its payload cannot be read: {error}")))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the row number of a payload. Scans the rows that were not scanned before.
    fn number_of_payload(&self, name: &[u8; 32]) -> rusqlite::Result<Option<i64>> {
        let numbers = &self.catalogue.payloads;
        let mut numbers = numbers.lock().unwrap_or_else(PoisonError::into_inner);
        // A repair in another process writes payloads in a new order, and an old number would then
        // lead to the bytes of another event. The checksum would refuse them, but the right row
        // would not be found.
        if !self.still_hold(&numbers)? {
            *numbers = PayloadNumbers::default();
        }
        if !numbers.by_name.contains_key(name) {
            // Fixed before both scans: the first one moves `last`.
            let behind = numbers.last;
            // From the beginning up to the damage, then from the end down to it.
            for order in [Direction::OldestFirst, Direction::NewestFirst] {
                if self.number_payloads(behind, order, &mut numbers)? {
                    break;
                }
            }
        }
        Ok(numbers.by_name.get(name).copied())
    }

    /// Whether the scanned numbers are those of this database. A witness row that is damaged since
    /// proves nothing, so the numbers stay.
    fn still_hold(&self, numbers: &PayloadNumbers) -> rusqlite::Result<bool> {
        let Some((number, name)) = numbers.witness else { return Ok(true) };
        match self.name_of_payload(number) {
            Ok(told) => Ok(told == Some(name)),
            Err(error) if fault::is_damage(&error) => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn name_of_payload(&self, number: i64) -> rusqlite::Result<Option<[u8; 32]>> {
        const NAME: &str = "SELECT digest FROM payload WHERE number = ?1";
        self.db.prepare_cached(NAME)?.query_row([number], |row| row.get(0)).optional()
    }

    /// Scans up to the end or the first damage; returns whether it reached the end.
    fn number_payloads(
        &self,
        behind: i64,
        order: Direction,
        numbers: &mut PayloadNumbers,
    ) -> rusqlite::Result<bool> {
        const UP: &str =
            "SELECT number, digest FROM payload NOT INDEXED WHERE number > ?1 ORDER BY number";
        const DOWN: &str =
            "SELECT number, digest FROM payload NOT INDEXED WHERE number > ?1 ORDER BY number DESC";
        let (sql, onward) = match order {
            Direction::OldestFirst => (UP, Ordering::Greater),
            Direction::NewestFirst => (DOWN, Ordering::Less),
        };
        let mut statement = self.db.prepare(sql)?;
        let mut rows = statement.query([behind])?;
        let mut last: Option<i64> = None;
        loop {
            let row = match rows.next() {
                Ok(Some(row)) => row,
                Ok(None) => return Ok(true),
                Err(error) if fault::is_damage(&error) => return Ok(false),
                Err(error) => return Err(error),
            };
            let number: i64 = row.get(0)?;
            if last.is_some_and(|last| number.cmp(&last) != onward) {
                // A row out of order is on a damaged page.
                return Ok(false);
            }
            last = Some(number);
            numbers.last = numbers.last.max(number);
            if let Ok(name) = row.get(1) {
                // The first row of a name wins: names are unique, so a second one stands on a
                // damaged page.
                numbers.by_name.entry(name).or_insert(number);
                numbers.witness = numbers.witness.max(Some((number, name)));
            }
        }
    }
}

/// Returns the bytes of a row if the checksum over name and bytes fits. In a damaged row the
/// columns may have other types.
fn whole_bytes<'a>(row: &'a Row<'_>, name: &[u8; 32]) -> Option<&'a [u8]> {
    let bytes = row.get_ref(1).ok()?.as_blob().ok()?;
    (row.get(0) == Ok(payload_sum(name, bytes))).then_some(bytes)
}
