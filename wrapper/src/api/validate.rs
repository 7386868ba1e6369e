// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `POST /v1/config/validate`: what the wrapper would say of a configuration, without doing anything with it. Looks at
//! the bytes alone: files and directories are looked at by the start itself.
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, StatusCode};
use hyper::body::Incoming;

use crate::config::{self, EtcdConfig};

use super::body::{self, MediaType};
use super::problem::{Code, Problem};
use super::query::Query;
use super::{Answer, Api, Connection, json, wire};

impl Api {
    /// `POST /v1/config/validate`.
    pub(super) async fn validate_config(
        self: Arc<Self>,
        _connection: Arc<Connection>,
        request: Request<Incoming>,
    ) -> Result<Answer, Problem> {
        let (head, body) = request.into_parts();
        Query::parse(head.uri.query())?.only(&[])?;
        body::check_type(&head.headers, MediaType::Yaml)?;
        let _place = self
            .validations
            .try_acquire()
            .map_err(|_| Problem::new(Code::TooManyStreams, "other configurations are being validated"))?;
        let bytes = body::read(body, config::MAX_POSTED_BYTES, &self.closing).await?;
        if bytes.is_empty() {
            return Err(Problem::new(
                Code::BadRequest,
                "the body is to be an etcd configuration, and it is empty",
            ));
        }
        let etcd_version = self.views.core.borrow().etcd_version.clone();
        Ok(json(StatusCode::OK, &validate(bytes, etcd_version)))
    }
}

/// The findings on a configuration, errors first; keys are checked where the version of etcd is known.
pub(crate) fn validate(bytes: Bytes, etcd_version: Option<String>) -> wire::Validation {
    let usable = EtcdConfig::parse(bytes).and_then(|config| {
        config::client_endpoint(&config, None)?;
        Ok(config)
    });
    let (digest, findings) = match usable {
        Err(error) => {
            let errors = error.problems.into_iter().map(|problem| wire::Finding {
                severity: "error".into(),
                pointer: problem.pointer,
                detail: problem.detail,
                suggestion: problem.suggestion,
            });
            (None, errors.collect::<Vec<_>>())
        }
        Ok(config) => {
            let version = etcd_version.as_deref();
            let bridge = config::launch(&config, version).err().map(|error| wire::Finding {
                severity: "error".into(),
                pointer: String::new(),
                detail: error.to_string(),
                suggestion: None,
            });
            let unknown = config::unknown_keys(&config, version).into_iter().map(|key| wire::Finding {
                severity: "warning".into(),
                detail: format!("etcd {} ignores this key (keys known as of {})", key.version, key.as_of),
                pointer: key.pointer,
                suggestion: key.suggestion.map(str::to_owned),
            });
            (Some(config.digest), bridge.into_iter().chain(unknown).collect())
        }
    };
    let valid = findings.iter().all(|finding| finding.severity != "error");
    wire::Validation { valid, digest, etcd_version, findings }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        "name: a\ndata-dir: /d\nlisten-client-urls: http://0.0.0.0:2379\ninitial-cluster: a=http://h:2380\n";

    fn findings(text: &str, version: Option<&str>) -> (bool, Vec<wire::Finding>) {
        let validation = validate(Bytes::from(text.to_owned()), version.map(Into::into));
        assert_eq!(validation.valid, validation.digest.is_some(), "{validation:?}");
        (validation.valid, validation.findings)
    }

    #[test]
    fn a_good_configuration_has_no_findings() {
        assert_eq!(findings(GOOD, Some("3.5.35")), (true, Vec::new()));
    }

    #[test]
    fn c4_an_unknown_key_is_a_warning_with_the_key_that_was_meant() {
        let (valid, found) = findings(&format!("{GOOD}snapshot-cout: 5\n"), Some("3.5.35"));
        assert!(valid);
        assert_eq!((&*found[0].severity, found[0].pointer.as_str()), ("warning", "/snapshot-cout"));
        assert_eq!(found[0].suggestion.as_deref(), Some("snapshot-count"));
        assert_eq!(findings(&format!("{GOOD}snapshot-cout: 5\n"), None), (true, Vec::new()));
    }

    #[test]
    fn what_is_no_configuration_of_etcds_is_invalid_with_pointers() {
        for text in ["[]", "name: a", "\u{0}", "name: [", &GOOD.replace(":2379", ":0")] {
            let (valid, found) = findings(text, Some("3.5.35"));
            assert!(!valid && !found.is_empty(), "{text}: {found:?}");
        }
        let (_, found) = findings(&GOOD.replace("data-dir", "data-dri"), None);
        assert!(found.iter().any(|finding| finding.pointer == "/data-dir"), "{found:?}");
    }
}
