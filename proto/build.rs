//! Generates the wire types and the service stubs from `proto/agentd/v1` without an installed protoc.

use std::{collections::BTreeSet, env, fs, io, path::PathBuf};

use prost::Message as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let mut files =
        fs::read_dir("proto/agentd/v1")?.map(|file| Ok(file?.path())).collect::<Result<BTreeSet<_>, io::Error>>()?;
    files.retain(|path| path.extension().is_some_and(|ending| ending == "proto"));
    let descriptors = protox::compile(files, ["proto"])?;
    // `compile_fds` does not write the descriptor set for reflection.
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR for build scripts")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().codec_path("crate::codec::SmallBuffers").compile_fds(descriptors)?;
    Ok(())
}
