//! `hansard notify`: shows a notification in the web page.

use bus::Draft;
use clap::Args;

use super::bus::SocketArgs;
use super::navigate::page_path;
use super::{CommandResult, Global};
use crate::output::CliOutput;

/// Show a notification in the web page
///
/// It sends `notification.show` on the bus.
/// Exit codes: 0 sent, 1 failure, 2 wrong usage, 3 no bus is running.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct NotifyArgs {
    #[command(flatten)]
    at: SocketArgs,
    /// The text, shown without markup
    #[arg(value_name = "MESSAGE")]
    message: String,
    /// The title
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// An icon
    #[arg(long, value_name = "EMOJI")]
    icon: Option<String>,
    /// The page to open on a click, such as /sessions
    #[arg(long, value_name = "PATH", value_parser = page_path)]
    action: Option<String>,
    /// The project it is about
    #[arg(long, value_name = "FACET")]
    facet: Option<String>,
    /// The sender; notifications per sender and minute are limited
    #[arg(long, value_name = "NAME")]
    app: Option<String>,
    /// A short badge
    #[arg(long, value_name = "TEXT")]
    badge: Option<String>,
    /// Dismiss it after this many seconds
    #[arg(long, value_name = "SECONDS")]
    dismiss_after: Option<u32>,
    /// The user cannot dismiss it
    #[arg(long, conflicts_with = "dismiss_after")]
    sticky: bool,
}

impl NotifyArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
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
        self.at.send_message(global, &draft.build()?, output)
    }
}
