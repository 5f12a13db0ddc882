//! The file's syntax, and the rules for its values.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::{
    Allow, Chain, FileFault, Handler, Reaction, Schedule, Service, ServicesFile, TaskLimits,
};

/// Words of a command, and bytes of all of them.
pub(crate) const WORDS_MAX: usize = 256;
pub(crate) const WORDS_BYTES_MAX: usize = 128 << 10;

/// Entries of one kind.
const ENTRIES_MAX: usize = 1_000;

/// Seconds that a service may take to stop: the default and the most.
const STOP_SECONDS: u64 = 15;
const STOP_SECONDS_MAX: u64 = 90;

/// When an exited service is restarted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Restart {
    #[default]
    Always,
    OnFailure,
    Never,
}

/// What happens when a service has fallen silent.
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

/// What happens to a task while one of its name runs.
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

/// A program's name, or a table with more.
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
    #[serde(default = "default_true")]
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

fn default_true() -> bool {
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
        // By hand, because an untagged enum would report only that no variant fits.
        deserializer.deserialize_any(WordOrTable)
    }
}

/// A fault and the bytes it is about.
struct SpannedFault {
    span: Range<usize>,
    why: String,
}

fn fault_at<T>(span: Range<usize>, why: impl Into<String>) -> Result<T, SpannedFault> {
    Err(SpannedFault { span, why: why.into() })
}

pub(super) fn parse(text: &str) -> Result<ServicesFile, FileFault> {
    // People look for lines, the parser counts bytes.
    let line_of = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
    let shape: FileShape = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        FileFault { line: line_of(at), why: error.message().trim().to_owned() }
    })?;
    convert_file(shape)
        .map_err(|SpannedFault { span, why }| FileFault { line: line_of(span.start), why })
}

fn convert_file(shape: FileShape) -> Result<ServicesFile, SpannedFault> {
    // Names are unique within their kind. A service and a schedule may share one.
    let mut names = UniqueNames::default();
    let services = convert_all(shape.service, |service| convert_service(service, &mut names))?;
    let mut names = UniqueNames::default();
    let schedules = convert_all(shape.schedule, |schedule| convert_schedule(schedule, &mut names))?;
    let mut names = UniqueNames::default();
    let handlers = convert_all(shape.handler, |handler| convert_handler(handler, &mut names))?;
    Ok(ServicesFile {
        allow: convert_all(shape.allow, convert_allow)?,
        tasks: shape.tasks.map_or(Ok(TaskLimits::default()), convert_tasks)?,
        services,
        schedules,
        reactions: convert_all(shape.reaction, convert_reaction)?,
        handlers,
        chain: shape.chain.map_or(Ok(Chain::default()), convert_chain)?,
    })
}

fn convert_all<S, T>(
    shapes: Vec<Spanned<S>>,
    mut of: impl FnMut(Spanned<S>) -> Result<T, SpannedFault>,
) -> Result<Vec<T>, SpannedFault> {
    // The first entry too many, so that the error has its line.
    if let Some(shape) = shapes.get(ENTRIES_MAX) {
        return fault_at(shape.span(), format!("there are more than {ENTRIES_MAX} of them"));
    }
    shapes.into_iter().map(&mut of).collect()
}

fn convert_allow(shape: Spanned<AllowShape>) -> Result<Allow, SpannedFault> {
    let span = shape.span();
    let AllowTable { program, args, subcommands } = shape.into_inner().0;
    check_program(&program, &span)?;
    Ok(Allow { program, args, has_subcommands: subcommands })
}

fn convert_tasks(shape: Spanned<TasksShape>) -> Result<TaskLimits, SpannedFault> {
    let span = shape.span();
    let TasksShape { running_max, waiting_max_per_command, persist } = shape.into_inner();
    let default = TaskLimits::default();
    let limits = TaskLimits {
        running_max: running_max.unwrap_or(default.running_max),
        waiting_max: waiting_max_per_command.unwrap_or(default.waiting_max),
        persist,
    };
    if !(1..=1_000).contains(&limits.running_max) {
        return fault_at(span, "`running_max` is from 1 to 1000");
    }
    if !(1..=10_000).contains(&limits.waiting_max) {
        return fault_at(span, "`waiting_max_per_command` is from 1 to 10000");
    }
    Ok(limits)
}

fn convert_service(
    shape: Spanned<ServiceShape>,
    names: &mut UniqueNames,
) -> Result<Service, SpannedFault> {
    let span = shape.span();
    let shape = shape.into_inner();
    let name = names.take(shape.name)?;
    // No environment can hold such a name: the program would get another variable or not start.
    let is_variable = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
    for (variable, value) in &shape.env {
        if !is_variable(variable) || value.contains('\0') {
            return fault_at(span, format!("`{variable}` is no variable of an environment"));
        }
    }
    if let Some(cwd) = &shape.cwd
        && !cwd.get_ref().is_absolute()
    {
        return fault_at(cwd.span(), "`cwd` is an absolute path");
    }
    let stop_seconds = match shape.stop_seconds {
        None => STOP_SECONDS,
        Some(seconds) if (1..=STOP_SECONDS_MAX).contains(seconds.get_ref()) => *seconds.get_ref(),
        Some(seconds) => {
            return fault_at(
                seconds.span(),
                format!("`stop_seconds` is from 1 to {STOP_SECONDS_MAX}"),
            );
        }
    };
    Ok(Service {
        name,
        cmd: convert_command(shape.cmd)?,
        env: shape.env.into_iter().collect(),
        cwd: shape.cwd.map(Spanned::into_inner),
        enabled: shape.enabled,
        stop: Duration::from_secs(stop_seconds),
        restart: shape.restart,
        stale: shape.stale,
    })
}

fn convert_schedule(
    shape: Spanned<ScheduleShape>,
    names: &mut UniqueNames,
) -> Result<Schedule, SpannedFault> {
    let shape = shape.into_inner();
    // Refused, not ignored: the user expects an effect of these two.
    if let (Every::Hourly, Some(at)) = (shape.every, &shape.at) {
        return fault_at(at.span(), "`at` is for what runs daily or weekly");
    }
    if let (Every::Hourly | Every::Daily, Some(on)) = (shape.every, &shape.on) {
        return fault_at(on.span(), "`on` is for what runs weekly");
    }
    let at = match &shape.at {
        None => (0, 0),
        Some(at) => match time_of_day(at.get_ref()) {
            Some(time) => time,
            None => return fault_at(at.span(), "`at` is a time such as \"03:00\""),
        },
    };
    Ok(Schedule {
        name: names.take(shape.name)?,
        every: shape.every,
        at,
        on: shape.on.map_or_else(Weekday::default, Spanned::into_inner),
        cmd: convert_command(shape.cmd)?,
    })
}

fn time_of_day(text: &str) -> Option<(i8, i8)> {
    let (hour, minute) = text.split_once(':')?;
    // Exactly two digits: nothing is guessed about `3:00` or `+3:00`.
    let two = |digits: &str| {
        let is_two = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_two.then(|| digits.parse::<i8>().ok()).flatten()
    };
    let (hour, minute) = (two(hour)?, two(minute)?);
    (hour < 24 && minute < 60).then_some((hour, minute))
}

fn convert_reaction(shape: Spanned<ReactionShape>) -> Result<Reaction, SpannedFault> {
    let shape = shape.into_inner();
    let on = shape.on.get_ref();
    let names = on.split_once('.').filter(|(tract, event)| !tract.is_empty() && !event.is_empty());
    let Some((tract, event)) = names else {
        return fault_at(
            shape.on.span(),
            "`on` is a tract and an event, such as \"dream.completed\"",
        );
    };
    let (tract, event) = (tract.to_owned(), event.to_owned());
    if let Some(path) = &shape.unless_pid_file
        && !is_below(path.get_ref())
    {
        return fault_at(path.span(), "`unless_pid_file` is a path inside the journal");
    }
    Ok(Reaction {
        tract,
        event,
        cmd: convert_command(shape.cmd)?,
        if_busy: shape.if_busy,
        unless_pid_file: shape.unless_pid_file.map(Spanned::into_inner),
    })
}

fn convert_handler(
    shape: Spanned<HandlerShape>,
    names: &mut UniqueNames,
) -> Result<Handler, SpannedFault> {
    let span = shape.span();
    let shape = shape.into_inner();
    if shape.files.is_empty() || shape.files.contains('/') {
        return fault_at(span, "`files` is a pattern for names of files, such as \"*.jsonl\"");
    }
    if shape.timeout_seconds == Some(0) {
        return fault_at(span, "`timeout_seconds` is at least 1");
    }
    Ok(Handler {
        name: names.take(shape.name)?,
        files: shape.files,
        cmd: convert_command(shape.cmd)?,
        timeout: shape.timeout_seconds.map(|seconds| Duration::from_secs(seconds.into())),
    })
}

fn convert_chain(shape: Spanned<ChainShape>) -> Result<Chain, SpannedFault> {
    let ChainShape { segment, activity, flush, daily } = shape.into_inner();
    Ok(Chain {
        segment: segment.map(convert_command).transpose()?,
        activity: activity.map(convert_command).transpose()?,
        flush: flush.map(convert_command).transpose()?,
        daily: daily.map(convert_command).transpose()?,
    })
}

fn convert_command(words: Spanned<Vec<String>>) -> Result<Vec<String>, SpannedFault> {
    let span = words.span();
    let words = words.into_inner();
    if let Err(why) = check_words(&words) {
        return fault_at(span, why);
    }
    check_program(&words[0], &span)?;
    Ok(words)
}

/// Checks whether these words can be a command.
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

fn check_program(program: &str, span: &Range<usize>) -> Result<(), SpannedFault> {
    if program.is_empty() {
        return fault_at(span.clone(), "a program has a name");
    }
    if program.contains('/') && !Path::new(program).is_absolute() {
        return fault_at(
            span.clone(),
            format!("`{program}` is neither a word nor an absolute path"),
        );
    }
    Ok(())
}

fn is_below(path: &Path) -> bool {
    // Neither `..` nor a root, which would lead out of the journal.
    let is_normal = |part: Component<'_>| matches!(part, Component::Normal(_));
    !path.as_os_str().is_empty() && path.components().all(is_normal)
}

/// The names of one kind of entry, each used once.
#[derive(Default)]
struct UniqueNames(HashSet<String>);

impl UniqueNames {
    fn take(&mut self, name: Spanned<String>) -> Result<String, SpannedFault> {
        let span = name.span();
        let name = name.into_inner();
        let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_.-".contains(c);
        let begins_well = name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        if !begins_well || !name.chars().all(is_inner) || name.len() > 64 {
            let why = format!(
                "`{name}` is no name: small letters, digits, `_`, `.`, `-`, and neither of these \
                 three first"
            );
            return fault_at(span, why);
        }
        // Its status and its log would be mixed up with those of the daemon.
        if name == "supervisor" {
            return fault_at(span, "`supervisor` is the daemon itself");
        }
        if !self.0.insert(name.clone()) {
            return fault_at(span, format!("`{name}` is there twice"));
        }
        Ok(name)
    }
}
