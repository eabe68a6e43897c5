//! Servers behind an address: the client that asks them, and which of two ways of speaking they have.

use std::collections::{BTreeMap, HashMap};

use reqwest::{
    Certificate, Client,
    header::{HeaderMap, HeaderName, HeaderValue},
    redirect,
};
use rmcp::{
    service::{ClientInitializeError, RoleClient, RunningService, serve_client_with_ct},
    transport::{
        AuthClient, StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use secrecy::{ExposeSecret as _, SecretString};
use tokio_util::sync::CancellationToken;

use super::{event_stream::EventStream, handler::Handler};
use crate::{config::HttpWire, login::Logins};

/// The longest message that is taken, in bytes.
pub(super) const LONGEST: usize = 16 << 20;
/// How often a redirect is followed, and only to the same server.
const REDIRECTS: usize = 3;

/// What is needed to reach one.
pub(super) struct Address<'a> {
    pub(super) server: &'a str,
    pub(super) url: &'a str,
    pub(super) headers: &'a BTreeMap<String, SecretString>,
    pub(super) wire: HttpWire,
    pub(super) logins: &'a Logins,
}

impl Address<'_> {
    /// Greets the server. `handler` makes our end of a connection: it may be needed twice, for what is called the older
    /// way may be spoken the newer way by now.
    pub(super) async fn greet(
        &self,
        handler: impl Fn() -> Handler,
    ) -> Result<RunningService<RoleClient, Handler>, String> {
        let client = client(self.headers).map_err(|error| format!("could not make ready to ask it: {error}"))?;
        let streamable = self.streamable(client.clone(), handler()).await;
        match (streamable, self.wire) {
            (Ok(service), _) => Ok(service),
            (Err(Trouble::Login), _) => Err(self.login_needed()),
            (Err(Trouble::Other(_)), HttpWire::Sse) => {
                let transport = EventStream::open(client, self.url).await?;
                let greeting = serve_client_with_ct(handler(), transport, CancellationToken::new()).await;
                greeting.map_err(|error| told(&error))
            }
            (Err(Trouble::Other(why)), HttpWire::Streamable) => Err(why),
        }
    }

    async fn streamable(
        &self,
        client: Client,
        handler: Handler,
    ) -> Result<RunningService<RoleClient, Handler>, Trouble> {
        let config = StreamableHttpClientTransportConfig::with_uri(self.url)
            .max_sse_event_size(LONGEST)
            .reinit_on_expired_session(true);
        let token = CancellationToken::new();
        let greeting = match self.logins.manager(self.server, self.url).await {
            Ok(Some(manager)) => {
                let transport = StreamableHttpClientTransport::with_client(AuthClient::new(client, manager), config);
                serve_client_with_ct(handler, transport, token).await
            }
            Ok(None) => {
                let transport = StreamableHttpClientTransport::with_client(client, config);
                serve_client_with_ct(handler, transport, token).await
            }
            Err(why) => return Err(Trouble::Other(why)),
        };
        greeting.map_err(
            |error| {
                if error.is_authorization_required() { Trouble::Login } else { Trouble::Other(told(&error)) }
            },
        )
    }

    fn login_needed(&self) -> String {
        format!("it answers only whom it knows; `agentctl mcp login {}` logs in", self.server)
    }
}

enum Trouble {
    /// It wants to know who asks.
    Login,
    Other(String),
}

/// A failure to greet, in one line of bounded length, with its causes.
fn told(error: &ClientInitializeError) -> String {
    let mut words = error.to_string();
    let mut source = std::error::Error::source(error);
    if let ClientInitializeError::TransportError { error, .. } = error {
        source = Some(error.error.as_ref());
    }
    while let Some(cause) = source {
        let cause_words = cause.to_string();
        if !words.contains(&cause_words) {
            words.push_str(": ");
            words.push_str(&cause_words);
        }
        source = cause.source();
    }
    let words: String = agentd_core::untrusted::told(&words).replace('\n', " ").chars().take(400).collect();
    format!("it could not be greeted: {words}")
}

/// A client that sends these headers with each request, and follows redirects only within a server: keys stay with whom
/// they are meant for.
fn client(headers: &BTreeMap<String, SecretString>) -> reqwest::Result<Client> {
    // An error only says that a provider is there already, which is all that is wanted.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let sent: HashMap<HeaderName, HeaderValue> = headers
        .iter()
        .filter_map(|(name, value)| {
            let mut value = HeaderValue::from_str(value.expose_secret()).ok()?;
            value.set_sensitive(true);
            Some((HeaderName::try_from(name).ok()?, value))
        })
        .collect();
    let sent: HeaderMap = sent.into_iter().collect();
    let builder = || {
        Client::builder()
            .user_agent(concat!("agentd/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(std::time::Duration::from_secs(10))
            .default_headers(sent.clone())
            .referer(false)
            .redirect(redirect::Policy::custom(|attempt| {
                let stays = attempt.previous().first().is_none_or(|first| first.origin() == attempt.url().origin());
                if !stays || attempt.previous().len() > REDIRECTS { attempt.stop() } else { attempt.follow() }
            }))
    };
    builder().build().or_else(|error| {
        tracing::warn!(%error, "the system's certificates cannot be read, using the built-in ones");
        let roots = webpki_root_certs::TLS_SERVER_ROOT_CERTS;
        builder().tls_certs_only(roots.iter().filter_map(|root| Certificate::from_der(root).ok())).build()
    })
}
