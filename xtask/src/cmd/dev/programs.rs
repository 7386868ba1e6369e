// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The programs of a run as seen from outside: their command lines, and what a wrapper's exit code means. Starts and
//! stops nothing.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use crate::sh::Step;

use super::pki::Pki;
use super::plan::Member;

/// The programs of a run.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) wrapper: PathBuf,
    pub(super) sidecar: PathBuf,
    pub(super) etcd: PathBuf,
}

/// What a process is to its member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Wrapper,
    Sidecar,
}

impl Role {
    /// The name of the program.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Wrapper => "etcd-wrapper",
            Self::Sidecar => "sidecar-double",
        }
    }
}

/// The command line of a member's sidecar.
pub(super) fn sidecar(programs: &Programs, member: &Member, pki: Option<&Pki>) -> Step {
    let step = Step::new(&programs.sidecar)
        .arg("--listen")
        .arg(format!("127.0.0.1:{}", member.ports.sidecar))
        .arg("--config")
        .arg(member.config_map())
        .args(["--member", &member.name])
        .arg("--data-dir")
        .arg(member.data_dir());
    match pki {
        Some(pki) => step.arg("--tls-cert").arg(&pki.sidecar.cert).arg("--tls-key").arg(&pki.sidecar.key),
        None => step,
    }
}

/// The command line of a member's wrapper: druid's flags, and those that keep it inside our folder and on loopback.
pub(super) fn wrapper(programs: &Programs, member: &Member, pki: Option<&Pki>) -> Step {
    let flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
    let step = Step::new(&programs.wrapper)
        .arg("start-etcd")
        .arg(format!("--backup-restore-host-port=127.0.0.1:{}", member.ports.sidecar))
        .arg(format!("--backup-restore-tls-enabled={}", pki.is_some()))
        .arg("--etcd-server-name=localhost")
        .arg(format!("--etcd-client-port={}", member.ports.client))
        .arg(format!("--etcd-wrapper-port={}", member.ports.wrapper))
        .arg("--listen-address=127.0.0.1")
        .arg(flag("etcd-path", &programs.etcd))
        .arg(flag("state-dir", &member.state_dir()))
        .arg("--log-format=text")
        .env("HOME", member.home());
    match pki {
        Some(pki) => step
            .arg(flag("backup-restore-ca-cert-bundle-path", &pki.sidecar_ca))
            .arg(flag("etcd-client-cert-path", &pki.client.cert))
            .arg(flag("etcd-client-key-path", &pki.client.key)),
        None => step,
    }
}

/// The documented meaning of a wrapper's exit code.
pub(super) fn meaning(status: ExitStatus) -> String {
    let meaning = match status.code() {
        Some(0) => "a requested stop, clean end",
        Some(1) => "forced by a second signal, or any other failure",
        Some(2) => "usage",
        Some(3) => "its port could not be bound",
        Some(10) => "etcd ended unexpectedly",
        Some(11) => "crash budget used up",
        Some(12) => "bootstrap or config failed for good",
        Some(13) => "a requested stop, but etcd had to be killed",
        Some(14) => "etcd was not ready within --etcd-ready-timeout",
        Some(20) => "the member was removed from the cluster",
        _ => return String::new(),
    };
    format!(" ({meaning})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_documented_exit_code_is_put_into_words() {
        assert_eq!(meaning(ExitStatus::from_raw(10 << 8)), " (etcd ended unexpectedly)");
        assert_eq!(meaning(ExitStatus::from_raw(77 << 8)), "");
        assert_eq!(meaning(ExitStatus::from_raw(9)), "");
    }
}
