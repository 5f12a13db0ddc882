//! Which price applies to a model, and what the agent's own sums do to it.

use event::{SessionId, Time};
use expect_test::expect;
use projection::{
    Basis, Facts, Grouping, ImportedPrices, MoneyParts, PriceForm, PriceList, PriceSource,
    PriceTable, Projection, Spending, Spent, SpentRow,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::given::{Log, amends, inherited};

fn spent(log: &Log) -> Spent {
    Spent::from_facts(&folded(log), &PriceTable::shipped())
}

fn folded(log: &Log) -> Facts {
    let mut facts = Facts::default();
    log.events.iter().for_each(|event| facts.apply(event));
    facts
}

/// The money in all, and its parts: reported, computed, estimated.
fn money(log: &Log) -> (String, [String; 3]) {
    let money = spent(log).money;
    let MoneyParts { reported, computed, estimated } = money.parts;
    let usd = money.usd.map_or("-".to_owned(), |usd| usd.to_string());
    (usd, [reported, computed, estimated].map(|part| part.to_string()))
}

fn with_usage(model: &str, usage: Value) -> Log {
    let mut log = Log::started();
    log.add("step.completed", json!({"model": model, "usage": usage}));
    log
}

fn report(log: &mut Log, model: &str, input: u64, output: u64, cost: f64) {
    let usage = json!({"input_tokens": input, "output_tokens": output, "cost": cost});
    log.add(
        "usage.reported",
        json!({"agent_id": "", "models": [{"model": model, "usage": usage}]}),
    );
}

#[test]
fn an_unknown_model_is_priced_as_the_newest_of_its_family() {
    let table = PriceTable::shipped();
    for (model, like) in [
        ("claude-opus-9", "claude-opus-5-5"),
        ("anthropic/claude-opus-9.1-20271201", "claude-opus-5-5"),
        ("claude-haiku-9", "claude-haiku-5-5"),
        ("gpt-7-sol", "gpt-6.1-sol"),
        ("gemini-9-flash-lite-preview", "gemini-3.5-flash-lite"),
        ("grok-9", "grok-4.7"),
        ("qwen9-max", "qwen3.8-max"),
        ("o9-mini", "o4-mini"),
    ] {
        let applied = table.find(model).expect(model);
        assert_eq!((applied.name, applied.source), (like, PriceSource::Family), "{model}");
    }
    let log = with_usage("claude-opus-9", json!({"input_tokens": 1_000_000}));
    assert_eq!(money(&log), ("4".into(), ["0", "0", "4"].map(Into::into)));
    assert_eq!(spent(&log).basis(), Basis::Estimated);
}

#[test]
fn own_prices_go_before_shipped_ones() {
    let own = r#"{"version": 1, "models": {"claude-opus-9": {"input": 7, "output": 1},
        "gpt-5": {"input": 8, "output": 1}}}"#;
    let table = PriceTable::with_own(PriceList::parse(own).unwrap());
    let found = |model| table.find(model).map(|applied| (applied.name.to_owned(), applied.source));
    assert_eq!(found("gpt-5-2025-08-07"), Some(("gpt-5".into(), PriceSource::Own)));
    assert_eq!(found("gpt-5-mini"), Some(("gpt-5-mini".into(), PriceSource::Shipped)));
    assert_eq!(found("claude-opus-10"), Some(("claude-opus-9".into(), PriceSource::Family)));
}

#[test]
fn a_mode_has_its_own_price() {
    let usd = |model: &str, mode: Option<&str>| {
        let usage = json!({"input_tokens": 1_000_000, "output_tokens": 100_000, "mode": mode});
        money(&with_usage(model, usage)).0
    };
    assert_eq!(usd("claude-opus-5-5", None), "6");
    assert_eq!(usd("claude-opus-5-5", Some("batch")), "3");
    assert_eq!(usd("claude-opus-5-5", Some("fast")), "12");
    assert_eq!(usd("gpt-6-sol", Some("priority")), "11", "twice, with a long context");
    let log = with_usage("claude-sonnet-5-5", json!({"input_tokens": 1_000_000, "mode": "warp"}));
    assert_eq!(money(&log).1, ["0", "0", "2"], "a mode without a price is estimated");
}

#[test]
fn a_cache_write_for_an_hour_costs_more() {
    let usage = json!({"cache_creation_tokens": 1_000_000, "cache_creation_1h_tokens": 400_000});
    assert_eq!(money(&with_usage("claude-opus-5-5", usage)).0, "6.2");
}

#[test]
fn each_band_of_context_has_its_price() {
    let usd = |model: &str, input: u64| money(&with_usage(model, json!({"input_tokens": input}))).0;
    assert_eq!(usd("claude-haiku-5-5", 100_000), "0.01");
    assert_eq!(usd("claude-haiku-5-5", 200_000), "0.1");
    assert_eq!(usd("qwen3-coder-plus", 40_000), "0.072");
    assert_eq!(usd("gpt-6.1-sol", 300_000), "1.2");
}

#[test]
fn names_of_one_model_share_a_row() {
    let mut log = Log::started();
    for name in ["claude-opus-4-5-20251101", "anthropic/claude-opus-4.5", "claude-opus-4-5[1m]"] {
        log.step(name, 1_000, 0);
    }
    log.step("nova-9-20271201", 1, 1);
    log.step("nova-9", 1, 1);
    assert_eq!(keys(&log, Grouping::Model), ["claude-opus-4-5", "nova-9"]);
}

fn keys(log: &Log, grouping: Grouping) -> Vec<String> {
    let mut spending = Spending::grouped_by(grouping);
    let session = SessionId::new("claude:s").unwrap();
    spending.add_session(&session, "claude", &folded(log), &PriceTable::shipped());
    spending.rows().map(|row| row.key.unwrap_or_default()).collect()
}

#[test]
fn a_report_of_the_agent_counts_first() {
    let mut log = Log::started();
    log.step("claude-opus-5-5", 1_000, 10);
    log.step("claude-opus-5-5", 2_000, 20);
    report(&mut log, "claude-opus-5-5", 3_000, 30, 0.5);
    assert_eq!(money(&log), ("0.5".into(), ["0.5", "0", "0"].map(Into::into)));
    assert_eq!(spent(&log).basis(), Basis::Exact);
    // The same sums again, and then more of them.
    report(&mut log, "claude-opus-5-5", 3_000, 30, 0.5);
    log.step("claude-opus-5-5", 1_000, 0);
    assert_eq!(money(&log), ("0.504".into(), ["0.5", "0.004", "0"].map(Into::into)));
    report(&mut log, "claude-opus-5-5[1m]", 4_000, 30, 0.75);
    assert_eq!(money(&log).0, "0.75");
}

#[test]
fn names_of_one_model_are_one_sum_of_a_report() {
    let mut log = Log::started();
    log.step("claude-opus-5-5", 1_000, 10);
    for (plain, long) in [(2.0, 5.0), (2.1, 5.5)] {
        let entry = |model: &str, cost: f64| {
            let usage = json!({"input_tokens": 1_000, "output_tokens": 10, "cost": cost});
            json!({"model": model, "usage": usage})
        };
        let models = [entry("claude-opus-5-5", plain), entry("claude-opus-5-5[1m]", long)];
        log.add("usage.reported", json!({"agent_id": "", "models": models}));
    }
    assert_eq!(money(&log).0, "7.6");
}

#[test]
fn a_report_that_lacks_a_part_is_no_new_beginning() {
    let mut log = Log::started();
    let mut report_with = |parts: serde_json::Value, cost: f64| {
        let mut usage = json!({"input_tokens": 100, "output_tokens": 50, "cost": cost});
        usage.as_object_mut().unwrap().extend(parts.as_object().unwrap().clone());
        let models = json!([{"model": "claude-opus-5-5", "usage": usage}]);
        log.add("usage.reported", json!({"agent_id": "", "models": models}));
    };
    report_with(json!({"reasoning_tokens": 20}), 1.0);
    report_with(json!({}), 1.5);
    // A sum below zero is no sum.
    report_with(json!({}), -3.0);
    assert_eq!(money(&log).0, "1.5");
}

#[test]
fn a_report_prices_a_model_that_the_table_lacks() {
    let mut log = Log::started();
    log.step("nova-9", 1_000, 10);
    log.at = "2026-11-17T08:00:00Z".parse().unwrap();
    log.step("nova-9", 1_000, 10);
    report(&mut log, "nova-9", 2_000, 20, 0.3);
    assert_eq!(money(&log).0, "0.3");
    let mut spending = Spending::grouped_by(Grouping::Daily);
    let session = SessionId::new("claude:s").unwrap();
    spending.add_session(&session, "claude", &folded(&log), &PriceTable::shipped());
    let days: Vec<_> =
        spending.rows().map(|row| row.spent.money.usd.unwrap().to_string()).collect();
    assert_eq!(days, ["0.15", "0.15"]);
}

#[test]
fn requests_that_no_record_shows_are_in_the_report() {
    let mut log = Log::started();
    log.step("claude-opus-5-5", 1_000, 0);
    report(&mut log, "claude-opus-5-5", 4_000, 0, 0.016);
    assert_eq!(money(&log).0, "0.016");
    assert_eq!(spent(&log).tokens.input, 1_000, "tokens are those of the record");
}

#[test]
fn use_of_a_subagent_counts_in_its_own_session() {
    let mut log = Log::started();
    log.step("claude-opus-5-5", 1_000, 0);
    log.use_tool("Task", json!({"prompt": "look around"}));
    report(&mut log, "claude-opus-5-5", 4_000, 0, 0.016);
    assert_eq!(money(&log).0, "0.004");
    assert_eq!(spent(&log).basis(), Basis::Estimated, "a part may be the session's own");
}

#[test]
fn a_request_that_is_not_in_the_report_has_the_list_price() {
    let mut log = Log::started();
    log.step("claude-opus-5-5", 1_000, 0);
    log.step("claude-opus-5-5", 2_000, 0);
    report(&mut log, "claude-opus-5-5", 1_000, 0, 0.004);
    assert_eq!(money(&log), ("0.012".into(), ["0.004", "0.008", "0"].map(Into::into)));
}

#[test]
fn a_fork_counts_only_its_own_part_of_a_report() {
    let mut log = Log::started();
    log.step("claude-opus-5-5", 1_000, 0);
    inherited(log.events.last_mut().unwrap());
    log.step("claude-opus-5-5", 3_000, 0);
    report(&mut log, "claude-opus-5-5", 4_000, 0, 0.032);
    assert_eq!((money(&log).0.as_str(), spent(&log).basis()), ("0.024", Basis::Exact));
    // What no record shows is the fork's own: all of the origin's is known.
    report(&mut log, "claude-opus-5-5", 5_000, 0, 0.040);
    assert_eq!((money(&log).0.as_str(), spent(&log).basis()), ("0.032", Basis::Exact));
}

#[test]
fn an_amendment_behind_a_report_adds_no_money() {
    let mut log = Log::started();
    log.step("claude-opus-5-5", 1_000, 10);
    let first = log.events.last().unwrap().id;
    report(&mut log, "claude-opus-5-5", 1_000, 10, 0.1);
    log.step("claude-opus-5-5", 1_000, 20);
    amends(log.events.last_mut().unwrap(), first);
    assert_eq!(money(&log).0, "0.1");
    assert_eq!(spent(&log).tokens.output, 20);
}

/// Money by day, as `day usd`.
fn daily(log: &Log) -> Vec<String> {
    let mut spending = Spending::grouped_by(Grouping::Daily);
    let session = SessionId::new("claude:s").unwrap();
    spending.add_session(&session, "claude", &folded(log), &PriceTable::shipped());
    let words = |row: SpentRow| {
        let usd = row.spent.money.usd.unwrap_or_default();
        format!("{} {usd}", row.key.unwrap_or_default())
    };
    spending.rows().map(words).collect()
}

#[test]
fn two_windows_continue_one_report() {
    // Both resume a session that had cost 1 dollar, and are closed in either order; the second one
    // knows nothing of the first.
    for (first, second) in [(5_000, 1_000), (1_000, 5_000), (3_000, 3_000)] {
        let mut log = Log::started();
        log.step("nova-9", 10_000, 0);
        report(&mut log, "nova-9", 10_000, 0, 1.0);
        log.step("nova-9", first, 0);
        log.step("nova-9", second, 0);
        let usd = |tokens: u64| 1.0 + tokens as f64 / 10_000.0;
        report(&mut log, "nova-9", 10_000 + first, 0, usd(first));
        report(&mut log, "nova-9", 10_000 + second, 0, usd(second));
        assert_eq!(money(&log).0, "1.6", "{first} and then {second}");
        assert_eq!(spent(&log).basis(), Basis::Exact);
    }
}

#[test]
fn a_window_without_requests_adds_nothing() {
    let mut log = Log::started();
    log.step("nova-9", 1_000, 0);
    report(&mut log, "nova-9", 1_000, 0, 1.0);
    log.step("nova-9", 500, 0);
    report(&mut log, "nova-9", 1_500, 0, 1.5);
    report(&mut log, "nova-9", 1_000, 0, 1.0);
    assert_eq!(money(&log).0, "1.5");
}

#[test]
fn sums_that_begin_anew_count_whole() {
    let mut log = Log::started();
    log.step("nova-9", 9_000, 0);
    report(&mut log, "nova-9", 9_000, 0, 0.9);
    log.step("nova-9", 2_000, 0);
    report(&mut log, "nova-9", 2_000, 0, 0.2);
    assert_eq!(money(&log).0, "1.1");
}

#[test]
fn money_without_a_record_stays_on_its_day() {
    let mut log = Log::started();
    log.step("claude-opus-5-5", 1_000, 0);
    report(&mut log, "claude-opus-5-5", 4_000, 0, 0.016);
    let first = ["2026-11-16 0.016"];
    assert_eq!(daily(&log), first);
    log.at = "2026-11-17T08:00:00Z".parse().unwrap();
    log.step("claude-opus-5-5", 1_000, 0);
    report(&mut log, "claude-opus-5-5", 8_000, 0, 0.032);
    assert_eq!(daily(&log), ["2026-11-16 0.016", "2026-11-17 0.016"]);
}

#[test]
fn a_subagent_takes_nothing_from_reports_before_it() {
    let mut log = Log::started();
    log.step("claude-opus-5-5", 1_000, 0);
    report(&mut log, "claude-opus-5-5", 4_000, 0, 0.016);
    log.use_tool("Task", json!({"prompt": "look around"}));
    log.step("claude-opus-5-5", 1_000, 0);
    report(&mut log, "claude-opus-5-5", 5_000, 0, 0.020);
    assert_eq!((money(&log).0.as_str(), spent(&log).basis()), ("0.02", Basis::Exact));
    // What follows may be the subagent's, or of a request that no record shows.
    report(&mut log, "claude-opus-5-5", 9_000, 0, 0.036);
    assert_eq!((money(&log).0.as_str(), spent(&log).basis()), ("0.02", Basis::Estimated));
}

#[test]
fn a_price_of_a_region_is_not_the_plain_one() {
    let entry = |maker: &str, input: &str| {
        format!(
            r#"{{"litellm_provider": "{maker}", "mode": "chat", "input_cost_per_token": {input},
                "output_cost_per_token": 1e-05}}"#
        )
    };
    let table = [
        ("claude-nova-9", entry("anthropic", "5e-06")),
        ("claude-nova-9-20271201", entry("anthropic", "9e-06")),
        ("fast/us/claude-nova-9", entry("anthropic", "3e-05")),
        ("us/claude-nova-9", entry("anthropic", "6e-06")),
        ("us/claude-nova-10", entry("anthropic", "6e-06")),
        ("gemini/gemini-9-pro", entry("gemini", "2e-06")),
        ("gemini/gemini-9-flash", entry("gemini", "8e-06")),
        ("gemini-9-flash", entry("gemini", "1e-06")),
        ("openrouter/anthropic/claude-nova-9", entry("openrouter", "7e-06")),
        ("bedrock/claude-nova-9", entry("bedrock", "7e-06")),
    ];
    let table = table.map(|(key, entry)| format!("\"{key}\": {entry}")).join(",");
    let read = ImportedPrices::parse(&format!("{{{table}}}")).unwrap();
    let prices: Vec<_> =
        read.list.models.iter().map(|(model, price)| format!("{model} {}", price.input)).collect();
    assert_eq!(prices, ["claude-nova-9 5", "gemini-9-flash 1", "gemini-9-pro 2"]);
    assert_eq!(read.skipped, 5);
}

#[test]
fn aliases_outlast_an_update() {
    let own = r#"{"version": 1, "models": {"claude-opus-5-5": {"input": 9, "output": 9},
        "mine": {"input": 1, "output": 1}}, "aliases": {"best": "claude-opus-5-5", "my": "mine"}}"#;
    let table = PriceTable::with_own(PriceList::parse(own).unwrap());
    // The list has the price that is shipped, so the user's own entry is not needed any more.
    let shipped = PriceTable::shipped();
    let price = shipped.find("claude-opus-5-5").unwrap().price.clone();
    let mut list = PriceList::new(String::new(), [("claude-opus-5-5".to_owned(), price)].into());
    list.aliases.insert("top".to_owned(), "claude-opus-5-5".to_owned());
    let own = table.update(&list).own;
    assert_eq!(own.models.keys().collect::<Vec<_>>(), ["mine"]);
    let written = serde_json::to_string(&own).unwrap();
    let table = PriceTable::with_own(PriceList::parse(&written).unwrap());
    let found = |name: &str| table.find(name).map(|applied| (applied.name, applied.source));
    assert_eq!(found("best"), Some(("claude-opus-5-5", PriceSource::Shipped)));
    assert_eq!(found("top"), Some(("claude-opus-5-5", PriceSource::Shipped)));
    assert_eq!(found("my"), Some(("mine", PriceSource::Own)));
}

/// What happens in a log: its kind, model, mode, two numbers and the days that pass before.
type Act = (u8, &'static str, Option<&'static str>, u64, u64, i64);

/// Requests with and without a cost of their own, reports, days and folders, in any order.
fn any_acts() -> impl Strategy<Value = Vec<Act>> {
    let models = vec!["claude-opus-5-5", "gpt-6-sol", "nova-9", "claude-opus-9"];
    let model = prop::sample::select(models);
    let mode = prop::sample::select(vec![None, Some("batch"), Some("warp")]);
    let act = (0..5_u8, model, mode, 0..400_000_u64, 0..9_000_u64, 0..3_i64);
    prop::collection::vec(act, 0..20)
}

fn log_of(acts: &[Act]) -> Log {
    let mut log = Log::started();
    for &(act, model, mode, input, output, days) in acts {
        let day_nanos = 86_400_000_000_000;
        log.at = Time::from_nanos(log.at.nanos() + i128::from(days) * day_nanos);
        let usage = match act {
            0 => {
                report(&mut log, model, input, output, input as f64 / 1e6);
                continue;
            }
            1 => {
                log.add("settings.changed", json!({"cwd": format!("/home/dev/{days}")}));
                continue;
            }
            2 => json!({"input_tokens": input, "cost": output as f64 / 1e7}),
            _ => json!({"input_tokens": input, "output_tokens": output, "mode": mode}),
        };
        log.add("step.completed", json!({"model": model, "usage": usage}));
    }
    log
}

fn nanos(parts: MoneyParts) -> [i64; 3] {
    [parts.reported, parts.computed, parts.estimated].map(|part| part.nanos())
}

fn plus(one: [i64; 3], other: [i64; 3]) -> [i64; 3] {
    std::array::from_fn(|at| one[at] + other[at])
}

proptest! {
    #[test]
    fn sums_are_equal_however_they_are_grouped(acts in prop::collection::vec(any_acts(), 1..4)) {
        let logs: Vec<_> = acts.iter().map(|acts| log_of(acts)).collect();
        let by_session = logs.iter().map(|log| nanos(spent(log).money.parts)).fold([0; 3], plus);
        for grouping in Grouping::ALL {
            let mut spending = Spending::grouped_by(grouping);
            for (number, log) in logs.iter().enumerate() {
                let session = SessionId::new(format!("claude:{number}")).unwrap();
                spending.add_session(&session, "claude", &folded(log), &PriceTable::shipped());
            }
            let rows = spending.rows().map(|row| nanos(row.spent.money.parts)).fold([0; 3], plus);
            let total = spending.total().money;
            prop_assert_eq!(rows, by_session, "{:?}", grouping);
            prop_assert_eq!(nanos(total.parts), by_session);
            prop_assert_eq!(total.usd.map_or(0, |usd| usd.nanos()), by_session.iter().sum::<i64>());
        }
    }
}

#[test]
fn foreign_price_tables_are_read() {
    let litellm = r#"{"sample_spec": {"litellm_provider": "one of many", "mode": "chat"},
        "gemini/gemini-9-pro": {"litellm_provider": "gemini", "mode": "chat",
            "input_cost_per_token": 2e-06, "output_cost_per_token": 1.2e-05,
            "output_cost_per_token_batches": 6e-06, "input_cost_per_token_above_200k_tokens": 4e-06,
            "input_cost_per_token_above_512k_tokens": 8e-06},
        "claude-nova-9-20271201": {"litellm_provider": "anthropic", "mode": "chat",
            "input_cost_per_token": 0.000005, "output_cost_per_token": 0.000025,
            "cache_creation_input_token_cost_above_1hr": 1e-05, "provider_specific_entry": {"fast": 2.5}},
        "azure/gpt-9": {"litellm_provider": "azure", "mode": "chat", "input_cost_per_token": 1}}"#;
    let read = ImportedPrices::parse(litellm).unwrap();
    assert_eq!((read.form, read.skipped), (PriceForm::LiteLlm, 2));
    assert_eq!(read.other_bands, ["gemini/gemini-9-pro"]);
    let written = serde_json::to_string(&read.list).unwrap();
    assert_eq!(PriceList::parse(&written).unwrap(), read.list);
    expect![[r#"{"version":1,"models":{"claude-nova-9":{"input":5,"output":25,"cache_write_1h":10,"modes":{"fast":250}},"gemini-9-pro":{"input":2,"output":12,"modes":{"batch":50},"above":[{"context_tokens":200000,"input":4}]}}}"#]]
        .assert_eq(&written);

    let models_dev = r#"{"anthropic": {"id": "anthropic", "models": {"claude-nova-9": {"cost":
            {"input": 5, "output": 25, "cache_read": 0.5, "cache_write": 6.25}}, "free": {}}},
        "some-host": {"models": {"claude-nova-9": {"cost": {"input": 1, "output": 1}}}}}"#;
    let read = ImportedPrices::parse(models_dev).unwrap();
    assert_eq!((read.form, read.skipped), (PriceForm::ModelsDev, 2));
    expect![[r#"{"version":1,"models":{"claude-nova-9":{"input":5,"output":25,"cache_read":0.5,"cache_write_5m":6.25}}}"#]]
        .assert_eq(&serde_json::to_string(&read.list).unwrap());
}

#[test]
fn a_bad_entry_is_named() {
    let why = |json: &str| ImportedPrices::parse(json).unwrap_err().to_string();
    let litellm = r#"{"gpt-9": {"litellm_provider": "openai", "mode": "chat",
        "input_cost_per_token": "much", "output_cost_per_token": 1}}"#;
    let negative = litellm.replace("\"much\"", "-1");
    let models_dev = r#"{"openai": {"models": {"gpt-9": {"cost": {"input": 1}}}}}"#;
    expect![[r#"
        the entry `gpt-9` cannot be read: `input_cost_per_token` is no number: "much"
        `gpt-9` has a price below zero
        the entry `openai` cannot be read: missing field `output` at line 1 column 42
        this is none of the forms that are read: a `prices.json` of this program, the price table of LiteLLM, or the one of models.dev
        the price table cannot be read: EOF while parsing a value at line 1 column 0"#]]
    .assert_eq(&[why(litellm), why(&negative), why(models_dev), why("{}"), why("")].join("\n"));
}
