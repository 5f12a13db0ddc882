//! `hansard bus listen`: prints messages as they arrive.

use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;

use bus::{Client, ClientEvent, ClientSettings, Filter, Message, StartPosition};

use super::{CommandResult, Completion, end_on_signal};
use crate::error::CliError;
use crate::output::{CliOutput, is_hostile};

#[derive(Args)]
pub(crate) struct ListenArgs {
    /// Only messages of this tract; repeatable
    #[arg(long = "tract", value_name = "TRACT")]
    tracts: Vec<String>,
    /// Only messages with this event; repeatable
    #[arg(long = "event", value_name = "EVENT")]
    events: Vec<String>,
    /// Print what was recorded after this position first; `now` is the end
    #[arg(long, value_name = "POSITION", value_parser = parse_start)]
    from: Option<StartPosition>,
    /// Indent the messages
    #[arg(long, short)]
    pretty: bool,
    /// Stop after this many messages
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Stop with exit code 1 after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    timeout: Option<Duration>,
    /// Stop with exit code 3 if no bus is running, instead of waiting
    #[arg(long)]
    no_wait: bool,
}

/// The wait without `--timeout`.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3_600);

impl ListenArgs {
    pub(super) fn run(&self, path: &Path, output: &mut CliOutput) -> CommandResult {
        let filter =
            Filter { tracts: self.tracts.clone(), events: self.events.clone(), fields: Vec::new() };
        let settings = ClientSettings { filter, from: self.from, ..ClientSettings::default() };
        let client = Client::start(path, settings)?;
        // From here on Ctrl-C ends the client, and with that the wait below.
        let signaled = end_on_signal(&client)?;
        let heard = self.print_messages(path, &client, output);
        signaled.close();
        heard
    }

    fn print_messages(
        &self,
        path: &Path,
        client: &Client,
        output: &mut CliOutput,
    ) -> CommandResult {
        let until = Instant::now() + self.timeout.unwrap_or(FOREVER);
        let mut left = self.count.unwrap_or(u64::MAX);
        while left > 0 {
            let Some(item) = client.next(until.saturating_duration_since(Instant::now())) else {
                // The wait also ends by a signal, which is no failure.
                let is_late = Instant::now() >= until;
                return Ok(if is_late { Completion::Negative } else { Completion::Success });
            };
            match item {
                ClientEvent::Message(message) => {
                    self.print_message(&message, output)?;
                    left -= 1;
                }
                // The client connects again by itself.
                ClientEvent::Disconnected => {
                    let told = format!("no bus listens at `{}`", path.display());
                    if self.no_wait {
                        return Err(CliError::new("no_bus", told)
                            .hint("`hansard bus serve` starts one")
                            .not_running());
                    }
                    output.note(format!("{told}; waiting"));
                }
                ClientEvent::Lagged { dropped } => {
                    output.note(format!("{dropped} messages were missed"));
                }
                ClientEvent::CaughtUp { position } => {
                    output.note(format!("caught up at position {position}"));
                }
                ClientEvent::Refused { reason } => {
                    let told = format!("the bus at `{}` refuses: {reason}", path.display());
                    let hint = match reason.as_str() {
                        "beyond" => {
                            "the journal ends before that position; `--from now` starts at its end"
                        }
                        _ => "only the bus of `hansard up` has a journal to read from",
                    };
                    return Err(CliError::new("refused", told).hint(hint));
                }
                ClientEvent::Connected | ClientEvent::Lost(_) => {}
            }
        }
        Ok(Completion::Success)
    }

    fn print_message(&self, message: &Message, output: &mut CliOutput) -> Result<(), CliError> {
        if self.pretty && !output.json() {
            output.line(message.pretty(is_hostile))?;
        } else {
            // Other servers may send characters above ASCII unescaped.
            output.line(message.ascii_line().replace('\x7f', "\\u007f"))?;
        }
        // Each message at once: a reader in a pipe waits for it.
        output.flush()
    }
}

fn parse_start(text: &str) -> Result<StartPosition, String> {
    match text {
        "now" => Ok(StartPosition::Now),
        text => {
            let position = text.parse().map_err(|_| "not a position or `now`")?;
            Ok(StartPosition::After(position))
        }
    }
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|duration| *duration < FOREVER)
        .ok_or_else(|| "not a valid duration".to_owned())
}
