//! Members near the start of a text that may be cut off before its end.
//!
//! They are found by their names alone. Inside a string the quotes around a name would be escaped,
//! so what is found is a name, though it may belong to an inner object.

use memchr::{memchr, memmem};

/// Returns the first string member with that name, as written.
pub fn string_member<'a>(head: &'a [u8], name: &str) -> Option<&'a str> {
    string_after(head, format!("\"{name}\":\"").as_bytes())
}

/// Returns the string that begins behind the first `mark`, as written and without its closing
/// quote. The mark ends with the opening quote.
pub fn string_after<'a>(head: &'a [u8], mark: &[u8]) -> Option<&'a str> {
    let value = &head[memmem::find(head, mark)? + mark.len()..];
    // Up to the next quote. A string with an escaped quote is cut there: the names and ids that are
    // looked for have none.
    str::from_utf8(&value[..memchr(b'"', value)?]).ok()
}

/// Returns the first member with that name that is a whole number.
pub fn number_member(head: &[u8], name: &str) -> Option<u64> {
    let mark = format!("\"{name}\":");
    let value = &head[memmem::find(head, mark.as_bytes())? + mark.len()..];
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    str::from_utf8(&value[..digits]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_in_a_cut_text() {
        let head = br#"{"note":"\"id\":\"no\"","id":"a1","number":12,"cut":"he"#;
        assert_eq!(string_member(head, "id"), Some("a1"));
        assert_eq!(number_member(head, "number"), Some(12));
        assert_eq!(string_member(head, "cut"), None);
        assert_eq!(number_member(head, "id"), None);
    }
}
