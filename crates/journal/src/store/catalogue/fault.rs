//! Translates SQLite's errors into ours.

use std::path::Path;

use rusqlite::{Error, ErrorCode, ffi};

use crate::store::CommitError;
use crate::{Damage, OpenError, StorageError};

/// An error of the database during `action`.
pub(super) fn storage(action: &'static str, file: &Path) -> impl Fn(Error) -> StorageError {
    move |error| StorageError::new(action, file, error)
}

/// An error of opening: damaged, or not accessible.
pub(super) fn open(store: &'static str, file: &Path) -> impl Fn(Error) -> OpenError {
    move |error| {
        if is_damage(&error) {
            return corrupt(store, file, error.to_string());
        }
        StorageError::new("open", file, error).into()
    }
}

pub(super) fn corrupt(store: &'static str, file: &Path, why: String) -> OpenError {
    OpenError::Corrupt(Box::new(damage(store, file, why)))
}

/// Damage of the file as a whole.
pub(super) fn damage(store: &'static str, file: &Path, why: String) -> Damage {
    let file = file.to_owned();
    Damage { store, file, line: None, byte: None, session_id: None, seq: None, why }
}

/// A statement failed before the commit: nothing is written.
pub(super) fn statement(file: &Path, error: Error) -> CommitError {
    let Error::SqliteFailure(cause, message) = &error else {
        return StorageError::new("write", file, error).into();
    };
    // The code says only that a constraint failed. Its name stands in the message alone: "UNIQUE
    // constraint failed: event.id".
    let names_id = message.as_deref().is_some_and(|message| message.ends_with(" event.id"));
    match cause.code {
        ErrorCode::ConstraintViolation if names_id => CommitError::IdTaken,
        ErrorCode::DiskFull => CommitError::OutOfSpace,
        _ => StorageError::new("write", file, error).into(),
    }
}

/// The commit itself failed. Only some errors say that nothing was written: after a failed sync
/// the pages may or may not reach the disk.
pub(super) fn commit(file: &Path, error: Error) -> CommitError {
    match code(&error) {
        Some(ErrorCode::DiskFull) => CommitError::OutOfSpace,
        // SQLite refuses these before it writes a frame.
        Some(ErrorCode::DatabaseBusy | ErrorCode::ReadOnly | ErrorCode::ConstraintViolation) => {
            StorageError::new("write", file, error).into()
        }
        // The caller opens the journal again, and the WAL then tells what is there.
        _ => CommitError::NotDurable(error.to_string()),
    }
}

/// Whether the file is damaged: SQLite says so, or a column has a type or value that we never
/// write.
pub(super) fn is_damage(error: &Error) -> bool {
    // Tables are `STRICT`, so no statement of ours can have stored a value of another type. A short
    // read, below, means that the file was cut.
    let is_no_value = matches!(
        error,
        Error::InvalidColumnType(..)
            | Error::Utf8Error(..)
            | Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
    );
    is_no_value
        || matches!(code(error), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
        || matches!(error, Error::SqliteFailure(cause, _)
            if cause.extended_code == ffi::SQLITE_IOERR_SHORT_READ)
}

pub(super) fn is_busy(error: &Error) -> bool {
    matches!(code(error), Some(ErrorCode::DatabaseBusy))
}

/// Whether a row violates a constraint of its table.
pub(super) fn is_refused(error: &Error) -> bool {
    matches!(code(error), Some(ErrorCode::ConstraintViolation))
}

fn code(error: &Error) -> Option<ErrorCode> {
    match error {
        Error::SqliteFailure(cause, _) => Some(cause.code),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(extended_code: i32, message: &str) -> Error {
        Error::SqliteFailure(ffi::Error::new(extended_code), Some(message.to_owned()))
    }

    #[track_caller]
    fn check(error: CommitError, expected: &str) {
        let kind = match error {
            CommitError::IdTaken => "id taken",
            CommitError::OutOfSpace => "out of space",
            CommitError::NotDurable(_) => "not durable",
            CommitError::Storage(_) => "storage",
        };
        assert_eq!(kind, expected);
    }

    #[test]
    fn failed_statement_writes_nothing() {
        let file = Path::new("journal.db");
        let of = |code, message| statement(file, failure(code, message));
        check(of(ffi::SQLITE_FULL, "database or disk is full"), "out of space");
        let taken = "UNIQUE constraint failed: event.id";
        check(of(ffi::SQLITE_CONSTRAINT_UNIQUE, taken), "id taken");
        let other = "UNIQUE constraint failed: event.position";
        check(of(ffi::SQLITE_CONSTRAINT_UNIQUE, other), "storage");
        check(of(ffi::SQLITE_READONLY, "attempt to write a readonly database"), "storage");
        check(of(ffi::SQLITE_IOERR_READ, "disk I/O error"), "storage");
    }

    #[test]
    fn failed_sync_is_not_durable() {
        let file = Path::new("journal.db");
        let of = |code| commit(file, failure(code, "disk I/O error"));
        check(of(ffi::SQLITE_IOERR_FSYNC), "not durable");
        check(of(ffi::SQLITE_IOERR_WRITE), "not durable");
        check(of(ffi::SQLITE_FULL), "out of space");
        check(of(ffi::SQLITE_READONLY), "storage");
    }
}
