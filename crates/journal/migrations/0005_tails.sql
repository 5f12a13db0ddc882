-- Format 5: what tells the facts of a session apart stands together, for many events in one row.

-- The first append to a long session asks whether it has certain facts. The ids answer that too,
-- but one by one. What stands here follows from them: a row that is missing or damaged costs the
-- time to ask them.
CREATE TABLE tails (
    stretch  INTEGER PRIMARY KEY,   -- the key of its events without the lowest nine bits
    checksum INTEGER NOT NULL,      -- CRC-32 of the stretch and the bytes
    bytes    BLOB    NOT NULL       -- the last four bytes of each id, zero where there is no event
) STRICT;
