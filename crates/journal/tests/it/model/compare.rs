//! Every reading of a journal beside what the model says.

use event::{Event, SessionId};
use journal::{Ancestry, Journal, Recorded, Selection, SessionFilter};

use super::expected::{Answer, Model, Session, answer};
use crate::given::recorded_from;

/// All of it. A difference is a panic that names the session.
pub(super) fn everything(journal: &Journal, model: &Model) {
    assert_eq!(journal.tail().unwrap(), model.tail());
    assert_eq!(recorded_from(journal, 1), model.log());
    for (id, session) in model.sessions() {
        events(journal, id, session);
        counters(journal, id, session);
        tree(journal, model, id, session);
        for event in &session.events {
            let expected = model.sightings(id, event.seq);
            assert_eq!(journal.sightings(id, event.seq).unwrap(), expected, "{id} {}", event.seq);
        }
    }
    listing(journal, model);
    for (id, at) in &model.gone {
        assert_eq!(journal.deleted_at(id).unwrap(), Some(*at));
        assert!(!journal.exists(id).unwrap());
        assert_eq!(answer(journal.events(id, Selection::all())).err().unwrap(), "SessionNotFound");
    }
    for (source, position) in &model.sources {
        assert_eq!(journal.source_position(source).unwrap().as_ref(), Some(position));
    }
    for (name, position) in &model.consumers {
        assert_eq!(journal.consumer(name).unwrap(), *position);
    }
}

fn events(journal: &Journal, id: &SessionId, session: &Session) {
    let select = |selection: Selection| journal.events(id, selection.strict()).unwrap();
    let forwards: Vec<Recorded> = select(Selection::all()).recorded().map(Result::unwrap).collect();
    let shown: Vec<Event> = forwards.iter().map(|recorded| recorded.event.clone()).collect();
    assert_eq!(shown, session.events, "{id}");
    let positions: Vec<u64> = forwards.iter().map(|recorded| recorded.position).collect();
    assert_eq!(positions, session.positions, "{id}");
    let mut backwards: Vec<Event> =
        select(Selection::all().newest_first()).map(Result::unwrap).collect();
    backwards.reverse();
    assert_eq!(backwards, session.events, "{id}");
    for event in &session.events {
        assert_eq!(journal.seq_of(id, event.id).unwrap(), Some(event.seq), "{id}");
    }
    if let Some(last) = session.events.last() {
        assert_eq!(journal.event(id, last.id).unwrap(), *last);
    }
}

fn counters(journal: &Journal, id: &SessionId, session: &Session) {
    let stat = journal.stat(id).unwrap();
    assert!(journal.exists(id).unwrap());
    assert_eq!(stat.id, *id);
    assert_eq!(stat.ancestry, session.ancestry);
    assert_eq!(stat.tail_seq, session.events.len() as u64, "{id}");
    assert_eq!(stat.inherited_seq, session.inherited as u64, "{id}");
    assert_eq!((stat.events, stat.cost), (session.recorded, session.cost), "{id}");
    assert_eq!(stat.bytes > 0, session.recorded > 0, "{id}");
    let times = (session.ancestry.created_at, session.last_at);
    assert_eq!((stat.started_at, stat.last_event_at), times, "{id}");
}

fn tree(journal: &Journal, model: &Model, id: &SessionId, session: &Session) {
    let of = |id: &SessionId| {
        model.sessions().find(|(known, _)| *known == id).map(|(_, session)| &session.ancestry)
    };
    let mut children: Vec<Ancestry> = model
        .sessions()
        .map(|(_, session)| session.ancestry.clone())
        .filter(|ancestry| ancestry.parent_session_id.as_ref() == Some(id))
        .collect();
    children.sort_by_key(|child| (child.created_at, child.session_id.clone()));
    assert_eq!(journal.children(id).unwrap(), children, "{id}");
    let parent = match &session.ancestry.parent_session_id {
        None => Ok(None),
        Some(parent) => of(parent).cloned().map(Some).ok_or("DanglingParent".to_owned()),
    };
    assert_eq!(answer(journal.parent(id)), parent, "{id}");
    assert_eq!(answer(journal.lineage(id)), lineage(&of, id), "{id}");
}

/// The way up from a session, root first, generations counted.
fn lineage<'a>(
    of: &impl Fn(&SessionId) -> Option<&'a Ancestry>,
    id: &SessionId,
) -> Answer<Vec<Ancestry>> {
    let mut way: Vec<Ancestry> = Vec::new();
    let mut next = Some(id.clone());
    while let Some(id) = next {
        if way.iter().any(|step| step.session_id == id) {
            return Err("Cycle".to_owned());
        }
        let step = of(&id).ok_or("DanglingParent")?;
        next = step.parent_session_id.clone();
        way.insert(0, step.clone());
    }
    for (depth, step) in way.iter_mut().enumerate() {
        step.depth = depth as u32;
    }
    Ok(way)
}

fn listing(journal: &Journal, model: &Model) {
    let mut found = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = journal.sessions(&SessionFilter::default(), cursor.as_deref(), 2).unwrap();
        found.extend(page.items);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert!(found.is_sorted_by(|a, b| a.last_event_at >= b.last_event_at));
    let mut ids: Vec<&SessionId> = found.iter().map(|info| &info.id).collect();
    ids.sort();
    assert_eq!(ids, model.sessions().map(|(id, _)| id).collect::<Vec<_>>());
}
