//! `hansard navigate`: opens another place in the web page.

use bus::Draft;
use clap::Args;

use super::bus::SocketArgs;
use super::{CommandResult, Global};
use crate::output::CliOutput;

/// Open another view in the web page
///
/// The page that was used last opens another path, another project, or both. The command sends
/// `navigate.request` on the bus. Exit codes: 0 sent, 1 failure, 2 wrong usage, 3 no bus is running.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct NavigateArgs {
    #[command(flatten)]
    at: SocketArgs,
    /// A path in the page, such as /sessions
    #[arg(value_name = "PATH", value_parser = page_path, required_unless_present = "facet")]
    path: Option<String>,
    /// The project to switch to first
    #[arg(long, value_name = "FACET")]
    facet: Option<String>,
}

impl NavigateArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let mut draft = Draft::new("navigate", "request");
        for (name, text) in [("path", &self.path), ("facet", &self.facet)] {
            if let Some(text) = text {
                draft = draft.with(name, text);
            }
        }
        self.at.send_message(global, &draft.build()?, output)
    }
}

/// Checks a path in the page: it must start with one slash and cannot lead out of the page. Pages
/// ignore anything else.
pub(super) fn page_path(text: &str) -> Result<String, String> {
    let is_place = text.starts_with('/')
        && !text.contains("//")
        && !text.contains(['\\', ':'])
        && !text.chars().any(char::is_control);
    if is_place {
        Ok(text.to_owned())
    } else {
        Err("not a path in the page, such as /sessions".to_owned())
    }
}
