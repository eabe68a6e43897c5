//! The user's settings for the web, including targets that are allowed although they are not public: hosts by name,
//! optionally with a port, and address ranges. No tool call can change these settings.

use std::{fmt, net::IpAddr, str::FromStr, time::Duration};

use ipnet::IpNet;

use crate::search::SearchConfig;

/// Settings for access to the web.
#[derive(Debug, Clone, PartialEq)]
pub struct WebConfig {
    /// Time limit for a request, including redirects and the response.
    pub timeout: Duration,
    /// Time limit for connecting.
    pub connect_timeout: Duration,
    /// Maximum size of a response, in bytes, when received and when unpacked.
    pub max_bytes: usize,
    /// Maximum number of redirects that are followed.
    pub max_redirects: usize,
    /// Contact for server operators: a URL or a mail address, sent in the user agent.
    pub contact: Option<String>,
    /// Targets that may be reached in addition to public addresses.
    pub allow: Vec<AllowedHost>,
    /// Search engine. Without one, searches fail.
    pub search: Option<SearchConfig>,
}

impl Default for WebConfig {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
            max_bytes: 5 << 20,
            max_redirects: 5,
            contact: None,
            allow: Vec::new(),
            search: None,
        }
    }
}

impl WebConfig {
    /// Returns the user agent: name and version, with the contact if there is one.
    pub fn agent(&self) -> String {
        let name = agentd_http::AGENT;
        match self.contact.as_deref().map(str::trim).filter(|contact| !contact.is_empty()) {
            Some(contact) => format!("{name} (+{contact})"),
            None => name.to_owned(),
        }
    }
}

/// Host or address range that may be reached although it is not public.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedHost {
    /// A host, on one port or on any port.
    Host(String, Option<u16>),
    /// An address range, on any port.
    Range(IpNet),
}

/// Error for text that is neither a host nor a range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a host such as localhost:8888 nor a range of addresses such as 10.0.0.0/8")]
pub struct InvalidHost(String);

impl FromStr for AllowedHost {
    type Err = InvalidHost;

    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        let text = text.trim();
        if let Ok(range) = text.parse::<IpNet>() {
            return Ok(Self::Range(range.trunc()));
        }
        if let Ok(address) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
            return Ok(Self::Range(address.into()));
        }
        let invalid = || InvalidHost(text.chars().take(80).collect());
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse::<u16>().map_err(|_| invalid())?)),
            None => (text, None),
        };
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_name = || {
            let plain = |letter: char| letter.is_alphanumeric() || "-._".contains(letter);
            !host.is_empty() && host.chars().all(plain) && !host.starts_with(['.', '-'])
        };
        match bracketed {
            Some(address) if address.parse::<IpAddr>().is_ok() => Ok(Self::Host(host.to_lowercase(), port)),
            None if is_name() => Ok(Self::Host(host.trim_end_matches('.').to_lowercase(), port)),
            _ => Err(invalid()),
        }
    }
}

impl fmt::Display for AllowedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host, Some(port)) => write!(f, "{host}:{port}"),
            Self::Host(host, None) => f.write_str(host),
            Self::Range(range) => range.fmt(f),
        }
    }
}

/// Returns true if the list contains this host by name for this port.
pub(crate) fn names(list: &[AllowedHost], host: &str, port: u16) -> bool {
    let host = host.trim_end_matches('.');
    list.iter().any(|allowed| match allowed {
        AllowedHost::Host(name, on) => name.eq_ignore_ascii_case(host) && on.is_none_or(|on| on == port),
        AllowedHost::Range(_) => false,
    })
}

/// Returns true if an address is in one of the ranges. IPv4-mapped addresses are treated as IPv4.
pub(crate) fn covers(list: &[AllowedHost], address: IpAddr) -> bool {
    let address = address.to_canonical();
    list.iter().any(|allowed| matches!(allowed, AllowedHost::Range(range) if range.contains(&address)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowed_hosts_and_ranges_parse() {
        let check = |text: &str, expected: Option<&str>| {
            let parsed = text.parse::<AllowedHost>().ok().map(|allowed| allowed.to_string());
            assert_eq!(parsed.as_deref(), expected, "{text}");
        };
        check("localhost", Some("localhost"));
        check(" SearX.lan.:8888 ", Some("searx.lan:8888"));
        check("127.0.0.1:8080", Some("127.0.0.1:8080"));
        check("[::1]:8080", Some("[::1]:8080"));
        check("127.0.0.1", Some("127.0.0.1/32"));
        check("[fd00::1]", Some("fd00::1/128"));
        check("10.1.2.3/8", Some("10.0.0.0/8"));
        check("", None);
        check("http://localhost", None);
        check("localhost:", None);
        check("localhost:99999", None);
        check("*.lan", None);
        check("[nonsense]:1", None);
    }

    #[test]
    fn allowed_host_with_a_port_matches_only_that_port() {
        let list: Vec<AllowedHost> = ["a.lan:80", "b.lan", "10.0.0.0/8"].map(|text| text.parse().unwrap()).to_vec();
        for (host, port, expected) in
            [("a.lan", 80, true), ("A.LAN.", 80, true), ("a.lan", 81, false), ("b.lan", 1, true), ("c.b.lan", 1, false)]
        {
            assert_eq!(names(&list, host, port), expected, "{host}:{port}");
        }
        for (address, expected) in [("10.9.8.7", true), ("::ffff:10.9.8.7", true), ("11.0.0.1", false)] {
            assert_eq!(covers(&list, address.parse().unwrap()), expected, "{address}");
        }
    }
}
