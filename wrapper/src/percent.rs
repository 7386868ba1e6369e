// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Percent-encoding, strictly: what is broken is told and not passed through.

/// The bytes that `text` stands for; None where a `%` is not followed by two hex digits.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                u8::try_from(digit(rest.next()?)? * 16 + digit(rest.next()?)?).ok()?
            }
            other => other,
        });
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_hex_digits_are_a_byte_and_anything_else_is_broken() {
        assert_eq!(decode("a%20b%C3%a9+").as_deref(), Some("a bé+".as_bytes()));
        for broken in ["%", "%1", "%zz", "%+1", "%é"] {
            assert_eq!(decode(broken), None, "{broken}");
        }
    }
}
