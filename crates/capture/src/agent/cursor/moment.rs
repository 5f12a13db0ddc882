//! Times as the editor writes them for people: `Friday, May 8, 2026, 3:53 PM (UTC+5:30)`.

use event::Time;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The moment a text tells, if it tells one with its distance from UTC.
pub(super) fn parse_moment(text: &str) -> Option<Time> {
    let text = text.trim();
    if let Ok(time) = text.parse() {
        return Some(time);
    }
    let (text, zone) = text.strip_suffix(')')?.rsplit_once("(UTC")?;
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let [date, year, clock] = parts[..] else {
        // The day of the week stands in front.
        let [_, date, year, clock] = parts[..] else { return None };
        return moment_from_parts(date, year, clock, zone);
    };
    moment_from_parts(date, year, clock, zone)
}

fn moment_from_parts(date: &str, year: &str, clock: &str, zone: &str) -> Option<Time> {
    let (month, day) = date.split_once(' ')?;
    // The name of the month may be whole or short.
    let month = MONTHS.iter().position(|name| month.starts_with(name))? + 1;
    let day: u32 = day.parse().ok()?;
    let year: u32 = year.parse().ok()?;
    let (clock, half) = clock.split_once(' ')?;
    let (hour, minute) = clock.split_once(':')?;
    let hour: u32 = hour.parse().ok().filter(|hour| (1..=12).contains(hour))?;
    let minute: u32 = minute.parse().ok()?;
    // 12 AM is hour 0, 12 PM is hour 12.
    let hour = match half {
        "AM" => hour % 12,
        "PM" => hour % 12 + 12,
        _ => return None,
    };
    let zone = utc_offset(zone)?;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:00{zone}").parse().ok()
}

/// `+2`, `-7`, `+5:30` or nothing, as RFC 3339 writes it.
fn utc_offset(text: &str) -> Option<String> {
    if text.is_empty() {
        return Some("Z".to_owned());
    }
    let (sign, rest) = text.split_at_checked(1)?;
    let (hours, minutes) = rest.split_once(':').unwrap_or((rest, "0"));
    let hours: u32 = hours.parse().ok()?;
    let minutes: u32 = minutes.parse().ok()?;
    matches!(sign, "+" | "-").then(|| format!("{sign}{hours:02}:{minutes:02}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_for_people_is_a_time() {
        for (text, expected) in [
            ("Friday, May 8, 2026, 3:53 PM (UTC+5:30)", "2026-05-08T10:23:00Z"),
            ("Sunday, May 31, 2026, 2:19 AM (UTC-7)", "2026-05-31T09:19:00Z"),
            ("Saturday, Jul 11, 2026, 12:31 AM (UTC+2)", "2026-07-10T22:31:00Z"),
            ("Jan 1, 2026, 12:00 PM (UTC)", "2026-01-01T12:00:00Z"),
            ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ] {
            assert_eq!(parse_moment(text), Some(expected.parse().unwrap()), "{text}");
        }
        for text in
            ["", "today", "Friday, Foo 8, 2026, 3:53 PM (UTC)", "May 8, 2026, 13:53 PM (UTC)"]
        {
            assert_eq!(parse_moment(text), None, "{text}");
        }
    }
}
