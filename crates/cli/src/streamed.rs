//! Lists in JSON that are written while they are read, so that none is held whole.

use std::cell::{Ref, RefCell};
use std::fmt::Display;

use serde::ser::{Error, SerializeSeq};
use serde::{Serialize, Serializer};

use crate::error::CliError;

/// A list that is serialized once, item after item.
pub(crate) struct Streamed<I, E> {
    items: RefCell<I>,
    /// Why the items ended early: a serializer takes only its own errors.
    failure: RefCell<Option<E>>,
}

impl<I, E: Into<CliError>> Streamed<I, E> {
    pub(crate) fn new(items: I) -> Streamed<I, E> {
        Streamed { items: RefCell::new(items), failure: RefCell::new(None) }
    }

    /// Returns where the items came from, for what is known behind the last one.
    pub(crate) fn source(&self) -> Ref<'_, I> {
        self.items.borrow()
    }

    /// Returns the result of printing. The reason why the items ended goes before that of the
    /// writer.
    pub(crate) fn finish(self, printed: Result<(), CliError>) -> Result<(), CliError> {
        self.failure.into_inner().map_or(Ok(()), |error| Err(error.into())).and(printed)
    }
}

impl<I, T, E> Serialize for Streamed<I, E>
where
    I: Iterator<Item = Result<T, E>>,
    T: Serialize,
    E: Display,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for item in &mut *self.items.borrow_mut() {
            match item {
                Ok(item) => list.serialize_element(&item)?,
                Err(error) => {
                    let told = S::Error::custom(&error);
                    *self.failure.borrow_mut() = Some(error);
                    return Err(told);
                }
            }
        }
        list.end()
    }
}
