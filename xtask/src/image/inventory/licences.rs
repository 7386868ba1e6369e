// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The licence of a module of Go, which states it only as a text beside the source. Known texts are told by phrases that
//! no other has; an unknown one is an error, since nobody may ship what nobody has read.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// How files with a licence begin, in upper case.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "UNLICENSE", "MIT-LICENSE"];

/// The licence of the module whose source lies in `folder`, as an SPDX expression: all that its texts name.
pub(super) fn of(folder: &Path) -> Result<String> {
    let mut found = BTreeSet::new();
    let read = std::fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    for entry in read {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_file() && NAMES.iter().any(|begin| name.starts_with(begin)) {
            let text = std::fs::read(&path).with_context(|| format!("read {}", path.display()))?;
            found.extend(named(&String::from_utf8_lossy(&text)));
        }
    }
    if found.is_empty() {
        bail!(
            "no licence that is known in {}: read it, and teach xtask/src/image/inventory/licences.rs its phrases",
            folder.display()
        );
    }
    Ok(found.into_iter().collect::<Vec<_>>().join(" AND "))
}

/// The licences whose phrases stand in `text`.
fn named(text: &str) -> BTreeSet<&'static str> {
    // However the lines are broken.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    let has = |phrase: &str| text.contains(phrase);
    let mut found = BTreeSet::new();
    if has("apache license") && has("version 2.0") {
        found.insert("Apache-2.0");
    }
    if has("mozilla public license") && has("2.0") {
        found.insert("MPL-2.0");
    }
    if has("permission is hereby granted, free of charge, to any person obtaining a copy") {
        found.insert("MIT");
    }
    if has("permission to use, copy, modify, and/or distribute this software")
        || has("permission to use, copy, modify, and distribute this software")
    {
        found.insert("ISC");
    }
    if has("redistribution and use in source and binary forms") {
        let names = has("neither the name") || has("to endorse or promote products derived");
        found.insert(if names { "BSD-3-Clause" } else { "BSD-2-Clause" });
    }
    if has("this is free and unencumbered software released into the public domain") {
        found.insert("Unlicense");
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_told_by_its_phrases_however_its_lines_are_broken() {
        let mit =
            "MIT\nPermission is hereby granted, free of charge, to any\nperson obtaining a copy of this";
        assert_eq!(named(mit), BTreeSet::from(["MIT"]));
        let bsd = "Redistribution and use in source and\n  binary forms, with or without modification";
        assert_eq!(named(bsd), BTreeSet::from(["BSD-2-Clause"]));
        let three = format!("{bsd}\nNeither the name of Google Inc. nor");
        assert_eq!(named(&three), BTreeSet::from(["BSD-3-Clause"]));
        let apache = "Apache License\n   Version 2.0, January 2004";
        assert_eq!(named(&format!("{apache}\n{mit}")), BTreeSet::from(["Apache-2.0", "MIT"]));
        assert_eq!(named("All rights reserved."), BTreeSet::new());
    }

    #[test]
    fn a_module_without_a_known_licence_is_not_shipped_in_silence() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("LICENSE.txt"), "All rights reserved.").unwrap();
        assert!(of(folder.path()).unwrap_err().to_string().contains("no licence that is known"));
        std::fs::write(folder.path().join("Licence.md"), "Apache License, Version 2.0").unwrap();
        assert_eq!(of(folder.path()).unwrap(), "Apache-2.0");
    }
}
