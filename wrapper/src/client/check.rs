// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `validate-config`: the server's own judgement of a configuration, without a server. Asks nobody and starts nothing;
//! what only etcd can judge stays open.
use bytes::Bytes;

use crate::api::validate::validate;
use crate::api::wire::{Finding, Validation};
use crate::cli::client::{Output, ValidateConfig};
use crate::config::{self, EtcdConfig, EtcdVersion};
use crate::exit::client::ClientCode;

use super::term::plain;
use super::{ClientError, Shown};

pub(super) fn run(asked: &ValidateConfig) -> Result<Shown, ClientError> {
    let version = asked.etcd_version.as_deref();
    if let Some(version) = version.filter(|version| EtcdVersion::parse(version).is_none()) {
        return Err(ClientError::Usage(format!("--etcd-version {version:?} is no version such as 3.5.35")));
    }
    let bytes = super::operate::given_config(&asked.file)?;
    let verdict = judge(bytes, version, asked.files);
    let text = match asked.output {
        Output::Json => {
            let text = serde_json::to_string(&verdict).expect("a verdict is texts and lists");
            format!("{text}\n")
        }
        Output::Table => table(&verdict, &asked.file.display().to_string()),
    };
    let code = if verdict.valid { ClientCode::Done } else { ClientCode::Failed };
    Ok(Shown { text, code })
}

/// The server's verdict, and what it could not say: without a version it looks at no unknown key, and it leaves files to
/// the start.
fn judge(bytes: Bytes, version: Option<&str>, files: bool) -> Validation {
    let mut verdict = validate(bytes.clone(), version.map(str::to_owned));
    let Ok(config) = EtcdConfig::parse(bytes) else { return verdict };
    if version.is_none() {
        verdict.findings.extend(config::unknown_to_all(&config).into_iter().map(|key| Finding {
            severity: "warning".into(),
            detail: "no etcd from 3.4 to 3.7 knows this key".to_owned(),
            pointer: key.pointer,
            suggestion: key.suggestion.map(str::to_owned),
        }));
    }
    if let Some(error) = config::check_files(&config).err().filter(|_| files) {
        verdict.valid = false;
        verdict.findings.extend(error.problems.into_iter().map(|problem| Finding {
            severity: "error".into(),
            pointer: problem.pointer,
            detail: problem.detail,
            suggestion: problem.suggestion,
        }));
    }
    verdict
}

fn table(verdict: &Validation, file: &str) -> String {
    let mut text = String::new();
    for finding in &verdict.findings {
        let place = if finding.pointer.is_empty() { file } else { &finding.pointer };
        text.push_str(&format!("{:7}  {place}: {}", finding.severity, finding.detail));
        if let Some(suggestion) = &finding.suggestion {
            text.push_str(&format!(" (better: {suggestion})"));
        }
        text.push('\n');
    }
    text.push_str(if verdict.valid { "valid\n" } else { "not valid\n" });
    plain(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "name: a\ndata-dir: /var/etcd/data/new.etcd\ninitial-cluster: a=https://a:2380\n\
                        listen-client-urls: http://0.0.0.0:2379\n";

    fn judged(yaml: String, version: Option<&str>, files: bool) -> Validation {
        judge(yaml.into(), version, files)
    }

    #[test]
    fn a_good_configuration_is_valid_and_has_a_digest() {
        let verdict = judged(GOOD.to_owned(), Some("3.5.35"), true);
        assert!(verdict.valid && verdict.findings.is_empty(), "{verdict:?}");
        assert!(verdict.digest.unwrap().starts_with("sha256:"));
    }

    #[test]
    fn faults_are_errors_and_slips_are_warnings() {
        let verdict = judged("nam: a\n".to_owned(), None, false);
        assert!(!verdict.valid && verdict.digest.is_none());
        let name = verdict.findings.iter().find(|finding| finding.pointer == "/name").unwrap();
        assert_eq!(name.suggestion.as_deref(), Some("write name instead of nam"));

        let verdict = judged(format!("{GOOD}snapshot-cout: 5\n"), None, false);
        assert!(verdict.valid);
        assert_eq!(verdict.findings[0].severity, "warning");
        let text = table(&verdict, "x.yaml");
        assert!(
            text.contains("/snapshot-cout") && text.ends_with("(better: snapshot-count)\nvalid\n"),
            "{text}"
        );

        let verdict = judged(GOOD.replace("2379", "0"), None, false);
        assert!(!verdict.valid && verdict.findings[0].pointer == "/listen-client-urls");
    }

    #[test]
    fn the_version_decides_what_is_ignored_and_files_count_on_request() {
        let yaml = format!(
            "{GOOD}distributed-tracing-address: x\nclient-transport-security: {{cert-file: /no/x}}\n"
        );
        let all = judged(yaml.clone(), None, false);
        assert!(all.valid && all.findings.is_empty(), "{all:?}");
        assert_eq!(judged(yaml.clone(), Some("3.5.35"), false).findings.len(), 1);
        assert!(!judged(yaml, None, true).valid);
    }
}
