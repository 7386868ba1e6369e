// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The fields of a small JSON body: parsed once, unknown and repeated ones refused. Knows no route.
use std::fmt;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use crate::duration;

use super::problem::{Code, Problem};
use super::query::unknown;
use super::wire::FieldError;

/// The members of one JSON object, in the order they came. A member that is null is as good as absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Fields(Vec<(String, Value)>);

impl Fields {
    /// Reads a body; an empty one has no fields.
    ///
    /// # Errors
    /// `bad_request` for what is no JSON object.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Problem> {
        if bytes.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        // The parser repeats the whole of a text that stands where the object should.
        let why = |error: serde_json::Error| clipped(error.to_string(), 200);
        serde_json::from_slice(bytes).map_err(|error| {
            Problem::new(Code::BadRequest, format!("the body is no JSON object: {}", why(error)))
        })
    }

    /// Refuses fields outside `known`, and fields given twice.
    ///
    /// # Errors
    /// `unknown_field` with the nearest known name, `bad_request` for a repetition.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), Problem> {
        for (at, (name, _)) in self.0.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                return Err(unknown("field", name, &pointer(name), known));
            }
            if self.0[..at].iter().any(|(earlier, _)| earlier == name) {
                return Err(Problem::new(Code::BadRequest, format!("field {name} is given twice")));
            }
        }
        Ok(())
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value)
            .filter(|value| !value.is_null())
    }

    fn read<'a, T>(
        &'a self,
        name: &str,
        wanted: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        self.get(name).map(|value| read(value).ok_or_else(|| invalid(name, value, wanted))).transpose()
    }

    /// # Errors
    /// `invalid_value` for anything but a string.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, Problem> {
        self.read(name, "a string", Value::as_str)
    }

    /// # Errors
    /// `invalid_value` for anything but true or false.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, Problem> {
        self.read(name, "true or false", Value::as_bool)
    }

    /// # Errors
    /// `invalid_value` for anything but a whole number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, Problem> {
        self.read(name, "a whole number", Value::as_u64)
    }

    /// A duration in Go's spelling, within `least` and `most`.
    ///
    /// # Errors
    /// `invalid_value` for anything else.
    pub(crate) fn duration(
        &self,
        name: &str,
        least: Duration,
        most: Duration,
    ) -> Result<Option<Duration>, Problem> {
        let spelled = super::wire::duration;
        let wanted = format!("a duration from {} to {}, such as \"90s\"", spelled(least), spelled(most));
        let within = |length: &Duration| (least..=most).contains(length);
        self.read(name, &wanted, |value| duration::parse(value.as_str()?).ok().filter(within))
    }

    /// One word of a vocabulary.
    ///
    /// # Errors
    /// `invalid_value` with all of them.
    pub(crate) fn word<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<Option<T>, Problem> {
        let all: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        let wanted = format!("one of {}", all.join(", "));
        let find = |value: &Value| words.iter().find(|(word, _)| value == word).map(|(_, meaning)| *meaning);
        self.read(name, &wanted, find)
    }
}

/// The refusal of a value, or of its absence; `pointer` is the field's, or a parameter's name.
pub(super) fn refused(pointer: &str, detail: impl Into<String>) -> Problem {
    let detail = detail.into();
    let errors = vec![FieldError { pointer: pointer.into(), detail: detail.clone(), suggestion: None }];
    Problem { code: Code::InvalidValue, detail, errors }
}

fn invalid(name: &str, value: &Value, wanted: &str) -> Problem {
    let shown = clipped(value.to_string(), 80);
    refused(&pointer(name), format!("field {name} is {shown}, it must be {wanted}"))
}

/// What callers wrote is repeated in part only.
fn clipped(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
    }
    text
}

/// A JSON pointer (RFC 6901).
fn pointer(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn fields(text: &str) -> Fields {
        Fields::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn an_empty_body_has_no_fields_and_only_an_object_has_some() {
        assert_eq!(fields(""), Fields::default());
        assert_eq!(fields(" \n"), Fields::default());
        assert_eq!(fields(r#"{"ttl":null}"#).duration("ttl", DAY, DAY), Ok(None));
        for text in ["[]", "7", "\"x\"", "{", "{}{}", "{\"a\":1,}", "null", "\u{feff}{}"] {
            assert_eq!(Fields::parse(text.as_bytes()).unwrap_err().code, Code::BadRequest, "{text}");
        }
        let long = Fields::parse(format!("\"{}\"", "é".repeat(30_000)).as_bytes()).unwrap_err();
        assert!(long.detail.len() < 300, "{} bytes are repeated", long.detail.len());
        let deep = format!("{{\"a\":{}", "[".repeat(60_000));
        assert_eq!(Fields::parse(deep.as_bytes()).unwrap_err().code, Code::BadRequest);
    }

    #[test]
    fn unknown_and_repeated_fields_are_refused() {
        let known = ["gracePeriod", "guard"];
        let problem = fields(r#"{"gracePeriode":"1s"}"#).only(&known).unwrap_err();
        assert_eq!(problem.code, Code::UnknownField);
        assert_eq!(problem.errors[0].pointer, "/gracePeriode");
        assert_eq!(problem.errors[0].suggestion.as_deref(), Some("gracePeriod"));
        let twice = fields(r#"{"guard":"none","guard":"quorum"}"#);
        assert_eq!(twice.only(&known).unwrap_err().code, Code::BadRequest);
        assert_eq!(fields(r#"{"a/b~c":1}"#).only(&known).unwrap_err().errors[0].pointer, "/a~1b~0c");
    }

    #[test]
    fn values_of_another_type_are_refused_by_pointer() {
        let given = fields(r#"{"text":1,"flag":"true","number":-1,"duration":5,"word":"maybe"}"#);
        for problem in [
            given.text("text").unwrap_err(),
            given.flag("flag").unwrap_err(),
            given.number("number").unwrap_err(),
            given.duration("duration", Duration::ZERO, DAY).unwrap_err(),
            given.word("word", &[("yes", true)]).unwrap_err(),
        ] {
            assert_eq!(problem.code, Code::InvalidValue, "{problem:?}");
            assert!(problem.errors[0].pointer.starts_with('/'), "{problem:?}");
        }
        let long = fields(&format!(r#"{{"flag":"{}"}}"#, "é".repeat(10_000)));
        assert!(long.flag("flag").unwrap_err().detail.len() < 200);
    }

    #[test]
    fn durations_have_bounds() {
        let given = fields(r#"{"short":"999ms","least":"1s","most":"24h","long":"24h1ns"}"#);
        let read = |name| given.duration(name, Duration::from_secs(1), DAY);
        assert_eq!((read("least"), read("most")), (Ok(Some(Duration::from_secs(1))), Ok(Some(DAY))));
        for name in ["short", "long"] {
            assert_eq!(read(name).unwrap_err().code, Code::InvalidValue);
        }
    }
}
