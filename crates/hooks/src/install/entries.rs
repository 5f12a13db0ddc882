//! Our entries in a file of hooks: which are ours, how they are added, renewed and removed.
//!
//! Text in, text out. An entry is ours if its command runs `hansard hook`; whoever changed one of
//! ours meant to, so that only its command is renewed. What others wrote is left alone.

use capture::{HookForm, HookPlace};

use super::jsonc::{self, Json, Node, Syntax, SyntaxError, Value};

/// Where hooks stand in every file.
const HOOKS: &str = "hooks";

/// A file of hooks of one agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entries<'a> {
    pub(super) agent: &'a str,
    pub(super) place: &'a HookPlace,
}

/// Why a file is not changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EntriesError {
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    #[error("`{place}` is not {expected}")]
    Unexpected { place: String, expected: &'static str },
    #[error("it was not written by `hansard hooks install`")]
    NotOurs,
}

/// What is in a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Found {
    /// The events that have an entry of ours, in the order of the file, and the place of each: the
    /// number of its group and of its command.
    pub(super) events: Vec<(String, usize, usize)>,
    /// The commands of ours, without the event.
    pub(super) commands: Vec<String>,
    /// What switches all hooks off, if something does.
    pub(super) switched_off: Option<&'static str>,
}

/// A file that was changed, and the lists and objects that were made in it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Changed {
    pub(super) text: String,
    pub(super) made: Vec<String>,
}

/// One entry of ours: where it stands.
struct Own {
    event: String,
    /// Its place in the list of the event.
    group: usize,
    /// Its place in the list of its group, and how many others are there.
    inner: Option<(usize, usize)>,
    command: Node,
}

impl Entries<'_> {
    pub(super) fn found(&self, text: &str) -> Result<Found, EntriesError> {
        if text.trim().is_empty() {
            return Ok(Found::default());
        }
        let root = self.parse(text)?;
        let mut found = Found { switched_off: switched_off(text, &root), ..Found::default() };
        for own in self.own(&root) {
            let command = own.command.text().unwrap_or_default();
            let suffix = format!(" {}", own.event);
            found.commands.push(command.strip_suffix(&suffix).unwrap_or(command).to_owned());
            let (inner, _) = own.inner.unwrap_or_default();
            found.events.push((own.event, own.group, inner));
        }
        Ok(found)
    }

    /// The file with an entry of ours for every event, `command` being what comes before the event.
    pub(super) fn install(&self, text: &str, command: &str) -> Result<Changed, EntriesError> {
        if text.trim().is_empty() {
            let made = vec![String::new()];
            return Ok(Changed { text: format!("{text}{}", self.file(command)), made });
        }
        let mut changed = Changed { text: self.renewed(text, command)?, made: Vec::new() };
        for (event, timeout) in self.place.events {
            let root = self.parse(&changed.text)?;
            if self.own(&root).iter().any(|own| own.event == *event) {
                continue;
            }
            let entry = self.entry(&format!("{command} {event}"), *timeout);
            let list = Json::List(vec![entry.clone()]);
            let hooks = root.member(HOOKS);
            changed.text = match (hooks, hooks.and_then(|hooks| hooks.member(event))) {
                (_, Some(events)) => jsonc::add(&changed.text, events, None, &entry),
                (Some(hooks), None) => {
                    changed.made.push(format!("{HOOKS}.{event}"));
                    jsonc::add(&changed.text, hooks, Some(event), &list)
                }
                (None, None) => {
                    changed.made.extend([HOOKS.to_owned(), format!("{HOOKS}.{event}")]);
                    let hooks = Json::Object(vec![(event, list)]);
                    jsonc::add(&changed.text, &root, Some(HOOKS), &hooks)
                }
            };
        }
        Ok(changed)
    }

    /// The file without our entries, and without what was made for them: what `made` says, or, if
    /// nobody knows, what is empty and was written as we write it.
    pub(super) fn uninstall(
        &self,
        text: &str,
        made: Option<&[String]>,
    ) -> Result<String, EntriesError> {
        if text.trim().is_empty() {
            return Ok(text.to_owned());
        }
        let mut text = text.to_owned();
        // From the end on: what is removed moves nothing that is still to be removed.
        while let Some(own) = self.own(&self.parse(&text)?).pop() {
            let root = self.parse(&text)?;
            let Some(events) = root.member(HOOKS).and_then(|hooks| hooks.member(&own.event)) else {
                break;
            };
            text = match own.inner {
                Some((inner, others)) if others > 0 => {
                    let group = events.elements()[own.group].member(HOOKS);
                    group.map_or(text.clone(), |group| jsonc::remove(&text, group, inner))
                }
                _ => jsonc::remove(&text, events, own.group),
            };
            let is_made = |node: &Node, text: &str, path: &str| match made {
                // Whoever made the file made everything of ours in it.
                Some(made) => made.iter().any(|made| made == path || made.is_empty()),
                None => node.is_hollow(text),
            };
            let root = self.parse(&text)?;
            let Some((place, hooks)) = position(&root, HOOKS) else { continue };
            let Some((event_place, events)) = position(hooks, &own.event) else { continue };
            let path = format!("{HOOKS}.{}", own.event);
            if !events.elements().is_empty() || !is_made(events, &text, &path) {
                continue;
            }
            text = jsonc::remove(&text, hooks, event_place);
            let root = self.parse(&text)?;
            if let Some(hooks) = root.member(HOOKS)
                && hooks.members().is_empty()
                && is_made(hooks, &text, HOOKS)
            {
                text = jsonc::remove(&text, &root, place);
            }
        }
        Ok(text)
    }

    /// Whether a file has nothing in it but what every file has.
    pub(super) fn is_bare(&self, text: &str) -> Result<bool, EntriesError> {
        Ok(self.parse(text)?.members().iter().all(|member| member.name == "version"))
    }

    /// A file that has nothing but our entries.
    pub(super) fn file(&self, command: &str) -> String {
        let events = self.place.events.iter().map(|(event, timeout)| {
            (*event, Json::List(vec![self.entry(&format!("{command} {event}"), *timeout)]))
        });
        let mut members = Vec::new();
        if !matches!(self.place.form, HookForm::Groups { .. }) {
            members.push(("version", Json::Number(1)));
        }
        members.push((HOOKS, Json::Object(events.collect())));
        jsonc::file(&Json::Object(members))
    }

    fn entry(&self, command: &str, timeout: u32) -> Json {
        let kind = || ("type", Json::Text("command".to_owned()));
        let command = Json::Text(command.to_owned());
        match self.place.form {
            HookForm::Groups { matcher, is_in_millis } => {
                let timeout = if is_in_millis { timeout * 1_000 } else { timeout };
                let timeout = ("timeout", Json::Number(timeout));
                let entry = Json::Object(vec![kind(), ("command", command), timeout]);
                let matcher = matcher.map(|matcher| ("matcher", Json::Text(matcher.to_owned())));
                let hooks = (HOOKS, Json::List(vec![entry]));
                Json::Object(matcher.into_iter().chain([hooks]).collect())
            }
            HookForm::OwnFile => {
                let timeout = ("timeoutSec", Json::Number(timeout));
                Json::Object(vec![kind(), ("bash", command), timeout])
            }
            HookForm::Commands | HookForm::Plugin => {
                Json::Object(vec![("command", command), ("timeout", Json::Number(timeout))])
            }
        }
    }

    /// The file with the present command in entries of ours that had another.
    fn renewed(&self, text: &str, command: &str) -> Result<String, EntriesError> {
        let mut text = text.to_owned();
        let count = self.own(&self.parse(&text)?).len();
        for number in 0..count {
            let own = self.own(&self.parse(&text)?).swap_remove(number);
            let present = format!("{command} {}", own.event);
            if own.command.text() != Some(&present) {
                text = jsonc::replace_text(&text, &own.command, &present);
            }
        }
        Ok(text)
    }

    /// Reads a file, whose hooks are where hooks are expected.
    fn parse(&self, text: &str) -> Result<Node, EntriesError> {
        // Readers that take out comments leave trailing commas to a strict one.
        let syntax = Syntax { comments: self.place.has_comments, trailing_commas: false };
        let root = jsonc::parse(text, syntax)?;
        let unexpected = |place: &str, expected| {
            Err(EntriesError::Unexpected { place: place.to_owned(), expected })
        };
        if !matches!(root.value, Value::Object(_)) {
            return unexpected("the file", "an object");
        }
        // Of two lists with one name ours would be sought in one and removed from the other.
        let twin = root.twin().or_else(|| root.member(HOOKS)?.twin_within());
        if let Some(twin) = twin {
            let what = "a name that stands there twice";
            return Err(SyntaxError::at(text, twin.start, what).into());
        }
        let Some(hooks) = root.member(HOOKS) else { return Ok(root) };
        if !matches!(hooks.value, Value::Object(_)) {
            return unexpected(HOOKS, "an object");
        }
        for (event, _) in self.place.events {
            let events = hooks.member(event);
            if events.is_some_and(|events| !matches!(events.value, Value::Array(_))) {
                return unexpected(&format!("{HOOKS}.{event}"), "a list");
            }
        }
        Ok(root)
    }

    /// Our entries, in the order of the file.
    fn own(&self, root: &Node) -> Vec<Own> {
        let mut own = Vec::new();
        for member in root.member(HOOKS).map(Node::members).unwrap_or_default() {
            let event = &member.name;
            for (group, entry) in member.node.elements().iter().enumerate() {
                let is_ours = |entry: &&Node| {
                    self.command(entry).is_some_and(|command| self.is_ours(command, event))
                };
                let inner = entry.member(HOOKS).map(Node::elements);
                let found: Vec<(Option<(usize, usize)>, &Node)> = match inner {
                    Some(inner) => {
                        let others = inner.iter().filter(|entry| !is_ours(entry)).count();
                        let found = inner.iter().enumerate().filter(|(_, entry)| is_ours(entry));
                        found.map(|(place, entry)| (Some((place, others)), entry)).collect()
                    }
                    None => {
                        Some(entry).filter(is_ours).map(|entry| (None, entry)).into_iter().collect()
                    }
                };
                own.extend(found.into_iter().filter_map(|(inner, entry)| {
                    let command = self.command(entry)?.clone();
                    Some(Own { event: event.clone(), group, inner, command })
                }));
            }
        }
        own
    }

    fn command<'n>(&self, entry: &'n Node) -> Option<&'n Node> {
        entry.member(if self.place.form == HookForm::OwnFile { "bash" } else { "command" })
    }

    fn is_ours(&self, command: &Node, event: &str) -> bool {
        let suffix = format!(" hook {} {event}", self.agent);
        let text = command.text().unwrap_or_default();
        text.strip_suffix(&suffix).is_some_and(|program| program.contains("hansard"))
    }
}

/// Switches that agents have for all hooks, and what they say when hooks are off.
const SWITCHES: &[(&str, &[&str], &str)] = &[
    ("disableAllHooks", &["disableAllHooks"], "true"),
    ("hooksConfig.enabled", &["hooksConfig", "enabled"], "false"),
];

fn switched_off(text: &str, root: &Node) -> Option<&'static str> {
    let is_off = |(_, path, off): &&(&str, &[&str], &str)| {
        let found = path.iter().try_fold(root, |node, name| node.member(name));
        found.is_some_and(|node| &text[node.span.clone()] == *off)
    };
    SWITCHES.iter().find(is_off).map(|(name, ..)| *name)
}

/// A member and its place.
fn position<'n>(node: &'n Node, name: &str) -> Option<(usize, &'n Node)> {
    let place = node.members().iter().position(|member| member.name == name)?;
    Some((place, &node.members()[place].node))
}
