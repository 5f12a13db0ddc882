//! `hansard dream`: builds activities and digests from segments. The daemon runs it.

use bus::Draft;
use clap::Args;
use segments::{Day, Dream as Mode, DreamEvent, SegmentKey, Zone};

use super::bus::SocketArgs;
use super::{CommandResult, Completion, Global};
use crate::error::CliError;
use crate::output::{CliOutput, one_line};
use crate::world;

/// Build activities and digests from segments.
#[derive(Args)]
pub(crate) struct DreamArgs {
    /// The day, such as 20261116
    #[arg(long, value_parser = parse_day)]
    day: Day,
    /// A new segment
    #[arg(long, value_name = "KEY")]
    segment: Option<String>,
    /// The stream of the segment, if it has one
    #[arg(long, requires = "segment", value_name = "NAME")]
    stream: Option<String>,
    /// Close all open activities
    #[arg(long, requires = "segment")]
    flush: bool,
    /// All segments of the day are complete
    #[arg(long, conflicts_with_all = ["segment", "activity"])]
    segments: bool,
    /// A finished activity
    #[arg(long, requires = "facet", conflicts_with = "segment", value_name = "ID")]
    activity: Option<String>,
    /// The project of the activity
    #[arg(long, requires = "activity", value_name = "NAME")]
    facet: Option<String>,
    #[command(flatten)]
    at: SocketArgs,
}

impl DreamArgs {
    pub(crate) fn run(&self, global: &Global, output: &mut CliOutput) -> CommandResult {
        let mode = self.dream_mode()?;
        let journal = world::journal_to_write(global, output)?;
        let path = self.at.path(global)?;
        // Printed at the end: the results count, and stdout may be slow.
        let mut lines = Vec::new();
        let mut tell = |told: DreamEvent| {
            // The results are in the journal's folder. The message is only news, so a missing bus is
            // no failure.
            let draft = Draft::new(told.tract, told.event).with("rev", env!("CARGO_PKG_VERSION"));
            let fields = told.fields.iter();
            let draft = fields.fold(draft, |draft, (name, value)| draft.with(name, value));
            if let Ok(message) = draft.build() {
                let _ = bus::send(&path, &[message]);
            }
            lines.push(told);
        };
        let dreamed = mode.run(&journal, &Zone::system(), world::now(), &mut tell);
        // Also after an error: what was written is complete.
        journal.close();
        dreamed?;
        for DreamEvent { tract, event, fields } in lines {
            match output.json() {
                true => output.json_line(&fields)?,
                false => {
                    let what = fields.get("id").or(fields.get("mode")).map(ToString::to_string);
                    let what = one_line(&what.unwrap_or_default(), 80);
                    output.line(format!("{tract}.{event} {what}"))?;
                }
            }
        }
        output.flush()?;
        Ok(Completion::Success)
    }

    fn dream_mode(&self) -> Result<Mode, CliError> {
        let day = self.day;
        if let (Some(id), Some(facet)) = (&self.activity, &self.facet) {
            return Ok(Mode::Activity { day, facet: facet.clone(), id: id.clone() });
        }
        if let Some(segment) = &self.segment {
            // Checked here: the words become parts of a path.
            let key = match &self.stream {
                Some(stream) => SegmentKey::parse(&day.to_string(), stream, segment),
                None => SegmentKey::without_stream(&day.to_string(), segment),
            };
            let key = key.ok_or_else(|| {
                let stream = self.stream.as_ref().map_or(String::new(), |it| format!("{it}/"));
                let name = one_line(&format!("{stream}{segment}"), 80);
                CliError::new("bad_segment", format!("`{name}` is not a segment")).hint(
                    "use the name of its folder, such as `--stream claude --segment 143045_300`",
                )
            })?;
            return Ok(if self.flush { Mode::Flush(key) } else { Mode::Segment(key) });
        }
        Ok(if self.segments { Mode::Segments(day) } else { Mode::Daily(day) })
    }
}

fn parse_day(text: &str) -> Result<Day, String> {
    Day::parse(text).ok_or_else(|| "write it as 20261116".to_owned())
}
