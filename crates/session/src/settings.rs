//! What a session was set to, at its end or at any point before.

use event::payload::{SessionStarted, SettingsChanged};
use event::{Event, Raw};
use serde::{Deserialize, Serialize};

/// The settings of a session. A setting that was never recorded is absent.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SessionSettings {
    pub agent: Option<String>,
    pub provider: Option<String>,
    pub model: Option<String>,
    thinking: Option<Raw>,
    /// An empty list is a choice; `None` is not.
    pub tools: Option<Vec<Raw>>,
    pub permission_mode: Option<String>,
    pub title: Option<String>,
    pub cwd: Option<String>,
    pub project: Option<String>,
}

/// The settings after the events up to and including `seq`.
pub fn settings_at<'a>(events: impl IntoIterator<Item = &'a Event>, seq: u64) -> SessionSettings {
    let mut settings = SessionSettings::default();
    for event in events.into_iter().take_while(|event| event.seq <= seq) {
        settings.apply(event);
    }
    settings
}

impl SessionSettings {
    /// Applies the next event. Settings that it does not name stay unchanged; an amendment of an
    /// earlier event fills only settings that are still absent.
    pub fn apply(&mut self, event: &Event) {
        let late = event.amends().is_some();
        if let Some(started) = event.readable::<SessionStarted>() {
            set_setting(&mut self.agent, started.agent, late);
            set_setting(&mut self.model, started.model, late);
            set_setting(&mut self.title, started.title, late);
            set_setting(&mut self.cwd, started.cwd, late);
            set_setting(&mut self.project, started.project, late);
        } else if let Some(changed) = event.readable::<SettingsChanged>() {
            set_setting(&mut self.provider, changed.provider, late);
            set_setting(&mut self.model, changed.model, late);
            set_setting(&mut self.thinking, changed.thinking, late);
            set_setting(&mut self.tools, changed.tools, late);
            set_setting(&mut self.permission_mode, changed.permission_mode, late);
            set_setting(&mut self.title, changed.title, late);
        }
    }

    /// The thinking mode of the model; the default is `off`.
    pub fn thinking(&self) -> Raw {
        self.thinking
            .clone()
            .unwrap_or_else(|| Raw::from_value(&"off").expect("a string always encodes as JSON"))
    }
}

fn set_setting<T>(setting: &mut Option<T>, new: Option<T>, late: bool) {
    // An amendment tells about an earlier moment. It must not undo a change that came since.
    if new.is_some() && !(late && setting.is_some()) {
        *setting = new;
    }
}
