//! Sources that were damaged: whatever stands in them, nothing is lost and no parser fails.

use capture::Agent;

use crate::handmade::Home;
use crate::scenario::{STATE_BYTES_MAX, files, fixtures};

/// Damages every line of a recording in several ways, and reads what comes out.
#[track_caller]
pub(crate) fn check_mangled(agent: &dyn Agent, scenario: &str) {
    let home = fixtures().join(agent.provider()).join(scenario).join("home");
    let mut random = Random(1);
    for (name, bytes) in files(&home) {
        let Ok(text) = String::from_utf8(bytes) else { continue };
        for _ in 0..4 {
            let mut lines = String::new();
            for line in text.lines() {
                lines.push_str(&mangled(line, &mut random));
                lines.push('\n');
            }
            let mut damaged = Home::new();
            damaged.write(name.to_str().unwrap(), &lines);
            damaged.read(agent);
            for position in damaged.sink.positions.values() {
                let position: serde_json::Value = serde_json::from_str(position).unwrap();
                let state = position["state"].as_str().unwrap_or_default();
                assert!(state.len() <= STATE_BYTES_MAX, "{scenario}: {state}");
            }
        }
    }
}

/// A line with one value replaced, one piece doubled, or its end cut off.
pub(crate) fn mangled(line: &str, random: &mut Random) -> String {
    const VALUES: [&str; 8] =
        ["null", "[]", "{}", "-1", "\"\"", "true", "18446744073709551615", "\"\\ud800\""];
    let place = random.below(line.len().max(1));
    let Some(place) = line.get(..place).map(str::len) else { return line.to_owned() };
    let value = line[place..].find(':').map(|colon| place + colon + 1);
    match (random.below(6), value) {
        (0, _) => line[..place].to_owned(),
        (1, _) => format!("{}{}", line, &line[place..]),
        (_, Some(begin)) => {
            let mut values = serde_json::Deserializer::from_str(&line[begin..])
                .into_iter::<serde::de::IgnoredAny>();
            if values.next().is_none_or(|value| value.is_err()) {
                return line.to_owned();
            }
            let end = begin + values.byte_offset();
            format!("{}{}{}", &line[..begin], VALUES[random.below(VALUES.len())], &line[end..])
        }
        _ => line.to_owned(),
    }
}

/// Numbers without order, the same in every run.
pub(crate) struct Random(pub u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % end
    }
}
