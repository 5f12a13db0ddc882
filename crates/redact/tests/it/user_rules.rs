//! Rules a user adds.

use std::sync::Arc;

use redact::{BadRule, Redactor, Rule, Rules};

use crate::given::chance;

fn rules(json: &str) -> Result<Rules, BadRule> {
    Rule::list(json).and_then(|rules| Rules::with_built_in(&rules))
}

#[test]
fn a_rule_of_the_user_comes_first() {
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
fn a_rule_that_cannot_be_used_is_named() {
    check_refused("{}", "the rules are not a list of rules");
    check_refused(r#"[{"kind": "a", "nmaes": []}]"#, "the rules are not a list of rules");
    check_refused(
        r#"[{"kind": "A b", "names": ["x1"]}]"#,
        "`A b` is no kind: it takes 1 to 40 of a-z, 0-9 and _",
    );
    check_refused(
        r#"[{"kind": "a", "keywords": ["ab"]}]"#,
        "the rule for `a` needs either keywords and a pattern, or names",
    );
    check_refused(
        r#"[{"kind": "a", "names": ["x"]}]"#,
        "the rule for `a` has the word `x`: it takes 2 to 32 ASCII characters",
    );
    check_refused(
        r#"[{"kind": "a", "keywords": ["ab"], "pattern": "ab("}]"#,
        "the pattern of the rule for `a` cannot be used",
    );
    check_refused(
        r#"[{"kind": "a", "keywords": ["ab"], "pattern": "ab", "lead": 65}]"#,
        "the rule for `a` begins 65 bytes before its keyword: at most 64",
    );
}

#[test]
fn rules_are_written_as_they_are_read() {
    let rules = Rule::list(Rules::BUILT_IN).unwrap();
    let json = serde_json::to_string(&rules).unwrap();
    assert_eq!(Rule::list(&json).unwrap(), rules);
}
