// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Names that a page for people lists one by one, held against the sources: flags with their defaults, exit codes,
//! metrics, and the variables of the tests. What the page says about each is the page's own.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::Finding;
use super::tree::Tree;

const OPERATIONS: &str = "docs/operations.md";
const TESTING: &str = "docs/testing.md";
const FLAGS: &str = "wrapper/src/cli/flags.rs";
const EXIT: &str = "wrapper/src/exit.rs";
const METRICS: [&str; 2] = ["wrapper/src/metrics.rs", "wrapper/src/metrics/exposition.rs"];
const PREFIX: &str = "etcd_wrapper_";

pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let page = tree.text(OPERATIONS)?;
    let mut findings = flags(page, tree.text(FLAGS)?);
    findings.extend(compare(
        "exit code",
        &exit_codes(tree.text(EXIT)?),
        &listed(page, plain_number),
        OPERATIONS,
    ));
    let mut metrics = BTreeSet::new();
    for path in METRICS {
        metrics.extend(registered(tree.text(path)?));
    }
    findings.extend(compare("metric", &metrics, &listed(page, metric), OPERATIONS));
    let variable = |cell: &str| quoted(cell).filter(|name| name.starts_with("E2E_"));
    let known = listed(tree.text(TESTING)?, variable);
    // One way only: a script or a profile may be what reads a variable.
    let unknown = variables(tree).into_iter().filter(|name| !known.contains_key(name));
    findings.extend(unknown.map(|name| lacking("variable", &name, TESTING)));
    Ok(findings)
}

/// Both ways: what the page does not list, and what is there no more. `listed`: name → line.
fn compare(
    kind: &str,
    there: &BTreeSet<String>,
    listed: &BTreeMap<String, usize>,
    page: &str,
) -> Vec<Finding> {
    let unlisted = there.iter().filter(|name| !listed.contains_key(*name));
    let unlisted = unlisted.map(|name| lacking(kind, name, page));
    let gone = listed.iter().filter(|(name, _)| !there.contains(*name));
    let gone =
        gone.map(|(name, line)| Finding::new(page, *line, format!("{kind} {name} is not in the sources")));
    unlisted.chain(gone).collect()
}

fn lacking(kind: &str, name: &str, page: &str) -> Finding {
    Finding::new(page, 0, format!("{kind} {name} has no row in a table here"))
}

/// First cells of table rows, as far as `name` takes them for a name.
fn listed(page: &str, name: impl Fn(&str) -> Option<String>) -> BTreeMap<String, usize> {
    let rows = page.lines().enumerate().filter_map(|(number, line)| {
        let first = line.strip_prefix('|')?.split('|').next()?.trim();
        Some((name(first)?, number + 1))
    });
    rows.collect()
}

/// What stands in backticks, alone.
fn quoted(cell: &str) -> Option<String> {
    cell.strip_prefix('`')?.strip_suffix('`').map(str::to_owned)
}

fn plain_number(cell: &str) -> Option<String> {
    (!cell.is_empty() && cell.bytes().all(|b| b.is_ascii_digit())).then(|| cell.to_owned())
}

/// `etcd_wrapper_x_total{y}` in backticks, as the name that is registered.
fn metric(cell: &str) -> Option<String> {
    let name = quoted(cell)?;
    let name = name.strip_prefix(PREFIX)?.split('{').next()?.to_owned();
    let bare = name.strip_suffix("_total").or(name.strip_suffix("_info")).unwrap_or(&name);
    Some(bare.to_owned())
}

fn flags(page: &str, source: &str) -> Vec<Finding> {
    let declared = declared_flags(source);
    let flag = |cell: &str| quoted(cell).filter(|name| name.starts_with("--"));
    let names = declared.keys().cloned().collect();
    let rows = listed(page, flag);
    let mut findings = compare("flag", &names, &rows, OPERATIONS);
    for (name, line) in rows {
        let told = page.lines().nth(line - 1).and_then(|row| row.split('|').nth(2)).map(str::trim);
        if let (Some(Some(default)), Some(told)) = (declared.get(&name), told)
            && told != format!("`{default}`")
        {
            findings.push(Finding::new(
                OPERATIONS,
                line,
                format!("the default of {name} is `{default}`, not {told}"),
            ));
        }
    }
    findings
}

/// Flags as clap's attributes declare them: name → default.
fn declared_flags(source: &str) -> BTreeMap<String, Option<String>> {
    let mut flags = BTreeMap::new();
    let mut attribute: Option<String> = None;
    let mut open = false;
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[arg(") {
            (attribute, open) = (Some(String::new()), true);
        }
        if open {
            attribute.get_or_insert_default().push_str(line);
            open = !line.ends_with(")]");
        } else if let Some((field, _)) = line.split_once(": ")
            && !line.starts_with("//")
            && let Some(attribute) = attribute.take()
            && attribute.contains("long")
        {
            let name = field.rsplit(' ').next().unwrap_or(field).replace('_', "-");
            let default = ["default_value = \"", "default_value_t = "].iter().find_map(|key| {
                let rest = attribute.split_once(key)?.1;
                rest.split(['"', ',', ')']).next().map(str::to_owned)
            });
            if name != "help" {
                flags.insert(format!("--{name}"), default);
            }
        }
    }
    flags
}

/// The numbers of `Self::X => N` in `fn number`.
fn exit_codes(source: &str) -> BTreeSet<String> {
    let body = source.split_once("fn number").map_or("", |(_, body)| body);
    let body = body.split_once("\n    }\n").map_or(body, |(body, _)| body);
    body.lines()
        .filter_map(|line| plain_number(line.trim().rsplit_once("=> ")?.1.trim_end_matches(',')))
        .collect()
}

/// First strings given to `register(…)`, and second arguments of the functions that stand for it.
fn registered(source: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (call, skip) in [("register(", 0), ("gauge(", 1), ("states(", 1)] {
        for (at, _) in source.match_indices(call) {
            let argument = source[at + call.len()..].splitn(3, ',').nth(skip).map(str::trim);
            let name = argument.and_then(|text| text.strip_prefix('"')?.split('"').next());
            names.extend(name.map(str::to_owned));
        }
    }
    names
}

/// `E2E_*` in the sources, outside of these rules.
fn variables(tree: &Tree) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (_, text) in tree.with_extension("rs").filter(|(path, _)| !path.starts_with("xtask/src/tidy/")) {
        for (at, _) in text.match_indices("E2E_") {
            let name: String = text[at..]
                .chars()
                .take_while(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || *c == '_')
                .collect();
            if !name.ends_with('_') {
                names.insert(name);
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_with_their_defaults() {
        let source = "#[arg(long, default_value_t = 9095, value_name = \"PORT\")]\npub(super) wrapper_port: u16,\n\n/// Text: more\n\
                      #[arg(long, help_heading = GO, default_value = \"false\",\n      default_missing_value = \"true\")]\n\
                      pub(super) hold: bool,\n#[arg(long, value_parser = path())]\npub(super) etcd_path: Option<PathBuf>,\n\
                      #[arg(short = 'h', long)]\nhelp: Option<bool>,\n";
        let flags = declared_flags(source);
        let flags: Vec<(&str, Option<&str>)> =
            flags.iter().map(|(name, d)| (&**name, d.as_deref())).collect();
        assert_eq!(
            flags,
            [("--etcd-path", None), ("--hold", Some("false")), ("--wrapper-port", Some("9095"))]
        );
    }

    #[test]
    fn a_page_that_lacks_a_flag_or_has_one_too_many_or_another_default_is_told() {
        let source = "#[arg(long, default_value_t = 1)]\na: u16,\n#[arg(long)]\nb: bool,\n";
        let page = "| Flag | Default | |\n|---|---|---|\n| `--a` | `2` | x |\n| `--c` | | y |\n";
        let lines: Vec<String> = flags(page, source).iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "docs/operations.md: flag --b has no row in a table here",
                "docs/operations.md:4: flag --c is not in the sources",
                "docs/operations.md:3: the default of --a is `1`, not `2`",
            ]
        );
    }

    #[test]
    fn codes_and_metrics_are_read_from_the_sources() {
        let exit = "fn number(self) -> u8 {\n        match self {\n            Self::A | Self::B => 1,\n            Self::C => 20,\n        }\n    }\n    fn x() { y => 7, }";
        assert_eq!(exit_codes(exit).into_iter().collect::<Vec<_>>(), ["1", "20"]);
        let metrics = "registry.register(\"http_requests\", x, y);\ngauge(\n  &mut registry,\n  \"free\",\n z);\nregistry.register(name, h)";
        assert_eq!(registered(metrics).into_iter().collect::<Vec<_>>(), ["free", "http_requests"]);
        assert_eq!(
            metric("`etcd_wrapper_http_requests_total{route,code}`"),
            Some("http_requests".to_owned())
        );
        assert_eq!(metric("`process_cpu_seconds_total`"), None);
    }
}
