//! Minimal worker binary for the tests of this crate. With the argument `probe`, it drops its privileges like a worker
//! and then tries to use them.

use std::{
    fs::File,
    net::{TcpListener, TcpStream, UdpSocket},
    os::unix::net::UnixStream,
    process::{Command, ExitCode},
};

use agentd_confine::{Access, ProcessLimits};
use agentd_index::Limits;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(first) if first == agentd_index::WORKER_ARGUMENT => {
            agentd_index::run_worker(&arguments.collect::<Vec<_>>())
        }
        Some(first) if first == agentd_index::PICTURE_WORKER_ARGUMENT => {
            agentd_index::run_picture_worker(&arguments.collect::<Vec<_>>())
        }
        Some(first) if first == "probe" => probe(),
        _ => ExitCode::FAILURE,
    }
}

fn probe() -> ExitCode {
    let listener = TcpListener::bind("127.0.0.1:0");
    let Some(address) = listener.as_ref().ok().and_then(|listener| listener.local_addr().ok()) else {
        return ExitCode::FAILURE;
    };
    let Limits { memory, time, .. } = Limits::default();
    let limits = ProcessLimits { memory, time: Some(time), open_files: 16 };
    if agentd_confine::limit(&limits).is_err()
        || !agentd_confine::drop_rights(&Access::Nothing).is_ok_and(|filtered| filtered)
    {
        return ExitCode::FAILURE;
    }
    let report =
        |what: &str, was_refused: bool| println!("{what}: {}", if was_refused { "refused" } else { "allowed" });
    report("read a file", File::open("/etc/passwd").is_err());
    report("make a file", File::create("/tmp/agentd-index-probe").is_err());
    report("list a folder", std::fs::read_dir("/").is_err());
    report("connect", TcpStream::connect(address).is_err());
    report("send", UdpSocket::bind("127.0.0.1:0").is_err());
    report(
        "talk to a service of this machine",
        UnixStream::connect("/run/nobody").is_err_and(|e| e.raw_os_error() == Some(1)),
    );
    report("start a program", Command::new("/bin/true").spawn().is_err());
    report("see who runs", std::fs::read("/proc/1/cmdline").is_err());
    ExitCode::SUCCESS
}
