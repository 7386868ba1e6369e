// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Foreign text made harmless: for HTML, and for terminals.

/// One text; a longer one is not read by anybody and makes the page slow.
const LONGEST: usize = 20_000;

/// The text without control characters and colour codes; line ends and tabs stay. Cut where it is too long, and says so.
pub(in super::super) fn plain(text: &str) -> String {
    let mut left = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if left.len() > LONGEST {
            left.push_str("… (cut)");
            break;
        }
        match c {
            '\x1b' if chars.next_if_eq(&'[').is_some() => {
                // A colour or cursor code ends with its first byte from this range.
                let _ = chars.by_ref().find(|c| ('@'..='~').contains(c));
            }
            '\n' | '\t' => left.push(c),
            c if c.is_control() => {}
            // Marks that turn the direction of the text around could make it read as something else.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            c => left.push(c),
        }
    }
    left
}

/// The text as content of an element or of an attribute in double quotes.
pub(super) fn esc(text: &str) -> String {
    let mut safe = String::new();
    for c in plain(text).chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_stays_text() {
        assert_eq!(esc("<b a=\"'\">&"), "&lt;b a=&quot;&#39;&quot;&gt;&amp;");
        assert_eq!(plain("\x1b[31mred\x1b[0m\r\n\0a\tb\u{202e}"), "red\na\tb");
        assert_eq!(plain("\x1b["), "");
    }

    #[test]
    fn what_is_too_long_is_cut_and_says_so() {
        let cut = plain(&"ä".repeat(LONGEST));
        assert!(cut.ends_with("… (cut)") && cut.len() < LONGEST + 20);
    }
}
