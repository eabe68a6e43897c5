//! How the daemon is linked.

use std::process::Command;

/// The first C library that understands packed relocations.
const PACKS_RELOCATIONS: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Every pointer to code or text in the program's constants is a relocation of 24 bytes, read when it starts and in
    // memory from then on. Packed they are two orders of magnitude smaller, which is a sixteenth of the memory at rest.
    if is_native() && glibc().is_some_and(|version| version >= PACKS_RELOCATIONS) {
        println!("cargo::rustc-link-arg-bin=agentd=-Wl,-z,pack-relative-relocs");
    }
}

/// Whether the program is built for the machine that builds it, whose C library can be asked.
fn is_native() -> bool {
    let is_gnu = std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu");
    is_gnu && std::env::var_os("HOST") == std::env::var_os("TARGET")
}

/// The version of this machine's C library: `getconf` tells it as `glibc 2.36`.
fn glibc() -> Option<(u32, u32)> {
    let told = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let told = String::from_utf8(told.stdout).ok()?;
    let (major, minor) = told.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
