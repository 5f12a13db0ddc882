//! Reactions: tasks that answer messages.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use bus::{Filter, Message};

use crate::fill::{FillError, fill_placeholders};
use crate::group;
use crate::services_file::Reaction;

/// Bytes read from a pid file.
const PID_FILE_MAX: u64 = 64;

/// Returns a filter for the messages that reactions need.
pub(crate) fn filter(reactions: &[Reaction]) -> Option<Filter> {
    if reactions.is_empty() {
        return None;
    }
    let names = |of: fn(&Reaction) -> &String| {
        let mut names: Vec<String> =
            reactions.iter().map(|reaction| of(reaction).clone()).collect();
        names.sort();
        names.dedup();
        names
    };
    let (tracts, events) = (names(|reaction| &reaction.tract), names(|reaction| &reaction.event));
    // The filter lets through every pair of these names. `answers` looks at the pairs again.
    Some(Filter { tracts, events, fields: Vec::new() })
}

/// Returns the reactions to a message with their commands. A value that cannot be an argument is
/// an error.
pub(crate) fn answers<'a>(
    reactions: &'a [Reaction],
    message: &Message,
) -> Vec<(&'a Reaction, Result<Vec<String>, FillError>)> {
    let (tract, event) = (message.tract(), message.event());
    let fits = |wanted: &str, is: Option<&str>| wanted == "*" || is == Some(wanted);
    let fitting = reactions.iter().filter(|reaction| {
        fits(&reaction.tract, tract.as_deref()) && fits(&reaction.event, event.as_deref())
    });
    let value = |name: &str| message.field(name).map_or(serde_json::Value::Null, |it| it.json());
    fitting.map(|reaction| (reaction, fill_placeholders(&reaction.cmd, value))).collect()
}

/// Returns whether the process in a pid file lives and belongs to us. A missing or malformed file
/// does not hold up a reaction.
pub(crate) fn is_held(journal: &Path, pid_file: &Path) -> bool {
    let mut text = String::new();
    let read = File::open(journal.join(pid_file))
        // A process id is short. A longer file is none, however long it is.
        .and_then(|file| file.take(PID_FILE_MAX).read_to_string(&mut text));
    let pid = text.trim().parse::<u32>().ok().filter(|pid| *pid > 0);
    read.is_ok() && pid.is_some_and(group::can_signal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services_file::ServicesFile;

    fn reactions(text: &str) -> Vec<Reaction> {
        ServicesFile::parse(text).unwrap().reactions
    }

    const FILE: &str = r#"
        [[reaction]]
        on = "dream.completed"
        cmd = ["report", "--day", "{day}", "--facet", "{facet}", "x{day}"]
        [[reaction]]
        on = "*.completed"
        cmd = ["all"]
        [[reaction]]
        on = "dream.*"
        cmd = ["dream", "{mode}"]
    "#;

    fn commands(fields: &str) -> Vec<Option<String>> {
        let line = format!(r#"{{"tract":"dream","event":"completed"{fields}}}"#);
        let message = Message::parse(line.as_bytes()).unwrap();
        let reactions = reactions(FILE);
        let answers = answers(&reactions, &message);
        answers.into_iter().map(|(_, cmd)| cmd.ok().map(|cmd| cmd.join(" "))).collect()
    }

    #[test]
    fn missing_value_drops_its_option() {
        let all = Some("all".to_owned());
        assert_eq!(
            commands(r#","day":20250213,"mode":"a b""#),
            [
                Some("report --day 20250213 x{day}".to_owned()),
                all.clone(),
                Some("dream a b".to_owned())
            ]
        );
        let bare = [Some("report x{day}".to_owned()), all.clone(), Some("dream".to_owned())];
        assert_eq!(commands(""), bare);
    }

    #[test]
    fn ambiguous_value_stops_the_run() {
        for bad in [r#""--x""#, r#""a\nb""#, "[1]", "true", r#"{"a":1}"#] {
            assert_eq!(commands(&format!(r#","day":{bad}"#))[0], None, "{bad}");
        }
    }

    #[test]
    fn filter_has_only_named_messages() {
        let filter = filter(&reactions(FILE)).unwrap();
        assert_eq!(filter.tracts, ["*", "dream"]);
        assert_eq!(filter.events, ["*", "completed"]);
        assert_eq!(super::filter(&[]), None);
    }

    #[test]
    fn only_our_living_process_holds_a_reaction() {
        let folder = tempfile::tempdir().unwrap();
        let held = |text: &str| {
            std::fs::write(folder.path().join("x.pid"), text).unwrap();
            is_held(folder.path(), Path::new("x.pid"))
        };
        assert!(held(&std::process::id().to_string()));
        assert!(held(&format!("{}\n", std::process::id())));
        assert!(!held("text"));
        assert!(!held(""));
        assert!(!held("0"));
        assert!(!held("-1"));
        assert!(!held("4194304999"));
        let mut dead = std::process::Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        assert!(!held(&dead.id().to_string()));
        assert!(!is_held(folder.path(), Path::new("absent.pid")));
        // Root may signal every process, so for root none is foreign.
        if !rustix::process::geteuid().is_root() {
            assert!(!held("1"));
        }
    }
}
