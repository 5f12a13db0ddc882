//! The registry of all tracts and events, their fields, their senders and their handlers.
//!
//! The bus relays any message; the registry lists those that Hansard itself sends or handles.
//! `docs/reference/tracts.md` and the types of the TypeScript client are generated from it.

use serde_json::Value;

use crate::class::Class;

/// An event of a tract.
#[derive(Clone, Copy, Debug)]
pub struct EventSpec {
    pub tract: &'static str,
    /// The event's name; `*` stands for any.
    pub event: &'static str,
    /// The fields in the short notation of [`EventSpec::fields`].
    fields: &'static str,
    /// Which part sends it and which part handles it.
    pub way: &'static str,
}

/// A field of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FieldSpec {
    pub name: &'static str,
    pub field_type: FieldType,
    pub is_optional: bool,
}

impl FieldSpec {
    /// Returns whether a value has this type. A `ref` may be a number, as its sender gave it.
    fn takes(&self, value: &Value) -> bool {
        match self.field_type {
            FieldType::Text => value.is_string() || (self.name == "ref" && value.is_number()),
            FieldType::Number => value.is_number(),
            FieldType::Flag => value.is_boolean(),
            FieldType::List => value.is_array(),
            FieldType::Object => value.is_object(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldType {
    Text,
    Number,
    Flag,
    List,
    Object,
}

impl EventSpec {
    /// Parses the fields beside `tract`, `event` and `ts`. They are written as names with a mark: `#`
    /// for a number, `!` for a boolean, `[]` for a list, `{}` for an object, and `?` at the end for
    /// an optional field. The name `*` stands for any further fields of its type.
    pub fn fields(&self) -> impl Iterator<Item = FieldSpec> {
        self.fields.split_whitespace().map(|word| {
            let bare = word.trim_end_matches('?');
            let marks = [
                ("#", FieldType::Number),
                ("!", FieldType::Flag),
                ("[]", FieldType::List),
                ("{}", FieldType::Object),
            ];
            let marked = marks
                .iter()
                .find_map(|(mark, field_type)| Some((bare.strip_suffix(mark)?, *field_type)));
            let (name, field_type) = marked.unwrap_or((bare, FieldType::Text));
            FieldSpec { name, field_type, is_optional: bare.len() < word.len() }
        })
    }

    /// Returns the event's class.
    pub fn class(&self) -> Class {
        Class::for_event(self.tract, self.event)
    }
}

/// Returns whether the registry has an event.
pub fn is_known(tract: &str, event: &str) -> bool {
    ENTRIES.iter().any(|entry| entry.tract == tract && (entry.event == event || entry.event == "*"))
}

/// Returns how one of our messages differs from the registry: an unknown name, a missing field or
/// a wrong type. `None` if it conforms.
pub fn fault(message: &Value) -> Option<String> {
    let text = |name: &str| message[name].as_str().unwrap_or_default();
    let (tract, event) = (text("tract"), text("event"));
    let fits =
        |entry: &&EventSpec| entry.tract == tract && (entry.event == event || entry.event == "*");
    let Some(entry) = ENTRIES.iter().find(fits) else {
        return Some(format!("there is no {tract}.{event}"));
    };
    for field in entry.fields() {
        // `null` counts as absent: some languages leave a field out that way.
        let value = message.get(field.name).filter(|value| !value.is_null());
        let is_fine = value.map_or(field.is_optional, |value| field.takes(value));
        if !is_fine {
            return Some(format!("`{}` of {tract}.{event} is {:?}", field.name, value));
        }
    }
    let mut names = message.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    let any_other = entry.fields().find(|field| field.name == "*");
    let unknown = names.find(|name| {
        !COMMON.contains(name)
            && !entry.fields().any(|field| field.name == *name)
            && !any_other.is_some_and(|field| field.takes(&message[*name]))
    });
    unknown.map(|name| format!("{tract}.{event} has no `{name}`"))
}

/// Fields that every message of ours may have.
const COMMON: &[&str] = &["tract", "event", "ts", "rev"];

/// All events, tract by tract.
pub const ENTRIES: &[EventSpec] = &[
    entry(
        "cortex",
        "request",
        "agent_id prompt name? provider? model? session_id? chat_id? facet? day? segment? span? \
         output? output_path? refresh!? max_output_tokens#? thinking_budget#? schedule? \
         timeout_seconds#?",
        "any client → the daemon, which has no model: `finish` with `skipped`, or `error`",
    ),
    entry("cortex", "start", CORTEX_START, "a prompt that opens a turn → pages, waiters"),
    entry("cortex", "thinking", CORTEX_THINKING, "a session"),
    entry("cortex", "tool_start", CORTEX_TOOL_START, "a session"),
    entry("cortex", "tool_end", CORTEX_TOOL_END, "a session"),
    entry("cortex", "agent_updated", CORTEX_UPDATED, "a session → pages, notification rules"),
    entry(
        "cortex",
        "finish",
        CORTEX_FINISH,
        "the end of a turn, a request for which there is no model → waiters",
    ),
    entry(
        "cortex",
        "error",
        CORTEX_ERROR,
        "a turn that failed, a request that was refused → waiters",
    ),
    entry("cortex", "info", CORTEX_INFO, "everything else that is stored"),
    entry(
        "cortex",
        "status",
        "running_agents# agents[] idle!?",
        "the daemon, every 5 s while an agent runs → pages",
    ),
    entry(
        "observe",
        "observing",
        "day segment stream? remote? files[] meta{}? by?",
        "an epoch that closed, another machine → handlers",
    ),
    entry(
        "observe",
        "detected",
        "day segment stream? remote? file handler ref announced#? by?",
        "a handler's process exists",
    ),
    entry(
        "observe",
        "transcribed",
        "day segment stream remote? input output duration_ms# outcome lines# redacted# \
         vad_duration# vad_speech# noisy! by?",
        "the text is in place",
    ),
    entry(
        "observe",
        "described",
        "day segment stream remote? input output duration_ms# facts# by?",
        "the digest is in place",
    ),
    entry(
        "observe",
        "observed",
        "day segment stream? remote? duration# files[]? announced#? batch!? error!? errors[]? by?",
        "all handlers are done → dreams",
    ),
    entry(
        "observe",
        "status",
        "stream? max_age_seconds#? idle!? *{}?",
        "the daemon, every 5 s while it is busy → pages, staleness",
    ),
    entry(
        "importer",
        "started",
        "import_id input_file? file_type? day? facet? setting? options{}? stage stream?",
        "`hansard import`, `ingest` → pages",
    ),
    entry(
        "importer",
        "status",
        "import_id stage elapsed_ms# stage_elapsed_ms# items_processed#? items_total#? \
         earliest_date? latest_date? source_type? idle!?",
        "the same, every 5 s",
    ),
    entry(
        "importer",
        "completed",
        "import_id stage duration_ms# stages_run[] segments[]? stream? total_files_created#? \
         output_files[]? entries_written#? date_range[]?",
        "the same → pages",
    ),
    entry("importer", "error", "import_id stage error duration_ms# partial_outputs[]?", "the same"),
    entry("dream", "started", DREAM_STARTED, "`hansard dream` → pages"),
    entry("dream", "completed", DREAM_COMPLETED, "`hansard dream` → pages, memory"),
    entry(
        "activity",
        "live",
        "facet day segment stream id activity since description level active_entities[] again!?",
        "a dream, for what is going on → pages",
    ),
    entry(
        "activity",
        "recorded",
        "facet day segment stream id activity segments[] level_avg# description active_entities[] \
         again!? batch!?",
        "a dream, for what is over → the chain",
    ),
    entry(
        "supervisor",
        "request",
        "cmd[] ref? day? timeout_seconds#? if_busy? after_crash?",
        "any process of yours → the supervisor",
    ),
    entry("supervisor", "cancel", "ref", "any process of yours → the supervisor"),
    entry("supervisor", "restart", "service", "any process of yours → the supervisor"),
    entry("supervisor", "reload", "ref?", "`hansard reload` → the supervisor"),
    entry("supervisor", "reloaded", "ref? error?", "the supervisor"),
    entry("supervisor", "started", "service pid# ref", "the supervisor → waiters"),
    entry("supervisor", "restarting", "service pid# ref", "the supervisor"),
    entry(
        "supervisor",
        "stopped",
        "service pid# ref exit_code# reason? error?",
        "the supervisor → waiters",
    ),
    entry("supervisor", "queue", "command running? queued# queue[]", "the supervisor → pages"),
    entry("supervisor", "skipped", "service ref active_ref? cmd[] reason", "the supervisor"),
    entry(
        "supervisor",
        "status",
        "services[] crashed[] tasks[] queues{} stale_heartbeats[] schedules[] callosum_clients# \
         parts[] disk faults[]? ignored#?",
        "the supervisor, every 5 s → everybody who wants to know whether it lives",
    ),
    entry("logs", "exec", "ref name pid# cmd[] log_path", "a process has started"),
    entry("logs", "line", "ref name pid# stream line part#?", "a process prints"),
    entry(
        "logs",
        "exit",
        "ref name pid# cmd[] log_path exit_code# duration_ms# lines# bytes# unwritten#? \
         untold#?",
        "a process has ended",
    ),
    entry(
        "notification",
        "*",
        "title? message icon? action? facet? autoDismiss#? app? badge? dismissible!?",
        "any program → a card in pages",
    ),
    entry("navigate", "request", "path? facet?", "any program → the page used last"),
    entry("callosum", "subscribe", "tracts[]? events[]? fields{}? from? echo!? name?", "a client"),
    entry("callosum", "subscribed", "server version position#?", "the answer to it"),
    entry("callosum", "unsubscribe", "", "a client"),
    entry("callosum", "stats", "", "a client, and the answer"),
    entry(
        "callosum",
        "lagged",
        "dropped# by{} since#? until#? position#? lifecycle_lost#?",
        "to one who fell behind",
    ),
    entry("callosum", "caught_up", "position#", "to one who began in the past"),
    entry("callosum", "refused", "reason", "to one whose line cannot be answered"),
    entry("journal", "*", "event{}", "every stored event, to those who name the tract"),
];

/// The fields of all messages about a session, and the fields that each adds.
macro_rules! of_session {
    ($($name:ident $fields:literal)*) => {
        $(const $name: &str = concat!(
            "agent_id session_id provider name? facet? hosted! turn_id? event_id seq# position#? ",
            $fields,
        );)*
    };
}

of_session! {
    CORTEX_START "run_id prompt model? chat_id?"
    CORTEX_THINKING "summary model?"
    CORTEX_TOOL_START "tool args{} call_id"
    CORTEX_TOOL_END "tool args{}? call_id result ok!"
    CORTEX_INFO "kind message? severity?"
}

/// The end of a run, or another status of it. A requested run that never started has no session,
/// and what the daemon saw without an event has no event.
macro_rules! of_run {
    ($($name:ident $fields:literal)*) => {
        $(const $name: &str = concat!(
            "agent_id session_id? provider? name? facet? hosted! turn_id? event_id? seq#? ",
            "position#? ", $fields,
        );)*
    };
}

of_run! {
    CORTEX_UPDATED "agent? status? from? reason? confidence? approval{}? settings{}?"
    CORTEX_FINISH "run_id? result? outcome usage{}? cost#? skipped?"
    CORTEX_ERROR "run_id? error? outcome exit_code#? partial_text_tail? trace?"
}

const DREAM_STARTED: &str =
    "mode day segment? stream? activity? facet? count# groups# again!? batch!?";
const DREAM_COMPLETED: &str = "mode day segment? stream? activity? facet? success# failed# failed_names[]? duration_ms# again!? batch!?";

const fn entry(
    tract: &'static str,
    event: &'static str,
    fields: &'static str,
    way: &'static str,
) -> EventSpec {
    EventSpec { tract, event, fields, way }
}
