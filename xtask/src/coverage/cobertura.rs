// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Line counts in Cobertura's format, for viewers that know no lcov. Folders are packages, files are classes.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Lines;
use super::lcov::totals;

/// A path, and the counts of its lines.
type Counted<'a> = (&'a str, &'a BTreeMap<usize, u64>);

/// The document. Its time is the epoch: the same counts give the same bytes.
pub(crate) fn cobertura(lines: &Lines) -> String {
    let mut packages: BTreeMap<&str, Vec<Counted<'_>>> = BTreeMap::new();
    for (path, file) in lines.files() {
        packages
            .entry(path.rsplit_once('/').map_or("", |(folder, _)| folder))
            .or_default()
            .push((path, file));
    }
    let (covered, of) = lines.totals();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!DOCTYPE coverage SYSTEM \"http://cobertura.sourceforge.net/xml/coverage-04.dtd\">\n\
         <coverage line-rate=\"{}\" branch-rate=\"0\" lines-covered=\"{covered}\" lines-valid=\"{of}\" branches-covered=\"0\" \
         branches-valid=\"0\" complexity=\"0\" version=\"1\" timestamp=\"0\">\n  <sources><source>.</source></sources>\n  <packages>\n",
        rate(covered, of)
    );
    for (folder, files) in packages {
        let (covered, of) =
            files.iter().map(|(_, file)| totals(file)).fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
        let _ = writeln!(
            text,
            "    <package name=\"{}\" line-rate=\"{}\" branch-rate=\"0\" complexity=\"0\">\n      <classes>",
            escaped(folder),
            rate(covered, of)
        );
        for (path, file) in files {
            let (covered, of) = totals(file);
            let name = path.rsplit('/').next().unwrap_or(path);
            let _ = writeln!(
                text,
                "        <class name=\"{}\" filename=\"{}\" line-rate=\"{}\" branch-rate=\"0\" complexity=\"0\">\n          <methods/>\n          <lines>",
                escaped(name),
                escaped(path),
                rate(covered, of)
            );
            for (line, runs) in file {
                let _ =
                    writeln!(text, "            <line number=\"{line}\" hits=\"{runs}\" branch=\"false\"/>");
            }
            text.push_str("          </lines>\n        </class>\n");
        }
        text.push_str("      </classes>\n    </package>\n");
    }
    text.push_str("  </packages>\n</coverage>\n");
    text
}

fn rate(covered: usize, of: usize) -> String {
    format!("{:.4}", super::percent(covered, of) / 100.0)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn folders_files_and_lines_have_their_counts() {
        let lcov = "SF:w/a/x.rs\nDA:1,2\nDA:2,0\nSF:w/b&c.rs\nDA:7,1\n";
        let text = cobertura(&Lines::parse(lcov, Path::new("/r")).unwrap());
        assert!(text.contains("lines-covered=\"2\" lines-valid=\"3\""), "{text}");
        assert!(text.contains("<package name=\"w/a\" line-rate=\"0.5000\""), "{text}");
        assert!(text.contains("filename=\"w/b&amp;c.rs\" line-rate=\"1.0000\""), "{text}");
        assert!(text.contains("<line number=\"2\" hits=\"0\" branch=\"false\"/>"), "{text}");
        assert_eq!(text.matches("<class ").count(), text.matches("</class>").count());
    }
}
