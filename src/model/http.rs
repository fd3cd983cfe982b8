//! The HTTP client, shared by all calls of a run, and what can go wrong below the API.
//!
//! TLS is rustls with ring and the system's root certificates; a certificate error ends the call at once. Redirects are
//! not followed, since they would carry the key elsewhere. The environment's proxies are not looked at: an endpoint is
//! the operator's word, and a proxy too. No call has a total time limit (a long answer is a good answer); silence has.

use std::error::Error as _;
use std::ops::Deref;
use std::time::Duration;

use reqwest::{Certificate, Client, Proxy, Response, redirect};

use super::failure::{Failure, quote};
use super::{ModelError, ModelErrorKind};

/// What the client is built from.
#[derive(Debug, Clone)]
pub struct Connection {
    /// Most time to reach the server, TLS included.
    pub connect_timeout: Duration,
    /// A proxy for all calls, as the operator configured it.
    pub proxy: Option<String>,
    /// Whether calls may be encrypted. Where they are not (an `http` endpoint on loopback), reading the system's hundreds of
    /// root certificates is for nothing; then none is trusted.
    pub tls: bool,
    /// PEM bundle of certificates that are trusted beside the system's.
    pub extra_roots: Option<Vec<u8>>,
}

impl Default for Connection {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(15),
            proxy: None,
            tls: true,
            extra_roots: None,
        }
    }
}

/// Builds the client; once per run is enough, and clones share its connections.
///
/// # Errors
/// The proxy's address or the certificates cannot be read, or the system has no root certificates.
pub fn client(connection: &Connection) -> Result<Client, ModelError> {
    // Somebody else may have installed a provider first, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .user_agent(concat!("agent-batch/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .connect_timeout(connection.connect_timeout)
        .no_proxy();
    if let Some(proxy) = &connection.proxy {
        let proxy = Proxy::all(proxy)
            .map_err(|error| unusable("the proxy's address cannot be read", &error))?;
        builder = builder.proxy(proxy);
    }
    if !connection.tls {
        builder = builder.tls_certs_only([]);
    } else if let Some(bundle) = &connection.extra_roots {
        let roots = Certificate::from_pem_bundle(bundle)
            .map_err(|error| unusable("the extra root certificates cannot be read", &error))?;
        builder = builder.tls_certs_merge(roots);
    }
    builder.build().map_err(|error| {
        unusable(
            "the HTTP client cannot be built (are root certificates installed? the package is mostly called `ca-certificates`, and `SSL_CERT_FILE` names a bundle elsewhere)",
            &error,
        )
    })
}

fn unusable(what: &str, error: &reqwest::Error) -> ModelError {
    ModelError {
        kind: ModelErrorKind::Api,
        message: format!("{what}: {}", causes(error)),
    }
}

/// Reads a whole body.
///
/// # Errors
/// The connection broke, no byte came for `silence`, or there are more than `limit` bytes.
pub(super) async fn body(
    response: &mut Response,
    limit: usize,
    silence: Duration,
) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    while let Some(chunk) = chunk(response, silence).await? {
        if body.len().saturating_add(chunk.len()) > limit {
            return Err(too_much(limit));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The next piece of a body; `None` at its end.
///
/// # Errors
/// The connection broke, or no byte came for `silence`.
pub(super) async fn chunk(
    response: &mut Response,
    silence: Duration,
) -> Result<Option<impl Deref<Target = [u8]> + use<>>, Failure> {
    match tokio::time::timeout(silence, response.chunk()).await {
        Ok(Ok(chunk)) => Ok(chunk),
        Ok(Err(error)) => Err(transport(&error)),
        Err(_) => Err(stalled("sent nothing", silence)),
    }
}

/// The answer is larger than anything that a model says.
pub(super) fn too_much(limit: usize) -> Failure {
    Failure::fatal(format!("the API's answer is larger than {limit} bytes"))
}

/// The server is there and silent.
pub(super) fn stalled(what: &str, limit: Duration) -> Failure {
    Failure::passing(format!(
        "the API {what} for {}",
        humantime::format_duration(limit)
    ))
}

/// Sorts an error of the transport. All may pass but those of a certificate and of the request itself.
pub(super) fn transport(error: &reqwest::Error) -> Failure {
    let causes = causes(error);
    if is_certificate_error(error) {
        return Failure::fatal(format!(
            "the server's certificate is not trusted: {causes}; if its authority is your own, add that to the system's certificates or name a bundle in `SSL_CERT_FILE`"
        ));
    }
    if error.is_builder() {
        return Failure::fatal(format!("the request cannot be built: {causes}"));
    }
    if error.is_connect() {
        let place = error
            .url()
            .and_then(|url| Some((url.host_str()?, url.port_or_known_default()?)));
        let place = place
            .map(|(host, port)| format!(" at `{host}:{port}`"))
            .unwrap_or_default();
        return Failure::passing(format!("the API{place} cannot be reached: {causes}"));
    }
    Failure::passing(format!("the connection to the API broke: {causes}"))
}

/// All causes, outermost first. The address is left out: it may hold credentials.
fn causes(error: &reqwest::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut next: Option<&(dyn std::error::Error + 'static)> = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if parts.last().is_none_or(|last| !last.contains(&text)) {
            parts.push(text);
        }
        next = cause.source();
    }
    if parts.is_empty() {
        parts.push(
            if error.is_timeout() {
                "timed out"
            } else {
                "no cause given"
            }
            .to_owned(),
        );
    }
    quote(&parts.join(": "))
}

fn is_certificate_error(error: &(dyn std::error::Error + 'static)) -> bool {
    if let Some(tls) = error.downcast_ref::<rustls::Error>() {
        return matches!(
            tls,
            rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented
        );
    }
    // An `io::Error` gives the source of the error in it as its own source, and so hides the error in it.
    let inner = error
        .downcast_ref::<std::io::Error>()
        .and_then(std::io::Error::get_ref);
    match inner {
        Some(inner) => is_certificate_error(inner),
        None => error.source().is_some_and(is_certificate_error),
    }
}
