//! Tokens and money, and what they are grouped by.

use event::SessionId;
use expect_test::{Expect, expect};
use projection::{
    Basis, Day, Facts, Grouping, PriceList, PriceTable, Projection, Spending, SpendingFilter,
    Spent, Terms, TokenTotals,
};
use serde_json::{Value, json};

use crate::given::Log;

fn folded(log: &Log) -> Facts {
    let mut facts = Facts::default();
    log.events.iter().for_each(|event| facts.apply(event));
    facts
}

/// What one request with this usage costs.
fn spent(model: &str, usage: Value) -> (Option<String>, Basis) {
    let mut log = Log::new();
    log.add("step.completed", json!({"model": model, "usage": usage}));
    let spent = Spent::from_facts(&folded(&log), &PriceTable::shipped());
    (spent.money.usd.map(|usd| usd.to_string()), spent.basis())
}

fn usd(model: &str, usage: Value) -> String {
    spent(model, usage).0.unwrap()
}

const MILLION: u64 = 1_000_000;

#[test]
fn each_kind_of_token_has_its_price() {
    let usage = json!({"input_tokens": 1_000, "output_tokens": 100, "cache_read_tokens": 10_000,
        "cache_creation_tokens": 3_000, "cache_creation_1h_tokens": 1_000});
    // 0.005 + 0.0025 + 0.005 + 0.0125 + 0.01
    assert_eq!(usd("claude-opus-4-5", usage), "0.035");
    assert_eq!(usd("gpt-5.2", json!({"input_tokens": 1})), "0.00000175");
    assert_eq!(usd("gemini-2.0-flash-lite", json!({"cache_read_tokens": 1})), "0.000000019");
}

#[test]
fn model_names_resolve_to_one_price() {
    for name in [
        "claude-opus-4-5",
        "claude-opus-4-5-20251101",
        "anthropic/claude-opus-4.5",
        "us.anthropic.claude-opus-4-5-20251101-v1:0",
        "claude-opus-4-5@20251101",
        "Claude-Opus-4-5[1m]",
        "claude-opus-4-5-latest",
    ] {
        assert_eq!(spent(name, json!({"input_tokens": MILLION})).0.as_deref(), Some("5"), "{name}");
    }
    assert_eq!(usd("gpt-5-2025-08-07", json!({"input_tokens": MILLION})), "1.25");
    assert_eq!(usd("gemini-2.5-pro-preview-05-06", json!({"output_tokens": 10_000})), "0.1");
    assert_eq!(
        usd("gemini-2.5-flash-lite-preview-09-2025", json!({"output_tokens": MILLION})),
        "0.4"
    );
    assert_eq!(usd("mistral-large-2411", json!({"input_tokens": MILLION})), "2");
    assert_eq!(usd("models/gemini-3-pro-preview", json!({"output_tokens": 10_000})), "0.12");
}

#[test]
fn a_similar_name_is_another_model() {
    for name in ["claude-nova-9", "gpt-5-zeta", "claude", "", "claude-opus-4-5-mini"] {
        assert_eq!(spent(name, json!({"input_tokens": 9})), (None, Basis::Incomplete), "{name}");
    }
}

#[test]
fn a_long_context_costs_more_by_request() {
    assert_eq!(usd("claude-sonnet-4-5", json!({"input_tokens": 200_000})), "0.6");
    assert_eq!(
        usd("claude-sonnet-4-5", json!({"input_tokens": 1, "cache_read_tokens": 200_000})),
        "0.120006"
    );
    assert_eq!(usd("gpt-5.4", json!({"input_tokens": 272_000})), "0.68");
    assert_eq!(usd("gpt-5.4", json!({"input_tokens": 272_001})), "1.360005");
    let mut log = Log::new();
    log.step("claude-sonnet-4-5", 150_000, 0);
    log.step("claude-sonnet-4-5", 150_000, 0);
    let spent = Spent::from_facts(&folded(&log), &PriceTable::shipped());
    assert_eq!(spent.money.usd.unwrap().to_string(), "0.9", "two short requests are no long one");
}

#[test]
fn what_the_provider_says_it_costs_goes_first() {
    let told = json!({"input_tokens": MILLION, "cost": 0.123456789});
    assert_eq!(spent("claude-opus-4-5", told.clone()), (Some("0.123456789".into()), Basis::Exact));
    assert_eq!(spent("nobody-knows", told).1, Basis::Exact);
    assert_eq!(
        spent("claude-opus-4-5", json!({"input_tokens": 1, "cost": 0})),
        (Some("0".into()), Basis::Exact)
    );
    assert_eq!(spent("claude-opus-4-5", json!({"input_tokens": 1})).1, Basis::Estimated);
    assert_eq!(
        spent("claude-opus-4-5", json!({"input_tokens": 1, "estimated": true})).1,
        Basis::Estimated
    );
}

#[test]
fn tokens_are_exact_where_money_is_only_estimated() {
    let mut log = Log::new();
    log.step("claude-opus-4-5", 1, 1);
    let spent = Spent::from_facts(&folded(&log), &PriceTable::shipped());
    assert_eq!((spent.tokens_basis, spent.money.basis), (Basis::Exact, Basis::Estimated));
}

#[test]
fn a_sum_is_as_sure_as_its_worst_part() {
    use Basis::{Estimated, Exact, Incomplete};
    for (one, other, both) in [
        (Exact, Exact, Exact),
        (Exact, Estimated, Estimated),
        (Estimated, Incomplete, Incomplete),
        (Exact, Incomplete, Incomplete),
    ] {
        assert_eq!((one.weaker_of(other), other.weaker_of(one)), (both, both));
    }
}

#[test]
fn known_money_is_shown_beside_what_has_no_price() {
    let mut log = Log::new();
    log.step("claude-opus-4-5", 1_000_000, 0);
    log.step("nobody-knows", 1, 1);
    let spent = Spent::from_facts(&folded(&log), &PriceTable::shipped());
    assert_eq!(
        (spent.money.usd.unwrap().to_string().as_str(), spent.basis()),
        ("5", Basis::Incomplete)
    );
}

#[test]
fn nothing_costs_nothing() {
    let spent = Spent::from_facts(&folded(&Log::started()), &PriceTable::shipped());
    assert_eq!(spent.money.usd.map(|usd| usd.to_string()).as_deref(), Some("0"));
    assert_eq!(spent.basis(), Basis::Exact);
    assert_eq!(*Spending::grouped_by(Grouping::Daily).total(), spent);
}

#[track_caller]
fn check(grouping: Grouping, expected: Expect) {
    check_within(grouping, SpendingFilter::default(), expected);
}

#[track_caller]
fn check_within(grouping: Grouping, within: SpendingFilter, expected: Expect) {
    let prices = PriceTable::shipped();
    let mut spending = Spending::grouped_by(grouping).within(within);
    let mut first = Log::started();
    first.step("claude-opus-4-5", 1_000, 100);
    first.step("claude-haiku-4-5", 10, 1);
    first.at = "2026-11-30T23:59:58Z".parse().unwrap();
    first.step("claude-opus-4-5", 2_000, 0);
    first.step("claude-opus-4-5", 4_000, 0);
    spending.add_session(&SessionId::new("claude:1").unwrap(), "claude", &folded(&first), &prices);
    let mut second = Log::new();
    second.add("session.started", json!({"project": "org/lib", "cwd": "/home/dev/lib"}));
    second.step("nova-9", 7, 7);
    spending.add_session(&SessionId::new("codex:2").unwrap(), "codex", &folded(&second), &prices);
    let mut silent = Log::new();
    silent.say("m1", "nobody counts me");
    spending.add_session(&SessionId::new("cursor:3").unwrap(), "cursor", &folded(&silent), &prices);

    let row = |key: Option<&str>, provider: Option<&str>, model: Option<&str>, spent: &Spent| {
        let TokenTotals { requests, input, output, .. } = spent.tokens;
        let usd = spent.money.usd.map_or("-".to_owned(), |usd| usd.to_string());
        let names = [key, provider, model].map(|name| name.unwrap_or("-")).join(" ");
        format!("{names}: {requests} {input} {output} ${usd} {}\n", spent.basis().as_str())
    };
    let mut told: String = spending
        .rows()
        .map(|it| row(it.key.as_deref(), it.provider.as_deref(), it.model.as_deref(), &it.spent))
        .collect();
    told.push_str(&row(Some("total"), None, None, spending.total()));
    expected.assert_eq(&told);
}

#[test]
fn use_is_grouped_by_time() {
    check(
        Grouping::Daily,
        expect![[r#"
        - cursor -: 0 0 0 $- incomplete
        2026-11-16 - -: 3 1017 108 $0.007515 incomplete
        2026-11-30 claude claude-opus-4-5: 1 2000 0 $0.01 estimated
        2026-12-01 claude claude-opus-4-5: 1 4000 0 $0.02 estimated
        total - -: 5 7017 108 $0.037515 incomplete
    "#]],
    );
    check(
        Grouping::Weekly,
        expect![[r#"
        - cursor -: 0 0 0 $- incomplete
        2026-W47 - -: 3 1017 108 $0.007515 incomplete
        2026-W49 claude claude-opus-4-5: 2 6000 0 $0.03 estimated
        total - -: 5 7017 108 $0.037515 incomplete
    "#]],
    );
    check(
        Grouping::Monthly,
        expect![[r#"
        - cursor -: 0 0 0 $- incomplete
        2026-11 - -: 4 3017 108 $0.017515 incomplete
        2026-12 claude claude-opus-4-5: 1 4000 0 $0.02 estimated
        total - -: 5 7017 108 $0.037515 incomplete
    "#]],
    );
}

#[test]
fn spending_counts_by_day_and_project() {
    let day = |text: &str| Some(text.parse::<Day>().unwrap());
    let days = SpendingFilter { since: day("2026-11-17"), until: day("2026-11-30"), project: None };
    check_within(
        Grouping::Daily,
        days,
        expect![[r#"
        - cursor -: 0 0 0 $- incomplete
        2026-11-30 claude claude-opus-4-5: 1 2000 0 $0.01 estimated
        total - -: 1 2000 0 $0.01 incomplete
    "#]],
    );
    let since = SpendingFilter { since: day("2026-11-30"), ..SpendingFilter::default() };
    check_within(
        Grouping::Model,
        since,
        expect![[r#"
        - cursor -: 0 0 0 $- incomplete
        claude-opus-4-5 claude claude-opus-4-5: 2 6000 0 $0.03 estimated
        total - -: 2 6000 0 $0.03 incomplete
    "#]],
    );
    for project in ["org/lib", "lib", "/home/dev/lib"] {
        let there =
            SpendingFilter { project: Some(project.to_owned()), ..SpendingFilter::default() };
        check_within(
            Grouping::Project,
            there,
            expect![[r#"
                org/lib codex nova-9: 1 7 7 $- incomplete
                total - -: 1 7 7 $- incomplete
            "#]],
        );
    }
}

#[test]
fn use_is_grouped_by_agent() {
    check(
        Grouping::Agent,
        expect![[r#"
            claude claude -: 4 7010 101 $0.037515 estimated
            codex codex nova-9: 1 7 7 $- incomplete
            cursor cursor -: 0 0 0 $- incomplete
            total - -: 5 7017 108 $0.037515 incomplete
        "#]],
    );
}

#[test]
fn use_is_grouped_by_session_model_and_project() {
    check(
        Grouping::Session,
        expect![[r#"
        claude:1 claude -: 4 7010 101 $0.037515 estimated
        codex:2 codex nova-9: 1 7 7 $- incomplete
        cursor:3 cursor -: 0 0 0 $- incomplete
        total - -: 5 7017 108 $0.037515 incomplete
    "#]],
    );
    check(
        Grouping::Model,
        expect![[r#"
        - cursor -: 0 0 0 $- incomplete
        claude-haiku-4-5 claude claude-haiku-4-5: 1 10 1 $0.000015 estimated
        claude-opus-4-5 claude claude-opus-4-5: 3 7000 100 $0.0375 estimated
        nova-9 codex nova-9: 1 7 7 $- incomplete
        total - -: 5 7017 108 $0.037515 incomplete
    "#]],
    );
    check(
        Grouping::Project,
        expect![[r#"
        - cursor -: 0 0 0 $- incomplete
        /home/dev/app claude -: 4 7010 101 $0.037515 estimated
        org/lib codex nova-9: 1 7 7 $- incomplete
        total - -: 5 7017 108 $0.037515 incomplete
    "#]],
    );
}

#[test]
fn weeks_belong_to_the_year_of_their_thursday() {
    for (day, week) in [
        ("2026-11-16", "2026-W47"),
        ("2026-11-22", "2026-W47"),
        ("2026-01-01", "2026-W01"),
        ("2027-01-03", "2026-W53"),
        ("2024-12-30", "2025-W01"),
        ("1970-01-01", "1970-W01"),
        ("1969-12-28", "1969-W52"),
    ] {
        assert_eq!(day.parse::<Day>().unwrap().week(), week);
    }
    assert_eq!("2026-11-16".parse::<Day>().unwrap().month(), "2026-11");
}

#[test]
fn a_users_table_is_read_and_checked() {
    let own = r#"{"version": 1, "models": {"mine": {"input": 1, "output": 0.5}}, "aliases": {"my": "mine"}}"#;
    let table = PriceTable::with_own(PriceList::parse(own).unwrap());
    let tokens = TokenTotals {
        requests: 1,
        input: MILLION,
        output: MILLION,
        cache_read: MILLION,
        ..TokenTotals::default()
    };
    let usd = |model| table.cost(Some(model), Terms::default(), &tokens).unwrap().usd.to_string();
    assert_eq!(usd("my"), "2.5");
    assert_eq!(usd("claude-opus-4-5"), "30.5", "the shipped prices stay below");
    let why = |json: &str| PriceList::parse(json).unwrap_err().to_string();
    expect![[r#"
        the price table cannot be read: invalid length 0, expected struct Written with 4 elements at line 1 column 2
        the price table has format 2; this program reads 1
        `m` has a price above 5 tokens of context; told apart are [32000, 100000, 128000, 200000, 256000, 272000]
        `a` stands for `b`, which has no price
        `m` has a price below zero
        the entry `m` cannot be read: `"cheap"` is not an amount in dollars at line 1 column 17"#]].assert_eq(&[
        why("[]"),
        why(r#"{"version": 2, "models": {}}"#),
        why(r#"{"version": 1, "models": {"m": {"input": 1, "output": 1, "above": [{"context_tokens": 5}]}}}"#),
        why(r#"{"version": 1, "models": {}, "aliases": {"a": "b"}}"#),
        why(r#"{"version": 1, "models": {"m": {"input": -1, "output": 1}}}"#),
        why(r#"{"version": 1, "models": {"m": {"input": "cheap", "output": 1}}}"#),
    ].join("\n"));
}

#[test]
fn the_largest_context_that_is_exceeded_has_the_price() {
    let table = r#"{"version": 1, "models": {"my": {"input": 1, "output": 1, "above": [
        {"context_tokens": 256000, "input": 3}, {"context_tokens": 128000, "input": 2}]}}}"#;
    let table = PriceTable::with_own(PriceList::parse(table).unwrap());
    let tokens = TokenTotals { requests: 1, input: MILLION, ..TokenTotals::default() };
    let cost = |context_above| {
        let terms = Terms { context_above, mode: None };
        table.cost(Some("my"), terms, &tokens).unwrap().usd.to_string()
    };
    assert_eq!([0, 128_000, 200_000, 272_000].map(cost), ["1", "2", "2", "3"]);
}

#[test]
fn nonsense_does_not_overflow() {
    let (usd, _) =
        spent("claude-opus-4-5", json!({"input_tokens": u64::MAX, "output_tokens": u64::MAX}));
    assert!(usd.is_some());
}
