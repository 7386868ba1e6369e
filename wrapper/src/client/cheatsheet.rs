// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cheatsheet`: commands to paste and paths to look at, for this pod and no other. Everything comes from the pod's own
//! configuration and the wrapper's flags; a wrapper or an etcd that is down takes only what nobody else knows. Each
//! command stands for itself, without a variable: there may be no shell to set one in.
use std::path::{Path, PathBuf};

use crate::api::wire::Status;
use crate::bootstrap::hold::Hold;
use crate::cli::Bootstrap;
use crate::cli::client::Cheatsheet;
use crate::config::{self, Address, EtcdConfig, FileRole};
use crate::tls::client::ServerTrust;
use crate::tls::files::{CertificateFile, Pair};

use super::call::{Request, call};
use super::certificates::names;
use super::pod::{Pod, below};
use super::reach::Reach;
use super::{ClientError, Shown, decode};

pub(super) async fn run(asked: Cheatsheet) -> Result<Shown, ClientError> {
    super::only_this_pod(&asked.reach)?;
    let pod = Pod::look_around(&asked.reach);
    let status = status(&asked, &pod).await;
    let pid = status
        .as_ref()
        .map(|status| status.wrapper.pid)
        .ok()
        .or(pod.server.as_ref().map(|server| server.pid));
    let root = match (asked.ephemeral || pod.is_apart(), pid) {
        (true, Some(pid)) => format!("/proc/{pid}/root").into(),
        (true, None) => PathBuf::from("/proc/PID/root"),
        (false, _) => PathBuf::from("/"),
    };
    let sheet = Sheet { pod: &pod, status: status.as_ref().ok(), pid, root };
    let mut text = sheet.write();
    if let Err(why) = status {
        text.push_str(&format!("\n# The wrapper was not asked: {}\n", super::term::one_line(&why)));
    }
    Ok(Shown::done(text))
}

/// What the wrapper says, where it says something.
async fn status(asked: &Cheatsheet, pod: &Pod) -> Result<Status, String> {
    let ask = async {
        let reach = Reach::new(&asked.reach, pod)?;
        decode("status", &call(&reach, &Request::get("/v1/status")).await?)
    };
    ask.await.map_err(|error: ClientError| error.to_string())
}

struct Sheet<'a> {
    pod: &'a Pod,
    status: Option<&'a Status>,
    pid: Option<u32>,
    /// Where the pod's files are for whoever pastes.
    root: PathBuf,
}

impl Sheet<'_> {
    fn write(&self) -> String {
        let mut text = String::new();
        let config = self.pod.config.as_ref();
        let name = config.map_or("an etcd that was never started here", |config| config.name.as_str());
        text.push_str(&format!("# {name}\n"));
        match config {
            Ok(_) => {}
            Err(why) => text.push_str(&format!(
                "# No configuration: {}\n# The commands assume plain HTTP at the port of the flags.\n",
                super::term::one_line(why)
            )),
        }
        let etcdctl = self.etcdctl();
        for (title, commands) in self.commands() {
            text.push_str(&format!("\n# {title}\n"));
            commands.iter().for_each(|command| text.push_str(&format!("{etcdctl} {command}\n")));
        }
        self.without_etcd(&mut text);
        self.sidecar(&mut text);
        self.paths(&mut text);
        text
    }

    /// The paster's path to a file of the wrapper's container.
    fn path(&self, path: &Path) -> String {
        quoted(&below(&self.root, path).display().to_string())
    }

    /// A program by its whole path where it lies beside us, for an image need not have it on its PATH.
    fn program(&self, name: &str) -> String {
        let own = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join(name)));
        let beside = own.filter(|path| self.root == Path::new("/") && path.is_file());
        beside.map_or_else(|| name.to_owned(), |path| quoted(&path.display().to_string()))
    }

    /// The program with endpoint and certificates.
    fn etcdctl(&self) -> String {
        let program = self.program("etcdctl");
        let Ok(config) = &self.pod.config else {
            let port = self.pod.server.as_ref().map_or(2379, |server| server.flags.etcd_client_port);
            return format!("{program} --endpoints=http://127.0.0.1:{port}");
        };
        let mut command = format!("{program} --endpoints={}", quoted(&self.endpoint(config)));
        let Some(trust) = ServerTrust::of(config) else { return command };
        let (ServerTrust::Bundle(ca) | ServerTrust::Exactly(ca)) = trust;
        command.push_str(&format!(" --cacert={}", self.path(&ca)));
        match self.client_pair(config) {
            Some((cert, key)) => {
                command.push_str(&format!(" --cert={} --key={}", self.path(&cert), self.path(&key)));
            }
            None if config.client_tls.client_cert_auth => {
                command.push_str(" --cert=CLIENT.crt --key=CLIENT.key");
            }
            None => {}
        }
        command
    }

    /// Local, by a name that the certificate has.
    fn endpoint(&self, config: &EtcdConfig) -> String {
        let posted = self.status.is_some_and(|status| status.etcd.config_source.as_deref() == Some("posted"));
        let port = self.pod.server.as_ref().map_or(2379, |server| server.flags.etcd_client_port);
        let endpoint = match config::client_endpoint(config, (!posted).then_some(port)) {
            Ok(endpoint) => endpoint,
            Err(_) => return config.listen_client_urls.join(","),
        };
        let Address::Tcp(address) = endpoint.address else { return endpoint.to_string() };
        let cert = config.client_tls.cert_file.as_ref().filter(|_| endpoint.tls);
        let names = cert
            .and_then(|cert| CertificateFile::load(&self.pod.seen(cert)).ok())
            .map(|file| file.certificates.first().map(|first| names(first)).unwrap_or_default())
            .unwrap_or_default();
        let flag = self.pod.server.as_ref().and_then(|server| server.flags.etcd_server_name.clone());
        let candidates = [Some(address.ip().to_string()), Some("localhost".to_owned()), flag.clone()];
        let known = candidates.into_iter().flatten().find(|name| names.contains(name));
        match known.or(flag.filter(|_| endpoint.tls)) {
            Some(host) if host != address.ip().to_string() => format!("https://{host}:{}", address.port()),
            _ => endpoint_url(endpoint.tls, address),
        }
    }

    /// What the wrapper itself shows to etcd, else what etcd shows to others.
    fn client_pair(&self, config: &EtcdConfig) -> Option<(PathBuf, PathBuf)> {
        let flags = self.pod.server.as_ref().and_then(|server| server.flags.etcd_client_pair.clone());
        if let Some(pair) = flags {
            return Some((pair.cert, pair.key));
        }
        let (cert, key) = (config.client_tls.cert_file.clone()?, config.client_tls.key_file.clone()?);
        let pair = Pair::load(&self.pod.seen(&cert), &self.pod.seen(&key)).ok()?;
        pair.may_be_client().then_some((cert, key))
    }

    fn commands(&self) -> Vec<(&'static str, Vec<String>)> {
        let own =
            self.status.and_then(|status| status.member.as_ref()).map_or("MEMBER_ID", |member| &member.id);
        let peer = self.pod.config.as_ref().ok().and_then(|config| config.advertise_peer_urls.first());
        let peer = peer.map_or_else(|| "https://HOST:2380".to_owned(), |url| quoted(url));
        let given =
            |commands: &[&str]| commands.iter().map(|command| (*command).to_owned()).collect::<Vec<_>>();
        vec![
            ("How it is", given(&["endpoint status -w table", "endpoint health", "endpoint hashkv"])),
            (
                "Members",
                vec![
                    "member list -w table".to_owned(),
                    format!("member update {own} --peer-urls={peer}   # then: etcd-wrapper restart"),
                    "move-leader TARGET_MEMBER_ID   # to be sent to the leader".to_owned(),
                ],
            ),
            (
                "Space: NOSPACE wants compact, defrag, then disarm",
                given(&[
                    "alarm list",
                    "compact REVISION   # the revision of endpoint status -w json",
                    "--command-timeout=60s defrag   # blocks this member",
                    "alarm disarm",
                ]),
            ),
            (
                "Data",
                given(&[
                    "get KEY",
                    "get KEY --print-value-only",
                    "get '' --prefix --keys-only --limit=100",
                    "put KEY VALUE",
                    "snapshot save /tmp/etcd.snapshot",
                ]),
            ),
            ("With auth on, each takes --user=NAME:PASSWORD", given(&["auth status", "user list"])),
        ]
    }

    fn without_etcd(&self, text: &mut String) {
        text.push_str("\n# While etcd is down (first: etcd-wrapper stop --hold)\n");
        if let Ok(config) = &self.pod.config {
            text.push_str(&format!("etcdutl defrag --data-dir={}\n", self.path(&config.data_dir)));
            text.push_str(&format!(
                "etcdutl hashkv {}\n",
                self.path(&config.data_dir.join("member/snap/db"))
            ));
        }
        let own = self.program("etcd-wrapper");
        let state = match self.pod.state_dir.to_str() {
            Some("/var/etcd/data") => String::new(),
            _ => format!(" --state-dir={}", self.path(&self.pod.state_dir)),
        };
        let port = match self.pod.server.as_ref().map(|server| server.flags.wrapper_port) {
            None | Some(9095) => String::new(),
            Some(port) => format!(" --etcd-wrapper-port={port}"),
        };
        text.push_str(&format!("{own} history{state}\n{own} report{port}\n{own} start --wait=60s{port}\n"));
    }

    fn sidecar(&self, text: &mut String) {
        let flags = self.pod.server.as_ref().map(|server| &server.flags);
        let Some(Bootstrap::Sidecar(sidecar)) = flags.map(|flags| &flags.bootstrap) else { return };
        let (scheme, ca) = match &sidecar.ca {
            Some(ca) => ("https", format!(" --cacert {}", self.path(ca))),
            None => ("http", String::new()),
        };
        text.push_str("\n# The sidecar; curl is not in this image\n");
        for path in ["snapshot/latest", "snapshot/full", "snapshot/delta", "initialization/status", "config"]
        {
            text.push_str(&format!("curl{ca} {scheme}://{}/{path}\n", sidecar.address));
        }
        text.push_str(
            "# Mind: a read of initialization/status resets it once it says Successful or Failed.\n",
        );
    }

    fn paths(&self, text: &mut String) {
        text.push_str("\n# Paths\n");
        if let Some(pid) = self.pid {
            text.push_str(&format!("# The wrapper has pid {pid}; from an ephemeral container (kubectl debug --target) each path begins with /proc/{pid}/root\n"));
        }
        let state = &self.pod.state_dir;
        let mut rows = vec![
            vec!["config".to_owned(), self.path(&self.pod.config_path)],
            vec!["marker".to_owned(), self.path(&state.join("exit_code"))],
            vec!["hold".to_owned(), self.path(Hold::new(state).path())],
            vec!["history".to_owned(), self.path(&crate::exit::history::path(state))],
            vec!["lock".to_owned(), self.path(&state.join("etcd.lock"))],
        ];
        if let Ok(config) = &self.pod.config {
            rows.insert(0, vec!["data".to_owned(), self.path(&config.data_dir)]);
            rows.extend(config::files(config).into_iter().map(|file| {
                let side = file.section.strip_suffix("-transport-security").unwrap_or(file.section);
                let what = match file.role {
                    FileRole::Cert => "cert",
                    FileRole::Key => "key",
                    FileRole::ClientCert => "client cert",
                    FileRole::ClientKey => "client key",
                    FileRole::TrustedCa => "ca",
                };
                vec![format!("{side} {what}"), self.path(&file.path)]
            }));
        }
        if let Some(server) = &self.pod.server {
            if let Some(pair) = &server.flags.etcd_client_pair {
                rows.push(vec!["own cert".to_owned(), self.path(&pair.cert)]);
                rows.push(vec!["own key".to_owned(), self.path(&pair.key)]);
            }
            if let Bootstrap::Sidecar(sidecar) = &server.flags.bootstrap {
                rows.extend(sidecar.ca.iter().map(|ca| vec!["sidecar ca".to_owned(), self.path(ca)]));
            }
        }
        text.push_str(&super::term::columns(&rows));
        text.push_str("# In the sidecar's container druid mounts the configuration it serves at /var/etcd/config/etcd.conf.yaml\n");
    }
}

fn endpoint_url(tls: bool, address: std::net::SocketAddr) -> String {
    let scheme = if tls { "https" } else { "http" };
    format!("{scheme}://{address}")
}

/// As one word of a shell.
fn quoted(text: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || "/._-:,@%+=[]".contains(c);
    if !text.is_empty() && text.chars().all(bare) && !text.contains('[') {
        return text.to_owned();
    }
    format!("'{}'", super::term::one_line(text).replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::authority::Authority;

    /// Commands and paths for a pod with this configuration and no wrapper.
    fn sheet(dir: &Path, yaml: &str, root: &str) -> String {
        let path = dir.join("etcd.conf.yaml");
        std::fs::write(&path, yaml).unwrap();
        let pod = Pod::of_file(&path, dir);
        Sheet { pod: &pod, status: None, pid: Some(7), root: root.into() }.write()
    }

    #[test]
    fn a_cheatsheet_has_the_pods_own_endpoint_certificates_and_paths() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new("ca");
        let ca = authority.write_ca(&dir.path().join("ca.crt"));
        let pair = authority.write_client(dir.path(), "both", "localhost");
        let yaml = format!(
            "name: etcd-main-0\ndata-dir: /var/etcd/data/new.etcd\ninitial-cluster: etcd-main-0=https://a:2380\n\
             listen-client-urls: https://0.0.0.0:2379\nclient-transport-security:\n  cert-file: {}\n  key-file: {}\n  \
             trusted-ca-file: {}\n  client-cert-auth: true\n",
            pair.cert.display(),
            pair.key.display(),
            ca.display()
        );
        let (cert, key, ca) = (pair.cert.display(), pair.key.display(), ca.display());
        let text = sheet(dir.path(), &yaml, "/");
        let command = format!(
            "--endpoints=https://localhost:2379 --cacert={ca} --cert={cert} --key={key} endpoint status"
        );
        assert!(text.contains(&command), "{text}");
        assert!(
            text.contains("data       /var/etcd/data/new.etcd") || text.contains("/var/etcd/data/new.etcd"),
            "{text}"
        );
        for part in ["alarm disarm", "snapshot save", "member update", "exit_code", "/proc/7/root"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let text = sheet(dir.path(), &yaml, "/proc/7/root");
        assert!(text.contains(&format!("--cacert=/proc/7/root{ca}")), "{text}");
        assert!(text.contains("/proc/7/root/var/etcd/data/new.etcd"), "{text}");
    }

    #[test]
    fn without_a_configuration_it_says_so_and_gives_what_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let text = sheet(dir.path(), "name: [", "/");
        assert!(text.contains("No configuration") && text.contains("http://127.0.0.1:2379"), "{text}");
        assert!(text.contains("exit_code"), "{text}");
    }

    #[test]
    fn odd_paths_stay_one_word_for_a_shell() {
        assert_eq!(quoted("/var/etcd"), "/var/etcd");
        assert_eq!(quoted("/a b/$(x)'"), r"'/a b/$(x)'\'''");
        assert_eq!(quoted(""), "''");
    }
}
