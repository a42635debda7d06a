//! Compiles the runtime interface without needing `protoc` on the machine.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(["proto/cri.proto", "proto/events.proto", "proto/health.proto"], ["proto"])?;
    tonic_prost_build::configure().build_server(false).btree_map(".").compile_fds(descriptors)?;
    Ok(())
}
