//! The web: what is asked of it, and what came back. Pure.

names! {
    /// Effect of a request, as far as servers keep to what they promise.
    pub enum WebMethod {
        /// Fetches.
        Get = "GET",
        /// Fetches what is said of a page, without the page.
        Head = "HEAD",
        /// Asks what may be asked.
        Options = "OPTIONS",
        /// Sends something.
        Post = "POST",
        /// Puts something in its place.
        Put = "PUT",
        /// Changes something.
        Patch = "PATCH",
        /// Deletes something.
        Delete = "DELETE",
    }
}

impl WebMethod {
    /// The method of that name, whatever the case of its letters.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.as_str().eq_ignore_ascii_case(name.trim()))
    }

    /// Returns whether it only fetches.
    #[must_use]
    pub const fn is_fetch(self) -> bool {
        matches!(self, Self::Get | Self::Head)
    }
}

/// Headers that only say what answer is wanted. They tell no secret, and no server takes them for an order.
pub const HARMLESS_HEADERS: [&str; 5] = ["accept", "accept-language", "if-modified-since", "if-none-match", "range"];

/// Returns whether a header only says what answer is wanted.
pub fn is_harmless_header(name: &str) -> bool {
    HARMLESS_HEADERS.iter().any(|harmless| harmless.eq_ignore_ascii_case(name.trim()))
}

/// A request, as a model wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebRequest {
    /// Its method.
    pub method: WebMethod,
    /// Where.
    pub url: String,
    /// Headers besides those that every request has.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Option<String>,
}

impl WebRequest {
    /// A request that fetches this address.
    pub fn get(url: impl Into<String>) -> Self {
        Self { method: WebMethod::Get, url: url.into(), headers: Vec::new(), body: None }
    }
}

/// Answer of a server. All of it is untrusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebAnswer {
    /// The address that answered.
    pub url: String,
    /// The addresses that led there, the first first; empty where the first one answered.
    pub passed: Vec<String>,
    /// The status code.
    pub status: u16,
    /// Reason phrase of the code, such as `Not Found`.
    pub reason: String,
    /// Headers that say something of the content, by lower-case name.
    pub headers: Vec<(String, String)>,
    /// Declared media type, such as `text/html`; empty where none is declared.
    pub media_type: String,
    /// The body, unpacked.
    pub body: Vec<u8>,
    /// The same as text, where it is text.
    pub text: Option<String>,
    /// Set if that is only the beginning, because there is more than may be taken.
    pub cut: bool,
}

/// A page that a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebFind {
    /// Its title.
    pub title: String,
    /// Where it is.
    pub url: String,
    /// The search engine's excerpt.
    pub snippet: String,
}
