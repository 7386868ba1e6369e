// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Certificate and key files as values that cannot be wrong: parsed, not empty, belonging together. Errors name path,
//! mode, owner and our uid, and never a byte of the content. Reads small files in place: mounted secrets lie in memory.
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::file_error::{FileError, facts};

/// Longest file that is read; the largest bundles of public authorities have a quarter of it.
const LONGEST: u64 = 1024 * 1024;
/// Ours, because the parser's own words may quote the file.
const UNDECODABLE: &str = "its PEM cannot be decoded";

/// Why a certificate, key or bundle cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsFileError {
    /// With path, mode, owner and our uid.
    #[error(transparent)]
    Unreadable(#[from] FileError),
    /// Nothing of this kind in it.
    #[error("{} holds no {what} in PEM form ({facts})", .path.display())]
    Empty {
        /// Which.
        path: PathBuf,
        /// What should be in it.
        what: &'static str,
        /// Size, mode and owner.
        facts: String,
    },
    /// PEM or DER that is none.
    #[error("{} is damaged: {what} ({facts})", .path.display())]
    Malformed {
        /// Which.
        path: PathBuf,
        /// What should be in it.
        what: &'static str,
        /// Where it breaks.
        facts: String,
    },
    /// The key is of another certificate.
    #[error("key {} does not belong to certificate {}", .key.display(), .cert.display())]
    Mismatch {
        /// Of the pair.
        cert: PathBuf,
        /// Of the pair.
        key: PathBuf,
    },
    /// A kind of key that our TLS does not know.
    #[error("key {} is of a kind that cannot be used here: {what}; use RSA, ECDSA P-256 or P-384, or Ed25519", .key.display())]
    Unsupported {
        /// Which.
        key: PathBuf,
        /// What it is.
        what: String,
    },
}

/// What a file held when it was read; equal digests mean equal bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Digest([u8; 32]);

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(4).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A file with at least one certificate: a chain that begins with its owner's, or a bundle of authorities.
#[derive(Clone, Debug)]
pub struct CertificateFile {
    /// Where it was read.
    pub path: PathBuf,
    /// Of its bytes: content decides what is new.
    pub digest: Digest,
    /// In the order of the file, never empty.
    pub certificates: Vec<CertificateDer<'static>>,
    /// Earliest end of validity in the file.
    pub not_after: SystemTime,
}

impl CertificateFile {
    /// Reads and parses the file.
    ///
    /// # Errors
    /// Missing, unreadable, too large, without a certificate, or damaged.
    pub fn load(path: &Path) -> Result<Self, TlsFileError> {
        let bytes = read(path)?;
        let certificates = CertificateDer::pem_slice_iter(&bytes)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| malformed(path, UNDECODABLE))?;
        let ends = certificates
            .iter()
            .map(|certificate| match X509Certificate::from_der(certificate) {
                Ok((_, parsed)) => Ok(system_time(parsed.validity().not_after.timestamp())),
                Err(_) => Err(malformed(path, "a certificate in it cannot be parsed")),
            })
            .collect::<Result<Vec<_>, _>>()?;
        let Some(not_after) = ends.into_iter().min() else {
            return Err(TlsFileError::Empty {
                path: path.to_owned(),
                what: "certificate",
                facts: facts(path),
            });
        };
        Ok(Self { path: path.to_owned(), digest: digest(&bytes), certificates, not_after })
    }
}

/// A certificate chain with its private key.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The leaf first.
    pub certificate: CertificateFile,
    /// Of its bytes.
    pub key_digest: Digest,
    /// Where it was read.
    pub key_path: PathBuf,
    /// Ready to be shown.
    pub certified: Arc<CertifiedKey>,
}

impl Pair {
    /// Reads both files and checks that they belong together. Keys may be PKCS#8, PKCS#1 or SEC1.
    ///
    /// # Errors
    /// Those of `CertificateFile::load` for either file, a key of another certificate, or of an unknown kind.
    pub fn load(cert: &Path, key: &Path) -> Result<Self, TlsFileError> {
        match Self::load_once(cert, key) {
            // The kubelet may have swapped both between our two readings.
            Err(TlsFileError::Mismatch { .. }) => Self::load_once(cert, key),
            other => other,
        }
    }

    fn load_once(cert: &Path, key: &Path) -> Result<Self, TlsFileError> {
        let certificate = CertificateFile::load(cert)?;
        let (der, key_digest) = load_key(key)?;
        let certified = CertifiedKey::from_der(certificate.certificates.clone(), der, &super::provider())
            .map_err(|error| match error {
                rustls::Error::InconsistentKeys(_) => {
                    TlsFileError::Mismatch { cert: cert.to_owned(), key: key.to_owned() }
                }
                other => TlsFileError::Unsupported { key: key.to_owned(), what: other.to_string() },
            })?;
        Ok(Self { certificate, key_digest, key_path: key.to_owned(), certified: Arc::new(certified) })
    }

    /// False: a certificate that says what it may be used for, and leaves out clients. etcd would refuse it.
    pub fn may_be_client(&self) -> bool {
        let leaf = self.certificate.certificates.first();
        let Some(Ok((_, leaf))) = leaf.map(|leaf| X509Certificate::from_der(leaf)) else { return false };
        match leaf.extended_key_usage() {
            Ok(Some(usage)) => usage.value.client_auth || usage.value.any,
            Ok(None) => true,
            Err(_) => false,
        }
    }
}

/// Reads a private key without saying that we can use it: peers' keys are etcd's business alone.
pub(super) fn load_key(path: &Path) -> Result<(PrivateKeyDer<'static>, Digest), TlsFileError> {
    let bytes = read(path)?;
    match PrivateKeyDer::from_pem_slice(&bytes) {
        Ok(key) => Ok((key, digest(&bytes))),
        Err(pem::Error::NoItemsFound) => {
            Err(TlsFileError::Empty { path: path.to_owned(), what: "private key", facts: facts(path) })
        }
        Err(_) => Err(malformed(path, UNDECODABLE)),
    }
}

/// RFC 3339 and the epoch meet in a time that a certificate gives in seconds.
fn system_time(seconds: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

pub(super) fn malformed(path: &Path, what: &'static str) -> TlsFileError {
    TlsFileError::Malformed { path: path.to_owned(), what, facts: facts(path) }
}

fn digest(bytes: &[u8]) -> Digest {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    Digest(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
}

/// The whole file; links are followed, because the kubelet swaps secrets by a link.
fn read(path: &Path) -> Result<Vec<u8>, TlsFileError> {
    let bytes = || -> io::Result<Vec<u8>> {
        // Non-blocking: a pipe in this place must not stop the wrapper.
        let file =
            OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a regular file"));
        }
        let mut bytes = Vec::new();
        file.take(LONGEST + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > LONGEST {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than 1 MiB"));
        }
        Ok(bytes)
    };
    Ok(bytes().map_err(|error| FileError::new("read", path, error))?)
}

#[cfg(test)]
mod tests {
    use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
    use rstest::rstest;

    use super::*;
    use crate::file_error::unprivileged::{chmod, unprivileged};
    use crate::tls::authority::{Authority, write};

    #[rstest]
    #[case::empty("", "holds no certificate")]
    #[case::text("no PEM at all\n", "holds no certificate")]
    #[case::key_only(
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        "holds no certificate"
    )]
    #[case::noise("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "is damaged")]
    fn g9_a_file_without_a_certificate_is_named(#[case] text: &str, #[case] said: &str) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bundle.crt");
        std::fs::write(&path, text).unwrap();
        let error = CertificateFile::load(&path).unwrap_err().to_string();
        assert!(error.contains("bundle.crt") && error.contains(said) && error.contains("mode 0"), "{error}");
    }

    #[test]
    fn d15_a_missing_file_and_a_folder_are_named_with_our_uid() {
        let dir = tempfile::tempdir().unwrap();
        for path in [dir.path().join("missing.crt"), dir.path().to_owned()] {
            let error = CertificateFile::load(&path).unwrap_err().to_string();
            assert!(error.contains(&path.display().to_string()) && error.contains("our uid"), "{error}");
        }
    }

    #[test]
    fn h8_an_unreadable_key_is_named_with_mode_owner_and_our_uid() {
        let dir = tempfile::tempdir().unwrap();
        chmod(dir.path(), 0o755);
        let files = Authority::new("ca").write_server(dir.path(), "tls", &["x"]);
        chmod(&files.cert, 0o444);
        chmod(&files.key, 0o000);
        let error = unprivileged(|| Pair::load(&files.cert, &files.key)).unwrap_err().to_string();
        let start = format!("read {} (mode 0000, owner ", files.key.display());
        assert!(error.starts_with(&start) && error.contains("Permission denied"), "{error}");
    }

    #[test]
    fn a_pair_loads_and_a_key_of_another_certificate_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new("ca");
        let (one, two) = (
            authority.write_server(dir.path(), "one", &["one"]),
            authority.write_server(dir.path(), "two", &["two"]),
        );
        let pair = Pair::load(&one.cert, &one.key).unwrap();
        assert_eq!(pair.certificate.certificates.len(), 1);
        let error = Pair::load(&one.cert, &two.key).unwrap_err();
        assert!(matches!(error, TlsFileError::Mismatch { .. }), "{error}");
        let error = Pair::load(&one.cert, &one.cert).unwrap_err();
        assert!(matches!(error, TlsFileError::Empty { what: "private key", .. }), "{error}");
    }

    #[test]
    fn the_digest_changes_with_the_content_only() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        let (first, second) = (Authority::new("one"), Authority::new("two"));
        let one = CertificateFile::load(&first.write_ca(&a)).unwrap();
        let same = CertificateFile::load(&first.write_ca(&b)).unwrap();
        let other = CertificateFile::load(&second.write_ca(&a)).unwrap();
        assert_eq!(one.digest, same.digest);
        assert_ne!(one.digest, other.digest);
    }

    #[test]
    fn g3_the_earliest_end_of_a_bundle_counts() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new("ca");
        let (short, _) = authority.issue_with(&["x"], &[], |params| {
            params.not_after = rcgen::date_time_ymd(2030, 1, 1);
        });
        let path = dir.path().join("bundle.crt");
        std::fs::write(&path, format!("{}{short}", authority.pem)).unwrap();
        let end = CertificateFile::load(&path).unwrap().not_after;
        assert_eq!(end, SystemTime::UNIX_EPOCH + Duration::from_secs(1_893_456_000));
    }

    #[rstest]
    #[case::client(&[ClientAuth], true)]
    #[case::both(&[ServerAuth, ClientAuth], true)]
    #[case::server(&[ServerAuth], false)]
    #[case::unsaid(&[], true)]
    fn d19_only_a_certificate_for_clients_may_be_one(
        #[case] usages: &[rcgen::ExtendedKeyUsagePurpose],
        #[case] may: bool,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let files = write(dir.path(), "x", &Authority::new("ca").issue(&["x"], usages));
        assert_eq!(Pair::load(&files.cert, &files.key).unwrap().may_be_client(), may);
    }

    #[test]
    fn j2_neither_errors_nor_debug_output_show_the_key() {
        let dir = tempfile::tempdir().unwrap();
        let files = Authority::new("ca").write_server(dir.path(), "x", &["x"]);
        let pair = Pair::load(&files.cert, &files.key).unwrap();
        let secret = std::fs::read_to_string(&files.key).unwrap();
        let line = secret.lines().nth(1).unwrap();
        assert!(!format!("{pair:?}").contains(line));
        std::fs::write(&files.key, secret.replace("-----END PRIVATE KEY-----", "")).unwrap();
        assert!(!format!("{:?}", Pair::load(&files.cert, &files.key).unwrap_err()).contains(line));
    }
}
