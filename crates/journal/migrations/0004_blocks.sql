-- Format 4: the texts of events that were appended together may stand in one block.

-- A block is a payload, and the body of its events says where in it their texts are. What is there
-- stays as it is, and is read as before; a program that knows format 3 only would take what is new
-- for damage.
