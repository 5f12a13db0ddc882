//! Members of an object, found without decoding the values.

use event::Raw;
use proptest::prelude::*;

use crate::any;

proptest! {
    #[test]
    fn scanning_agrees_with_decoding(raw in any::raw()) {
        let found: Vec<(String, String)> = raw
            .fields()
            .map(|field| (field.name.clone().into_owned(), field.json.to_owned()))
            .collect();
        let read = raw.members().unwrap_or_default();
        let read: Vec<(String, String)> =
            read.into_iter().map(|(name, value)| (name, value.get().to_owned())).collect();
        prop_assert_eq!(found, read);
    }
}

#[test]
fn first_duplicate_member_counts() {
    let raw = Raw::parse(r#" { "a" : [ "}" , {"b":1} ] , "b" : "x\"," , "a":2, "c":-1e3 } "#);
    let raw = raw.unwrap();
    let json = |name| raw.field(name).map(|field| field.json);
    assert_eq!(json("a"), Some(r#"[ "}" , {"b":1} ]"#));
    assert_eq!(json("c"), Some("-1e3"));
    assert_eq!(json("d"), None);
    assert_eq!(raw.field("b").unwrap().text().as_deref(), Some("x\","));
    assert_eq!(Raw::parse("[1]").unwrap().fields().count(), 0);
}

proptest! {
    #[test]
    fn strings_decode_like_serde(json in any::json_string()) {
        let whole = event::replace_lone_surrogates(&json);
        let said: String = serde_json::from_str(&whole).unwrap();
        prop_assert_eq!(Raw::parse(json.clone()).unwrap().text(), Some(said));
    }
}
