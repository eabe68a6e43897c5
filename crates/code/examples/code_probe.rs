//! Drops privileges like a folder's worker and then tries to use them: `code_probe FOLDER OTHER_FILE`. Used by the
//! tests of this crate.

use std::{
    fs::{self, File},
    net::{TcpListener, TcpStream, UdpSocket},
    os::unix::{fs::symlink, net::UnixStream},
    path::PathBuf,
    process::{Command, ExitCode},
};

use agentd_confine::{Access, drop_rights};
use nix::{sys::signal::kill, unistd::getppid};
use rustix::fs::{Mode, OFlags};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(folder), Some(other)) = (arguments.next(), arguments.next()) else { return ExitCode::FAILURE };
    let listener = TcpListener::bind("127.0.0.1:0");
    let Some(address) = listener.as_ref().ok().and_then(|listener| listener.local_addr().ok()) else {
        return ExitCode::FAILURE;
    };
    // Both paths are links that lead out of the folder. One of them already exists.
    let link = folder.join("link");
    if symlink(&other, &link).is_err() || !drop_rights(&Access::Read(&folder)).is_ok_and(|filtered| filtered) {
        return ExitCode::FAILURE;
    }
    let report =
        |what: &str, was_refused: bool| println!("{what}: {}", if was_refused { "refused" } else { "allowed" });
    report("read a file of the folder", fs::read(folder.join("inside")).is_err());
    report("list the folder", fs::read_dir(&folder).is_err());
    report("read another file", File::open(&other).is_err());
    report("read it through a link", File::open(&link).is_err());
    report("read it from within", File::open(folder.join("../other")).is_err());
    report("list another folder", fs::read_dir("/").is_err());
    report("see who runs", fs::read("/proc/1/cmdline").is_err());
    report("change a file of the folder", File::options().append(true).open(folder.join("inside")).is_err());
    let truncating_flags = OFlags::RDONLY | OFlags::TRUNC;
    report("empty a file", rustix::fs::open(folder.join("inside"), truncating_flags, Mode::empty()).is_err());
    report("signal another process", kill(getppid(), None).is_err());
    report("make a file", File::create(folder.join("new")).is_err());
    report("make a link", symlink("/", folder.join("root")).is_err());
    report("remove a file", fs::remove_file(folder.join("inside")).is_err());
    report("rename a file", fs::rename(folder.join("inside"), folder.join("renamed")).is_err());
    report("connect", TcpStream::connect(address).is_err());
    report("send", UdpSocket::bind("127.0.0.1:0").is_err());
    report(
        "talk to a service of this machine",
        UnixStream::connect("/run/nobody").is_err_and(|error| error.raw_os_error() == Some(1)),
    );
    report("start a program", Command::new("/bin/true").spawn().is_err());
    ExitCode::SUCCESS
}
