// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Keys that the etcd about to start does not know: it drops them without a word, so the wrapper says it. Says nothing
//! where it cannot be sure: an unknown version, an undocumented field.
use std::fmt;

use super::keys::{AS_OF, EtcdVersion, GO_FIELDS, HARMLESS, Key, SECURITY, SOCKET, TOP, same_key};
use super::read::{document, escape};
use super::yaml::View;
use super::{EtcdConfig, short};

/// A key that etcd will ignore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKey {
    /// JSON pointer to the key.
    pub pointer: String,
    /// The key's name, as written.
    pub key: String,
    /// A key that this etcd does know and that looks meant.
    pub suggestion: Option<&'static str>,
    /// `3.5.30`: the version asked about.
    pub version: String,
    /// `3.5.35`: the newest release of that line that the list of keys was read from.
    pub as_of: &'static str,
}

impl fmt::Display for UnknownKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "etcd {} ignores the configuration key {} (keys known as of {})",
            self.version, self.pointer, self.as_of
        )?;
        match self.suggestion {
            Some(key) => write!(f, "; did you mean {key}?"),
            None => Ok(()),
        }
    }
}

/// Looking for what was meant takes time, and nobody reads more.
const MOST: usize = 32;

/// The keys of `config` that etcd `version` ignores, in the order of the document, at most 32. Empty when the version, or its
/// line, is not known.
pub fn unknown_keys(config: &EtcdConfig, version: Option<&str>) -> Vec<UnknownKey> {
    let Some(version) = version.and_then(EtcdVersion::parse) else { return Vec::new() };
    let Some(line) = version.line() else { return Vec::new() };
    let Ok(document) = document(&config.bytes) else { return Vec::new() };
    let mut search = Search { version, line, found: Vec::new() };
    let root = document.root();
    search.look(root, "", TOP);
    for (key, table) in [
        ("client-transport-security", SECURITY),
        ("peer-transport-security", SECURITY),
        ("socket-options", SOCKET),
    ] {
        if let Some(section) = root.get(key) {
            search.look(section, key, table);
        }
    }
    search.found
}

/// The keys of `config` that no etcd of the lines we know takes: slips, whatever version will read it. Suggestions are
/// the newest line's.
pub fn unknown_to_all(config: &EtcdConfig) -> Vec<UnknownKey> {
    let mut found = unknown_keys(config, AS_OF.last().copied());
    for version in AS_OF {
        let here = unknown_keys(config, Some(version));
        found.retain(|key| here.iter().any(|other| other.pointer == key.pointer));
    }
    found
}

struct Search {
    version: EtcdVersion,
    line: usize,
    found: Vec<UnknownKey>,
}

impl Search {
    fn look(&mut self, mapping: View<'_>, section: &str, table: &'static [Key]) {
        for (name, _) in mapping.entries().into_iter().flatten() {
            if self.is_known(name, section, table) {
                continue;
            }
            if self.found.len() == MOST {
                return;
            }
            let prefix = if section.is_empty() { String::new() } else { format!("/{section}") };
            self.found.push(UnknownKey {
                pointer: short(format!("{prefix}/{}", escape(name))),
                key: short(name),
                suggestion: self.suggest(name, table),
                version: format!("{}.{}.{}", self.version.major, self.version.minor, self.version.patch),
                as_of: AS_OF[self.line],
            });
        }
    }

    fn is_known(&self, name: &str, section: &str, table: &[Key]) -> bool {
        // On 3.4 and 3.5 the flags bridge carries it out.
        let bridged = section == "peer-transport-security" && name == "skip-client-san-verification";
        let harmless = section.is_empty()
            && (HARMLESS.contains(&name) || GO_FIELDS.iter().any(|field| same_key(field, name)));
        bridged || harmless || self.keys(table).any(|key| same_key(key, name))
    }

    fn keys<'t>(&self, table: &'t [Key]) -> impl Iterator<Item = &'static str> + use<'t> {
        let (line, patch) = (self.line, self.version.patch);
        table.iter().filter(move |key| key.known_to(line, patch)).map(|key| key.name)
    }

    /// The same key before or after it left its experimental state, else the nearest one.
    fn suggest(&self, name: &str, table: &'static [Key]) -> Option<&'static str> {
        let stable = name.strip_prefix("experimental-");
        let experimental = format!("experimental-{name}");
        self.keys(table)
            .find(|key| Some(*key) == stable || *key == experimental)
            .or_else(|| nearest(name, self.keys(table)))
    }
}

/// The candidate at the smallest edit distance, if that is small enough to look like a slip.
pub(super) fn nearest<'c>(name: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let allowed = (name.chars().count() / 4).clamp(1, 3);
    // A key can be as long as the document; no slip is.
    candidates
        .filter(|candidate| candidate.len().abs_diff(name.len()) <= 8 && name.len() <= 128)
        .map(|candidate| (distance(name, candidate), candidate))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= allowed)
        .map(|(_, candidate)| candidate)
}

fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (diagonal + usize::from(x != *y)).min(above + 1).min(row[j] + 1);
            diagonal = above;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::parsed;

    fn unknown(extra: &str, version: &str) -> Vec<(String, Option<&'static str>)> {
        let found = unknown_keys(&parsed(extra), Some(version));
        found.into_iter().map(|key| (key.pointer, key.suggestion)).collect()
    }

    #[test]
    fn c4_an_unknown_key_is_named_with_the_key_that_was_meant() {
        let found = unknown("snapshot-cout: 5\nnonsense-of-mine: true\n", "3.5.35");
        let expected =
            [("/snapshot-cout".to_owned(), Some("snapshot-count")), ("/nonsense-of-mine".to_owned(), None)];
        assert_eq!(found, expected);
    }

    #[test]
    fn c4_keys_belong_to_versions() {
        assert_eq!(
            unknown("experimental-memory-mlock: true\n", "3.7.3"),
            [("/experimental-memory-mlock".to_owned(), Some("memory-mlock"))]
        );
        assert_eq!(
            unknown("memory-mlock: true\n", "3.5.1"),
            [("/memory-mlock".to_owned(), Some("experimental-memory-mlock"))]
        );
        assert_eq!(unknown("tls-min-version: TLS1.2\n", "3.4.24").len(), 1);
        assert_eq!(unknown("tls-min-version: TLS1.2\n", "3.4.25"), []);
        assert_eq!(unknown("socket-options: {reuse-port: true}\n", "3.5.10"), []);
    }

    #[test]
    fn c4_nested_keys_are_looked_at() {
        let text = "client-transport-security:\n  cert-fil: /a\n  skip-client-san-verification: true\n";
        let found = unknown(text, "3.5.35");
        assert_eq!(found[0], ("/client-transport-security/cert-fil".to_owned(), Some("cert-file")));
        assert_eq!(found[1].0, "/client-transport-security/skip-client-san-verification");
        assert_eq!(unknown("peer-transport-security: {skip-client-san-verification: true}\n", "3.5.35"), []);
    }

    #[test]
    fn c4_nothing_is_said_that_could_be_false() {
        let text = "nonsense: 1\n";
        for version in [None, Some("unknown"), Some("3.8.0"), Some("4.0.0"), Some("3.3.27"), Some("")] {
            assert_eq!(unknown_keys(&parsed(text), version), [], "{version:?}");
        }
        for text in ["member-name-prefix: a\n", "next-cluster-version-compatible: true\n", "Metrics: basic\n"]
        {
            assert_eq!(unknown(text, "3.6.16"), [], "{text}");
        }
        assert_eq!(unknown("PeerTLSInfo: {}\n", "3.5.35"), []);
    }

    #[test]
    fn c4_a_key_of_any_line_is_no_slip_without_a_version() {
        let config = parsed("debug: true\ndistributed-tracing-address: x\nsnapshot-cout: 5\n");
        let found: Vec<_> =
            unknown_to_all(&config).into_iter().map(|key| (key.pointer, key.suggestion)).collect();
        assert_eq!(found, [("/snapshot-cout".to_owned(), Some("snapshot-count"))]);
    }

    #[test]
    fn c4_a_flood_of_unknown_keys_is_cut_short() {
        let flood: String = (0..5_000).map(|n| format!("snapshot-cout-{n}: 1\n")).collect();
        assert_eq!(unknown(&flood, "3.5.35").len(), 32);
    }

    #[test]
    fn c4_the_message_says_as_of_which_release_it_is_true() {
        let found = unknown_keys(&parsed("snapshot-cout: 5\n"), Some("3.5.99"));
        assert_eq!(
            found[0].to_string(),
            "etcd 3.5.99 ignores the configuration key /snapshot-cout (keys known as of 3.5.35); did you mean \
             snapshot-count?"
        );
    }
}
