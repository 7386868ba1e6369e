// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The files a configuration names, and what to say of one that cannot be read. Loads no certificate: whether the
//! content is any good is tls.rs's to find out.
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::{ConfigError, EtcdConfig, Problem, TlsSection};

/// What a file is to etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileRole {
    /// A server certificate.
    Cert,
    /// Its key.
    Key,
    /// What etcd shows as a client, where that differs.
    ClientCert,
    /// The key of a client certificate.
    ClientKey,
    /// A bundle of authorities.
    TrustedCa,
}

impl FileRole {
    /// The key in its section.
    pub fn key(self) -> &'static str {
        match self {
            Self::Cert => "cert-file",
            Self::Key => "key-file",
            Self::ClientCert => "client-cert-file",
            Self::ClientKey => "client-key-file",
            Self::TrustedCa => "trusted-ca-file",
        }
    }
}

/// A file named by the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// `client-transport-security` or `peer-transport-security`.
    pub section: &'static str,
    /// What etcd uses it for.
    pub role: FileRole,
    /// As written in the file.
    pub path: PathBuf,
}

impl NamedFile {
    /// JSON pointer to the key that names the file.
    pub fn pointer(&self) -> String {
        format!("/{}/{}", self.section, self.role.key())
    }
}

/// All files that etcd has to read to start with `config`.
pub fn files(config: &EtcdConfig) -> Vec<NamedFile> {
    let client = section_files("client-transport-security", &config.client_tls);
    client.chain(section_files("peer-transport-security", &config.peer_tls)).collect()
}

fn section_files(section: &'static str, tls: &TlsSection) -> impl Iterator<Item = NamedFile> + use<> {
    let named = [
        (FileRole::Cert, tls.cert_file.clone()),
        (FileRole::Key, tls.key_file.clone()),
        (FileRole::ClientCert, tls.client_cert_file.clone()),
        (FileRole::ClientKey, tls.client_key_file.clone()),
        (FileRole::TrustedCa, tls.trusted_ca_file.clone()),
    ];
    named.into_iter().filter_map(move |(role, path)| Some(NamedFile { section, role, path: path? }))
}

/// Reads a byte of each file that `config` names.
///
/// # Errors
/// One problem for each file that etcd could not read, with path, mode, owner and our uid.
pub fn check_files(config: &EtcdConfig) -> Result<(), ConfigError> {
    let problems: Vec<Problem> = files(config)
        .iter()
        .filter_map(|file| {
            let error = probe(&file.path).err()?;
            let detail = describe_unreadable(&file.path, &error);
            // Whole: the path is what matters, and ends with the text.
            Some(Problem { pointer: file.pointer(), detail, suggestion: None })
        })
        .collect();
    if problems.is_empty() { Ok(()) } else { Err(ConfigError { problems }) }
}

/// A folder opens well enough, and a FIFO would block for ever: only a regular file is read from.
fn probe(path: &Path) -> io::Result<()> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    File::open(path)?.read(&mut [0]).map(|_| ())
}

/// "cannot read /x (mode 0600, owner 0:0) as uid 65532: permission denied"; where not even the file's mode can be
/// seen, the nearest folder that can be tells why.
pub fn describe_unreadable(path: &Path, error: &io::Error) -> String {
    let us =
        format!("uid {} gid {}", rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let why = match error.kind() {
        io::ErrorKind::NotFound => "no such file".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    };
    let shown = path.display();
    if let Ok(metadata) = std::fs::metadata(path) {
        return format!("cannot read {shown} ({}) as {us}: {why}", rights(&metadata));
    }
    let folder = path.ancestors().skip(1).find_map(|folder| Some((folder, std::fs::metadata(folder).ok()?)));
    match folder {
        Some((folder, metadata)) if !folder.as_os_str().is_empty() => {
            format!(
                "cannot read {shown} as {us}: {why} (its folder {}: {})",
                folder.display(),
                rights(&metadata)
            )
        }
        _ => format!("cannot read {shown} as {us}: {why}"),
    }
}

fn rights(metadata: &Metadata) -> String {
    let mode = metadata.permissions().mode() & 0o7777;
    format!("mode {mode:04o}, owner {}:{}", metadata.uid(), metadata.gid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::parsed;

    #[test]
    fn all_named_files_are_listed_with_their_keys() {
        let config = parsed(
            "client-transport-security: {cert-file: /a, key-file: /b, trusted-ca-file: /c}\n\
             peer-transport-security: {client-key-file: /d}\n",
        );
        let pointers: Vec<String> = files(&config).iter().map(NamedFile::pointer).collect();
        assert_eq!(
            pointers,
            [
                "/client-transport-security/cert-file",
                "/client-transport-security/key-file",
                "/client-transport-security/trusted-ca-file",
                "/peer-transport-security/client-key-file",
            ]
        );
    }

    #[test]
    fn h8_an_unreadable_file_is_described_with_path_mode_owner_and_our_uid() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tls.key");
        std::fs::write(&path, "secret").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let text = describe_unreadable(&path, &io::ErrorKind::PermissionDenied.into());
        let owner = std::fs::metadata(&path).unwrap();
        let us = rustix::process::geteuid().as_raw();
        let expected = format!(
            "cannot read {} (mode 0600, owner {}:{}) as uid {us} gid {}: permission denied",
            path.display(),
            owner.uid(),
            owner.gid(),
            rustix::process::getegid().as_raw()
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn h8_a_missing_file_is_described_by_the_folder_that_should_hold_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
        let config = parsed(&format!(
            "client-transport-security: {{cert-file: {0}/no/tls.crt, key-file: {0}}}\n",
            folder.path().display()
        ));
        let error = check_files(&config).unwrap_err();
        assert_eq!(error.problems.len(), 2, "{error}");
        assert_eq!(error.problems[0].pointer, "/client-transport-security/cert-file");
        assert!(error.problems[0].detail.contains("no such file"), "{error}");
        assert!(error.problems[0].detail.contains("mode 0711"), "{error}");
        assert!(error.problems[1].detail.contains("not a regular file"), "{error}");
    }

    #[test]
    fn readable_files_pass() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.crt");
        std::fs::write(&path, "").unwrap();
        let text = format!("client-transport-security: {{trusted-ca-file: {}}}\n", path.display());
        assert_eq!(check_files(&parsed(&text)), Ok(()));
    }
}
