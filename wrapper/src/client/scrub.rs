// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Leaves secrets out of what is to be shown to strangers: values whose key names a secret, PEM, users and queries in
//! URLs. Rather too much than too little.

/// What stands in a secret's place.
const OUT: &str = "(left out)";

/// Parts of a key's name that make its value a secret. Paths of keys are none: `key-file` does not match.
const SECRET: [&str; 9] =
    ["token", "password", "passwd", "secret", "credential", "apikey", "api-key", "access-key", "signature"];

/// Is a value under this key a secret?
pub(super) fn names_a_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase().replace('_', "-");
    SECRET.iter().any(|word| key.contains(word))
}

/// A value without what it should not show; whole, where its key says so.
pub(super) fn value(key: &str, text: &str) -> String {
    if names_a_secret(key) && !text.is_empty() { OUT.to_owned() } else { scrub(text) }
}

/// Text without PEM, and without users and queries in URLs.
pub(super) fn scrub(text: &str) -> String {
    let text = without_pem(text);
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let end = after.find(|c: char| c.is_whitespace() || "\"'<>`\\|".contains(c)).unwrap_or(after.len());
        // One of a list ends at its comma; within a query a comma may be part of a secret.
        let url = &after[..end];
        let comma = url.find(',').filter(|comma| url[comma + 1..].contains("://"));
        let end = comma.filter(|comma| !url[..*comma].contains(['?', '#'])).unwrap_or(end);
        let (url, tail) = after.split_at(end);
        out.push_str(&without_user_and_query(url));
        rest = tail;
    }
    out.push_str(rest);
    out
}

/// Scheme, host and port of a URL alone.
pub(super) fn place(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return OUT.to_owned() };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}/{OUT}")
}

/// What follows `://`.
fn without_user_and_query(url: &str) -> String {
    // A password may hold a slash that should have been encoded; an @ in a path is no loss.
    let query = url.find(['?', '#']).unwrap_or(url.len());
    let user = url[..query].rfind('@').map_or(0, |at| at + 1);
    let url = if user > 0 { format!("{OUT}@{}", &url[user..]) } else { url.to_owned() };
    match url.find(['?', '#']) {
        Some(at) if at + 1 < url.len() => format!("{}?{OUT}", &url[..at]),
        _ => url,
    }
}

fn without_pem(text: &str) -> String {
    const BEGIN: &str = "-----BEGIN";
    const END: &str = "-----END";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(BEGIN) {
        out.push_str(&rest[..at]);
        out.push_str(OUT);
        let body = &rest[at + BEGIN.len()..];
        // One without an end goes on to the text's.
        let Some(end) = body.find(END) else { return out };
        let tail = &body[end + END.len()..];
        rest = tail.find("-----").map_or("", |dashes| &tail[dashes + 5..]);
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn j2_values_are_left_out_by_the_name_of_their_key() {
        for key in ["/initial-cluster-token", "/a/Password", "clientSecret", "SAS_TOKEN", "aws_access_key_id"]
        {
            assert_eq!(value(key, "hunter2"), OUT, "{key}");
        }
        for key in ["/client-transport-security/key-file", "/name", "/auto-tls"] {
            assert_eq!(value(key, "hunter2"), "hunter2", "{key}");
        }
    }

    #[test]
    fn j2_pem_users_and_queries_are_left_out() {
        for (text, scrubbed) in [
            ("GET https://s/b?sig=abc failed", "GET https://s/b?(left out) failed"),
            ("https://me:pw@host/x, http://b", "https://(left out)@host/x, http://b"),
            ("http://u:p@a:1,http://u:p@b:2", "http://(left out)@a:1,http://(left out)@b:2"),
            ("http://u:p/w@a", "http://(left out)@a"),
            ("http://a:1,http://b:2?c=d,e", "http://a:1,http://b:2?(left out)"),
            ("http://a/#frag", "http://a/?(left out)"),
            ("a -----BEGIN KEY-----\nabc\n-----END KEY----- b", "a (left out) b"),
            ("a -----BEGIN KEY-----\nabc", "a (left out)"),
            ("plain? text", "plain? text"),
            ("http://a?", "http://a?"),
        ] {
            assert_eq!(scrub(text), scrubbed);
        }
    }

    proptest! {
        #[test]
        fn j2_no_query_and_no_user_survives(before in "[ -~]{0,20}", host in "[a-z.]{1,9}", path in "[a-z/,]{0,9}") {
            let text = format!("{before} https://me:HUNTER2@{host}/{path}?sig=HUNTER2&x=HUNTER2 -----BEGIN X-----\nHUNTER2");
            prop_assert!(!scrub(&text).contains("HUNTER2"), "{}", scrub(&text));
        }

        #[test]
        fn no_text_makes_it_panic(text in "(://|-----BEGIN|-----END|-----|[@?#, a-zé]){0,40}") {
            let _ = scrub(&text);
        }
    }
}
