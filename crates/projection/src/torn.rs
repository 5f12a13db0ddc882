//! Records whose end was missing when they were read, and which may still be told whole.

use event::{Draft, EventId, Kind};
use serde::{Deserialize, Serialize};

use crate::recent::Recent;

/// What the parser calls a record whose end is missing.
const TORN: &str = "torn";

/// Torn records that are remembered. The account of an older one is taken for a fuller account of
/// something that was understood, and not told again.
const TORN_MAX: usize = 8;

/// The torn records of a session, so that their whole accounts are told as what they are: news.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Torn(Recent<EventId, TORN_MAX>);

/// How an event relates to those before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum News {
    /// Nobody told it before.
    First,
    /// It is what a record says that was torn, or that nobody had understood.
    Mended(EventId),
    /// A fuller account of something that was told.
    Again,
}

impl Torn {
    /// Looks at every event in order.
    pub(crate) fn look_at(&mut self, event: &Draft) -> News {
        if is_torn(event) {
            self.0.push(event.id);
        }
        let Some(amended) = event.amends() else { return News::First };
        if event.understood().is_some() {
            return News::Mended(amended);
        }
        self.0.take(|torn| *torn == amended).map_or(News::Again, News::Mended)
    }
}

pub(crate) fn is_torn(event: &Draft) -> bool {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Head {
        error: Option<String>,
    }
    event.kind == Kind::Unknown
        && event.data.read::<Head>().is_ok_and(|head| head.error.as_deref() == Some(TORN))
}
