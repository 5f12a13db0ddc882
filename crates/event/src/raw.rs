//! JSON that is carried without decoding it.

use std::borrow::Cow;
use std::fmt;

use memchr::{memchr2, memchr2_iter};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::json::decode_string;
use crate::json::{Token, Tokenizer};

/// A JSON value in its original spelling: digits, escapes and member order are kept.
///
/// Only line breaks between tokens become blanks, so that one event is always one line.
#[derive(Clone)]
pub struct Raw(Box<RawValue>);

impl Raw {
    pub fn null() -> Raw {
        Raw(RawValue::NULL.to_owned())
    }

    /// Checks that the text is JSON and keeps it as it is.
    pub fn parse(text: impl Into<String>) -> Result<Raw, serde_json::Error> {
        RawValue::from_string(text.into()).map(Raw::from)
    }

    /// Encodes a value as JSON.
    pub fn from_value(value: &(impl Serialize + ?Sized)) -> Result<Raw, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Raw::from)
    }

    pub fn get(&self) -> &str {
        self.0.get()
    }

    pub fn is_null(&self) -> bool {
        self.get() == "null"
    }

    /// Decodes the value as `T`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.get())
    }

    /// Returns the members of an object in their original order, or `None` for any other JSON.
    pub fn members(&self) -> Option<Vec<(String, Raw)>> {
        let members = members(self.get()).ok()?;
        let owned = |(name, value): Member<'_>| (name.into_owned(), Raw::from(value));
        Some(members.into_iter().map(owned).collect())
    }

    /// Returns the elements of an array, or `None` for any other JSON.
    pub fn elements(&self) -> Option<Vec<Raw>> {
        self.read().ok()
    }

    /// Returns the text of a JSON string, with U+FFFD for lone surrogates, or `None` for any
    /// other JSON.
    pub fn text(&self) -> Option<String> {
        decode_string(self.get()).map(Cow::into_owned)
    }

    /// Whether arrays and objects are nested deeper than `max`.
    pub fn is_deeper_than(&self, max: usize) -> bool {
        // Few payloads have more than `max` brackets at all. Counting all brackets is much faster
        // than finding out which of them are inside strings.
        let open = memchr2_iter(b'{', b'[', self.get().as_bytes());
        open.take(max.saturating_add(1)).count() > max && self.depth() > max
    }

    /// Returns the nesting depth of arrays and objects; 0 for a bare value.
    pub fn depth(&self) -> usize {
        let (mut depth, mut deepest) = (0, 0);
        for token in Tokenizer::new(self.get()) {
            match token {
                Token::Open => depth += 1,
                Token::Close => depth -= 1,
                Token::Name(_) | Token::String(_) => {}
            }
            deepest = deepest.max(depth);
        }
        deepest
    }
}

/// A member of a JSON object: its name, and its value as written.
pub(crate) type Member<'a> = (Cow<'a, str>, &'a RawValue);

/// Splits a JSON object into its members in their original order, duplicate names included.
pub(crate) fn members(json: &str) -> Result<Vec<Member<'_>>, serde_json::Error> {
    struct ObjectMembers<'a>(Vec<Member<'a>>);

    impl<'de> Deserialize<'de> for ObjectMembers<'de> {
        fn deserialize<D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<ObjectMembers<'de>, D::Error> {
            struct Visitor;
            impl<'de> serde::de::Visitor<'de> for Visitor {
                type Value = ObjectMembers<'de>;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("an object")
                }

                fn visit_map<A: serde::de::MapAccess<'de>>(
                    self,
                    mut map: A,
                ) -> Result<ObjectMembers<'de>, A::Error> {
                    let mut members = Vec::with_capacity(MEMBERS_USUAL);
                    // Names are read raw too: `serde_json` would refuse the whole object for one
                    // name with a lone surrogate.
                    while let Some((name, value)) = map.next_entry::<&RawValue, &RawValue>()? {
                        let name = decode_string(name.get()).ok_or_else(|| {
                            serde::de::Error::custom("the name of a member is not a string")
                        })?;
                        members.push((name, value));
                    }
                    Ok(ObjectMembers(members))
                }
            }
            deserializer.deserialize_map(Visitor)
        }
    }

    /// The usual number of members in an envelope or a payload: one allocation is enough for it.
    const MEMBERS_USUAL: usize = 16;

    serde_json::from_str::<ObjectMembers<'_>>(json).map(|members| members.0)
}

/// Whether the text has more than one line. A bare line break in JSON is always white space:
/// inside a string it must be escaped.
fn has_line_break(json: &str) -> bool {
    memchr2(b'\n', b'\r', json.as_bytes()).is_some()
}

impl PartialEq for Raw {
    fn eq(&self, other: &Raw) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Raw {}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

impl Default for Raw {
    fn default() -> Raw {
        Raw::null()
    }
}

impl From<Box<RawValue>> for Raw {
    fn from(raw: Box<RawValue>) -> Raw {
        if !has_line_break(raw.get()) {
            return Raw(raw);
        }
        let text = raw.get().replace(['\n', '\r'], " ");
        Raw(RawValue::from_string(text).expect("white space for white space keeps JSON valid"))
    }
}

impl From<&RawValue> for Raw {
    fn from(raw: &RawValue) -> Raw {
        Raw::from(raw.to_owned())
    }
}

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Raw, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Raw::from)
    }
}
