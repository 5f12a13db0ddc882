//! What is said on the bus: the names of all tracts and events, their fields, and who says them.
//!
//! Anybody may say anything; this is what Hansard itself says and acts on. `docs/tracts.md` and the
//! types of the TypeScript client are made from it.

use serde_json::Value;

use crate::class::Class;

/// An event of a tract.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub tract: &'static str,
    /// `*` stands for any.
    pub event: &'static str,
    /// One after the other; see [`Entry::fields`].
    fields: &'static str,
    /// Who says it, and who acts on it.
    pub way: &'static str,
}

/// A field of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    pub name: &'static str,
    pub shape: Shape,
    pub is_optional: bool,
}

impl Field {
    /// Whether a value has its shape. A ref is echoed as it was given.
    fn takes(&self, value: &Value) -> bool {
        match self.shape {
            Shape::Text => value.is_string() || (self.name == "ref" && value.is_number()),
            Shape::Number => value.is_number(),
            Shape::Flag => value.is_boolean(),
            Shape::List => value.is_array(),
            Shape::Object => value.is_object(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    Text,
    Number,
    Flag,
    List,
    Object,
}

impl Entry {
    /// The fields beside `tract`, `event` and `ts`. Written as names with a mark: `#` for a number,
    /// `!` for true or false, `[]` for a list, `{}` for an object, `?` at the end for one that may
    /// be absent.
    pub fn fields(&self) -> impl Iterator<Item = Field> {
        self.fields.split_whitespace().map(|word| {
            let bare = word.trim_end_matches('?');
            let marks = [
                ("#", Shape::Number),
                ("!", Shape::Flag),
                ("[]", Shape::List),
                ("{}", Shape::Object),
            ];
            let marked =
                marks.iter().find_map(|(mark, shape)| Some((bare.strip_suffix(mark)?, *shape)));
            let (name, shape) = marked.unwrap_or((bare, Shape::Text));
            Field { name, shape, is_optional: bare.len() < word.len() }
        })
    }

    /// How much it matters to one who falls behind.
    pub fn class(&self) -> Class {
        Class::of(self.tract, self.event)
    }
}

/// Whether the registry has an event.
pub fn is_known(tract: &str, event: &str) -> bool {
    ENTRIES.iter().any(|entry| entry.tract == tract && (entry.event == event || entry.event == "*"))
}

/// What a message of ours says that the registry does not have, or leaves out that it should say;
/// `None` if all is as it is written there.
pub fn fault(message: &Value) -> Option<String> {
    let text = |name: &str| message[name].as_str().unwrap_or_default();
    let (tract, event) = (text("tract"), text("event"));
    let fits =
        |entry: &&Entry| entry.tract == tract && (entry.event == event || entry.event == "*");
    let Some(entry) = ENTRIES.iter().find(fits) else {
        return Some(format!("there is no {tract}.{event}"));
    };
    for field in entry.fields() {
        let value = message.get(field.name).filter(|value| !value.is_null());
        let is_fine = value.map_or(field.is_optional, |value| field.takes(value));
        if !is_fine {
            return Some(format!("`{}` of {tract}.{event} is {:?}", field.name, value));
        }
    }
    let mut names = message.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    let unknown = names
        .find(|name| !COMMON.contains(name) && !entry.fields().any(|field| field.name == *name));
    unknown.map(|name| format!("{tract}.{event} has no `{name}`"))
}

/// What every message of ours may have.
const COMMON: &[&str] = &["tract", "event", "ts", "rev"];

/// Everything that is said, tract by tract.
pub const ENTRIES: &[Entry] = &[
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
        "day segment stream remote? files[] meta{}? by?",
        "an epoch that closed, another machine → handlers",
    ),
    entry(
        "observe",
        "detected",
        "day segment stream remote? file handler ref announced#? by?",
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
        "day segment stream remote? duration# files[]? announced#? batch!? error!? errors[]? by?",
        "all handlers are done → dreams",
    ),
    entry(
        "observe",
        "status",
        "stream? running{}? queued[]? max_age_seconds#? idle!?",
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
        "anybody → a card in pages",
    ),
    entry("navigate", "request", "path? facet?", "anybody → the page used last"),
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

/// What all messages about a session have, and what each adds.
macro_rules! of_session {
    ($($name:ident $fields:literal)*) => {
        $(const $name: &str = concat!(
            "agent_id session_id provider name? facet? hosted! turn_id? event_id seq# position#? ",
            $fields,
        );)*
    };
}

of_session! {
    CORTEX_START "prompt model? chat_id?"
    CORTEX_THINKING "summary model?"
    CORTEX_TOOL_START "tool args{} call_id"
    CORTEX_TOOL_END "tool args{}? call_id result ok!"
    CORTEX_UPDATED "agent? status? from? reason? confidence? approval{}? settings{}?"
    CORTEX_INFO "kind message? severity?"
}

/// The end of a run; one that was requested and never began has no session and no events.
macro_rules! of_end {
    ($($name:ident $fields:literal)*) => {
        $(const $name: &str = concat!(
            "agent_id session_id? provider? name? facet? hosted! turn_id? event_id? seq#? ",
            "position#? ", $fields,
        );)*
    };
}

of_end! {
    CORTEX_FINISH "result? outcome usage{}? cost#? skipped?"
    CORTEX_ERROR "error? outcome exit_code#? partial_text_tail? trace?"
}

const DREAM_STARTED: &str =
    "mode day segment? stream? activity? facet? count# groups# again!? batch!?";
const DREAM_COMPLETED: &str = "mode day segment? stream? activity? facet? success# failed# failed_names[]? duration_ms# again!? batch!?";

const fn entry(
    tract: &'static str,
    event: &'static str,
    fields: &'static str,
    way: &'static str,
) -> Entry {
    Entry { tract, event, fields, way }
}
