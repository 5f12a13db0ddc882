//! The file as it is written, and the rules that its words keep.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::{Allow, Chain, Fault, Handler, Reaction, Schedule, Service, ServicesFile, TaskLimits};

/// Words of a command, and bytes of all of them.
pub(crate) const WORDS_MAX: usize = 256;
pub(crate) const WORDS_BYTES_MAX: usize = 128 << 10;

/// Entries of one kind.
const ENTRIES_MAX: usize = 1_000;

/// Seconds a service may take to end.
const STOP_SECONDS: u64 = 15;
const STOP_SECONDS_MAX: u64 = 90;

/// When a program that ended is started again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Restart {
    #[default]
    Always,
    OnFailure,
    Never,
}

/// What is done about a service that has gone silent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Stale {
    #[default]
    Report,
    Restart,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Every {
    Hourly,
    Daily,
    Weekly,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Weekday {
    #[default]
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

/// What becomes of a task whose like is running.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum IfBusy {
    #[default]
    Queue,
    Skip,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileShape {
    #[serde(default)]
    allow: Vec<Spanned<AllowShape>>,
    tasks: Option<Spanned<TasksShape>>,
    #[serde(default)]
    service: Vec<Spanned<ServiceShape>>,
    #[serde(default)]
    schedule: Vec<Spanned<ScheduleShape>>,
    #[serde(default)]
    reaction: Vec<Spanned<ReactionShape>>,
    #[serde(default)]
    handler: Vec<Spanned<HandlerShape>>,
    chain: Option<Spanned<ChainShape>>,
}

/// A word, or a table that says more.
struct AllowShape(AllowTable);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AllowTable {
    program: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    subcommands: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TasksShape {
    running_max: Option<usize>,
    waiting_max_per_command: Option<usize>,
    #[serde(default)]
    persist: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceShape {
    name: Spanned<String>,
    cmd: Spanned<Vec<String>>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<Spanned<PathBuf>>,
    #[serde(default = "yes")]
    enabled: bool,
    stop_seconds: Option<Spanned<u64>>,
    #[serde(default)]
    restart: Restart,
    #[serde(default)]
    stale: Stale,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScheduleShape {
    name: Spanned<String>,
    every: Every,
    at: Option<Spanned<String>>,
    on: Option<Spanned<Weekday>>,
    cmd: Spanned<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReactionShape {
    on: Spanned<String>,
    cmd: Spanned<Vec<String>>,
    #[serde(default)]
    if_busy: IfBusy,
    unless_pid_file: Option<Spanned<PathBuf>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HandlerShape {
    name: Spanned<String>,
    files: String,
    cmd: Spanned<Vec<String>>,
    timeout_seconds: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChainShape {
    segment: Option<Spanned<Vec<String>>>,
    activity: Option<Spanned<Vec<String>>>,
    flush: Option<Spanned<Vec<String>>>,
    daily: Option<Spanned<Vec<String>>>,
}

fn yes() -> bool {
    true
}

impl<'de> Deserialize<'de> for AllowShape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AllowShape, D::Error> {
        struct WordOrTable;
        impl<'de> Visitor<'de> for WordOrTable {
            type Value = AllowShape;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a program, or a table with `program`")
            }

            fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<AllowShape, E> {
                let program = word.to_owned();
                Ok(AllowShape(AllowTable { program, args: Vec::new(), subcommands: false }))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<AllowShape, A::Error> {
                AllowTable::deserialize(MapAccessDeserializer::new(map)).map(AllowShape)
            }
        }
        deserializer.deserialize_any(WordOrTable)
    }
}

/// What is wrong, and the bytes it is about.
struct Wrong {
    span: Range<usize>,
    why: String,
}

fn wrong<T>(span: Range<usize>, why: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong { span, why: why.into() })
}

pub(super) fn parse(text: &str) -> Result<ServicesFile, Fault> {
    let line_of = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
    let shape: FileShape = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        Fault { line: line_of(at), why: error.message().trim().to_owned() }
    })?;
    file(shape).map_err(|Wrong { span, why }| Fault { line: line_of(span.start), why })
}

fn file(shape: FileShape) -> Result<ServicesFile, Wrong> {
    let mut names = Names::default();
    let services = each(shape.service, |service| service_of(service, &mut names))?;
    let mut names = Names::default();
    let schedules = each(shape.schedule, |schedule| schedule_of(schedule, &mut names))?;
    let mut names = Names::default();
    let handlers = each(shape.handler, |handler| handler_of(handler, &mut names))?;
    Ok(ServicesFile {
        allow: each(shape.allow, allow_of)?,
        tasks: shape.tasks.map_or(Ok(TaskLimits::default()), tasks_of)?,
        services,
        schedules,
        reactions: each(shape.reaction, reaction_of)?,
        handlers,
        chain: shape.chain.map_or(Ok(Chain::default()), chain_of)?,
    })
}

fn each<S, T>(
    shapes: Vec<Spanned<S>>,
    mut of: impl FnMut(Spanned<S>) -> Result<T, Wrong>,
) -> Result<Vec<T>, Wrong> {
    if let Some(shape) = shapes.get(ENTRIES_MAX) {
        return wrong(shape.span(), format!("there are more than {ENTRIES_MAX} of them"));
    }
    shapes.into_iter().map(&mut of).collect()
}

fn allow_of(shape: Spanned<AllowShape>) -> Result<Allow, Wrong> {
    let span = shape.span();
    let AllowTable { program, args, subcommands } = shape.into_inner().0;
    check_program(&program, &span)?;
    Ok(Allow { program, args, has_subcommands: subcommands })
}

fn tasks_of(shape: Spanned<TasksShape>) -> Result<TaskLimits, Wrong> {
    let span = shape.span();
    let TasksShape { running_max, waiting_max_per_command, persist } = shape.into_inner();
    let default = TaskLimits::default();
    let limits = TaskLimits {
        running_max: running_max.unwrap_or(default.running_max),
        waiting_max: waiting_max_per_command.unwrap_or(default.waiting_max),
        persist,
    };
    if !(1..=1_000).contains(&limits.running_max) {
        return wrong(span, "`running_max` is from 1 to 1000");
    }
    if !(1..=10_000).contains(&limits.waiting_max) {
        return wrong(span, "`waiting_max_per_command` is from 1 to 10000");
    }
    Ok(limits)
}

fn service_of(shape: Spanned<ServiceShape>, names: &mut Names) -> Result<Service, Wrong> {
    let span = shape.span();
    let shape = shape.into_inner();
    let name = names.take(shape.name)?;
    let is_variable = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
    for (variable, value) in &shape.env {
        if !is_variable(variable) || value.contains('\0') {
            return wrong(span, format!("`{variable}` is no variable of an environment"));
        }
    }
    if let Some(cwd) = &shape.cwd
        && !cwd.get_ref().is_absolute()
    {
        return wrong(cwd.span(), "`cwd` is an absolute path");
    }
    let stop_seconds = match shape.stop_seconds {
        None => STOP_SECONDS,
        Some(seconds) if (1..=STOP_SECONDS_MAX).contains(seconds.get_ref()) => *seconds.get_ref(),
        Some(seconds) => {
            return wrong(
                seconds.span(),
                format!("`stop_seconds` is from 1 to {STOP_SECONDS_MAX}"),
            );
        }
    };
    Ok(Service {
        name,
        cmd: command_of(shape.cmd)?,
        env: shape.env.into_iter().collect(),
        cwd: shape.cwd.map(Spanned::into_inner),
        enabled: shape.enabled,
        stop: Duration::from_secs(stop_seconds),
        restart: shape.restart,
        stale: shape.stale,
    })
}

fn schedule_of(shape: Spanned<ScheduleShape>, names: &mut Names) -> Result<Schedule, Wrong> {
    let shape = shape.into_inner();
    if let (Every::Hourly, Some(at)) = (shape.every, &shape.at) {
        return wrong(at.span(), "`at` is for what runs daily or weekly");
    }
    if let (Every::Hourly | Every::Daily, Some(on)) = (shape.every, &shape.on) {
        return wrong(on.span(), "`on` is for what runs weekly");
    }
    let at = match &shape.at {
        None => (0, 0),
        Some(at) => match time_of_day(at.get_ref()) {
            Some(time) => time,
            None => return wrong(at.span(), "`at` is a time such as \"03:00\""),
        },
    };
    Ok(Schedule {
        name: names.take(shape.name)?,
        every: shape.every,
        at,
        on: shape.on.map_or_else(Weekday::default, Spanned::into_inner),
        cmd: command_of(shape.cmd)?,
    })
}

fn time_of_day(text: &str) -> Option<(i8, i8)> {
    let (hour, minute) = text.split_once(':')?;
    let two = |digits: &str| {
        let is_two = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_two.then(|| digits.parse::<i8>().ok()).flatten()
    };
    let (hour, minute) = (two(hour)?, two(minute)?);
    (hour < 24 && minute < 60).then_some((hour, minute))
}

fn reaction_of(shape: Spanned<ReactionShape>) -> Result<Reaction, Wrong> {
    let shape = shape.into_inner();
    let on = shape.on.get_ref();
    let names = on.split_once('.').filter(|(tract, event)| !tract.is_empty() && !event.is_empty());
    let Some((tract, event)) = names else {
        return wrong(shape.on.span(), "`on` is a tract and an event, such as \"dream.completed\"");
    };
    let (tract, event) = (tract.to_owned(), event.to_owned());
    if let Some(path) = &shape.unless_pid_file
        && !is_below(path.get_ref())
    {
        return wrong(path.span(), "`unless_pid_file` is a path inside the journal");
    }
    Ok(Reaction {
        tract,
        event,
        cmd: command_of(shape.cmd)?,
        if_busy: shape.if_busy,
        unless_pid_file: shape.unless_pid_file.map(Spanned::into_inner),
    })
}

fn handler_of(shape: Spanned<HandlerShape>, names: &mut Names) -> Result<Handler, Wrong> {
    let span = shape.span();
    let shape = shape.into_inner();
    if shape.files.is_empty() || shape.files.contains('/') {
        return wrong(span, "`files` is a pattern for names of files, such as \"*.jsonl\"");
    }
    if shape.timeout_seconds == Some(0) {
        return wrong(span, "`timeout_seconds` is at least 1");
    }
    Ok(Handler {
        name: names.take(shape.name)?,
        files: shape.files,
        cmd: command_of(shape.cmd)?,
        timeout: shape.timeout_seconds.map(|seconds| Duration::from_secs(seconds.into())),
    })
}

fn chain_of(shape: Spanned<ChainShape>) -> Result<Chain, Wrong> {
    let ChainShape { segment, activity, flush, daily } = shape.into_inner();
    Ok(Chain {
        segment: segment.map(command_of).transpose()?,
        activity: activity.map(command_of).transpose()?,
        flush: flush.map(command_of).transpose()?,
        daily: daily.map(command_of).transpose()?,
    })
}

fn command_of(words: Spanned<Vec<String>>) -> Result<Vec<String>, Wrong> {
    let span = words.span();
    let words = words.into_inner();
    if let Err(why) = check_words(&words) {
        return wrong(span, why);
    }
    check_program(&words[0], &span)?;
    Ok(words)
}

/// Whether these words can be a command, wherever they come from.
pub(crate) fn check_words(words: &[String]) -> Result<(), &'static str> {
    if words.is_empty() {
        return Err("a command has at least one word");
    }
    if words.len() > WORDS_MAX {
        return Err("a command has at most 256 words");
    }
    if words.iter().map(String::len).sum::<usize>() > WORDS_BYTES_MAX {
        return Err("a command has at most 128 KiB");
    }
    if words.iter().any(|word| word.contains('\0')) {
        return Err("a command has no NUL in it");
    }
    Ok(())
}

fn check_program(program: &str, span: &Range<usize>) -> Result<(), Wrong> {
    if program.is_empty() {
        return wrong(span.clone(), "a program has a name");
    }
    if program.contains('/') && !Path::new(program).is_absolute() {
        return wrong(span.clone(), format!("`{program}` is neither a word nor an absolute path"));
    }
    Ok(())
}

fn is_below(path: &Path) -> bool {
    let is_normal = |part: Component<'_>| matches!(part, Component::Normal(_));
    !path.as_os_str().is_empty() && path.components().all(is_normal)
}

/// Names of one kind of entry: each once.
#[derive(Default)]
struct Names(HashSet<String>);

impl Names {
    fn take(&mut self, name: Spanned<String>) -> Result<String, Wrong> {
        let span = name.span();
        let name = name.into_inner();
        let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_.-".contains(c);
        let begins_well = name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        if !begins_well || !name.chars().all(is_inner) || name.len() > 64 {
            let why = format!(
                "`{name}` is no name: small letters, digits, `_`, `.`, `-`, and neither of these \
                 three first"
            );
            return wrong(span, why);
        }
        if name == "supervisor" {
            return wrong(span, "`supervisor` is the daemon itself");
        }
        if !self.0.insert(name.clone()) {
            return wrong(span, format!("`{name}` is there twice"));
        }
        Ok(name)
    }
}
