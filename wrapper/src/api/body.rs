// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Bodies of requests: read whole within a cap and a deadline, or refused. Looks at media types, not at contents.
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use tokio::sync::watch;

use super::closed;
use super::problem::{Code, Problem};

/// Cap of every body that is no configuration.
pub(super) const SMALL: usize = 64 * 1024;
/// From the head of the request to the last byte of its body.
const READ_WITHIN: Duration = Duration::from_secs(10);

/// What a route takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum MediaType {
    Json,
    Yaml,
}

impl MediaType {
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Json => &["application/json"],
            Self::Yaml => &["application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"],
        }
    }
}

/// Refuses a body of another kind. What `curl --data-binary` says when nobody tells it otherwise is no statement about
/// the body, and passes.
///
/// # Errors
/// `unsupported_media_type` with what to send instead.
pub(super) fn check_type(headers: &HeaderMap, wanted: MediaType) -> Result<(), Problem> {
    let refuse = |detail: String| Err(Problem::new(Code::UnsupportedMediaType, detail));
    if let Some(encoding) = headers.get(header::CONTENT_ENCODING).filter(|value| *value != "identity") {
        return refuse(format!("a body with Content-Encoding {encoding:?} is not taken; send it as it is"));
    }
    let Some(given) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let essence = given.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let known = wanted.names();
    let passes = |name: &&str| name.eq_ignore_ascii_case(essence);
    if known.iter().chain(&["application/x-www-form-urlencoded"]).any(passes) {
        return Ok(());
    }
    refuse(format!("a body of type {essence:?} is not taken here; send it with 'Content-Type: {}'", known[0]))
}

/// Does the head say that a configuration follows?
pub(super) fn means_yaml(headers: &HeaderMap) -> bool {
    headers.contains_key(header::CONTENT_TYPE) && check_type(headers, MediaType::Yaml).is_ok()
}

/// The whole body.
///
/// # Errors
/// `too_large` above `cap` bytes, at once where the head says so; `bad_request` when the body breaks off or is too slow;
/// `shutting_down` when the listener winds down first: a caller who stopped in the middle must not hold up the end.
pub(super) async fn read(
    body: Incoming,
    cap: usize,
    closing: &watch::Receiver<bool>,
) -> Result<Bytes, Problem> {
    let too_large = || Problem::new(Code::TooLarge, format!("a body has at most {cap} bytes here"));
    if usize::try_from(body.size_hint().lower()).map_or(true, |length| length > cap) {
        return Err(too_large());
    }
    let mut closing = closing.clone();
    let read = tokio::select! {
        biased;
        read = tokio::time::timeout(READ_WITHIN, Limited::new(body, cap).collect()) => read,
        () = closed(&mut closing) => {
            return Err(Problem::new(Code::ShuttingDown, "the process ends, and the body has not arrived"));
        }
    };
    match read {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => Err(Problem::new(Code::BadRequest, format!("the body broke off: {error}"))),
        Err(_) => Err(Problem::new(Code::BadRequest, "the body did not arrive within 10 s")),
    }
}

/// Refuses a body where none is taken.
///
/// # Errors
/// `unsupported_media_type`.
pub(super) fn none(body: &Incoming) -> Result<(), Problem> {
    match body.is_end_stream() {
        true => Ok(()),
        false => Err(Problem::new(Code::UnsupportedMediaType, "no body is taken here")),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn verdict(name: header::HeaderName, value: &'static str, wanted: MediaType) -> bool {
        let headers = HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
        check_type(&headers, wanted).is_ok()
    }

    #[test]
    fn a_body_says_what_it_is_or_nothing() {
        for (value, json, yaml) in [
            ("application/json", true, false),
            ("application/json; charset=utf-8", true, false),
            ("Application/YAML", false, true),
            ("text/yaml", false, true),
            ("application/x-www-form-urlencoded", true, true),
            ("text/plain", false, false),
            ("multipart/form-data; boundary=x", false, false),
            ("", false, false),
        ] {
            assert_eq!(verdict(header::CONTENT_TYPE, value, MediaType::Json), json, "{value}");
            assert_eq!(verdict(header::CONTENT_TYPE, value, MediaType::Yaml), yaml, "{value}");
        }
        assert!(check_type(&HeaderMap::new(), MediaType::Yaml).is_ok());
        assert!(!means_yaml(&HeaderMap::new()));
        assert!(!verdict(header::CONTENT_ENCODING, "gzip", MediaType::Yaml));
        assert!(verdict(header::CONTENT_ENCODING, "identity", MediaType::Yaml));
    }
}
