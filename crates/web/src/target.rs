//! Checks the form of URLs from models and pages, and recognises the host's own addresses. Services that listen on all
//! addresses are only meant for this host, even if one of its addresses is public. Performs no I/O, except for
//! recognising own addresses.

use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr, UdpSocket},
    sync::Arc,
};

use agentd_core::error::{ErrorKind, WebError};
use reqwest::Url;

use crate::{
    address::{embedded, not_public},
    config::{self, AllowedHost},
    failure,
};

/// Maximum length of a URL, in bytes.
const MAX_URL: usize = 8 * 1024;

/// Addresses to which a connection may lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Public addresses, and ranges that the user allows.
    Public,
    /// Any address to which the host's name resolves, because the user named the host.
    Named,
}

/// Parses and checks a URL.
pub(crate) fn parse(text: &str) -> Result<Url, WebError> {
    let invalid = |reason: &str| {
        let error =
            WebError::new(ErrorKind::InvalidInput, format!("invalid address {}: {reason}", failure::quoted(text)));
        error.with_hint("use a full address such as https://example.org/page")
    };
    if text.len() > MAX_URL {
        return Err(invalid("it is longer than 8 KB"));
    }
    let text = text.trim();
    let url = Url::parse(text).map_err(|error| invalid(&error.to_string()))?;
    check_form(&url).map_err(invalid)?;
    check_spelling(text).map_err(|reason| invalid(reason).with_hint(format!("write the address as {url}")))?;
    Ok(url)
}

/// Checks for characters that make a URL look different from its parsed form, because users and rules see the URL as
/// written.
fn check_spelling(text: &str) -> Result<(), &'static str> {
    if text.contains(char::is_control) {
        return Err("it has control characters");
    }
    if text.contains('\\') {
        return Err("it has a backslash");
    }
    let (_, rest) = text.split_once(':').unwrap_or_default();
    let Some(rest) = rest.strip_prefix("//").filter(|rest| !rest.starts_with('/')) else {
        return Err("http: and https: need exactly two slashes");
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host.contains('%') {
        return Err("its host has a %");
    }
    Ok(())
}

/// Checks the form of a URL, independent of its server.
pub(crate) fn check_form(url: &Url) -> Result<(), &'static str> {
    if url.as_str().len() > MAX_URL {
        return Err("it is longer than 8 KB");
    }
    if !matches!(url.scheme(), "http" | "https") {
        return Err("it is neither http nor https");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it has a name or password before the @");
    }
    if url.host_str().is_none_or(str::is_empty) || url.port_or_known_default().is_none_or(|port| port == 0) {
        return Err("it has no usable host");
    }
    Ok(())
}

/// Returns the addresses that may be connected to for a URL. Literal IP addresses are checked here, because they are
/// never resolved.
pub(crate) fn check_url(url: &Url, list: &[AllowedHost], own: &OwnAddresses) -> Result<Trust, WebError> {
    let (host, port) = (url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or_default());
    if config::names(list, host, port) {
        return Ok(Trust::Named);
    }
    let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() else { return Ok(Trust::Public) };
    match own.refused(&[address], |address| config::covers(list, address)) {
        Some((address, kind)) => Err(failure::private(host, address, kind)),
        None => Ok(Trust::Public),
    }
}

/// Address that is not assigned to any host (RFC 5737). If a socket can be bound to it, a socket can be bound to any
/// address.
const UNASSIGNED: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// Decides whether an address is one of the host's own addresses, if that can be determined. Results are not cached,
/// because the host's addresses change.
#[derive(Clone)]
pub(crate) struct OwnAddresses(Arc<dyn Fn(IpAddr) -> Option<bool> + Send + Sync>);

impl OwnAddresses {
    /// Creates a check for addresses to which a socket on this host can be bound.
    pub(crate) fn of_this_machine() -> Self {
        Self::from_fn(|address| if can_be_bound(UNASSIGNED.into())? { None } else { can_be_bound(address) })
    }

    /// Creates a check that uses this function.
    pub(crate) fn from_fn(decide: impl Fn(IpAddr) -> Option<bool> + Send + Sync + 'static) -> Self {
        Self(Arc::new(decide))
    }

    /// Returns the first of these addresses that must not be reached, with the reason. `is_allowed` returns true for
    /// addresses that the user allows.
    pub(crate) fn refused(
        &self,
        addresses: &[IpAddr],
        is_allowed: impl Fn(IpAddr) -> bool,
    ) -> Option<(IpAddr, &'static str)> {
        let refusal = |address: &IpAddr| {
            let kind = not_public(*address).or_else(|| self.is_own(*address))?;
            (!is_allowed(*address)).then_some((*address, kind))
        };
        addresses.iter().find_map(refusal)
    }

    fn is_own(&self, address: IpAddr) -> Option<&'static str> {
        for address in [Some(address), embedded(address)].into_iter().flatten() {
            match (self.0)(address) {
                Some(true) => return Some("this machine"),
                Some(false) => {}
                None => return Some("possibly this machine, whose addresses are unknown"),
            }
        }
        None
    }
}

impl fmt::Debug for OwnAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnAddresses")
    }
}

/// Returns true if a socket can be bound to an address, which the kernel only allows for the host's own addresses.
/// Returns `None` if a resource limit prevents the attempt.
fn can_be_bound(address: IpAddr) -> Option<bool> {
    const TOO_MANY_OPEN: [i32; 2] = [23, 24]; // `ENFILE` and `EMFILE`
    match UdpSocket::bind((address, 0)) {
        Ok(_) => Some(true),
        Err(error) if error.kind() == io::ErrorKind::OutOfMemory => None,
        Err(error) if error.raw_os_error().is_some_and(|code| TOO_MANY_OPEN.contains(&code)) => None,
        Err(_) => Some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trust_of(text: &str) -> Result<Trust, String> {
        let list: Vec<AllowedHost> =
            ["searx.lan:8888", "[::1]:9", "10.0.0.0/8"].map(|text| text.parse().unwrap()).to_vec();
        let own = OwnAddresses::from_fn(|address| Some(address == IpAddr::from([8, 8, 4, 4])));
        parse(text).and_then(|url| check_url(&url, &list, &own)).map_err(|error| error.to_string())
    }

    #[test]
    fn private_addresses_are_rejected_in_any_spelling() {
        for refused in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0177.0.0.1/",
            "http://0/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:7f00:1]/",
            "http://169.254.169.254/latest/meta-data",
            "http://①②⑦.⓪.⓪.①/",
            "http://127.0.0.1./",
            "https://192.168.0.1:8443/",
            "http://8.8.4.4/",
            "http://[::ffff:808:404]/",
            "http://0x08080404/",
        ] {
            let reason = trust_of(refused).unwrap_err();
            assert!(reason.contains("is not public"), "{refused}: {reason}");
        }
        for (malformed, reason) in [
            ("ftp://example.org/", "neither http nor https"),
            ("file:///etc/passwd", "neither http nor https"),
            ("gopher://example.org/", "neither http nor https"),
            ("example.org", "relative URL without a base"),
            ("http://", "empty host"),
            ("http://user@example.org/", "before the @"),
            ("http://user:secret@example.org/", "before the @"),
            ("http://example.org:0/", "no usable host"),
        ] {
            let error = trust_of(malformed).unwrap_err();
            assert!(error.contains(reason) && !error.contains("secret"), "{malformed}: {error}");
        }
        assert!(trust_of(&format!("http://example.org/{}", "a".repeat(MAX_URL))).unwrap_err().contains("8 KB"));
    }

    #[test]
    fn ambiguous_urls_are_rejected() {
        for (text, reason) in [
            ("http://exam\tple.org/", "control characters"),
            ("http://example.org/\n", ""),
            ("http://example.org/a\nb", "control characters"),
            ("ht\ntp://example.org/", "control characters"),
            ("http:\\\\example.org/", "backslash"),
            ("http://example.org\\@other.org/", "backslash"),
            ("http:example.org/", "two slashes"),
            ("https:/example.org/", "two slashes"),
            ("http:///example.org/", "two slashes"),
            ("http://ex%61mple.org/", "has a %"),
            ("http://example.org/%61?x=%20#%", ""),
            ("HTTPS://Example.org", ""),
            ("http://127.0.0.1:8080/x?y=http:z", ""),
        ] {
            match parse(text) {
                Ok(_) => assert_eq!(reason, "", "{text:?}"),
                Err(error) => {
                    assert!(!reason.is_empty() && error.to_string().contains(reason), "{text:?}: {error}");
                    assert!(error.hint().is_some_and(|hint| hint.starts_with("write the address as http")), "{text:?}");
                }
            }
        }
    }

    #[test]
    fn public_or_configured_hosts_are_allowed() {
        for (url, trust) in [
            ("http://example.org/", Trust::Public),
            ("https://1.1.1.1/", Trust::Public),
            ("http://10.2.3.4/", Trust::Public),
            ("http://searx.lan:8888/search", Trust::Named),
            ("http://SEARX.lan.:8888/", Trust::Named),
            // The user named another port, so the host's addresses are checked here.
            ("http://searx.lan/", Trust::Public),
            ("http://[::1]:9/", Trust::Named),
        ] {
            assert_eq!(trust_of(url), Ok(trust), "{url}");
        }
    }

    #[test]
    fn own_public_address_is_rejected() {
        let own = ["203.0.114.9", "2606:4700::1"].map(|text| text.parse::<IpAddr>().unwrap());
        let addresses = OwnAddresses::from_fn(move |address| Some(own.contains(&address)));
        let check = |text: &str, expected: Option<&str>| {
            let refused = addresses.refused(&["8.8.8.8".parse().unwrap(), text.parse().unwrap()], |_| false);
            assert_eq!(refused.map(|(_, kind)| kind), expected, "{text}");
        };
        check("203.0.114.9", Some("this machine"));
        check("::ffff:203.0.114.9", Some("this machine"));
        check("64:ff9b::203.0.114.9", Some("this machine"));
        check("2002:cb00:7209::1", Some("this machine"));
        check("2606:4700::1", Some("this machine"));
        check("203.0.114.8", None);
        check("2606:4700::2", None);
        check("10.0.0.1", Some("a private network"));
        assert_eq!(addresses.refused(&[own[0]], |_| true), None);
    }

    #[test]
    fn undetermined_own_addresses_reject_all() {
        let unknown = OwnAddresses::from_fn(|_| None);
        assert!(unknown.refused(&["8.8.8.8".parse().unwrap()], |_| false).is_some());
    }

    #[test]
    fn own_addresses_are_detected_by_binding() {
        for (address, expected) in [("127.0.0.1", Some(true)), ("192.0.2.1", Some(false)), ("8.8.8.8", Some(false))] {
            assert_eq!(can_be_bound(address.parse().unwrap()), expected, "{address}");
        }
        // Determines this host's address on its network.
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        if socket.connect("192.0.2.1:9").is_ok() {
            let own = socket.local_addr().unwrap().ip();
            assert_eq!((OwnAddresses::of_this_machine().0)(own), Some(true), "{own}");
        }
    }
}
