// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Compiles the etcd messages that scenarios use; protox needs no protoc on the machine.
fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto/etcd.proto");
    let files = protox::compile(["etcd.proto"], ["proto"])?;
    // Connections are made by etcd/dial.rs.
    tonic_prost_build::configure().build_transport(false).compile_fds(files)?;
    Ok(())
}
