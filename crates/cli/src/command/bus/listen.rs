//! `hansard bus listen`: every message as it comes.

use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;

use bus::{Client, ClientEvent, ClientSettings, Filter, Message, StartPosition};

use super::{Done, end_on_signal};
use crate::error::CliError;
use crate::output::{Output, is_hostile};

#[derive(Args)]
pub(crate) struct Listen {
    /// Only messages of this tract; may be given several times
    #[arg(long = "tract", value_name = "TRACT")]
    tracts: Vec<String>,
    /// Only this event; may be given several times
    #[arg(long = "event", value_name = "EVENT")]
    events: Vec<String>,
    /// Start behind this position of the journal, or at `now`. Recorded messages come first, and
    /// none is missed
    #[arg(long, value_name = "POSITION", value_parser = begin)]
    from: Option<StartPosition>,
    /// Indent messages, for people
    #[arg(long, short)]
    pretty: bool,
    /// End after this many messages
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// End with exit code 1 after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// End with exit code 3 if nobody listens, instead of waiting
    #[arg(long)]
    no_wait: bool,
}

/// Waiting for so long is waiting for ever.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3_600);

impl Listen {
    pub(super) fn run(&self, path: &Path, output: &mut Output) -> Result<Done, CliError> {
        let filter =
            Filter { tracts: self.tracts.clone(), events: self.events.clone(), fields: Vec::new() };
        let settings = ClientSettings { filter, from: self.from, ..ClientSettings::default() };
        let client = Client::start(path, settings)?;
        let signaled = end_on_signal(&client)?;
        let heard = self.hear(path, &client, output);
        signaled.close();
        heard
    }

    fn hear(&self, path: &Path, client: &Client, output: &mut Output) -> Result<Done, CliError> {
        let until = Instant::now() + self.timeout.unwrap_or(FOREVER);
        let mut left = self.count.unwrap_or(u64::MAX);
        while left > 0 {
            let Some(item) = client.next(until.saturating_duration_since(Instant::now())) else {
                let is_late = Instant::now() >= until;
                return Ok(if is_late { Done::NotSo } else { Done::Yes });
            };
            match item {
                ClientEvent::Message(message) => {
                    self.print(&message, output)?;
                    left -= 1;
                }
                ClientEvent::Disconnected => {
                    let told = format!("no bus listens at `{}`", path.display());
                    if self.no_wait {
                        return Err(CliError::new("no_bus", told)
                            .hint("`hansard bus serve` starts one")
                            .absent());
                    }
                    output.note(format!("{told}; waiting"));
                }
                ClientEvent::Lagged { dropped } => {
                    output.note(format!("{dropped} messages were missed here"));
                }
                ClientEvent::CaughtUp { position } => {
                    output.note(format!("caught up at position {position}"));
                }
                ClientEvent::Refused { reason } => {
                    let told = format!("the bus at `{}` refuses: {reason}", path.display());
                    let hint = match reason.as_str() {
                        "beyond" => "the journal does not go that far; `--from now` is its end",
                        _ => "only the bus of `hansard up` has a journal to read from",
                    };
                    return Err(CliError::new("refused", told).hint(hint));
                }
                ClientEvent::Connected | ClientEvent::Lost(_) => {}
            }
        }
        Ok(Done::Yes)
    }

    fn print(&self, message: &Message, output: &mut Output) -> Result<(), CliError> {
        if self.pretty && !output.json() {
            output.line(message.pretty(is_hostile))?;
        } else {
            // A server of another make may send letters as they are.
            output.line(message.ascii_line().replace('\x7f', "\\u007f"))?;
        }
        output.flush()
    }
}

fn begin(text: &str) -> Result<StartPosition, String> {
    match text {
        "now" => Ok(StartPosition::Now),
        text => {
            let position = text.parse().map_err(|_| "it is neither a position nor `now`")?;
            Ok(StartPosition::After(position))
        }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is no number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|duration| *duration < FOREVER)
        .ok_or_else(|| "it is no length of time".to_owned())
}
