//! Classifies addresses as public or not public. This module performs no I/O.
//!
//! IPv6 outside global unicast is rejected as a whole, so that ranges allocated in the future are also rejected. If an
//! IPv6 address embeds an IPv4 address, the embedded address is checked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 range: the network, its prefix length, and its description.
type Range = (Ipv4Addr, u32, &'static str);

/// IPv4 ranges that are not public.
const NOT_PUBLIC: [Range; 15] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8, "this machine"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "a private network"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "a carrier network"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "this machine"),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "link-local, used for cloud metadata"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "a private network"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "reserved"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "for documentation"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "reserved"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "a private network"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "for measurements"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "for documentation"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "for documentation"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "multicast"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "reserved"),
];

/// Addresses that look public but are internal to a cloud.
const OF_CLOUDS: [Ipv4Addr; 1] = [Ipv4Addr::new(168, 63, 129, 16)];

/// Returns the kind of an address that is not public, or `None` if the address is public.
pub fn not_public(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => v4(address),
        IpAddr::V6(address) => v6(address),
    }
}

/// Returns the IPv4 address embedded in an IPv6 address, if packets are routed to it.
pub(crate) fn embedded(address: IpAddr) -> Option<IpAddr> {
    let IpAddr::V6(address) = address else { return None };
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..]
        | [.., 0 | 0x200, 0x5efe, high, low] => Some(joined(high, low).into()),
        _ => None,
    }
}

fn v4(address: Ipv4Addr) -> Option<&'static str> {
    if OF_CLOUDS.contains(&address) {
        return Some("internal to a cloud");
    }
    let within = |(network, bits, _): &&Range| (address.to_bits() ^ network.to_bits()) >> (32 - bits) == 0;
    NOT_PUBLIC.iter().find(within).map(|(_, _, kind)| *kind)
}

fn v6(address: Ipv6Addr) -> Option<&'static str> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Some("this machine"),
        // IPv4-mapped and NAT64 addresses.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(joined(high, low)),
        [0xfc00..=0xfdff, ..] => Some("a private network"),
        [0xfe80..=0xfebf, ..] => Some("link-local"),
        [0xff00..=0xffff, ..] => Some("multicast"),
        // 6to4: packets are routed to the IPv4 address.
        [0x2002, high, low, ..] => v4(joined(high, low)),
        [0x2001, 0x0db8, ..] | [0x3fff, 0x0000..=0x0fff, ..] => Some("for documentation"),
        // Special-purpose blocks: Teredo, benchmarking, ORCHID.
        [0x2001, 0x0000..=0x01ff, ..] => Some("reserved"),
        // ISATAP: the interface identifier contains an IPv4 address.
        [.., 0 | 0x200, 0x5efe, high, low] => v4(joined(high, low)),
        [0x2000..=0x3fff, ..] => None,
        _ => Some("reserved"),
    }
}

fn joined(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_global_addresses_are_public() {
        let check = |text: &str, expected: bool| {
            assert_eq!(not_public(text.parse().unwrap()).is_none(), expected, "{text}");
        };
        for public in "1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 \
            169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 192.0.1.0 192.167.255.255 192.169.0.0 \
            198.17.255.255 198.20.0.0 223.255.255.255 2606:4700::1111 2a00:1450::1 2001:4860:4860::8888 \
            ::ffff:8.8.8.8 64:ff9b::808:808 2002:808:808::1 2001:200::1 3ffe::1"
            .split_whitespace()
        {
            check(public, true);
        }
        for other in "0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1 \
            127.255.255.254 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.192 192.0.2.1 192.88.99.1 \
            192.168.1.1 198.18.0.1 198.19.255.255 198.51.100.7 203.0.113.9 224.0.0.1 239.255.255.250 \
            240.0.0.1 255.255.255.255 168.63.129.16 :: ::1 ::127.0.0.1 ::ffff:127.0.0.1 \
            ::ffff:169.254.169.254 ::ffff:a00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::1 2002:7f00:1:: \
            2002:c0a8:101::1 2001:0:1::1 2001:10::1 2001:db8::1 3fff::1 fc00::1 fd00:ec2::254 fe80::1 \
            febf::1 fec0::1 ff02::1 100::1 5f00::1 4000::1 2606:4700::5efe:a00:1 \
            2606:4700::200:5efe:7f00:1"
            .split_whitespace()
        {
            check(other, false);
        }
    }

    proptest! {
        /// Every IPv6 form of an IPv4 address is classified like the IPv4 address itself.
        #[test]
        fn embedded_ipv4_addresses_are_classified(bits: u32, tail: u64) {
            let inner = Ipv4Addr::from_bits(bits);
            let (high, low) = ((bits >> 16) as u16, bits as u16);
            let plain = v4(inner).is_some();
            let mapped = not_public(inner.to_ipv6_mapped().into()).is_some();
            let nat64 = not_public(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low).into()).is_some();
            let sixth = [48, 32, 16, 0].map(|shift| (tail >> shift) as u16);
            let six = Ipv6Addr::new(0x2002, high, low, 0, sixth[0], sixth[1], sixth[2], sixth[3]);
            prop_assert_eq!((mapped, nat64, not_public(six.into()).is_some()), (plain, plain, plain));
        }
    }
}
