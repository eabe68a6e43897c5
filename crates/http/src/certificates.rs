//! Certificates of connections: a user's own authorities and client certificate, and the reasons why a handshake fails.

use std::{
    error::Error,
    fs, io,
    path::{Path, PathBuf},
};

use reqwest::{Certificate, Client, ClientBuilder, Identity};

/// Maximum size of a certificate file in bytes. The bundle of all public authorities takes a quarter of it.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Numbers of the alerts about a client's certificate: a failed handshake, by which TLS 1.2 servers require one, bad
/// certificates, an unknown authority, denied access, and a missing certificate.
const ALERTS: [u8; 10] = [40, 41, 42, 43, 44, 45, 46, 48, 49, 116];

/// PEM files with certificates for the connections to one server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Certificates {
    /// Authorities that may sign the server's certificate. They replace those of the system.
    pub ca_file: Option<PathBuf>,
    /// Certificate that the client presents to the server, with its intermediate certificates.
    pub client_cert_file: Option<PathBuf>,
    /// Private key of the client's certificate. With `None`, it is in the certificate's file.
    pub client_key_file: Option<PathBuf>,
}

impl Certificates {
    /// Reads the files. The returned function adds their content to the options of a client.
    ///
    /// # Errors
    /// Fails if a file cannot be read, contains no valid certificate, or not the key of the client's certificate. The
    /// message names the file and the cause.
    pub fn read(&self) -> Result<impl Fn(ClientBuilder) -> ClientBuilder + use<>, String> {
        let authorities = self.ca_file.as_deref().map(authorities).transpose()?;
        let key_file = self.client_key_file.as_deref();
        let identity = self.client_cert_file.as_deref().map(|path| identity(path, key_file)).transpose()?;
        Ok(move |mut builder: ClientBuilder| {
            if let Some(authorities) = &authorities {
                builder = builder.tls_certs_only(authorities.clone());
            }
            if let Some(identity) = &identity {
                builder = builder.identity(identity.clone());
            }
            builder
        })
    }
}

fn authorities(path: &Path) -> Result<Vec<Certificate>, String> {
    let invalid = |cause: &str| format!("{} is not a PEM file of certificates: {cause}", path.display());
    let found = Certificate::from_pem_bundle(&read(path)?).map_err(|error| invalid(&innermost(&error)))?;
    if found.is_empty() {
        return Err(invalid("it contains none"));
    }
    check(|builder| builder.tls_certs_only(found.clone())).map_err(|cause| invalid(&cause))?;
    Ok(found)
}

fn identity(path: &Path, key_file: Option<&Path>) -> Result<Identity, String> {
    let pem = [read(path)?, key_file.map(read).transpose()?.unwrap_or_default()].join(&b'\n');
    let found = Identity::from_pem(&pem).map_err(|error| innermost(&error)).and_then(|found| {
        check(|builder| builder.tls_certs_only([]).identity(found.clone()))?;
        Ok(found)
    });
    let (cert, key) = (path.display(), key_file.unwrap_or(path).display());
    found.map_err(|cause| format!("{cert} does not have a PEM certificate for an unencrypted key in {key}: {cause}"))
}

/// Reads a file of limited size. A pipe or a device could block.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let refuse = |cause: io::Error| format!("could not read {}: {cause}", path.display());
    let found = fs::metadata(path).map_err(refuse)?;
    if !found.is_file() || found.len() > MAX_FILE_BYTES {
        return Err(refuse(io::Error::other("not a regular file of at most 1 MiB")));
    }
    fs::read(path).map_err(refuse)
}

/// Builds a client with these options. Only that shows whether certificates are valid, and match their key.
fn check(set: impl Fn(ClientBuilder) -> ClientBuilder) -> Result<(), String> {
    crate::init_crypto();
    set(Client::builder()).build().map(drop).map_err(|error| innermost(&error))
}

fn innermost(error: &(dyn Error + 'static)) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

/// Returns the error and its causes.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| cause(*error))
}

/// Returns the cause of an error. An I/O error does not report the error inside it as its source.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}

/// Certificate that was not accepted when a connection was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateProblem {
    /// The server's certificate is invalid, or signed by an unknown authority.
    Server,
    /// The server did not accept the client's certificate, or requires one.
    Client,
}

/// Returns the certificate that is the reason for a failed request, if any.
pub fn certificate_problem(error: &(dyn Error + 'static)) -> Option<CertificateProblem> {
    match causes(error).find_map(|cause| cause.downcast_ref::<rustls::Error>())? {
        rustls::Error::InvalidCertificate(_) => Some(CertificateProblem::Server),
        rustls::Error::AlertReceived(alert) if ALERTS.contains(&u8::from(*alert)) => Some(CertificateProblem::Client),
        _ => None,
    }
}
