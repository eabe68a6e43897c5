//! Servers behind an address, and which of three ways of speaking they have.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use reqwest::Client;
use rmcp::{
    service::{
        ClientInitializeError, RoleClient, RunningService, serve_client_with_ct, serve_client_with_lifecycle_and_ct,
    },
    transport::{
        AuthClient, DynamicTransportError, StreamableHttpClientTransport,
        streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError},
    },
};
use secrecy::SecretString;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{bounded::BoundedTransport, era::Era, event_stream::EventStream, handler::Handler};
use crate::{
    clean::Clean,
    config::HttpWire,
    http_client::client,
    log::Log,
    login::{Logins, Refusal, ServerUrl},
    reason::Reason,
};

/// The longest message that is taken, in bytes.
pub(super) const LONGEST: usize = 16 << 20;
/// Address of a server and what is needed to reach it.
pub(super) struct Address<'a> {
    pub(super) site: ServerUrl<'a>,
    pub(super) headers: &'a BTreeMap<String, SecretString>,
    pub(super) wire: HttpWire,
    /// Era of its last connection.
    pub(super) era: Era,
    /// Time for it to show that it is of the newer era, where nothing says so yet.
    pub(super) finding_out: Duration,
    pub(super) logins: &'a Logins,
    pub(super) clean: &'a Clean,
    pub(super) log: &'a Arc<Log>,
}

impl Address<'_> {
    /// Greets the server: as one of the newer era first, unless it is said to be of the oldest way, then by `initialize`, and
    /// then in the oldest way.
    pub(super) async fn greet(&self, handler: &Handler) -> Result<(RunningService<RoleClient, Handler>, Era), Reason> {
        let client = client(self.headers, &self.logins.routes)
            .map_err(|error| Reason::ours(format!("could not make ready to ask it: {}", error.without_url())))?;
        if self.wire == HttpWire::Streamable {
            let greeting = self.streamable(client.clone(), Era::Discover, handler);
            let greeted = match self.era {
                Era::Initialize => timeout(self.finding_out, greeting).await,
                Era::Discover => Ok(greeting.await),
            };
            match greeted {
                Ok(Ok(service)) => return Ok((service, Era::Discover)),
                Ok(Err((why, false))) => return Err(why),
                // Without an answer, it is asked in the way that all servers know.
                Ok(Err((_, true))) | Err(_) => {}
            }
        }
        let greeted = match self.streamable(client.clone(), Era::Initialize, handler).await {
            Err((_, true)) if self.wire == HttpWire::Sse => {
                let transport = EventStream::open(client, self.site.url, &self.route()).await.map_err(Reason::ours)?;
                let greeting =
                    serve_client_with_ct(handler.clone(), self.bounded(transport), CancellationToken::new()).await;
                greeting.map_err(|error| self.told(&error))
            }
            greeted => greeted.map_err(|(why, _)| why),
        };
        greeted.map(|service| (service, Era::Initialize))
    }

    /// Greets the server in this way. An error says besides whether another way is worth a try.
    async fn streamable(
        &self,
        client: Client,
        era: Era,
        handler: &Handler,
    ) -> Result<RunningService<RoleClient, Handler>, (Reason, bool)> {
        let config = StreamableHttpClientTransportConfig::with_uri(self.site.url)
            .max_sse_event_size(LONGEST)
            // It would send again what was not answered, and a call is never sent twice.
            .reinit_on_expired_session(false);
        let (handler, token) = (handler.clone(), CancellationToken::new());
        let greeting = match self.logins.manager(self.site, self.log).await {
            Ok(Some(manager)) => {
                let transport = StreamableHttpClientTransport::with_client(AuthClient::new(client, manager), config);
                serve_client_with_lifecycle_and_ct(handler, self.bounded(transport), era.lifecycle(), token).await
            }
            Ok(None) => {
                let transport = StreamableHttpClientTransport::with_client(client, config);
                serve_client_with_lifecycle_and_ct(handler, self.bounded(transport), era.lifecycle(), token).await
            }
            Err(why) => {
                return Err((
                    Reason::of_server("it does not say who may ask it", &why, self.clean),
                    era == Era::Initialize,
                ));
            }
        };
        greeting.map_err(|error| match Refusal::of_greeting(&error) {
            Some(refusal) => (self.refused(&refusal), false),
            None => (self.told(&error), era == Era::Initialize || era.may_be_wrong(&error)),
        })
    }

    fn route(&self) -> String {
        // In the form that clients ask for.
        let url = reqwest::Url::parse(self.site.url).map(String::from).unwrap_or_default();
        self.logins.routes.of(&url).to_string()
    }

    fn bounded<T>(&self, transport: T) -> BoundedTransport<T> {
        BoundedTransport::new(transport, Arc::clone(self.log))
    }

    /// Reason with a remedy for a refusal.
    pub(super) fn refused(&self, refusal: &Refusal) -> Reason {
        self.logins.refused(self.site, refusal, self.clean)
    }

    /// Reason of a failed start, with the route. The address is left out: a key may stand in it.
    fn told(&self, error: &ClientInitializeError) -> Reason {
        let as_it_is_told = reqwest::Url::parse(self.site.url).map(String::from).unwrap_or_default();
        let (url, clean) = (self.site.url.to_owned(), self.clean.clone());
        let without_url = Clean::new(move |words| {
            let words = words.replace(&url, "[its address]");
            let told = as_it_is_told.as_str();
            clean.words(&if told.is_empty() { words } else { words.replace(told, "[its address]") })
        });
        let reason = Reason::of_greeting(error, &without_url);
        let is_of_the_way = matches!(error, ClientInitializeError::TransportError { .. });
        if is_of_the_way { reason.by(&self.route()) } else { reason }
    }
}

/// Returns whether a message was not sent because the server has forgotten the session: nothing that is sent on this
/// connection will be answered.
pub(super) fn has_forgotten_us(error: &DynamicTransportError) -> bool {
    let error = error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>();
    matches!(error, Some(StreamableHttpError::SessionExpired))
}
