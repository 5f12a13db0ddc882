-- Format 2: second tellings of a recorded event are kept, and every session knows its generation.

CREATE TABLE sighting (
    number          INTEGER PRIMARY KEY,
    event           INTEGER NOT NULL REFERENCES event (pk) ON DELETE CASCADE,
    source          TEXT    NOT NULL,
    observed_at     INTEGER NOT NULL,
    observed_ns     INTEGER NOT NULL,
    source_position TEXT,
    differs         INTEGER NOT NULL
) STRICT;

CREATE INDEX sighting_event ON sighting (event);

ALTER TABLE session ADD COLUMN parent_depth INTEGER;

-- UNION stops at a chain that runs in a circle; the limit stops at one that is longer than any
-- the journal accepts.
WITH RECURSIVE generation (number, ancestor, depth) AS (
    SELECT number, parent_session_id, 1 FROM session WHERE parent_session_id IS NOT NULL
    UNION
    SELECT generation.number, parent.parent_session_id, generation.depth + 1
    FROM generation JOIN session AS parent ON parent.id = generation.ancestor
    WHERE parent.parent_session_id IS NOT NULL AND generation.depth < 1024
)
UPDATE session SET parent_depth = deepest.depth
FROM (SELECT number, max(depth) AS depth FROM generation GROUP BY number) AS deepest
WHERE deepest.number = session.number;
