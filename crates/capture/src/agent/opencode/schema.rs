//! How OpenCode's database is asked.
//!
//! Its log of events has everything in order. Sessions from before that log, or with a pruned
//! one, are read from the tables, where rows change in place.

use crate::row_reader::{DatabaseSchema, RowQuery};

pub(super) static SCHEMAS: &[DatabaseSchema] = &[
    DatabaseSchema {
        tables: &["session", "message", "part", "event"],
        // A fork names no origin, but its title ends in `(fork #1)`: all sessions of such a project
        // may share messages. The log is read only where it has the beginning (`seq` 0), since it
        // may be pruned.
        sessions: "
            SELECT s.id AS id, s.parent_id AS parent,
                CASE WHEN s.project_id IN (
                    SELECT f.project_id FROM session f WHERE f.title LIKE '%(fork #%'
                ) THEN s.project_id END AS family, s.time_created AS since,
                CASE WHEN EXISTS (
                    SELECT 1 FROM event e
                    WHERE e.aggregate_id = s.id AND e.seq = 0 AND e.type LIKE 'session.created%'
                ) THEN 'events' ELSE 'tables' END AS way,
                s.time_updated AS active,
                coalesce((
                    SELECT e.seq || '/' || e.id FROM event e
                    WHERE e.aggregate_id = s.id ORDER BY e.seq DESC LIMIT 1), '')
                || '/' || CASE WHEN EXISTS (
                    SELECT 1 FROM event e
                    WHERE e.aggregate_id = s.id AND e.seq = 0 AND e.type LIKE 'session.created%'
                ) THEN '' ELSE s.time_updated
                || '/' || (
                    SELECT count(*) || '/' || coalesce(max(m.time_updated), 0)
                    FROM message m WHERE m.session_id = s.id)
                || '/' || (
                    SELECT count(*) || '/' || coalesce(max(p.time_updated), 0)
                    FROM part p WHERE p.session_id = s.id)
                END AS digest
            FROM session s ORDER BY s.time_created DESC, s.id DESC",
        ways: &[EVENTS, TABLES],
    },
    DatabaseSchema {
        tables: &["session", "message", "part"],
        // The same without the log.
        sessions: "
            SELECT s.id AS id, s.parent_id AS parent,
                CASE WHEN s.project_id IN (
                    SELECT f.project_id FROM session f WHERE f.title LIKE '%(fork #%'
                ) THEN s.project_id END AS family, s.time_created AS since,
                'tables' AS way,
                s.time_updated AS active,
                s.time_updated
                || '/' || (
                    SELECT count(*) || '/' || coalesce(max(m.time_updated), 0)
                    FROM message m WHERE m.session_id = s.id)
                || '/' || (
                    SELECT count(*) || '/' || coalesce(max(p.time_updated), 0)
                    FROM part p WHERE p.session_id = s.id) AS digest
            FROM session s ORDER BY s.time_created DESC, s.id DESC",
        ways: &[TABLES],
    },
];

const EVENTS: RowQuery = RowQuery {
    name: "events",
    head: None,
    rows: "
        SELECT seq AS after, id AS key, type, data FROM event
        WHERE aggregate_id = :session
            AND seq > CASE :after WHEN '' THEN -1 ELSE CAST(:after AS INTEGER) END",
    order: "after",
    // The event at the last `seq` shows whether the log is still the one that was read.
    at: Some(
        "SELECT id FROM event
         WHERE aggregate_id = :session AND seq = CAST(:after AS INTEGER)",
    ),
    json: &["data"],
    newest: None,
};

/// The session, then each message: as it began, its parts, as it ended. Ids rise with time.
const TABLES: RowQuery = RowQuery {
    name: "tables",
    head: None,
    // The place sorts a message's rows: a blank before all ids, a tilde behind them.
    rows: "
        SELECT place AS after, type || ' ' || id || '@' || updated AS key,
            type, id, message, updated, info, data, long_bytes
        FROM (
            SELECT '!' AS place, 'session' AS type, s.id AS id, NULL AS message,
                s.time_updated AS updated, NULL AS info, 0 AS long_bytes,
                json_object(
                    'directory', s.directory, 'title', s.title, 'version', s.version,
                    'revert', CASE WHEN json_valid(s.revert) THEN json(s.revert) END,
                    'time', json_object('created', s.time_created, 'updated', s.time_updated)
                ) AS data
            FROM session s WHERE s.id = :session AND s.time_updated >= :since
            UNION ALL
            SELECT m.id || ' ', 'message', m.id, NULL, m.time_updated, NULL,
                octet_length(m.data), CASE WHEN octet_length(m.data) <= :bytes THEN m.data END
            FROM message m WHERE m.session_id = :session AND m.time_updated >= :since
            UNION ALL
            SELECT m.id || ' ' || p.id, 'part', p.id, m.id, p.time_updated,
                CASE WHEN octet_length(m.data) <= :bytes - octet_length(p.data) THEN m.data END,
                octet_length(m.data) + octet_length(p.data),
                CASE WHEN octet_length(m.data) <= :bytes - octet_length(p.data) THEN p.data END
            FROM part p JOIN message m ON m.id = p.message_id
            WHERE p.session_id = :session AND p.time_updated >= :since
            UNION ALL
            SELECT m.id || ' ~', 'message.end', m.id, NULL, m.time_updated, NULL,
                octet_length(m.data), CASE WHEN octet_length(m.data) <= :bytes THEN m.data END
            FROM message m WHERE m.session_id = :session AND m.time_updated >= :since
        )
        WHERE place > :after",
    order: "after",
    at: None,
    json: &["data", "info"],
    newest: Some(
        "SELECT max(updated) FROM (
            SELECT time_updated AS updated FROM session WHERE id = :session
            UNION ALL SELECT max(time_updated) FROM message WHERE session_id = :session
            UNION ALL SELECT max(time_updated) FROM part WHERE session_id = :session)",
    ),
};
