-- Format 1: events, the sessions they belong to, and how far sources and consumers have come.

-- One event. Its key is the session's number in the upper half and `seq` in the lower one: a
-- session is one range of the table, and a pair of both is unique by construction.
CREATE TABLE event (
    pk          INTEGER PRIMARY KEY,
    position    INTEGER NOT NULL,
    id          BLOB    NOT NULL,
    kind        INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,   -- microseconds since 1970
    created_ns  INTEGER NOT NULL,   -- nanoseconds left over
    observed_at INTEGER NOT NULL,
    observed_ns INTEGER NOT NULL,
    payload     BLOB REFERENCES payload (digest),
    checksum    INTEGER NOT NULL,   -- CRC-32 of everything above and of the body
    body        BLOB    NOT NULL    -- last, so that the rest is read without its overflow pages
) STRICT;

CREATE UNIQUE INDEX event_position ON event (position);
CREATE UNIQUE INDEX event_id ON event (id);
CREATE INDEX event_payload ON event (payload) WHERE payload IS NOT NULL;

-- Large `data`, once for all events that carry it.
CREATE TABLE payload (
    number   INTEGER PRIMARY KEY,
    digest   BLOB    NOT NULL UNIQUE,   -- SHA-256 of the text
    checksum INTEGER NOT NULL,          -- CRC-32 of the digest and the bytes
    bytes    BLOB    NOT NULL
) STRICT;

CREATE TABLE session (
    number              INTEGER PRIMARY KEY,
    id                  TEXT    NOT NULL UNIQUE,
    parent_session_id   TEXT,
    parent_mode         TEXT,
    parent_seq          INTEGER,
    parent_event_id     BLOB,
    parent_label        TEXT,
    parent_reason       TEXT,
    base_seq            INTEGER NOT NULL,
    tail_seq            INTEGER NOT NULL,
    last_position       INTEGER NOT NULL,
    events              INTEGER NOT NULL,
    bytes               INTEGER NOT NULL,
    cost                INTEGER NOT NULL,   -- nano-dollars
    created_at          INTEGER NOT NULL,
    created_ns          INTEGER NOT NULL,
    last_at             INTEGER NOT NULL,
    last_ns             INTEGER NOT NULL,
    last_slot           INTEGER NOT NULL,   -- `last_at` in steps of 2^26 microseconds, a minute
    provider            TEXT    NOT NULL,
    provider_session_id TEXT,
    agent               TEXT,
    model               TEXT,
    cwd                 TEXT,
    project             TEXT,
    title               TEXT
) STRICT;

-- By the minute, because an index over the instant would change with every event. Sessions of
-- one minute are sorted when they are listed.
CREATE INDEX session_last ON session (last_slot);
CREATE INDEX session_provider ON session (provider_session_id)
    WHERE provider_session_id IS NOT NULL;
CREATE INDEX session_parent ON session (parent_session_id)
    WHERE parent_session_id IS NOT NULL;

-- A deleted session: reading its source again does not bring it back.
CREATE TABLE tombstone (
    session_id TEXT    PRIMARY KEY,
    deleted_at INTEGER NOT NULL,
    deleted_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE source (
    source_id TEXT PRIMARY KEY,
    position  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE consumer (
    name     TEXT    PRIMARY KEY,
    position INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- `position_deleted`, `number_deleted`: the newest position and the highest session number given
-- to what was deleted since. With the newest ones stored they tell what was given, so that nothing
-- is ever given twice. Stores note numbers of their own here too.
CREATE TABLE meta (
    name  TEXT    PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
