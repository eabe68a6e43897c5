//! This machine's own addresses: what listens on all of them is meant for this machine, also where one is public.

use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr, UdpSocket},
    sync::Arc,
};

use crate::address::{embedded, not_public};

/// An address of no machine. Where a socket can be bound to it, it can to any.
const NOBODYS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// Knows whether an address is this machine's, if that can be told. It is asked anew each time: a machine moves.
#[derive(Clone)]
pub(crate) struct OwnAddresses(Arc<dyn Fn(IpAddr) -> Option<bool> + Send + Sync>);

impl OwnAddresses {
    /// Those to which a socket of this machine can be bound.
    pub(crate) fn of_this_machine() -> Self {
        Self::told_by(|address| if can_be_bound(NOBODYS.into())? { None } else { can_be_bound(address) })
    }

    /// Those of which somebody tells so.
    pub(crate) fn told_by(tell: impl Fn(IpAddr) -> Option<bool> + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    /// Finds the first of these addresses that may not be reached, and why. `is_allowed` is a person's word.
    pub(crate) fn refused(
        &self,
        addresses: &[IpAddr],
        is_allowed: impl Fn(IpAddr) -> bool,
    ) -> Option<(IpAddr, &'static str)> {
        let what = |address: &IpAddr| {
            let what = not_public(*address).or_else(|| self.is_own(*address))?;
            (!is_allowed(*address)).then_some((*address, what))
        };
        addresses.iter().find_map(what)
    }

    fn is_own(&self, address: IpAddr) -> Option<&'static str> {
        for address in [Some(address), embedded(address)].into_iter().flatten() {
            match (self.0)(address) {
                Some(true) => return Some("this machine"),
                Some(false) => {}
                None => return Some("perhaps this machine, for its addresses cannot be told"),
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

/// Tries to bind a socket to an address, which the kernel allows for those of this machine. None where there is not enough
/// of something to try.
fn can_be_bound(address: IpAddr) -> Option<bool> {
    const TOO_MANY_OPEN: [i32; 2] = [23, 24]; // in the system, in the process
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

    #[test]
    fn a_public_address_of_this_machine_is_not_public() {
        let own = ["203.0.114.9", "2606:4700::1"].map(|text| text.parse::<IpAddr>().unwrap());
        let addresses = OwnAddresses::told_by(move |address| Some(own.contains(&address)));
        let check = |text: &str, expected: Option<&str>| {
            let refused = addresses.refused(&["8.8.8.8".parse().unwrap(), text.parse().unwrap()], |_| false);
            assert_eq!(refused.map(|(_, what)| what), expected, "{text}");
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
    fn where_nobody_can_tell_no_address_is_asked() {
        let unknown = OwnAddresses::told_by(|_| None);
        assert!(unknown.refused(&["8.8.8.8".parse().unwrap()], |_| false).is_some());
    }

    #[test]
    fn the_kernel_tells_which_are_its_own() {
        for (address, expected) in [("127.0.0.1", Some(true)), ("192.0.2.1", Some(false)), ("8.8.8.8", Some(false))] {
            assert_eq!(can_be_bound(address.parse().unwrap()), expected, "{address}");
        }
        // Whatever this machine is called on its network.
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        if socket.connect("192.0.2.1:9").is_ok() {
            let own = socket.local_addr().unwrap().ip();
            assert_eq!((OwnAddresses::of_this_machine().0)(own), Some(true), "{own}");
        }
    }
}
