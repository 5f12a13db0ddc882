//! Instants and their text.

use event::Time;
use proptest::prelude::*;

use crate::any;

fn time(text: &str) -> Time {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

proptest! {
    #[test]
    fn time_survives_its_text(time in any::time()) {
        prop_assert_eq!(time.to_string().parse(), Ok(time));
        prop_assert_eq!(Time::from_nanos(time.nanos()), time);
        let (micros, rest) = time.micros_and_rest();
        prop_assert_eq!(Time::from_micros_and_rest(micros, rest), time);
    }

    #[test]
    fn times_compare_as_instants(one in any::time(), other in any::time()) {
        prop_assert_eq!(one.cmp(&other), one.nanos().cmp(&other.nanos()));
        prop_assert_eq!(one.cmp(&other), one.micros_and_rest().cmp(&other.micros_and_rest()));
    }

    #[test]
    fn offset_keeps_the_instant(
        millis in 0..4_102_444_800_000i64,
        hours in 0..24i64,
        minutes in 0..60i64,
        is_west in any::<bool>(),
    ) {
        let secs = (hours * 3_600 + minutes * 60) * if is_west { -1 } else { 1 };
        let sign = if is_west { '-' } else { '+' };
        let local = Time::from_millis(millis + secs * 1_000).to_string();
        let text = format!("{}{sign}{hours:02}:{minutes:02}", local.trim_end_matches('Z'));
        prop_assert_eq!(text.parse(), Ok(Time::from_millis(millis)));
    }

    #[test]
    fn parsing_never_panics(text in any::<String>()) {
        let _ = text.parse::<Time>();
    }

    #[test]
    fn near_times_never_panic(text in r"[+-]?[0-9]{1,7}-[0-9]{2}-[0-9]{2}[T ][0-9:.Zé+-]{0,20}") {
        if let Ok(time) = text.parse::<Time>() {
            prop_assert_eq!(time.to_string().parse(), Ok(time));
        }
    }
}

#[test]
fn times_are_parsed_exactly() {
    for (text, nanos) in [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1969-12-31T23:59:59.999999999Z", -1),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T19:00:00-05:00", 0),
        ("2000-02-29T12:00:00.5Z", 951_825_600_500_000_000),
        ("2026-03-01T09:00:00.123456789Z", 1_772_355_600_123_456_789),
        ("0000-01-01T00:00:00Z", -62_167_219_200_000_000_000),
        ("9999-12-31T23:59:59Z", 253_402_300_799_000_000_000),
        ("+12000-01-01T00:00:00Z", 316_516_204_800_000_000_000),
        ("-00001-12-31T23:59:59Z", -62_167_219_201_000_000_000),
    ] {
        assert_eq!(time(text).nanos(), nanos, "{text}");
        if text.ends_with('Z') {
            assert_eq!(time(text).to_string(), text);
        }
    }
}

#[test]
fn spellings_are_normalized() {
    for (spelled, written) in [
        ("2026-03-01t09:00:00z", "2026-03-01T09:00:00Z"),
        ("2026-03-01 09:00:00Z", "2026-03-01T09:00:00Z"),
        (" 2026-03-01T09:00:00Z\n", "2026-03-01T09:00:00Z"),
        ("2026-03-01T09:00:00.000Z", "2026-03-01T09:00:00Z"),
        ("2026-03-01T09:00:00.250Z", "2026-03-01T09:00:00.25Z"),
        ("2026-03-01T09:00:00.1234567891234Z", "2026-03-01T09:00:00.123456789Z"),
        ("2026-03-01T09:00:00-00:00", "2026-03-01T09:00:00Z"),
        ("2026-03-01T00:30:00+05:45", "2026-02-28T18:45:00Z"),
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59Z"),
        ("+2026-03-01T09:00:00Z", "2026-03-01T09:00:00Z"),
        ("9999-12-31T23:59:59-01:00", "+10000-01-01T00:59:59Z"),
        ("0000-01-01T00:00:00+01:00", "-00001-12-31T23:00:00Z"),
    ] {
        assert_eq!(time(spelled).to_string(), written, "{spelled}");
    }
}

#[test]
fn invalid_times_are_refused() {
    for text in [
        "",
        "Z",
        "yesterday",
        "2026-03-01",
        "2026-03-01T09:00:00",
        "2026-03-01T09:00Z",
        "2026-3-1T09:00:00Z",
        "2026-00-01T09:00:00Z",
        "2026-13-01T09:00:00Z",
        "2026-03-00T09:00:00Z",
        "2026-03-32T09:00:00Z",
        "2026-02-29T09:00:00Z",
        "1900-02-29T09:00:00Z",
        "2026-04-31T09:00:00Z",
        "2026-03-01T24:00:00Z",
        "2026-03-01T09:60:00Z",
        "2026-03-01T09:00:61Z",
        "2026-03-01T09:00:00.Z",
        "2026-03-01T09:00:00,5Z",
        "2026-03-01T09:00:00+24:00",
        "2026-03-01T09:00:00+01:60",
        "2026-03-01T09:00:00+0100",
        "2026-03-01T09:00:00Z tomorrow",
        "é026-03-01T09:00:00Z",
        "+-026-03-01T09:00:00Z",
        "+200001-01-01T00:00:00Z",
        "-200001-01-01T00:00:00Z",
        "+200000-12-31T23:59:59-00:01",
        "-200000-01-01T00:00:00+00:01",
        "+99999999999999999999-01-01T00:00:00Z",
    ] {
        assert!(text.parse::<Time>().is_err(), "{text}");
    }
}

#[test]
fn times_are_clamped_to_the_range() {
    assert_eq!(Time::from_nanos(i128::MAX), Time::MAX);
    assert_eq!(Time::from_nanos(i128::MIN), Time::MIN);
    assert_eq!(Time::from_millis(i64::MAX), Time::MAX);
    assert_eq!(Time::from_micros_and_rest(i64::MIN, u16::MAX), Time::MIN);
    assert_eq!(Time::MAX.to_string(), "+200000-12-31T23:59:59.999999999Z");
    assert_eq!(Time::MIN.to_string(), "-200000-01-01T00:00:00Z");
    for time in [Time::MIN, Time::MAX] {
        assert_eq!(time.to_string().parse(), Ok(time));
    }
}

#[test]
fn id_millis_are_clamped() {
    assert_eq!(time("1969-12-31T23:59:59Z").id_millis(), 0);
    assert_eq!(time("1970-01-01T00:00:01.0019Z").id_millis(), 1_001);
    assert_eq!(time("+12000-01-01T00:00:00Z").id_millis(), (1 << 48) - 1);
}

#[test]
fn whole_second_precedes_its_fractions() {
    assert!(time("2026-03-01T12:00:00Z") < time("2026-03-01T12:00:00.5Z"));
    assert!(time("2026-03-01T12:00:00+02:00") < time("2026-03-01T11:00:00Z"));
}

#[test]
fn millis_until_earlier_is_zero() {
    let (early, late) = (time("2026-03-02T09:14:21.500Z"), time("2026-03-02T09:14:23.250999Z"));
    assert_eq!(early.millis_until(late), 1_750);
    assert_eq!(late.millis_until(early), 0);
    assert_eq!(late.millis_until(late), 0);
}
