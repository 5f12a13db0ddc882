//! Rules that a user adds.

use std::sync::Arc;

use redact::{BadRule, Redactor, Rule, Rules};

use crate::given::chance;

fn rules(json: &str) -> Result<Rules, BadRule> {
    Rule::parse_list(json).and_then(|rules| Rules::with_built_in(&rules))
}

#[test]
fn user_rules_come_first() {
    let rules = rules(
        r#"[{"kind": "badge", "keywords": ["acme-"], "pattern": "acme-[0-9]{6}"},
            {"kind": "acme_token", "names": ["acme_token"], "check": "password"}]"#,
    );
    let mut redactor = Redactor::with_rules(Arc::new(rules.unwrap()));
    assert_eq!(redactor.redact("badge ACME-1 acme-123456."), "badge ACME-1 [redacted:badge].");
    let token = chance(1, 20);
    let text = format!("ACME_TOKEN={token}");
    assert_eq!(redactor.redact(&text), "ACME_TOKEN=[redacted:acme_token]");
    assert_eq!(redactor.redact("password=hunter2"), "password=[redacted:password]");
}

#[track_caller]
fn check_refused(json: &str, expected: &str) {
    assert_eq!(rules(json).expect_err("a rule to refuse").to_string(), expected);
}

#[test]
fn invalid_rules_are_named() {
    check_refused("{}", "the rules are not a list of rules");
    check_refused(r#"[{"kind": "a", "nmaes": []}]"#, "the rules are not a list of rules");
    check_refused(
        r#"[{"kind": "A b", "names": ["x1"]}]"#,
        "`A b` is not a kind: it needs 1 to 40 characters of a-z, 0-9 and _",
    );
    check_refused(
        r#"[{"kind": "a", "keywords": ["ab"]}]"#,
        "the rule for `a` needs either keywords and a pattern, or names",
    );
    check_refused(
        r#"[{"kind": "a", "names": ["x"]}]"#,
        "the rule for `a` has the word `x`: it needs 2 to 32 ASCII characters",
    );
    check_refused(
        r#"[{"kind": "a", "keywords": ["ab"], "pattern": "ab("}]"#,
        "the pattern of the rule for `a` is not valid",
    );
    check_refused(
        r#"[{"kind": "a", "keywords": ["ab"], "pattern": "ab", "lead": 65}]"#,
        "the rule for `a` has a lead of 65 bytes: at most 64 are allowed",
    );
}

#[test]
fn rules_survive_their_json() {
    let rules = Rule::parse_list(Rules::BUILT_IN).unwrap();
    let json = serde_json::to_string(&rules).unwrap();
    assert_eq!(Rule::parse_list(&json).unwrap(), rules);
}
