//! What a model said of an epoch, as facts and as a name for it.
//!
//! Whatever it said is cut and cleaned like everything else that is shown.

use event::payload::ModelWords;
use event::{Event, Time};
use serde::{Deserialize, Serialize};

use super::{DigestFact, FACT_CHARS_MAX, FactOrigin, Topic};
use crate::{excerpt, title};

/// Characters of a word an epoch is filed under.
const TAG_CHARS_MAX: usize = 40;

/// What a model calls an epoch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Naming {
    pub epoch: u64,
    /// The last event it knew.
    pub to_seq: u64,
    pub at: Time,
    /// Which model it was.
    pub model: String,
    pub title: Option<String>,
    pub tags: Vec<String>,
    /// `low`, `normal` or `high`.
    pub priority: Option<String>,
}

impl Naming {
    /// What the words say of the whole epoch, if they say anything of it.
    pub(crate) fn from_words(words: &ModelWords, epoch: u64, event: &Event) -> Option<Naming> {
        let line = |text: &String| excerpt::beginning(&excerpt::one_line(text), TAG_CHARS_MAX);
        let naming = Naming {
            epoch,
            to_seq: words.to_seq,
            at: event.created_at,
            model: line(&words.model),
            title: words.title.as_deref().and_then(title::clean_title),
            tags: words.tags.iter().map(line).filter(|tag| !tag.is_empty()).collect(),
            priority: words.priority.as_ref().map(line),
        };
        (naming.title.is_some() || !naming.tags.is_empty()).then_some(naming)
    }
}

/// The facts in the words of a model.
pub(crate) fn facts_of(words: &ModelWords, epoch: u64, event: &Event) -> Vec<DigestFact> {
    let facts = words.facts.iter().map(|fact| DigestFact {
        topic: Topic::ALL
            .into_iter()
            .find(|topic| topic.as_str() == fact.topic)
            .unwrap_or(Topic::Fact),
        text: excerpt::beginning(&excerpt::one_line(&fact.text), FACT_CHARS_MAX),
        epoch,
        from_seq: words.from_seq,
        to_seq: words.to_seq,
        at: event.created_at,
        origin: FactOrigin::Model,
        replaces: fact.replaces.clone(),
    });
    facts.filter(|fact| !fact.text.is_empty()).collect()
}
