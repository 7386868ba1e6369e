// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Rust sources as far as the rules need to understand them: code without comments and without what stands in strings,
//! and the words in it. No parser: what rustfmt leaves is regular enough.

/// The same text with comments and the insides of string and character literals blanked; lines stay where they are.
pub(crate) fn bare(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = match (chars[at], chars.get(at + 1)) {
            ('/', Some('/')) => (at..chars.len()).find(|&i| chars[i] == '\n').unwrap_or(chars.len()),
            ('/', Some('*')) => block_comment(&chars, at),
            ('"', _) => string(&chars, at),
            ('r', Some('"' | '#'))
                if !at.checked_sub(1).is_some_and(|i| is_word(chars[i]) && chars[i] != 'b') =>
            {
                raw_string(&chars, at)
            }
            ('\'', _) => character(&chars, at),
            (other, _) => {
                out.push(other);
                at += 1;
                continue;
            }
        };
        out.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
        at = end.max(at + 1);
    }
    out
}

fn block_comment(chars: &[char], from: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = from;
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => {
                (depth, at) = (depth - 1, at + 2);
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    chars.len()
}

fn string(chars: &[char], from: usize) -> usize {
    let mut at = from + 1;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// `r"…"`, `r#"…"#`; `r#name` is no string and ends at once.
fn raw_string(chars: &[char], from: usize) -> usize {
    let hashes = chars[from + 1..].iter().take_while(|&&c| c == '#').count();
    if chars.get(from + 1 + hashes) != Some(&'"') {
        return from + 1;
    }
    let closes = |at: &usize| {
        chars[*at] == '"' && chars[at + 1..].iter().take(hashes).filter(|&&c| c == '#').count() == hashes
    };
    (from + 2 + hashes..chars.len()).find(closes).map_or(chars.len(), |at| at + 1 + hashes)
}

/// `'a'`, `'\n'`; a lifetime ends at once.
fn character(chars: &[char], from: usize) -> usize {
    match (chars.get(from + 1), chars.get(from + 2)) {
        (Some('\\'), _) => {
            (from + 3..chars.len()).find(|&at| chars[at] == '\'').map_or(chars.len(), |at| at + 1)
        }
        (Some(_), Some('\'')) => from + 3,
        _ => from + 1,
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The places where `word` stands for itself in `code`, as numbers of lines from 1.
pub(super) fn lines_with_word(code: &str, word: &str) -> Vec<usize> {
    let mut lines = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let stands = line.match_indices(word).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = line[at + word.len()..].chars().next();
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        });
        if stands {
            lines.push(number + 1);
        }
    }
    lines
}

/// What follows each `prefix` (such as `crate::`) as a path: its first names, those of a group in braces one by one,
/// each with its line.
pub(super) fn names_after(code: &str, prefix: &str) -> Vec<(usize, String)> {
    let mut names = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        if code[..at].chars().next_back().is_some_and(|c| is_word(c) || c == ':') {
            continue;
        }
        let line = code[..at].matches('\n').count() + 1;
        let rest = &code[at + prefix.len()..];
        match rest.strip_prefix('{') {
            None => names.push((line, first_word(rest))),
            Some(group) => names.extend(group_members(group).map(|name| (line, name))),
        }
    }
    names
}

fn first_word(text: &str) -> String {
    text.trim_start().chars().take_while(|&c| is_word(c)).collect()
}

/// The first names of a group's members, up to its closing brace.
fn group_members(group: &str) -> impl Iterator<Item = String> {
    let mut depth = 0_usize;
    let mut members = vec![String::new()];
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => members.push(String::new()),
            _ if depth == 0 => members.last_mut().expect("never empty").push(c),
            _ => {}
        }
    }
    members.into_iter().map(|member| first_word(&member)).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_lines_stay() {
        let text =
            "a // unsafe\n/* x /* y */\n z */ b \"uns\\\"afe\" r#\"un\"safe\"# 'c' '\\'' &'a str r#type\n";
        let code = bare(text);
        assert_eq!(code.lines().count(), text.lines().count());
        assert!(!code.contains("safe"), "{code}");
        let words: Vec<&str> = code.split_whitespace().collect();
        assert_eq!(words, ["a", "b", "&", "a", "str", "#type"]);
    }

    #[test]
    fn a_word_is_found_only_as_a_word() {
        let code = "unsafe {\nunsafe_code\nlet x = unsafe(1);\nnot_unsafe\n";
        assert_eq!(lines_with_word(code, "unsafe"), [1, 3]);
    }

    #[test]
    fn names_are_found_in_paths_and_groups() {
        let code =
            "use crate::a::b;\nuse crate::{\n    c::{d, e},\n    f,\n};\nx(crate::g());\nmycrate::h;\n";
        let names: Vec<String> = names_after(code, "crate::").into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["a", "c", "f", "g"]);
        assert_eq!(names_after(code, "crate::")[3].0, 6);
    }
}
