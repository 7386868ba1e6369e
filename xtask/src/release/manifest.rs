// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The version of this tree: where it stands, and how another one is put there. `Cargo.toml` leads; what repeats it
//! (`Cargo.lock`, the OpenAPI document) follows.

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::version::Version;

/// The files that bear the version, below the root.
pub(crate) const FILES: [&str; 3] = ["Cargo.toml", "Cargo.lock", "wrapper/openapi.json"];

/// The version in the workspace's manifest at `root`.
pub(crate) fn version(root: &Path) -> Result<Version> {
    let path = root.join(FILES[0]);
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    of(&text)
}

/// The version in the text of a workspace's manifest.
pub(crate) fn of(text: &str) -> Result<Version> {
    line(text)?.1.parse().context("workspace.package.version in Cargo.toml")
}

/// Each of [`FILES`] with its text for `version`, out of what `read` gives for its path.
///
/// # Errors
/// A file does not bear the version that the manifest says, or cannot be read.
pub(crate) fn with_version(
    version: Version,
    read: impl Fn(&str) -> Result<String>,
) -> Result<Vec<(&'static str, String)>> {
    let manifest = read(FILES[0])?;
    let old = of(&manifest)?;
    FILES
        .into_iter()
        .map(|path| {
            let text = read(path)?;
            let new = replaced(path, &text, old, version)?;
            Ok((path, new))
        })
        .collect()
}

/// Files that say another version than the manifest does.
pub(crate) fn disagreeing(root: &Path) -> Result<Vec<&'static str>> {
    let ours = version(root)?;
    let mut wrong = Vec::new();
    for path in FILES {
        let full = root.join(path);
        let text = std::fs::read_to_string(&full).with_context(|| format!("read {}", full.display()))?;
        if replaced(path, &text, ours, ours).is_err() {
            wrong.push(path);
        }
    }
    Ok(wrong)
}

fn replaced(path: &str, text: &str, old: Version, new: Version) -> Result<String> {
    match path {
        "Cargo.toml" => {
            let (before, _, after) = line(text)?;
            Ok(format!("{before}{new}{after}"))
        }
        "Cargo.lock" => lock(text, old, new),
        other => {
            // Its examples have versions too, and keep them.
            let place =
                text.find("\"info\": {").and_then(|info| Some(info + text[info..].find("\"version\": \"")?));
            let from =
                place.with_context(|| format!("{other}: no version in its info"))? + "\"version\": \"".len();
            let Some(rest) = text[from..].strip_prefix(&format!("{old}\"")) else {
                bail!("{other}: its info has another version than Cargo.toml, {old}; set it to that");
            };
            Ok(format!("{}{new}\"{rest}", &text[..from]))
        }
    }
}

/// What stands before the version in `[workspace.package]`, the version, and the rest.
fn line(text: &str) -> Result<(&str, &str, &str)> {
    let table = text.find("[workspace.package]").context("Cargo.toml has no [workspace.package]")?;
    let key = text[table..].find("\nversion = \"").context("[workspace.package] has no version")?;
    let from = table + key + "\nversion = \"".len();
    let length = text[from..].find('"').context("the version in Cargo.toml has no end")?;
    Ok((&text[..from], &text[from..from + length], &text[from + length..]))
}

/// The lock file, where packages of the workspace are those without a source.
fn lock(text: &str, old: Version, new: Version) -> Result<String> {
    let (from, to) = (format!("\nversion = \"{old}\"\n"), format!("\nversion = \"{new}\"\n"));
    let mut changed = 0;
    let packages: Vec<String> = text
        .split("\n\n")
        .map(|package| {
            let own = package.contains("[[package]]") && !package.contains("\nsource = ");
            let block = format!("{package}\n");
            if own && block.contains(&from) {
                changed += 1;
                let block = block.replacen(&from, &to, 1);
                block[..block.len() - 1].to_owned()
            } else {
                package.to_owned()
            }
        })
        .collect();
    if changed == 0 {
        bail!(
            "Cargo.lock has no package of the workspace with version {old}; bring it up to date: cargo update --workspace"
        );
    }
    Ok(packages.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOML: &str = "[workspace]\n\n[workspace.package]\nversion = \"0.1.0-dev\"\nedition = \"2024\"\n\n[workspace.dependencies]\nx = { version = \"0.1.0-dev\" }\n";
    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"other\"\nversion = \"0.1.0-dev\"\nsource = \"registry\"\n\n[[package]]\nname = \"ours\"\nversion = \"0.1.0-dev\"\ndependencies = [\n \"other\",\n]\n\n[[package]]\nname = \"xtask\"\nversion = \"0.1.0-dev\"\n";
    const OPENAPI: &str =
        "{ \"info\": { \"version\": \"0.1.0-dev\" },\n \"example\": { \"version\": \"0.1.0\" } }\n";

    fn read(path: &str) -> Result<String> {
        Ok(match path {
            "Cargo.toml" => TOML,
            "Cargo.lock" => LOCK,
            _ => OPENAPI,
        }
        .to_owned())
    }

    #[test]
    fn a_version_is_set_where_it_stands_and_nowhere_else() {
        let files = with_version("0.1.0".parse().unwrap(), read).unwrap();
        let [toml, lock, openapi] = files.try_into().unwrap();
        assert_eq!(toml.1, TOML.replacen("0.1.0-dev", "0.1.0", 1));
        assert_eq!(lock.1.matches("0.1.0-dev").count(), 1, "{}", lock.1);
        assert!(lock.1.contains("\"other\"\nversion = \"0.1.0-dev\""), "{}", lock.1);
        assert!(lock.1.ends_with("name = \"xtask\"\nversion = \"0.1.0\"\n"), "{}", lock.1);
        assert_eq!(openapi.1, OPENAPI.replace("-dev", ""));
        // What has the release's version now is found to have it, and its example is no second one.
        let released: Version = "0.1.0".parse().unwrap();
        assert_eq!(replaced("wrapper/openapi.json", &openapi.1, released, released).unwrap(), openapi.1);
    }

    #[test]
    fn a_file_with_another_version_is_not_taken_for_one_with_ours() {
        let error = with_version("0.1.0".parse().unwrap(), |path| {
            Ok(if path == "Cargo.lock" { LOCK.replace("-dev", "") } else { read(path)? })
        })
        .unwrap_err()
        .to_string();
        assert!(error.contains("Cargo.lock"), "{error}");
    }

    #[test]
    fn the_clones_own_files_agree() {
        assert_eq!(disagreeing(&crate::repo::root()).unwrap(), Vec::<&str>::new());
    }
}
