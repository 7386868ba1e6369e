// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Configurations, posted or served, and everything that is derived from one.
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;

use super::{Target, assert_short, shape};
use crate::config::{
    Address, EtcdConfig, EtcdVersion, Launch, MAX_POSTED_BYTES, client_endpoint, files, guard_data_dir,
    launch, unknown_keys,
};

/// etcd's configuration, as it is served, posted or read.
pub const TARGET: Target = Target {
    words: WORDS,
    longest: 16 * 1024,
    cases: 1500,
    slowest: Duration::from_millis(750),
    ..Target::new("config", run)
};

const WORDS: &[&str] = &[
    "name: ",
    "data-dir: /var/etcd/data/new.etcd\n",
    "listen-client-urls: ",
    "listen-client-http-urls: ",
    "http://127.0.0.1:2379",
    "https://0.0.0.0:2379,",
    "unix:///run/etcd.sock",
    "https://[::1]:0",
    "initial-cluster: ",
    "client-transport-security:\n  ",
    "peer-transport-security:\n  skip-client-san-verification: true\n",
    "quota-backend-bytes: ",
    "unsafe-no-fsync: on\n",
    "cors: [a, b]\n",
    "socket-options: {reuse-port: true}\n",
    "self-signed-cert-validity: 0\n",
    "heartbeat-interval: 100ms\n",
    "&a ",
    "*a",
    "<<: *a\n",
    "!!str ",
    "!!binary ",
    "!<tag:yaml.org,2002:int> ",
    "? ",
    "- ",
    ": ",
    "|\n",
    ">-\n",
    "---\n",
    "...\n",
    "%YAML 1.1\n",
    "%TAG ! tag:x,2000:\n",
    "{",
    "}",
    "[",
    "]",
    "# ",
    "0x1F",
    "0o17",
    "0b1",
    "1_000",
    "8e9",
    ".inf",
    "2020-01-01",
    "yes",
    "~",
    "'",
    "\"\\u0041\"",
];

/// The newest of each line, one before a key was known, and one that nobody knows.
const VERSIONS: &[Option<&str>] = &[
    None,
    Some("3.4.24"),
    Some("3.4.45"),
    Some("3.5.1"),
    Some("3.5.35"),
    Some("3.6.16"),
    Some("3.7.3"),
    Some("9.9.9"),
];
/// What is said of a configuration that cannot be used goes into a log line and a problem document.
const LONGEST_ERROR: usize = 8 * 1024;

/// Parses, and derives whatever the wrapper would.
pub fn run(input: &[u8]) -> u64 {
    let input = &input[..input.len().min(MAX_POSTED_BYTES)];
    let bytes = Bytes::copy_from_slice(input);
    // Any text may also be what `etcd --version` printed.
    let _ = std::str::from_utf8(&input[..input.len().min(64)]).map(EtcdVersion::parse);
    let config = match EtcdConfig::parse(bytes.clone()) {
        Ok(config) => config,
        Err(error) => {
            assert!(!error.problems.is_empty(), "a refusal without a problem");
            let text = error.to_string();
            assert_short(&text, LONGEST_ERROR);
            for problem in &error.problems {
                assert!(problem.pointer.is_empty() || problem.pointer.starts_with('/'), "{problem:?}");
            }
            return shape(&text);
        }
    };
    assert_eq!(config.bytes, bytes, "etcd gets the bytes as they came");
    assert_eq!(EtcdConfig::parse(bytes).as_ref(), Ok(&config), "the same bytes are the same configuration");
    // What a served body lacks when it was cut.
    assert!(!config.name.trim().is_empty() && !config.listen_client_urls.is_empty(), "{config:?}");
    let mut seen = String::new();
    for version in VERSIONS {
        seen.push_str(&derived(&config, *version));
    }
    for port in [None, Some(2379)] {
        match client_endpoint(&config, port) {
            Ok(endpoint) => {
                if let Address::Tcp(address) = &endpoint.address {
                    assert!(address.port() != 0 && !address.ip().is_unspecified(), "{endpoint}");
                    let other = with_client_urls(&config, endpoint.to_string());
                    let again = client_endpoint(&other, Some(address.port()));
                    assert_eq!(again.map(|again| again.address), Ok(endpoint.address), "read back");
                }
                seen.push('e');
            }
            Err(error) => {
                assert_short(&error.to_string(), LONGEST_ERROR);
                seen.push_str(&error.to_string());
            }
        }
    }
    for file in files(&config) {
        assert!(!file.path.as_os_str().is_empty(), "{file:?}");
        seen.push_str(file.role.key());
    }
    if guard_data_dir(&config.data_dir, Path::new("/home/etcd"), Path::new("/var/etcd/data")).is_ok() {
        assert!(config.data_dir.is_absolute(), "{}", config.data_dir.display());
        seen.push('d');
    }
    shape(&seen)
}

fn with_client_urls(config: &EtcdConfig, url: String) -> EtcdConfig {
    EtcdConfig { listen_client_urls: vec![url], ..config.clone() }
}

fn derived(config: &EtcdConfig, version: Option<&str>) -> String {
    let unknown = unknown_keys(config, version);
    assert!(unknown.len() <= 32, "{} unknown keys", unknown.len());
    for key in &unknown {
        assert_short(&key.to_string(), 1024);
    }
    match launch(config, version) {
        Ok(Launch::ConfigFile) => format!("file{}", unknown.len()),
        Ok(Launch::Flags(flags)) => {
            for flag in &flags {
                assert!(flag.starts_with("--") && flag.contains('='), "{flag:?}");
                // The kernel would refuse the whole command line.
                assert!(!flag.contains('\0'), "{flag:?}");
            }
            // A flag holds what the file holds, never more: no alias may blow it up.
            let length: usize = flags.iter().map(String::len).sum();
            assert!(length <= config.bytes.len() * 2 + 4096, "{length} bytes of flags");
            format!("flags{}", flags.len())
        }
        Err(error) => {
            assert_short(&error.to_string(), LONGEST_ERROR);
            error.to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::drive::attempt;
    use super::*;

    /// What costs a careless reader of YAML more than it costs the writer, at the length of the largest posted body.
    fn bombs() -> Vec<(&'static str, String)> {
        let fill = |text: &str| text.repeat(MAX_POSTED_BYTES / text.len());
        let lines = |line: &dyn Fn(usize) -> String| {
            let mut text = String::new();
            for n in 0.. {
                let line = line(n);
                if text.len() + line.len() > MAX_POSTED_BYTES {
                    break;
                }
                text.push_str(&line);
            }
            text
        };
        let required =
            "name: a\ndata-dir: /d\ninitial-cluster: a=http://a:1\nlisten-client-urls: http://127.0.0.1:1\n";
        let half = |text: &str| text.repeat(MAX_POSTED_BYTES / 2 / text.len());
        vec![
            ("open lists", fill("[")),
            ("open mappings", fill("{")),
            ("open mappings with keys", fill("{a: ")),
            ("nested block lists", fill("- ")),
            ("explicit keys", fill("? ")),
            ("deep indentation", lines(&|n| format!("{}a:\n", " ".repeat(n)))),
            (
                "aliases of aliases",
                lines(&|n| match n {
                    0 => format!("{required}a0: &a0 [x]\n"),
                    n => format!(
                        "a{n}: &a{n} [*a{m}, *a{m}, *a{m}, *a{m}, *a{m}, *a{m}, *a{m}, *a{m}]\n",
                        m = n - 1
                    ),
                }),
            ),
            (
                "one alias many times",
                format!("{required}a: &a [{}]\nb: [{}]\n", half("x,"), "*a,".repeat(100_000)),
            ),
            ("many anchors", lines(&|n| format!("a{n}: &b{n} x\n"))),
            ("many keys", format!("{required}{}", lines(&|n| format!("a{n}: x\n")).split_at(900_000).0)),
            ("the same key", fill("name: a\n")),
            (
                "keys that differ in case",
                lines(&|n| {
                    let letters = "advertise-client-urls"
                        .char_indices()
                        .map(|(at, c)| if n >> at & 1 == 1 { c.to_ascii_uppercase() } else { c });
                    format!("{}: x\n", letters.collect::<String>())
                }),
            ),
            ("a long key", format!("{}: x\n{0}: y\n", fill("k").split_at(500_000).0)),
            ("a long value", format!("{required}name2: {}\n", half("v"))),
            ("a long bad cluster", format!("initial-cluster: {}\n", half("v"))),
            (
                "many clusters",
                format!(
                    "{}initial-cluster: {}\n",
                    required.replacen("initial-cluster", "x", 1),
                    half("a=b,")
                ),
            ),
            ("many bad urls", required.replacen("http://127.0.0.1:1", &half("ftp://x,"), 1)),
            ("a long bad url", required.replacen("http://127.0.0.1:1", &half("x"), 1)),
            ("a long bad port", required.replacen("127.0.0.1:1", &format!("127.0.0.1:{}", half("\u{1}")), 1)),
            ("a long data-dir", required.replacen("/d", &half("/d"), 1)),
            ("a comment", format!("{required}#{}", half("#"))),
            ("blank lines", fill("\n")),
            ("spaces", fill(" ")),
            ("tabs", fill("\t")),
            ("directives", fill("%TAG !a! b\n")),
            ("a directive", fill("%")),
            ("a tag", format!("a: !{}", half("x"))),
            ("tags", fill("!a ")),
            ("an anchor", format!("a: &{} x", half("a"))),
            ("an open quote", format!("\"{}", half("a"))),
            ("quoted breaks", format!("a: \"{}\"", half("\n \n"))),
            ("escapes", format!("a: \"{}\"", half("\\x00"))),
            ("a block", format!("a: |\n{}", half(" a\n"))),
            ("a folded block", format!("a: >\n{}", half(" a\n\n"))),
            ("a block that grows", format!("a: |\n{}", lines(&|n| format!("{}\n", " ".repeat(n))))),
            ("plain lines", format!("a: {}", half("b\n "))),
            ("commas", format!("[{}", half(","))),
            ("colons", fill(": ")),
            ("documents", fill("---\n")),
            ("one number", format!("quota-backend-bytes: {}", half("9"))),
            ("one float", format!("quota-backend-bytes: 1.{}e1", half("9"))),
            ("marks of byte order", fill("\u{feff}")),
            (
                "unknown keys to bridge",
                format!(
                    "{required}peer-transport-security: {{skip-client-san-verification: true}}\n{}",
                    lines(&|n| format!("Snapshot-Count{n}: x\n")).split_at(900_000).0
                ),
            ),
            (
                "fields to bridge",
                format!(
                    "{required}peer-transport-security: {{skip-client-san-verification: true}}\n{}",
                    lines(&|n| format!(
                        "{}: x\n",
                        if n % 2 == 0 { format!("a{n}") } else { format!("PeerTLSInfo{n}") }
                    ))
                    .split_at(900_000)
                    .0
                ),
            ),
        ]
    }

    #[test]
    fn a_posted_body_of_any_shape_is_read_or_refused_in_bounded_time_with_a_short_answer() {
        let target = Target { slowest: Duration::from_secs(5), ..TARGET };
        for (name, text) in bombs() {
            attempt(&target, text.as_bytes()).unwrap_or_else(|why| panic!("{name}: {why}"));
        }
    }
}
