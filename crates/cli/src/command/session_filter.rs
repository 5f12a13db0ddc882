//! Session filters that several commands share.

use clap::Args;
use event::Time;
use journal::SessionFilter;
use segments::Zone;

use crate::times::TimeArg;

#[derive(Args)]
pub(crate) struct SessionFilterArgs {
    /// Only sessions of this agent, for instance `claude`
    #[arg(long)]
    provider: Option<String>,
    /// Only sessions of this project or folder
    #[arg(long)]
    project: Option<String>,
    /// Only sessions active since this time: 7d, yesterday, 2026-11-01
    #[arg(long, value_name = "TIME")]
    since: Option<TimeArg>,
    /// Only sessions started until this time; a day counts whole
    #[arg(long, value_name = "TIME")]
    until: Option<TimeArg>,
}

impl SessionFilterArgs {
    pub(crate) fn filter(&self, now: Time, zone: &Zone) -> SessionFilter {
        SessionFilter {
            provider: self.provider.clone(),
            project: self.project.clone(),
            active_since: self.since.as_ref().map(|time| time.begin(now, zone)),
            active_until: self.until.as_ref().map(|time| time.end(now, zone)),
        }
    }

    /// The same for sums over whole days: a day that the user names ends with itself.
    pub(crate) fn filter_whole_days(&self, now: Time, zone: &Zone) -> SessionFilter {
        let until = self.until.as_ref().map(|time| time.last(now, zone));
        SessionFilter { active_until: until, ..self.filter(now, zone) }
    }

    /// Whether it leaves sessions out, so that an empty list does not mean an empty journal.
    pub(crate) fn is_narrow(&self) -> bool {
        let SessionFilterArgs { provider, project, since, until } = self;
        provider.is_some() || project.is_some() || since.is_some() || until.is_some()
    }
}

/// What an empty list of sessions says: what to do next.
pub(crate) fn nothing_listed(filter: &SessionFilterArgs, what: &str) -> String {
    match filter.is_narrow() {
        true => format!("no {what} match; leave an option out to see more"),
        false => nothing_recorded(what),
    }
}

/// What a list says when nothing is recorded yet.
pub(crate) fn nothing_recorded(what: &str) -> String {
    format!(
        "no {what} yet; `hansard up` records what agents write, `hansard import --sample` adds \
         three recorded sessions"
    )
}
