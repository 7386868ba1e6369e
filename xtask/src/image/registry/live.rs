// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Pushes and pulls against a real registry on this machine, one for each test, on a port of its own: one that wants a
//! login, one with TLS, and one behind a proxy that breaks off.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::super::blobs::Blobs;
use super::super::oci::{self, Annotations, Index, Manifest, Platform};
use super::super::{Entry, What};
use super::*;
use crate::arch::Arch;

/// Bytes of the one big layer; it does not compress.
const BIG: usize = 3 << 20;

/// `user` and `open sesame`.
const PASSWORDS: &str = "user:$2a$04$Ie8mezaqk3eds8boXLqD/OeAR0f82u.Vpng9UG78dkUdhys4ZYcOe\n";
const LOGIN: &str = "dXNlcjpvcGVuIHNlc2FtZQ==";

struct Registry {
    child: Child,
    address: SocketAddr,
    folder: tempfile::TempDir,
}

impl Registry {
    /// `more` is a part of its configuration; `@` in it stands for its folder, which `prepare` fills.
    fn start(http: &str, more: &str, prepare: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().display().to_string();
        prepare(folder.path());
        let page = format!(
            "version: 0.1\nlog: {{level: info}}\nstorage: {{filesystem: {{rootdirectory: @/data}}}}\nhttp: {{addr: '127.0.0.1:0', secret: x{http}}}\n{more}\n"
        );
        let config = folder.path().join("config.yml");
        std::fs::write(&config, page.replace('@', &here)).unwrap();
        let mut child = Step::new(Tool::Registry.ensure().unwrap())
            .arg("serve")
            .arg(&config)
            // It would send traces to a port of this machine.
            .env("OTEL_TRACES_EXPORTER", "none")
            .start(Stdio::null(), Stdio::piped())
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let began = Instant::now();
        let mut said = String::new();
        let address = loop {
            let from = said.len();
            assert!(log.read_line(&mut said).unwrap() > 0, "the registry ended: {said}");
            assert!(began.elapsed() < Duration::from_secs(20), "the registry does not listen: {said}");
            if let Some((_, rest)) = said[from..].split_once("listening on ") {
                let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ':');
                break rest[..end.unwrap_or(rest.len())].parse().unwrap();
            }
        };
        // Its log must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self { child, address, folder }
    }

    fn plain() -> Self {
        Self::start("", "", |_| {})
    }

    fn repository(&self) -> Reference {
        format!("{}/team/x", self.address).parse().unwrap()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn plain() -> Access {
    Access { plain_http: true, ..Access::default() }
}

/// An image of two layers with a document attached to it.
fn layout(folder: &Path) -> Layout {
    use ring::rand::{SecureRandom, SystemRandom};
    let place = folder.join("layout");
    let blobs = Blobs::begin(&place).unwrap();
    let mut bytes = vec![0; BIG];
    SystemRandom::new().fill(&mut bytes).unwrap();
    let big = Entry { path: "big".into(), mode: 0o644, owner: 0, what: What::Bytes(bytes) };
    let layers = [Entry::text("small", "x"), big].map(|entry| blobs.layer(&[entry]).unwrap().0);
    let config = blobs.bytes(oci::CONFIG, b"{}").unwrap();
    let manifest = Manifest::image(config, layers.into(), Annotations::new());
    let mut manifest = blobs.json(oci::MANIFEST, &manifest).unwrap();
    manifest.platform = Some(Platform::linux(Arch::Amd64));
    let index = blobs.json(oci::INDEX, &Index::new(vec![manifest], Annotations::new())).unwrap();
    let document = blobs.bytes("application/json", b"[]").unwrap();
    let attached = Manifest::referrer("application/json", document, index.clone(), Annotations::new());
    let attached = blobs.json(oci::MANIFEST, &attached).unwrap();
    let mut listed = index;
    listed.annotations.insert(oci::REF_NAME.into(), "1.0.0".into());
    blobs.publish(vec![listed, attached]).unwrap();
    Layout::open(&place).unwrap()
}

/// Passes on what comes, counts what is sent, and breaks every connection once `limit` bytes were.
struct Proxy {
    address: SocketAddr,
    sent: Arc<AtomicU64>,
}

impl Proxy {
    fn start(to: SocketAddr, limit: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let sent = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&sent);
        // Ends with the test's process.
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(to) else { return };
                let (back, forth) = ((server.try_clone(), client.try_clone()), Arc::clone(&count));
                if let (Ok(mut from), Ok(mut into)) = back {
                    std::thread::spawn(move || std::io::copy(&mut from, &mut into));
                }
                std::thread::spawn(move || pass(client, server, &forth, limit));
            }
        });
        Self { address, sent }
    }
}

fn pass(mut client: TcpStream, mut server: TcpStream, sent: &AtomicU64, limit: u64) {
    let mut block = vec![0; 16 << 10];
    while let Ok(read) = client.read(&mut block) {
        let total = sent.fetch_add(read as u64, Ordering::SeqCst) + read as u64;
        if read == 0 || total > limit || server.write_all(&block[..read]).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

#[test]
fn what_was_pushed_comes_back_whole_with_what_is_attached_and_is_not_sent_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (registry, layout) = (Registry::plain(), layout(folder.path()));
    let proxy = Proxy::start(registry.address, u64::MAX);
    let through: Reference = format!("{}/team/x", proxy.address).parse().unwrap();
    let name = push(&layout, &through, &plain()).unwrap();
    assert!(name.ends_with("/team/x:1.0.0"), "{name}");
    let first = proxy.sent.swap(0, Ordering::SeqCst);
    assert!(first > BIG as u64, "{first}");

    push(&layout, &through, &plain()).unwrap();
    let again = proxy.sent.load(Ordering::SeqCst);
    assert!(again < 100_000, "{again} bytes of a push that had nothing to send");

    let pulled = pull(&name.parse().unwrap(), &plain(), &folder.path().join("pulled")).unwrap();
    assert_eq!(pulled.digest, layout.digest);
    assert_eq!(pulled.referrers().unwrap().len(), 1);
    let index = pulled.index().unwrap();
    let manifest: Manifest = pulled.document(&index.manifests[0]).unwrap();
    manifest.layers.iter().for_each(|layer| pulled.check(layer).unwrap());
}

#[test]
fn a_push_that_breaks_off_leaves_no_name_and_the_next_one_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let (registry, layout) = (Registry::plain(), layout(folder.path()));
    let proxy = Proxy::start(registry.address, (BIG / 2) as u64);
    let through: Reference = format!("{}/team/x", proxy.address).parse().unwrap();
    let error = format!("{:#}", push(&layout, &through, &plain()).unwrap_err());
    assert!(
        error.contains("the tag is as it was") && error.contains("run the same command again"),
        "{error}"
    );

    let oras = Tool::Oras.ensure().unwrap();
    let name = registry.repository().tagged(Some("1.0.0")).unwrap();
    let error = format!("{:#}", resolve(&oras, &name, &plain()).unwrap_err());
    assert!(error.contains("not found"), "{error}");
    push(&layout, &registry.repository(), &plain()).unwrap();
    assert_eq!(resolve(&oras, &name, &plain()).unwrap(), layout.digest);
}

#[test]
fn a_registry_that_refuses_is_named_with_the_command_for_a_login_and_a_login_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let auth = "auth: {htpasswd: {realm: x, path: '@/passwords'}}";
    let registry = Registry::start("", auth, |at| std::fs::write(at.join("passwords"), PASSWORDS).unwrap());
    let layout = layout(folder.path());
    let empty = folder.path().join("empty.json");
    std::fs::write(&empty, "{}").unwrap();
    let refused = Access { registry_config: Some(empty), ..plain() };
    let error = format!("{:#}", push(&layout, &registry.repository(), &refused).unwrap_err());
    assert!(error.contains(&format!("docker login {}", registry.address)), "{error}");
    let reasons = ["401", "unauthorized", "credential"];
    assert!(reasons.iter().any(|reason| error.to_lowercase().contains(reason)), "{error}");

    let login = folder.path().join("login.json");
    std::fs::write(&login, format!(r#"{{"auths":{{"{}":{{"auth":"{LOGIN}"}}}}}}"#, registry.address))
        .unwrap();
    let access = Access { registry_config: Some(login), ..plain() };
    push(&layout, &registry.repository(), &access).unwrap();
}

#[test]
fn a_certificate_of_an_authority_of_ones_own_is_trusted_when_it_is_given_and_else_not() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let registry = Registry::start(", tls: {certificate: '@/cert', key: '@/key'}", "", |at| {
        std::fs::write(at.join("cert"), made.cert.pem()).unwrap();
        std::fs::write(at.join("key"), made.signing_key.serialize_pem()).unwrap();
    });
    let layout = layout(folder.path());
    let error = format!("{:#}", push(&layout, &registry.repository(), &Access::default()).unwrap_err());
    assert!(error.contains("certificate"), "{error}");
    let access = Access { ca_file: Some(registry.folder.path().join("cert")), ..Access::default() };
    push(&layout, &registry.repository(), &access).unwrap();
    let missing = Access { ca_file: Some("/no/such/file".into()), ..Access::default() };
    let error = format!("{:#}", push(&layout, &registry.repository(), &missing).unwrap_err());
    assert!(error.contains("--ca-file /no/such/file"), "{error}");
}
