//! That a server does not answer whoever asks, and what it says of whom it would answer. All of that is the word of a
//! stranger: few words are taken of it, and only such as can be what they are said to be.

use std::error::Error;

use reqwest::Url;
use rmcp::{
    service::{ClientInitializeError, ServiceError},
    transport::{
        DynamicTransportError, WWWAuthenticateParams,
        auth::AuthError,
        streamable_http_client::{AuthRequiredError, InsufficientScopeError},
    },
};

/// Maximum number of scopes.
const MOST_SCOPES: usize = 64;
/// Maximum length of a scope, in bytes.
const LONGEST_SCOPE: usize = 128;
/// Maximum length of the address of a server's metadata, in bytes.
const LONGEST_ADDRESS: usize = 2048;

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Set if the server knows the caller and denies the call all the same.
    pub(super) knows_us: bool,
    /// The header that goes with it.
    header: String,
    /// Why the token could not be renewed, where that is it: the server was not asked then, or did not know it any more.
    pub(super) not_renewed: Option<String>,
}

impl Refusal {
    /// Why a server could not be greeted, if that is it.
    pub(crate) fn of_greeting(error: &ClientInitializeError) -> Option<Self> {
        match error {
            ClientInitializeError::TransportError { error, .. } => Self::of(error),
            ClientInitializeError::LegacyFallbackFailed { fallback, .. } => Self::of_greeting(fallback),
            _ => None,
        }
    }

    /// Why a request was not answered, if that is it.
    pub(crate) fn of_request(error: &ServiceError) -> Option<Self> {
        match error {
            ServiceError::TransportSend(error) => Self::of(error),
            _ => None,
        }
    }

    /// One that says this.
    #[cfg(test)]
    pub(super) fn with(knows_us: bool, header: &str) -> Self {
        Self { knows_us, header: header.to_owned(), not_renewed: None }
    }

    fn of(error: &DynamicTransportError) -> Option<Self> {
        let refusal = |knows_us, header: &str| Some(Self { knows_us, header: header.to_owned(), not_renewed: None });
        let mut cause: Option<&(dyn Error + 'static)> = Some(error.error.as_ref());
        while let Some(error) = cause {
            if let Some(refused) = error.downcast_ref::<AuthRequiredError>() {
                return refusal(false, &refused.www_authenticate_header);
            }
            if let Some(refused) = error.downcast_ref::<InsufficientScopeError>() {
                return refusal(true, &refused.www_authenticate_header);
            }
            match error.downcast_ref::<AuthError>() {
                Some(AuthError::AuthorizationRequired) => return refusal(false, ""),
                Some(AuthError::TokenRefreshFailed(why)) => {
                    return Some(Self { knows_us: false, header: String::new(), not_renewed: Some(why.clone()) });
                }
                _ => {}
            }
            cause = error.source();
        }
        None
    }

    /// Reads the header for a caller at this address.
    pub(super) fn said(&self, url: &str) -> LoginDemand {
        let Ok(url) = Url::parse(url) else { return LoginDemand::default() };
        let said = WWWAuthenticateParams::parse(&self.header, &url);
        let metadata = said.resource_metadata_url.as_ref().map(|url| url.as_str().to_owned());
        LoginDemand {
            metadata: metadata.filter(|address| address.len() <= LONGEST_ADDRESS),
            scopes: scopes(said.scope.as_deref().unwrap_or_default().split_whitespace()),
        }
    }
}

/// A refusal's demands on the login.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LoginDemand {
    /// Where its metadata is.
    pub(super) metadata: Option<String>,
    /// Scopes that the login must have.
    pub(super) scopes: Vec<String>,
}

/// Those that can be scopes (RFC 6749, section 3.3), each once, and not without end.
pub(super) fn scopes<'a>(said: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let is_one = |letter: u8| matches!(letter, b'!' | b'#'..=b'[' | b']'..=b'~');
    let mut taken: Vec<String> = Vec::new();
    for scope in said {
        let fits = !scope.is_empty() && scope.len() <= LONGEST_SCOPE && scope.bytes().all(is_one);
        if fits && taken.len() < MOST_SCOPES && !taken.iter().any(|known| known == scope) {
            taken.push(scope.to_owned());
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(header: &str) -> LoginDemand {
        Refusal::with(true, header).said("https://example.org/mcp")
    }

    #[test]
    fn what_a_refusal_says_is_taken() {
        let said = said(
            r#"Bearer error="insufficient_scope", scope="files:read files:write files:read", resource_metadata="/there.json""#,
        );
        assert_eq!(said.scopes, ["files:read", "files:write"]);
        assert_eq!(said.metadata.as_deref(), Some("https://example.org/there.json"));
    }

    #[test]
    fn a_hostile_refusal_is_little() {
        let many: String = (0..10_000).map(|number| format!("s{number} ")).collect();
        assert_eq!(said(&format!("Bearer scope=\"{many}\"")).scopes.len(), MOST_SCOPES);
        let long = "x".repeat(LONGEST_SCOPE + 1);
        let odd = format!("Bearer scope=\"a {long} b\\\\c \u{1b}[2J d\u{e9} e\\\"f\"");
        assert_eq!(said(&odd).scopes, ["a"]);
        for elsewhere in ["http://example.org/x", "https://127.0.0.1/x", "ftp://example.org/x"] {
            assert_eq!(said(&format!("Bearer resource_metadata=\"{elsewhere}\"")).metadata, None, "{elsewhere}");
        }
        let far = format!("Bearer resource_metadata=\"/{}\"", "x".repeat(LONGEST_ADDRESS));
        assert_eq!(said(&far).metadata, None);
        assert_eq!(said("Basic"), LoginDemand::default());
    }
}
