//! Our entries in a settings file: which are ours, how they are added, updated and removed.
//!
//! Text in, text out. An entry is ours if its command runs `hansard hook`. The user may have edited
//! it on purpose, so an update changes the command only. Entries of other programs are left alone.

use capture::{HookForm, HookPlace};

use super::jsonc::{self, Json, Node, Syntax, SyntaxError, Value};

/// The member that has the hooks, in every file.
const HOOKS: &str = "hooks";

/// The hooks in a settings file of one agent.
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

/// Our entries in a file, as they stand.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct InstalledHooks {
    /// The events with an entry of ours, in the order of the file, each with the indexes of its group
    /// and of its command.
    pub(super) events: Vec<(String, usize, usize)>,
    /// Our commands, without the event.
    pub(super) commands: Vec<String>,
    /// The setting that switches all hooks off, if it is set.
    pub(super) switched_off: Option<&'static str>,
}

/// A changed file, and the lists and objects that were added to it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct ChangedText {
    pub(super) text: String,
    pub(super) made: Vec<String>,
}

/// The position of one entry of ours.
struct OwnEntry {
    event: String,
    /// The index in the list of the event.
    group: usize,
    /// The index in the list of its group, and how many entries there are not ours.
    inner: Option<(usize, usize)>,
    command: Node,
}

impl Entries<'_> {
    /// Finds our entries.
    pub(super) fn find_own(&self, text: &str) -> Result<InstalledHooks, EntriesError> {
        if jsonc::is_blank(text) {
            return Ok(InstalledHooks::default());
        }
        let root = self.parse(text)?;
        let mut found =
            InstalledHooks { switched_off: switched_off(text, &root), ..InstalledHooks::default() };
        for own in self.own_entries(&root) {
            let command = own.command.text().unwrap_or_default();
            // The command in the file is `hansard hook AGENT EVENT`.
            let suffix = format!(" {}", own.event);
            found.commands.push(command.strip_suffix(&suffix).unwrap_or(command).to_owned());
            let (inner, _) = own.inner.unwrap_or_default();
            found.events.push((own.event, own.group, inner));
        }
        Ok(found)
    }

    /// The text with an entry of ours for every event. `command` is the part before the event.
    pub(super) fn install(&self, text: &str, command: &str) -> Result<ChangedText, EntriesError> {
        // A blank file counts as none; its blanks stay, so that a removal gives them back.
        if jsonc::is_blank(text) {
            let made = vec![String::new()];
            return Ok(ChangedText { text: format!("{text}{}", self.new_file(command)), made });
        }
        let mut changed =
            ChangedText { text: self.update_commands(text, command)?, made: Vec::new() };
        for (event, timeout) in self.place.events {
            // Parsed again for each event: adding an entry moves all spans behind it.
            let root = self.parse(&changed.text)?;
            if self.own_entries(&root).iter().any(|own| own.event == *event) {
                continue;
            }
            let entry = self.entry(event, command, *timeout);
            let list = Json::List(vec![entry.clone()]);
            let hooks = root.member(HOOKS);
            // What is missing is added: an entry, the list of the event, or the whole member
            // `hooks`.
            changed.text = match (hooks, hooks.and_then(|hooks| hooks.member(event))) {
                (_, Some(events)) => jsonc::add_item(&changed.text, events, None, &entry),
                (Some(hooks), None) => {
                    changed.made.push(format!("{HOOKS}.{event}"));
                    jsonc::add_item(&changed.text, hooks, Some(event), &list)
                }
                (None, None) => {
                    changed.made.extend([HOOKS.to_owned(), format!("{HOOKS}.{event}")]);
                    let hooks = Json::Object(vec![(event, list)]);
                    jsonc::add_item(&changed.text, &root, Some(HOOKS), &hooks)
                }
            };
        }
        Ok(changed)
    }

    /// The text without our entries, and without the lists and objects that were added for them: those
    /// in `made`, or without a manifest those that are empty and formatted as we format them.
    pub(super) fn uninstall(
        &self,
        text: &str,
        made: Option<&[String]>,
    ) -> Result<String, EntriesError> {
        if jsonc::is_blank(text) {
            return Ok(text.to_owned());
        }
        let mut text = text.to_owned();
        // From the end, so that the positions of the remaining entries stay valid.
        while let Some(own) = self.own_entries(&self.parse(&text)?).pop() {
            let root = self.parse(&text)?;
            // Always there: the entry was found in it.
            let Some(events) = root.member(HOOKS).and_then(|hooks| hooks.member(&own.event)) else {
                break;
            };
            text = match own.inner {
                // Other commands of the user's group stay; a group that is ours alone goes as a
                // whole.
                Some((inner, others)) if others > 0 => {
                    let group = events.elements()[own.group].member(HOOKS);
                    group.map_or(text.clone(), |group| jsonc::remove_item(&text, group, inner))
                }
                _ => jsonc::remove_item(&text, events, own.group),
            };
            let is_made = |node: &Node, text: &str, path: &str| match made {
                // An empty name means that we created the whole file.
                Some(made) => made.iter().any(|made| made == path || made.is_empty()),
                None => node.is_emptied(text),
            };
            let root = self.parse(&text)?;
            let Some((place, hooks)) = find_member(&root, HOOKS) else { continue };
            let Some((event_place, events)) = find_member(hooks, &own.event) else { continue };
            let path = format!("{HOOKS}.{}", own.event);
            // Emptied lists of the user stay: only what was added for our entries is removed.
            if !events.elements().is_empty() || !is_made(events, &text, &path) {
                continue;
            }
            text = jsonc::remove_item(&text, hooks, event_place);
            let root = self.parse(&text)?;
            if let Some(hooks) = root.member(HOOKS)
                && hooks.members().is_empty()
                && is_made(hooks, &text, HOOKS)
            {
                // `place` still fits: only what lies inside `hooks` has changed.
                text = jsonc::remove_item(&text, &root, place);
            }
        }
        Ok(text)
    }

    /// Whether a file has no members but the version.
    pub(super) fn is_bare(&self, text: &str) -> Result<bool, EntriesError> {
        Ok(self.parse(text)?.members().iter().all(|member| member.name == "version"))
    }

    /// A new file with our entries only.
    pub(super) fn new_file(&self, command: &str) -> String {
        let events = self.place.events.iter().map(|(event, timeout)| {
            (*event, Json::List(vec![self.entry(event, command, *timeout)]))
        });
        let mut members = Vec::new();
        if !matches!(self.place.form, HookForm::Groups { .. }) {
            members.push(("version", Json::Number(1)));
        }
        members.push((HOOKS, Json::Object(events.collect())));
        jsonc::format_file(&Json::Object(members))
    }

    fn entry(&self, event: &str, command: &str, timeout: u32) -> Json {
        let kind = || ("type", Json::Text("command".to_owned()));
        let command = Json::Text(format!("{command} {event}"));
        match self.place.form {
            HookForm::Groups { is_in_millis, .. } => {
                // Gemini and Qwen count in milliseconds, the others in seconds.
                let timeout = if is_in_millis { timeout * 1_000 } else { timeout };
                let timeout = ("timeout", Json::Number(timeout));
                let entry = Json::Object(vec![kind(), ("command", command), timeout]);
                let matcher = self.place.matcher(event);
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

    /// The text with `command` in all our entries.
    fn update_commands(&self, text: &str, command: &str) -> Result<String, EntriesError> {
        let mut text = text.to_owned();
        let count = self.own_entries(&self.parse(&text)?).len();
        // By number, as each replacement moves the spans behind it. Their count and order stay.
        for number in 0..count {
            let own = self.own_entries(&self.parse(&text)?).swap_remove(number);
            let present = format!("{command} {}", own.event);
            if own.command.text() != Some(&present) {
                text = jsonc::replace_text(&text, &own.command, &present);
            }
        }
        Ok(text)
    }

    /// Parses a file, and checks that its hooks have the expected form.
    fn parse(&self, text: &str) -> Result<Node, EntriesError> {
        // Agents strip comments and then parse strictly, so trailing commas are errors for them.
        let syntax = Syntax { comments: self.place.has_comments, trailing_commas: false };
        let root = jsonc::parse(text, syntax)?;
        let unexpected = |place: &str, expected| {
            Err(EntriesError::Unexpected { place: place.to_owned(), expected })
        };
        if !matches!(root.value, Value::Object(_)) {
            return unexpected("the file", "an object");
        }
        // With a duplicate name, the agent could read one list while we change the other.
        let duplicate = root.duplicate().or_else(|| root.member(HOOKS)?.duplicate_within());
        if let Some(duplicate) = duplicate {
            let what = "a name that stands there twice";
            return Err(SyntaxError::at_offset(text, duplicate.start, what).into());
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
    fn own_entries(&self, root: &Node) -> Vec<OwnEntry> {
        let mut own = Vec::new();
        // Also for events that are no longer used, so that an uninstall removes those entries too.
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
                    Some(OwnEntry { event: event.clone(), group, inner, command })
                }));
            }
        }
        own
    }

    fn command<'n>(&self, entry: &'n Node) -> Option<&'n Node> {
        entry.member(if self.place.form == HookForm::OwnFile { "bash" } else { "command" })
    }

    fn is_ours(&self, command: &Node, event: &str) -> bool {
        // By the end of the command: the program before it may stand at any path, with any options.
        let suffix = format!(" hook {} {event}", self.agent);
        let text = command.text().unwrap_or_default();
        text.strip_suffix(&suffix).is_some_and(|program| program.contains("hansard"))
    }
}

/// The settings of agents that switch all hooks off: name, path, and the value for off.
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

/// The index and the value of a member.
fn find_member<'n>(node: &'n Node, name: &str) -> Option<(usize, &'n Node)> {
    let place = node.members().iter().position(|member| member.name == name)?;
    Some((place, &node.members()[place].node))
}
