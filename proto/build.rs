//! Generates the wire types and the service stubs from `proto/agentd/v1` without an installed protoc.

use std::{env, fs, path::PathBuf};

use prost::Message as _;

const FILES: [&str; 27] = [
    "agent",
    "archive",
    "audit",
    "context",
    "daemon",
    "document",
    "error",
    "event",
    "grant",
    "input",
    "interrupt",
    "item",
    "mcp",
    "model",
    "plugin",
    "policy",
    "project",
    "replay",
    "session",
    "skill",
    "storage",
    "tool",
    "trace",
    "turn",
    "turn_result",
    "usage",
    "worktree",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(FILES.map(|noun| format!("agentd/v1/{noun}.proto")), ["proto"])?;
    // `compile_fds` does not write the set that reflection serves, so we do.
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR for build scripts")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().codec_path("crate::codec::SmallBuffers").compile_fds(descriptors)?;
    Ok(())
}
