//! Session filters that several commands share.

use clap::Args;
use event::Time;
use journal::SessionFilter;

#[derive(Args)]
pub(crate) struct SessionFilterArgs {
    /// Only sessions of this provider, for instance `claude`
    #[arg(long)]
    provider: Option<String>,
    /// Only sessions of this project or folder
    #[arg(long)]
    project: Option<String>,
    /// Only sessions active since this time (RFC 3339)
    #[arg(long, value_name = "TIME")]
    since: Option<Time>,
    /// Only sessions started before this time (RFC 3339)
    #[arg(long, value_name = "TIME")]
    until: Option<Time>,
}

impl SessionFilterArgs {
    pub(crate) fn filter(&self) -> SessionFilter {
        SessionFilter {
            provider: self.provider.clone(),
            project: self.project.clone(),
            active_since: self.since,
            active_until: self.until,
        }
    }
}
