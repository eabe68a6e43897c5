//! Links the daemon, and bundles its skills.

use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

/// First version of the C library that supports packed relocations.
const MIN_GLIBC: (u32, u32) = (2, 36);

/// Folder of the bundled skills, relative to this crate.
const SKILLS: &str = "../skills";

/// Names of files that tools leave in a checkout. These files are not bundled.
const SKIPPED_NAMES: [&str; 4] = ["__pycache__", ".pytest_cache", ".venv", ".DS_Store"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Every pointer to code or text in the program's constants has a relocation entry of 24 bytes. The entries are read
    // at startup and stay in memory. Packed relocations are two orders of magnitude smaller, which reduces the idle
    // memory by a sixteenth.
    if is_native() && glibc().is_some_and(|version| version >= MIN_GLIBC) {
        println!("cargo::rustc-link-arg-bin=agentd=-Wl,-z,pack-relative-relocs");
    }
    if let Err(error) = bundle() {
        println!("cargo::error=could not bundle the skills in {SKILLS}: {error}");
    }
}

/// Generates a list of all skill files with their content, and a hash that identifies the edition.
fn bundle() -> io::Result<()> {
    let root = fs::canonicalize(SKILLS)?;
    let mut files = Vec::new();
    visit(&root, &mut files)?;
    files.sort();
    let mut list = String::new();
    // FNV-1a: the hash must distinguish editions and be identical on every build machine.
    let mut edition: u64 = 0xcbf2_9ce4_8422_2325;
    for path in &files {
        let name = path.strip_prefix(&root).map_err(io::Error::other)?.to_string_lossy().into_owned();
        for byte in name.bytes().chain(fs::read(path)?) {
            edition = (edition ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let _ = writeln!(list, "    ({name:?}, include_bytes!({path:?})),");
    }
    let text = format!(
        "/// Hash of all files.\npub(super) const EDITION: &str = \"{edition:016x}\";\n\n/// Paths and contents.\n\
         pub(super) static FILES: &[(&str, &[u8])] = &[\n{list}];\n"
    );
    let out = std::env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("OUT_DIR is not set"))?;
    fs::write(Path::new(&out).join("bundled_skills.rs"), text)
}

fn visit(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if SKIPPED_NAMES.iter().any(|skipped| name == *skipped) {
            continue;
        }
        let is_folder = entry.file_type()?.is_dir();
        if is_folder {
            visit(&entry.path(), files)?;
        } else if fs::metadata(entry.path())?.is_file() {
            // Follows a link to a module that skills share, so each skill gets a copy. A broken link fails the build.
            println!("cargo::rerun-if-changed={}", entry.path().display());
            files.push(entry.path());
        }
    }
    Ok(())
}

/// Returns true if host and target are identical, so that the C library's version can be queried.
fn is_native() -> bool {
    let is_gnu = std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu");
    is_gnu && std::env::var_os("HOST") == std::env::var_os("TARGET")
}

/// Returns the version of the host's C library, from the output of `getconf`: `glibc 2.36`.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let output = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = output.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
