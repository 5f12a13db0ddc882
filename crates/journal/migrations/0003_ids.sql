-- Format 3: the ids of a session can be read without its events.

-- The first append to a long session looks through all of its ids. They stand among the bodies,
-- so that without this it would read the whole session.
CREATE INDEX event_ids ON event (pk, id);
