//! Requests to the web and their answers. Pure types.

names! {
    /// HTTP method, which determines the effect if servers follow the standard.
    pub enum WebMethod {
        /// Fetches a resource with its content.
        Get = "GET",
        /// Fetches only the headers of a resource.
        Head = "HEAD",
        /// Queries the supported methods.
        Options = "OPTIONS",
        /// Sends data to a resource.
        Post = "POST",
        /// Replaces or creates a resource.
        Put = "PUT",
        /// Changes a resource partially.
        Patch = "PATCH",
        /// Deletes a resource on the server.
        Delete = "DELETE",
    }
}

impl WebMethod {
    /// Parses the name of a method, ignoring case.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.as_str().eq_ignore_ascii_case(name.trim()))
    }

    /// Returns true if the method only fetches.
    #[must_use]
    pub const fn is_fetch(self) -> bool {
        matches!(self, Self::Get | Self::Head)
    }
}

/// Headers that only describe the desired answer. These headers reveal no secret, and no server interprets them as a
/// command.
pub const HARMLESS_HEADERS: [&str; 5] = ["accept", "accept-language", "if-modified-since", "if-none-match", "range"];

/// Returns true if the header only describes the desired answer.
pub fn is_harmless_header(name: &str) -> bool {
    HARMLESS_HEADERS.iter().any(|harmless| harmless.eq_ignore_ascii_case(name.trim()))
}

/// A request as written by a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebRequest {
    /// Method of the request.
    pub method: WebMethod,
    /// URL of the resource.
    pub url: String,
    /// Headers in addition to the default ones.
    pub headers: Vec<(String, String)>,
    /// Body of the request.
    pub body: Option<String>,
}

impl WebRequest {
    /// Creates a request that fetches this URL.
    pub fn get(url: impl Into<String>) -> Self {
        Self { method: WebMethod::Get, url: url.into(), headers: Vec::new(), body: None }
    }
}

/// A server's answer, completely untrusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebAnswer {
    /// URL of the final response.
    pub url: String,
    /// URLs that redirected to the final response, in order; empty without redirects.
    pub passed: Vec<String>,
    /// HTTP status of the response.
    pub status: u16,
    /// Reason phrase of the status, such as `Not Found`.
    pub reason: String,
    /// Headers about the content, with lower-case names.
    pub headers: Vec<(String, String)>,
    /// Declared media type, such as `text/html`; empty if none is declared.
    pub media_type: String,
    /// Body of the response, decompressed.
    pub body: Vec<u8>,
    /// Body as text, if it is text.
    pub text: Option<String>,
    /// True if the body was truncated at the size limit.
    pub cut: bool,
}

/// A page found by a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebSearchHit {
    /// Title of the page.
    pub title: String,
    /// URL of the page.
    pub url: String,
    /// The search engine's excerpt.
    pub snippet: String,
}
