//! Routes of outgoing connections: direct, or through a proxy from the environment. Every network request of agentd
//! determines its route here. No side effects: the environment is read at program start.

use std::{fmt, net::IpAddr, sync::Arc};

/// Proxy address that replaces an unsupported proxy. This address does not resolve, so the connection fails instead of
/// bypassing the proxy.
const UNSUPPORTED: &str = "http://unsupported-proxy.invalid";

/// Proxies from an environment, and the hosts that bypass them.
#[derive(Clone, Default)]
pub struct Routes {
    plain: Option<Arc<str>>,
    tls: Option<Arc<str>>,
    /// Entries of `no_proxy`, in lower case.
    direct: Arc<[String]>,
}

/// Route to one URL.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Route<'a>(Option<&'a str>);

impl Routes {
    /// Reads the same variables as curl, in its order: lower case first, `all_proxy` last. Empty variables are ignored.
    /// Unlike curl, also reads upper-case `HTTP_PROXY`, because no external request can set it here.
    pub fn read<'a>(variable: impl Fn(&str) -> Option<&'a str>) -> Self {
        let first = |names: &[&str]| {
            names.iter().find_map(|name| variable(name).map(str::trim).filter(|value| !value.is_empty()))
        };
        let proxy = |names: &[&str]| {
            let value = first(names)?;
            Some(if value.contains("://") { value.into() } else { format!("http://{value}").into() })
        };
        let direct = first(&["no_proxy", "NO_PROXY"]).unwrap_or_default().to_ascii_lowercase();
        let entries = direct.split([',', ' ', '\t', '\n']).filter(|entry| !entry.is_empty());
        Self {
            plain: proxy(&["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"]),
            tls: proxy(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
            direct: entries.map(str::to_owned).collect(),
        }
    }

    /// Returns the route to a normalised URL. Routes to the local host are always direct.
    pub fn of(&self, url: &str) -> Route<'_> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let proxy = if scheme == "https" { &self.tls } else { &self.plain };
        let (host, port) = host_and_port(rest);
        let port = port.unwrap_or(if scheme == "https" { 443 } else { 80 });
        let is_direct = is_this_machine(&host) || self.direct.iter().any(|entry| covers(entry, &host, port));
        Route(proxy.as_deref().filter(|_| !is_direct))
    }

    /// Returns true if no proxy is configured.
    pub fn are_direct(&self) -> bool {
        self.plain.is_none() && self.tls.is_none()
    }

    /// Returns a proxy whose scheme is not `http`, for callers that have their own proxy client.
    pub fn non_http_proxy(&self) -> Option<Route<'_>> {
        let proxies = [self.plain.as_deref(), self.tls.as_deref()];
        proxies.into_iter().flatten().find(|proxy| !proxy.starts_with("http://")).map(|proxy| Route(Some(proxy)))
    }
}

/// Omits addresses because they may contain passwords.
impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routes").field("are_direct", &self.are_direct()).finish_non_exhaustive()
    }
}

impl Route<'_> {
    /// Returns the proxy's URL, with its credentials.
    pub fn proxy(&self) -> Option<String> {
        let is_known = |proxy: &str| ["http://", "https://"].iter().any(|scheme| proxy.starts_with(scheme));
        self.0.map(|proxy| if is_known(proxy) { proxy } else { UNSUPPORTED }.to_owned())
    }
}

/// For display, without credentials: `directly`, or `through the proxy http://proxy:3128`.
impl fmt::Display for Route<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((scheme, rest)) = self.0.and_then(|proxy| proxy.split_once("://")) else {
            return f.write_str("directly");
        };
        let rest = rest.rsplit('@').next().unwrap_or_default();
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        write!(f, "through the proxy {scheme}://{authority}")?;
        if matches!(scheme, "http" | "https") {
            Ok(())
        } else {
            f.write_str(" (only http and https proxies are supported)")
        }
    }
}

/// Same as the display form, without credentials.
impl fmt::Debug for Route<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Returns true for names of the local host: `localhost`, its subdomains, and loopback addresses.
pub fn is_this_machine(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']).trim_end_matches('.');
    match host.parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(address) => address.is_loopback() || address.is_unspecified(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

/// Parses the lower-case host and the port from the part of a URL after the scheme.
fn host_and_port(rest: &str) -> (String, Option<u16>) {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (host, port) = without_port(authority.rsplit('@').next().unwrap_or_default());
    (host.trim_end_matches('.').to_ascii_lowercase(), port)
}

/// Splits off the port and removes brackets. Only an address in brackets may contain further colons.
fn without_port(authority: &str) -> (&str, Option<u16>) {
    let (name, port) = match authority.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, port.parse().ok()),
        _ => (authority, None),
    };
    (name.trim_matches(['[', ']']), port)
}

/// Returns true if an entry of `no_proxy` matches a host. The entry is `*`, a name (which includes its subdomains), an
/// address, or a network, each with or without a port.
fn covers(entry: &str, host: &str, port: u16) -> bool {
    let (name, required_port) = without_port(entry);
    if required_port.is_some_and(|required_port| required_port != port) {
        return false;
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        return name == "*" || is_within(address.to_canonical(), name);
    }
    let name = name.trim_start_matches('*').trim_start_matches('.').trim_end_matches('.');
    let is_below = host.strip_suffix(name).is_some_and(|front| front.is_empty() || front.ends_with('.'));
    entry == "*" || (!name.is_empty() && is_below)
}

/// Returns true if the address equals `network`, or is in the network if `network` has the form `10.0.0.0/8`.
fn is_within(address: IpAddr, network: &str) -> bool {
    let (base, bits) = network.split_once('/').map_or((network, None), |(base, bits)| (base, Some(bits)));
    let (a, b, width) = match (address, base.parse()) {
        (IpAddr::V4(a), Ok(IpAddr::V4(b))) => (u128::from(a.to_bits()) << 96, u128::from(b.to_bits()) << 96, 32),
        (IpAddr::V6(a), Ok(IpAddr::V6(b))) => (a.to_bits(), b.to_bits(), 128),
        _ => return false,
    };
    let bits = bits.map_or(Some(width), |bits| bits.parse().ok().filter(|bits| *bits <= width));
    bits.is_some_and(|bits: u32| (a ^ b).checked_shr(128 - bits).unwrap_or(0) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(variables: &[(&str, &'static str)]) -> Routes {
        Routes::read(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| *value))
    }

    #[test]
    fn proxy_variables_are_read_like_curl() {
        #[track_caller]
        fn check(variables: &[(&str, &'static str)], url: &str, expected: &str) {
            assert_eq!(routes(variables).of(url).to_string(), expected, "{variables:?} {url}");
        }
        let both = [("http_proxy", "http://low:1"), ("HTTP_PROXY", "high:2"), ("ALL_PROXY", "all:3")];
        check(&both, "http://h/", "through the proxy http://low:1");
        check(&both[1..], "http://h/", "through the proxy http://high:2");
        check(&both, "https://h/", "through the proxy http://all:3");
        check(&[("https_proxy", " "), ("all_proxy", "https://u:p@all")], "https://h/", "through the proxy https://all");
        check(&[("https_proxy", "http://u:p/w@proxy:8/x")], "https://h/", "through the proxy http://proxy:8");
        check(&[("https_proxy", "p:1")], "http://h/", "directly");
        let unsupported = "through the proxy socks5h://tor:9 (only http and https proxies are supported)";
        check(&[("ALL_PROXY", "socks5h://tor:9")], "http://h/", unsupported);
        assert_eq!(routes(&[("ALL_PROXY", "socks5h://tor:9")]).of("http://h/").proxy().as_deref(), Some(UNSUPPORTED));
        assert_eq!(routes(&[("ALL_PROXY", "u:p@x:9")]).of("http://h/").proxy().as_deref(), Some("http://u:p@x:9"));
    }

    #[test]
    fn no_proxy_matches_names_addresses_and_networks() {
        #[track_caller]
        fn check(no_proxy: &'static str, url: &str, is_direct: bool) {
            let routes = routes(&[("all_proxy", "http://proxy:3128"), ("NO_PROXY", no_proxy)]);
            assert_eq!(routes.of(url).proxy().is_none(), is_direct, "{no_proxy:?} {url}");
        }
        // Local hosts, regardless of the configuration.
        for host in
            ["127.0.0.1:11434", "localhost", "LOCALHOST:8", "x.localhost", "127.0.0.5", "[::1]:8080", "0.0.0.0:1"]
        {
            check("", &format!("http://{host}/v1"), true);
        }
        check("", "https://localhost.:1/", true);
        check("", "http://[::ffff:127.0.0.1]:1/", true);
        check("", "http://[::ffff:7f00:1]/", true);
        for host in ["localhost.example", "127.0.0.1.example", "notlocalhost", "128.0.0.1", "[::2]", "user@h"] {
            check("", &format!("http://{host}/"), false);
        }
        check("*", "http://any/", true);
        check("*", "http://10.1.1.1/", true);
        check("a.example,*", "https://any/", true);
        for entry in ["a.example", ".a.example", "*.a.example", " b , A.Example. ", "b a.example"] {
            check(entry, "https://a.example/", true);
            check(entry, "https://x.y.A.example:8443/", true);
            check(entry, "https://xa.example/", false);
            check(entry, "https://a.example.org/", false);
        }
        check("a.example:8443", "https://a.example:8443/", true);
        check("a.example:8443", "https://a.example/", false);
        check("a.example:443", "https://a.example/", true);
        check("10.0.0.5", "http://10.0.0.5/", true);
        check("10.0.0.5", "http://10.0.0.50/", false);
        check("10.0.0.0/8,fd00::/8", "http://10.9.8.7:1/", true);
        check("10.0.0.0/8,fd00::/8", "http://[fd12::1]:1/", true);
        check("10.0.0.0/8,fd00::/8", "http://11.9.8.7/", false);
        check("10.0.0.0/99,10.0.0.0/x,/,:,.,,", "http://10.0.0.1/", false);
        check("/,:,.,,-", "http://a.example/", false);
        check("0.0.0.0/0", "http://10.0.0.1/", true);
        check("[2001:db8::1]", "http://[2001:db8::1]/", true);
        check("2001:db8::1", "http://[2001:DB8::1]:9/", true);
        check("[2001:db8::1]:9", "http://[2001:db8::1]:9/", true);
        check("[2001:db8::1]:8", "http://[2001:db8::1]:9/", false);
        check("5", "http://10.0.0.5/", false);
    }
}
