//! Binary data inside JSON: `{"encoding":"base64","bytes":"…"}`.
//!
//! The producer of a payload chooses this form. No reader converts text to it, or it to text.

use serde::{Deserialize, Serialize};

use crate::Raw;

const BASE64: &str = "base64";
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[derive(Serialize, Deserialize)]
struct Base64Value {
    // First, so that a reader in one pass knows the encoding before it reaches the bytes.
    encoding: String,
    bytes: String,
}

impl Raw {
    /// Encodes bytes, such as output that is not UTF-8, as base64.
    pub fn from_bytes(bytes: &[u8]) -> Raw {
        Raw::from_value(&Base64Value { encoding: BASE64.to_owned(), bytes: encode_base64(bytes) })
            .expect("two strings always encode")
    }

    /// The reverse of [`Raw::from_bytes`]; `None` for any other JSON.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        let encoded: Base64Value = self.read().ok()?;
        (encoded.encoding == BASE64).then(|| decode_base64(&encoded.bytes)).flatten()
    }
}

fn encode_base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |place: usize| u32::from(chunk.get(place).copied().unwrap_or(0));
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            // One byte takes two digits, two bytes take three; padding fills the group of four.
            if place <= chunk.len() {
                text.push(char::from(ALPHABET[(group >> (18 - 6 * place)) as usize & 63]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    // Padded base64 has whole groups of four. Anything else was cut off or is another encoding.
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let digits = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for chunk in digits.as_bytes().chunks(4) {
        let mut group = 0u32;
        for place in 0..4 {
            let digit = match chunk.get(place) {
                Some(letter) => base64_digit(*letter)?,
                None => 0,
            };
            group = group << 6 | digit;
        }
        // Two digits hold one byte, three hold two, four hold three.
        bytes.extend_from_slice(&group.to_be_bytes()[1..chunk.len()]);
    }
    Some(bytes)
}

fn base64_digit(letter: u8) -> Option<u32> {
    let digit = match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(digit))
}
