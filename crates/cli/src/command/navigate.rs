//! `hansard navigate`: leads the page that was used last somewhere else.

use bus::Draft;
use clap::Args;

use super::bus::At;
use super::{Done, Global};
use crate::error::CliError;
use crate::output::Output;

/// Lead the page that was used last to another place, another project, or both:
/// `navigate.request` on the bus.
///
/// Exit codes: 0 sent, 1 it failed, 2 wrong usage, 3 nobody listens.
#[derive(Args)]
pub(crate) struct Navigate {
    #[command(flatten)]
    at: At,
    /// A place in the page, such as /sessions
    #[arg(value_name = "PATH", value_parser = page_path, required_unless_present = "facet")]
    path: Option<String>,
    /// The project to switch to, before the place is gone to
    #[arg(long, value_name = "FACET")]
    facet: Option<String>,
}

impl Navigate {
    pub(crate) fn run(&self, global: &Global, output: &mut Output) -> Result<Done, CliError> {
        let mut draft = Draft::new("navigate", "request");
        for (name, text) in [("path", &self.path), ("facet", &self.facet)] {
            if let Some(text) = text {
                draft = draft.with(name, text);
            }
        }
        self.at.send(global, &draft.build()?, output)
    }
}

/// A place in the page: one slash and then no way out of it. What is something else would be
/// ignored by every page.
pub(super) fn page_path(text: &str) -> Result<String, String> {
    let is_place = text.starts_with('/')
        && !text.contains("//")
        && !text.contains(['\\', ':'])
        && !text.chars().any(char::is_control);
    if is_place {
        Ok(text.to_owned())
    } else {
        Err("it is no place in the page such as /x".to_owned())
    }
}
