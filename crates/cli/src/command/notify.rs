//! `hansard notify`: a card for whoever looks at the page.

use bus::Draft;
use clap::Args;

use super::bus::At;
use super::navigate::page_path;
use super::{Done, Global};
use crate::error::CliError;
use crate::output::Output;

/// Show a card in the page of this machine: `notification.show` on the bus.
///
/// Exit codes: 0 sent, 1 it failed, 2 wrong usage, 3 nobody listens.
#[derive(Args)]
pub(crate) struct Notify {
    #[command(flatten)]
    at: At,
    /// What it says; text, never markup
    #[arg(value_name = "MESSAGE")]
    message: String,
    /// What stands above it
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// A sign beside it
    #[arg(long, value_name = "EMOJI")]
    icon: Option<String>,
    /// The page that a click leads to, such as /sessions
    #[arg(long, value_name = "PATH", value_parser = page_path)]
    action: Option<String>,
    /// The project it is about
    #[arg(long, value_name = "FACET")]
    facet: Option<String>,
    /// Who says it; so many a minute are shown of each
    #[arg(long, value_name = "NAME")]
    app: Option<String>,
    /// A short mark at its corner
    #[arg(long, value_name = "TEXT")]
    badge: Option<String>,
    /// It goes by itself after so many seconds
    #[arg(long, value_name = "SECONDS")]
    dismiss_after: Option<u32>,
    /// It cannot be clicked away
    #[arg(long, conflicts_with = "dismiss_after")]
    sticky: bool,
}

impl Notify {
    pub(crate) fn run(&self, global: &Global, output: &mut Output) -> Result<Done, CliError> {
        let mut draft = Draft::new("notification", "show").with("message", &self.message);
        let texts = [
            ("title", &self.title),
            ("icon", &self.icon),
            ("action", &self.action),
            ("facet", &self.facet),
            ("app", &self.app),
            ("badge", &self.badge),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                draft = draft.with(name, text);
            }
        }
        if let Some(seconds) = self.dismiss_after {
            draft = draft.with("autoDismiss", u64::from(seconds) * 1_000);
        }
        if self.sticky {
            draft = draft.with("dismissible", false);
        }
        self.at.send(global, &draft.build()?, output)
    }
}
