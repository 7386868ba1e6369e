// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A configuration as a flat list of keys and values, for people who look for a fault in it. By structure and not by
//! line, so that no way of writing YAML hides where a value belongs. Knows no secrets: whoever shows it leaves them out.
use super::ConfigError;
use super::read::{document, escape};
use super::yaml::{Scalar, View};

/// Values that are listed at most; an alias can make few lines of YAML stand for very many.
const MOST: usize = 1000;
const DEEPEST: usize = 16;

/// (JSON pointer, value) in the order of the document, at most 1000; a list's elements have numbers as keys.
///
/// # Errors
/// No YAML: nothing can be said of its parts.
pub fn outline(bytes: &[u8]) -> Result<Vec<(String, String)>, ConfigError> {
    let document = document(bytes)?;
    let mut found = Vec::new();
    walk(document.root(), String::new(), 0, &mut found);
    Ok(found)
}

fn walk(view: View<'_>, pointer: String, depth: usize, found: &mut Vec<(String, String)>) {
    if found.len() >= MOST {
        return;
    }
    if depth == DEEPEST {
        found.push((pointer, "…".to_owned()));
        return;
    }
    if let Some(scalar) = view.scalar() {
        found.push((pointer, text(scalar)));
        return;
    }
    for (key, value) in view.entries().into_iter().flatten() {
        walk(value, format!("{pointer}/{}", escape(key)), depth + 1, found);
    }
    for (at, value) in view.elements().into_iter().flatten().enumerate() {
        walk(value, format!("{pointer}/{at}"), depth + 1, found);
    }
}

fn text(scalar: Scalar<'_>) -> String {
    match scalar {
        Scalar::Null => "null".to_owned(),
        Scalar::Bool(value) => value.to_string(),
        Scalar::Int(value) => value.to_string(),
        Scalar::Float(value) => value.to_string(),
        Scalar::Time => "a date".to_owned(),
        Scalar::Text(text) => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_listed_where_it_belongs() {
        let yaml = "name: a\nclient-transport-security: {cert-file: /c, client-cert-auth: true}\ncors:\n- u\n- v\n\
                    \"a/b\": |\n  two\n  lines\nnothing:\n";
        let pairs = outline(yaml.as_bytes()).unwrap();
        let pairs: Vec<_> = pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(
            pairs,
            [
                ("/name", "a"),
                ("/client-transport-security/cert-file", "/c"),
                ("/client-transport-security/client-cert-auth", "true"),
                ("/cors/0", "u"),
                ("/cors/1", "v"),
                ("/a~1b", "two\nlines\n"),
                ("/nothing", "null"),
            ]
        );
        outline(b"a: [").unwrap_err();
    }

    #[test]
    fn an_alias_bomb_ends_early() {
        let mut yaml = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let below = format!("*a{}", level - 1);
            yaml.push_str(&format!("a{level}: &a{level} [{}]\n", vec![below; 9].join(", ")));
        }
        assert!(outline(yaml.as_bytes()).unwrap().len() <= MOST);
    }
}
