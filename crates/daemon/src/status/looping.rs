//! What is said of a session that fails in the same way again and again.

use projection::status::Repetition;
use projection::{PriceTable, Terms};

/// How often it failed and what that has used, in one sentence that is not yet redacted.
pub(super) fn describe_loop(repeated: &Repetition, prices: &PriceTable) -> String {
    let (model, used) = repeated.used();
    let tokens = used.context().saturating_add(used.output);
    // Prices above some context are left out: the sum has requests of many sizes.
    let cost = prices.cost(model, Terms::default(), used).map(|cost| cost.usd.nanos());
    let cost = cost.filter(|nanos| *nanos > 0);
    let cost = cost.map(|nanos| format!(", ${:.2}", nanos as f64 / 1e9));
    format!(
        "{} times with the same failure and no edit between ({tokens} tokens{}): {}",
        repeated.count(),
        cost.unwrap_or_default(),
        repeated.doing(),
    )
}
