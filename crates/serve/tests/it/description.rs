//! The API as data: what is committed is what is served.

use serde_json::Value;

use crate::given::House;

const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");

#[test]
fn committed_openapi_is_current() {
    let described = serve::description();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(COMMITTED, &described).unwrap();
    }
    let committed = std::fs::read_to_string(COMMITTED).unwrap_or_default();
    assert!(committed == described, "run again with UPDATE_EXPECT=1");
    let (status, served) = House::open().get("/api/openapi.json");
    assert_eq!((status, served), (200, serde_json::from_str::<Value>(&described).unwrap()));
}

#[test]
fn failures_share_one_schema() {
    let api: Value = serde_json::from_str(&serve::description()).unwrap();
    assert_eq!(api["openapi"], "3.1.0");
    for (path, methods) in api["paths"].as_object().unwrap() {
        for (method, described) in methods.as_object().unwrap() {
            let responses = described["responses"].as_object().unwrap();
            for (status, answer) in responses {
                let schema = &answer["content"]["application/json"]["schema"]["$ref"];
                let is_failure = *schema == "#/components/schemas/Failure";
                assert_eq!(is_failure, status != "200", "{method} {path} {status}");
            }
            assert!(responses.contains_key("401"), "{method} {path}");
        }
    }
}
