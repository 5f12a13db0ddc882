//! The form that is loaded: it says what the rules say, and refuses what is damaged.

use event::Raw;
use rules::{BadCompiledRules, CompiledRules, HubAllows, Origin, RuleSet};
use serde_json::json;

use crate::given::{action, compiled, now, word};

const RULES: &str = "block shell: rm -rf * — use trash @except:\"rm -rf target\"\n\
                     ask edit: **/migrations/** @dry\n\
                     block mcp: db/drop_*\n\
                     warn any: \"prod db\"\n\
                     allow shell: ls *\n";

#[test]
fn bytes_give_the_same_rules() {
    let (rules, _) = RuleSet::parse(RULES);
    let compiled = CompiledRules::compile(&rules, 42);
    let loaded = CompiledRules::from_bytes(compiled.as_bytes().to_vec()).unwrap();
    assert_eq!(loaded, compiled);
    assert_eq!((loaded.len(), loaded.position()), (5, 42));
    assert_eq!(loaded.to_rule_set().unwrap(), rules);
}

#[test]
fn no_rules_are_rules_too() {
    let empty = CompiledRules::compile(&RuleSet::new(), 7);
    let loaded = CompiledRules::from_bytes(empty.as_bytes().to_vec()).unwrap();
    assert!(loaded.is_empty());
    let input = Raw::from_value(&json!({"command": "rm -rf /"})).unwrap();
    assert_eq!(word(&loaded.judge(&action("Bash", &input), now())), "none");
}

#[test]
fn a_torn_file_is_refused() {
    let whole = compiled(RULES).as_bytes().to_vec();
    for length in 0..whole.len() {
        let torn = CompiledRules::from_bytes(whole[..length].to_vec());
        let expected = match length < 8 {
            true => BadCompiledRules::NotRules,
            false => BadCompiledRules::Damaged,
        };
        assert_eq!(torn, Err(expected), "of {length} bytes");
    }
    let mut longer = whole.clone();
    longer.push(0);
    assert_eq!(CompiledRules::from_bytes(longer), Err(BadCompiledRules::Damaged));
}

#[test]
fn a_flipped_bit_is_refused() {
    let whole = compiled(RULES).as_bytes().to_vec();
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            assert!(CompiledRules::from_bytes(bytes).is_err(), "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn a_newer_file_says_so() {
    let mut bytes = compiled(RULES).as_bytes().to_vec();
    bytes[8] = 9;
    let error = CompiledRules::from_bytes(bytes).unwrap_err();
    assert_eq!(error, BadCompiledRules::OtherVersion { found: 9 });
    let said = "the rules were compiled in format 9; this program reads format 1";
    assert_eq!(error.to_string(), said);
}

#[test]
fn hubs_cannot_allow() {
    let mut rules = RuleSet::new();
    let allow = "allow shell: ls".parse().unwrap();
    let refused = rules.push("r1", Origin::Hub, allow);
    assert_eq!(refused, Err(HubAllows { id: "r1".to_owned() }));
    rules.push("r2", Origin::Hub, "block shell: ls".parse().unwrap()).unwrap();
    let input = Raw::from_value(&json!({"command": "ls"})).unwrap();
    let verdict = CompiledRules::compile(&rules, 0).judge(&action("Bash", &input), now());
    let found = &verdict.matches[0];
    assert_eq!((found.id.as_str(), found.origin), ("r2", Origin::Hub));
}

#[test]
fn explanation_names_parts_matches_and_winner() {
    let input = Raw::from_value(&json!({"command": "ls && sudo rm -rf x > log"})).unwrap();
    let verdict = compiled(RULES).judge(&action("Bash", &input), now());
    expect_test::expect![[r#"
        part     ls
        part     sudo rm -rf x
        part     rm -rf x
        part     edit log
        match    block shell: rm -rf * — use trash @except:"rm -rf target" (rule 1) by `rm -rf x`
        no allow it writes to the file `log`
        no allow `sudo rm -rf x` is covered by no rule
        no allow `rm -rf x` is covered by no rule
        verdict  block (rule 1)
    "#]]
    .assert_eq(&verdict.explain());
}
