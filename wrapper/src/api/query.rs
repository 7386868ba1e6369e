// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Query strings: parsed once, unknown names refused with a suggestion. Knows no route.
use std::time::Duration;

use crate::{duration, percent};

use super::problem::{Code, Problem};
use super::wire::FieldError;

/// The parameters of one request, in the order they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Splits and decodes `query`; a name without `=` has the value "".
    ///
    /// # Errors
    /// `bad_request` when a percent-encoding is broken or not UTF-8.
    pub fn parse(query: Option<&str>) -> Result<Self, Problem> {
        let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let decoded = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(name)?, decode(value)?))
        });
        let decoded: Option<Vec<_>> = decoded.collect();
        decoded
            .map(Self)
            .ok_or_else(|| Problem::new(Code::BadRequest, "the query string is not percent-encoded UTF-8"))
    }

    /// Refuses names outside `known`, and names given twice.
    ///
    /// # Errors
    /// `unknown_field` with the nearest known name, `bad_request` for a repetition.
    pub fn only(&self, known: &[&str]) -> Result<(), Problem> {
        for (at, (name, _)) in self.0.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                return Err(unknown("parameter", name, name, known));
            }
            if self.0[..at].iter().any(|(earlier, _)| earlier == name) {
                return Err(Problem::new(Code::BadRequest, format!("parameter {name} is given twice")));
            }
        }
        Ok(())
    }

    /// The first value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Every value of `name`.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A switch: absent is false, present without a value is true.
    ///
    /// # Errors
    /// `invalid_value` unless empty, `true` or `false`.
    pub fn flag(&self, name: &str) -> Result<bool, Problem> {
        match self.get(name) {
            None | Some("false") => Ok(false),
            Some("" | "true") => Ok(true),
            Some(other) => Err(invalid(name, other, "true or false")),
        }
    }

    /// A duration in Go's spelling.
    ///
    /// # Errors
    /// `invalid_value` for anything else, and for a negative one.
    pub fn duration(&self, name: &str) -> Result<Option<Duration>, Problem> {
        let parse =
            |text| duration::parse(text).map_err(|_| invalid(name, text, "a duration such as 30s or 1m30s"));
        self.get(name).map(parse).transpose()
    }

    /// A whole number.
    ///
    /// # Errors
    /// `invalid_value` for anything else.
    pub fn number(&self, name: &str) -> Result<Option<u64>, Problem> {
        let parse = |text: &str| whole_number(text).ok_or_else(|| invalid(name, text, "a whole number"));
        self.get(name).map(parse).transpose()
    }
}

/// Digits and nothing else: Rust's own parser takes a plus sign, which a query writes for a blank.
pub fn whole_number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// The beginning is enough to know one's own text again.
fn short(text: &str) -> &str {
    &text[..text.floor_char_boundary(100)]
}

/// The refusal of a parameter's value.
pub fn invalid(name: &str, value: &str, wanted: &str) -> Problem {
    let detail = format!("parameter {name} is {:?}, it must be {wanted}", short(value));
    let errors = vec![FieldError { pointer: name.into(), detail: detail.clone(), suggestion: None }];
    Problem { code: Code::InvalidValue, detail, errors }
}

/// The refusal of a name that is not known; `what` is a parameter or a field.
pub(super) fn unknown(what: &str, name: &str, pointer: &str, known: &[&str]) -> Problem {
    let suggestion = nearest(name, known);
    let shown = short(name);
    let detail = match known {
        [] => format!("{what} {shown:?} is not known; there are none here"),
        _ => format!("{what} {shown:?} is not known; there are {}", known.join(", ")),
    };
    let errors = vec![FieldError { pointer: short(pointer).into(), detail: detail.clone(), suggestion }];
    Problem { code: Code::UnknownField, detail, errors }
}

/// The known word that was probably meant.
pub fn nearest(word: &str, known: &[&str]) -> Option<String> {
    let nearest = known.iter().min_by_key(|candidate| distance(word, candidate));
    nearest.filter(|near| distance(word, near) <= 3).map(|near| (*near).to_owned())
}

/// Edit distance without regard to case; names are short, and a long one is near to nothing.
fn distance(a: &str, b: &str) -> usize {
    if a.len() > 64 {
        return usize::MAX;
    }
    let (a, b) = (a.to_ascii_lowercase().into_bytes(), b.to_ascii_lowercase().into_bytes());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let swapped = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = swapped.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// As in a form: a plus is a space.
fn decode(text: &str) -> Option<String> {
    String::from_utf8(percent::decode(&text.replace('+', " "))?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        Query::parse(Some(text)).unwrap()
    }

    #[test]
    fn parameters_are_decoded_and_may_repeat() {
        let query = query("verbose&exclude=a&exclude=b%20c+d&x=%C3%A9");
        assert_eq!(query.get("verbose"), Some(""));
        assert_eq!(query.all("exclude").collect::<Vec<_>>(), ["a", "b c d"]);
        assert_eq!(query.get("x"), Some("é"));
        for broken in ["a=%", "a=%1", "a=%zz", "a=%ff"] {
            assert_eq!(Query::parse(Some(broken)).unwrap_err().code, Code::BadRequest, "{broken}");
        }
    }

    #[test]
    fn unknown_parameters_are_refused_with_the_nearest_name() {
        let known = ["ifGeneration", "force", "wait"];
        let problem = query("ifgenertion=3").only(&known).unwrap_err();
        assert_eq!(problem.code, Code::UnknownField);
        assert_eq!(problem.errors[0].suggestion.as_deref(), Some("ifGeneration"));
        assert_eq!(query("zzzzzzzzzz=1").only(&known).unwrap_err().errors[0].suggestion, None);
        assert_eq!(query("force&force").only(&known).unwrap_err().code, Code::BadRequest);
        assert_eq!(query("force&wait=1s").only(&known), Ok(()));
        query(&format!("{}=1", "x".repeat(5000))).only(&known).unwrap_err();
    }

    #[test]
    fn values_are_parsed_once() {
        assert_eq!(query("force").flag("force"), Ok(true));
        assert_eq!(query("force=false").flag("force"), Ok(false));
        assert_eq!(query("force=yes").flag("force").unwrap_err().code, Code::InvalidValue);
        assert_eq!(query("n=7").number("n"), Ok(Some(7)));
        for text in ["n=-7", "n=%2B7", "n=", "n=18446744073709551616"] {
            assert_eq!(query(text).number("n").unwrap_err().code, Code::InvalidValue, "{text}");
        }
        assert_eq!(query("t=1m30s").duration("t"), Ok(Some(Duration::from_secs(90))));
        for text in ["", "5", "1d", "-1s", "3000000h"] {
            let problem = query(&format!("t={text}")).duration("t").unwrap_err();
            assert_eq!(problem.code, Code::InvalidValue, "{text}");
        }
    }
}
