//! A network of the command's own, with one address, at which the daemon lets it through to listed hosts.

use std::{
    io::IoSlice,
    net::{Ipv4Addr, TcpListener},
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::net::UnixStream,
    },
};

use nix::sys::socket::{AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, sendmsg, socket};

use super::{
    super::policy::{GATEWAY_PORT, HANDED_UP},
    Step, step,
};

/// Opens the only way out of this network, and hands it to the daemon.
pub(super) fn open(leash: &UnixStream) -> Step<()> {
    raise_loopback().map_err(step("open the network of its own"))?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, GATEWAY_PORT)).map_err(step("open the way to the proxy"))?;
    let handed = [listener.as_raw_fd()];
    let controls = [ControlMessage::ScmRights(&handed)];
    let mark = [HANDED_UP];
    sendmsg::<()>(leash.as_raw_fd(), &[IoSlice::new(&mark)], &controls, MsgFlags::empty(), None)
        .map(drop)
        .map_err(step("hand up the way to the proxy"))
}

#[allow(unsafe_code, reason = "there is no wrapper")]
fn raise_loopback() -> nix::Result<()> {
    let any: OwnedFd = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let up = libc::c_short::try_from(libc::IFF_UP).unwrap_or_default();
    let mut request =
        libc::ifreq { ifr_name: [0; libc::IFNAMSIZ], ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: up } };
    for (place, letter) in request.ifr_name.iter_mut().zip(b"lo") {
        *place = letter.cast_signed() as libc::c_char;
    }
    // SAFETY: the structure is the one that this request takes, its name ends with a zero, and it outlives the call, which keeps
    // no pointer. The descriptor is open.
    nix::errno::Errno::result(unsafe {
        libc::ioctl(any.as_raw_fd(), libc::SIOCSIFFLAGS as libc::Ioctl, &raw mut request)
    })
    .map(drop)
}
