//! Money.

use event::Cost;
use proptest::prelude::*;

use crate::any;

fn cost(text: &str) -> Cost {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

proptest! {
    #[test]
    fn cost_survives_its_text(cost in any::cost()) {
        prop_assert_eq!(cost.to_string().parse(), Ok(cost));
        let json = serde_json::to_string(&cost).unwrap();
        prop_assert_eq!(serde_json::from_str::<Cost>(&json).unwrap(), cost);
    }

    #[test]
    fn sum_is_independent_of_order(
        costs in prop::collection::vec(any::cost(), 0..20).prop_shuffle(),
    ) {
        let sum: Cost = costs.iter().copied().sum();
        prop_assert_eq!(costs.iter().rev().copied().sum::<Cost>(), sum);
        let mut sorted = costs;
        sorted.sort();
        prop_assert_eq!(sorted.into_iter().sum::<Cost>(), sum);
    }

    #[test]
    fn sum_equals_repeated_addition(nanos in prop::collection::vec(0..1i64 << 40, 0..20)) {
        let costs = || nanos.iter().map(|nanos| Cost::from_nanos(*nanos));
        let mut total = Cost::ZERO;
        costs().for_each(|cost| total += cost);
        prop_assert_eq!(total, costs().sum());
        prop_assert_eq!(total.nanos(), nanos.iter().sum::<i64>());
    }

    #[test]
    fn exponent_moves_the_decimal_point(nanos in any::<i64>(), places in 0..40i32) {
        let text = format!("{nanos}{}e-{}", "0".repeat(places as usize), 9 + places);
        prop_assert_eq!(text.parse(), Ok(Cost::from_nanos(nanos)));
        let (sign, digits) = (if nanos < 0 { "-" } else { "" }, nanos.unsigned_abs());
        let text = format!("{sign}0.{}{digits}E+{}", "0".repeat(places as usize), places - 9 + digits.to_string().len() as i32);
        prop_assert_eq!(text.parse(), Ok(Cost::from_nanos(nanos)));
    }

    #[test]
    fn parsing_never_panics(text in "-?[0-9]{0,30}[.]?[0-9]{0,30}([eE][+-]?[0-9]{0,25})?") {
        if let Ok(cost) = text.parse::<Cost>() {
            prop_assert_eq!(cost.to_string().parse(), Ok(cost));
        }
    }
}

#[test]
fn cents_add_up() {
    let total: Cost = ["0.01", "0.05", "0", "0.02"].map(cost).into_iter().sum();
    assert_eq!(total.to_string(), "0.08");
    assert_eq!(cost("0.3") - cost("0.1") - cost("0.2"), Cost::ZERO);
}

#[test]
fn amounts_are_parsed_exactly() {
    for (text, nanos) in [
        ("0", 0),
        ("-0", 0),
        ("-0.0", 0),
        ("1", 1_000_000_000),
        ("12.5", 12_500_000_000),
        ("0.000000001", 1),
        ("-0.000000001", -1),
        ("1e-9", 1),
        ("1E-9", 1),
        ("1.5e+3", 1_500_000_000_000),
        ("3e-05", 30_000),
        ("0.1234567891", 123_456_789),
        ("0.1234567895", 123_456_790),
        ("-0.1234567895", -123_456_790),
        ("4e-10", 0),
        ("5e-10", 1),
        ("0.00000000049999999999999999999999", 0),
        ("0.99999999999999999999999999", 1_000_000_000),
        ("0e99999999999999999999", 0),
        ("1e-99999999999999999999", 0),
        ("9223372036.854775807", i64::MAX),
        ("-9223372036.854775808", i64::MIN),
    ] {
        assert_eq!(cost(text).nanos(), nanos, "{text}");
    }
}

#[test]
fn invalid_amounts_are_refused() {
    for text in [
        "",
        "-",
        ".",
        "e5",
        "1e",
        "1e+",
        "1e+-5",
        "1e5.5",
        "+1",
        "1,5",
        "1_000",
        "$1",
        "NaN",
        "1.2.3",
        "9223372036.854775808",
        "9223372036.8547758075",
        "1e10",
        "1e99999999999999999999",
    ] {
        assert!(text.parse::<Cost>().is_err(), "{text}");
    }
    for json in [r#""1""#, "true", "[1]", "null"] {
        assert!(serde_json::from_str::<Cost>(json).is_err(), "{json}");
    }
}

#[test]
fn too_large_total_saturates() {
    let most = Cost::from_nanos(i64::MAX);
    assert_eq!(most + Cost::from_nanos(1), most);
    assert_eq!(
        [most, most, Cost::from_nanos(-5), Cost::ZERO - most].into_iter().sum::<Cost>(),
        most - Cost::from_nanos(5)
    );
}
