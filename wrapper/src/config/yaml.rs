// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Reads YAML the way etcd's own reader (sigs.k8s.io/yaml over go-yaml 2) does, as far as a configuration can differ by
//! it: `on` is a boolean, `0x10` a number, `1.10` no text. Writes no YAML and knows no key.
//!
//! Nodes lie in one flat list and refer to each other by index: an alias shares its target, so an alias bomb costs
//! nothing, and nothing recurses. Stricter than etcd where a reader and etcd could see two different things: a key
//! given twice, merge keys and a second document are errors.
use std::collections::HashMap;

use granit_parser::{Event, Options, Parser, ScalarStyle, Tag};

/// What a document may consist of: keys, values, ends of collections. etcd knows some hundred keys; a document of a million
/// scraps would keep the wrapper's one thread from everything else while it is read.
const MOST_EVENTS: usize = 50_000;

/// One parsed document.
#[derive(Debug)]
pub(super) struct Document {
    nodes: Vec<Node>,
    root: usize,
}

#[derive(Debug)]
struct Node {
    line: usize,
    value: Value,
}

#[derive(Debug)]
enum Value {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    /// A plain scalar that go-yaml turns into a point in time.
    Time,
    Text(String),
    List(Vec<usize>),
    Map(Vec<(String, usize)>),
}

/// What cannot be read, and where (line and column from 1).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {detail}")]
pub(super) struct YamlError {
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) detail: String,
}

/// A node together with its document.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'d> {
    document: &'d Document,
    node: &'d Node,
}

/// The kinds of a scalar, for the readers of keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scalar<'d> {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Time,
    Text(&'d str),
}

impl Document {
    /// Parses exactly one document. A BOM at the start is skipped, as etcd does.
    pub(super) fn parse(text: &str) -> Result<Self, YamlError> {
        let mut options = Options::default();
        options.set_emit_comments(false);
        let mut composer = Composer::default();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (n, event) in Parser::new_from_str_with_options(text, options).enumerate() {
            let (event, span) = event.map_err(|error| YamlError {
                line: error.marker().line(),
                column: error.marker().col() + 1,
                detail: error.info(),
            })?;
            let at = Place { line: span.start.line(), column: span.start.col() + 1 };
            if n == MOST_EVENTS {
                return Err(at.error(format!("more than {MOST_EVENTS} keys and values")));
            }
            composer.take(event, at).map_err(|detail| at.error(detail))?;
        }
        match composer.root {
            Some(root) => Ok(Self { nodes: composer.nodes, root }),
            None => Err(Place { line: 1, column: 1 }.error("the document is empty".to_owned())),
        }
    }

    pub(super) fn root(&self) -> View<'_> {
        self.view(self.root)
    }

    fn view(&self, index: usize) -> View<'_> {
        View { document: self, node: &self.nodes[index] }
    }
}

impl<'d> View<'d> {
    pub(super) fn line(self) -> usize {
        self.node.line
    }

    /// The entries of a mapping in their order; None for anything else.
    pub(super) fn entries(self) -> Option<impl Iterator<Item = (&'d str, View<'d>)>> {
        let Value::Map(entries) = &self.node.value else { return None };
        Some(entries.iter().map(move |(key, index)| (key.as_str(), self.document.view(*index))))
    }

    pub(super) fn get(self, key: &str) -> Option<View<'d>> {
        self.entries()?.find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// The elements of a sequence; None for anything else.
    pub(super) fn elements(self) -> Option<impl Iterator<Item = View<'d>>> {
        let Value::List(elements) = &self.node.value else { return None };
        Some(elements.iter().map(move |index| self.document.view(*index)))
    }

    /// None for a mapping or a sequence.
    pub(super) fn scalar(self) -> Option<Scalar<'d>> {
        Some(match &self.node.value {
            Value::Null => Scalar::Null,
            Value::Bool(value) => Scalar::Bool(*value),
            Value::Int(value) => Scalar::Int(*value),
            Value::Float(value) => Scalar::Float(*value),
            Value::Time => Scalar::Time,
            Value::Text(text) => Scalar::Text(text),
            Value::List(_) | Value::Map(_) => return None,
        })
    }

    /// "a mapping", "a number", ... for messages.
    pub(super) fn describe(self) -> &'static str {
        match self.node.value {
            Value::Null => "nothing",
            Value::Bool(_) => "a boolean",
            Value::Int(_) | Value::Float(_) => "a number",
            Value::Time => "a date",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}

#[derive(Clone, Copy)]
struct Place {
    line: usize,
    column: usize,
}

impl Place {
    fn error(self, detail: String) -> YamlError {
        YamlError { line: self.line, column: self.column, detail }
    }
}

/// A collection whose end has not come yet.
struct Open {
    anchor: usize,
    line: usize,
    collection: Collection,
}

enum Collection {
    List(Vec<usize>),
    Map {
        entries: Vec<(String, usize)>,
        seen: HashMap<String, usize>,
        /// The key whose value comes next.
        pending: Option<String>,
    },
}

#[derive(Default)]
struct Composer {
    nodes: Vec<Node>,
    open: Vec<Open>,
    anchors: HashMap<usize, usize>,
    root: Option<usize>,
}

impl Composer {
    fn take(&mut self, event: Event<'_>, at: Place) -> Result<(), String> {
        match event {
            Event::DocumentStart(..) if self.root.is_some() => {
                Err("a second document begins here; etcd would not read it".to_owned())
            }
            Event::Scalar(text, style, anchor, tag) => {
                if self.expects_key() {
                    return self.key(&text, style, tag.as_deref(), at);
                }
                let value = scalar(&text, style, tag.as_deref());
                let index = self.push(at.line, value);
                self.place(index, anchor)
            }
            Event::Alias(anchor) => {
                if self.expects_key() {
                    return Err("an alias cannot be a key here".to_owned());
                }
                match self.anchors.get(&anchor) {
                    Some(index) => self.place(*index, 0),
                    None => Err("an alias inside its own anchor".to_owned()),
                }
            }
            Event::SequenceStart(_, anchor, _) => self.begin(anchor, at, Collection::List(Vec::new())),
            Event::MappingStart(_, anchor, _) => {
                let collection = Collection::Map { entries: Vec::new(), seen: HashMap::new(), pending: None };
                self.begin(anchor, at, collection)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else { return Ok(()) };
                let value = match open.collection {
                    Collection::List(elements) => Value::List(elements),
                    Collection::Map { entries, .. } => Value::Map(entries),
                };
                let index = self.push(open.line, value);
                self.place(index, open.anchor)
            }
            _ => Ok(()),
        }
    }

    fn expects_key(&self) -> bool {
        matches!(self.open.last(), Some(Open { collection: Collection::Map { pending: None, .. }, .. }))
    }

    fn begin(&mut self, anchor: usize, at: Place, collection: Collection) -> Result<(), String> {
        if self.expects_key() {
            return Err("a key must be plain text".to_owned());
        }
        self.open.push(Open { anchor, line: at.line, collection });
        Ok(())
    }

    fn push(&mut self, line: usize, value: Value) -> usize {
        self.nodes.push(Node { line, value });
        self.nodes.len() - 1
    }

    /// Puts a finished node where the next value belongs.
    fn place(&mut self, index: usize, anchor: usize) -> Result<(), String> {
        if anchor != 0 {
            self.anchors.insert(anchor, index);
        }
        match self.open.last_mut().map(|open| &mut open.collection) {
            None => self.root = Some(index),
            Some(Collection::List(elements)) => elements.push(index),
            Some(Collection::Map { entries, pending, .. }) => match pending.take() {
                Some(key) => entries.push((key, index)),
                None => return Err("a key must be plain text".to_owned()),
            },
        }
        Ok(())
    }

    fn key(&mut self, text: &str, style: ScalarStyle, tag: Option<&Tag>, at: Place) -> Result<(), String> {
        if style == ScalarStyle::Plain && text == "<<" {
            return Err("merge keys (<<) are not supported: write the keys out".to_owned());
        }
        let name = match scalar(text, style, tag) {
            Value::Text(text) => text,
            Value::Bool(value) => value.to_string(),
            Value::Int(value) => value.to_string(),
            Value::Null => return Err("a key is empty".to_owned()),
            Value::Float(_) | Value::Time | Value::List(_) | Value::Map(_) => text.to_owned(),
        };
        if let Some(Open { collection: Collection::Map { seen, pending, .. }, .. }) = self.open.last_mut() {
            if let Some(line) = seen.insert(name.clone(), at.line) {
                return Err(format!("the key {name:?} stands twice, first in line {line}"));
            }
            *pending = Some(name);
        }
        Ok(())
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Value {
    let plain = style == ScalarStyle::Plain;
    match tag.map(|tag| tag.core_suffix()) {
        None if plain => resolve(text),
        // An explicit !!int and its like ask for the same reading as no tag at all; !!str and foreign tags are text.
        Some(Some("bool" | "int" | "float" | "null" | "timestamp")) => resolve(text),
        None | Some(_) => Value::Text(text.to_owned()),
    }
}

/// go-yaml 2's idea of what a plain scalar is (YAML 1.1 without base 60).
fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Value::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Value::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Value::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Value::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Value::Float(f64::NEG_INFINITY),
        _ => {}
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) {
        return Value::Text(text.to_owned());
    }
    if is_time(text) {
        return Value::Time;
    }
    let digits = text.replace('_', "");
    if let Some(value) = integer(&digits) {
        return Value::Int(value);
    }
    match digits.parse::<f64>() {
        Ok(value) if is_float(&digits) => Value::Float(value),
        _ => Value::Text(text.to_owned()),
    }
}

/// Go's `strconv.ParseInt(text, 0, 64)`, or ParseUint: the prefix decides the base.
fn integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(base)) {
        return None;
    }
    let value = i128::from(u64::from_str_radix(digits, base).ok()?);
    let value = if negative { -value } else { value };
    (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&value).then_some(value)
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let exponent_ok = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    exponent_ok && digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty())
}

/// `2006-1-2`, with or without a time behind it. A little wider than go-yaml: whatever looks like a date must be
/// quoted to be text.
fn is_time(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let (Some(year), Some(month), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let day_end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (day, clock) = rest.split_at(day_end);
    let number = |text: &str| (1..=2).contains(&text.len()) && digits(text);
    let clocked = clock
        .strip_prefix(['T', 't', ' '])
        .is_some_and(|clock| clock.starts_with(|c: char| c.is_ascii_digit()) && clock.contains(':'));
    year.len() == 4 && digits(year) && number(month) && number(day) && (clock.is_empty() || clocked)
}

#[cfg(test)]
mod tests;
