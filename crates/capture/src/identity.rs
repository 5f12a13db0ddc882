//! Which fact an event is: the part of its id that is not time.

use event::{EventId, Time};

/// What distinguishes a fact from all others, so that a repeated record gives the same id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventIdentity {
    scope: IdentityScope,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum IdentityScope {
    /// The agent's name for it is unique wherever it appears: a copy in another session is the
    /// same fact.
    Everywhere,
    /// It is unique within its session.
    Session,
}

impl EventIdentity {
    /// Named by the agent, wherever it is told: copies in forks are recognised by it.
    pub fn everywhere(parts: &[&str]) -> EventIdentity {
        EventIdentity { scope: IdentityScope::Everywhere, bytes: join_parts(parts) }
    }

    /// Named by the agent, within the session.
    pub fn in_session(parts: &[&str]) -> EventIdentity {
        EventIdentity { scope: IdentityScope::Session, bytes: join_parts(parts) }
    }

    /// Another fact of the same record.
    #[must_use]
    pub fn with_part(mut self, part: &str) -> EventIdentity {
        push_part(&mut self.bytes, part);
        self
    }

    /// Whether a copy in another session would be the same fact.
    pub(crate) fn is_everywhere(&self) -> bool {
        self.scope == IdentityScope::Everywhere
    }

    pub(crate) fn event_id(&self, at: Time, provider: &str, session: &str) -> EventId {
        let scope = match self.scope {
            IdentityScope::Everywhere => "",
            IdentityScope::Session => session,
        };
        EventId::derived(at, provider, scope, &self.bytes)
    }
}

/// Lengths first, so that no two lists of parts run together to the same bytes.
fn join_parts(parts: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(parts.iter().map(|part| part.len() + 4).sum());
    for part in parts {
        push_part(&mut bytes, part);
    }
    bytes
}

fn push_part(bytes: &mut Vec<u8>, part: &str) {
    bytes.extend((part.len() as u32).to_be_bytes());
    bytes.extend(part.as_bytes());
}
