// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Compiles the few etcd messages we use. protox parses them, so a build needs no `protoc`.
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let files = protox::compile(["proto/etcd.proto"], ["proto"])?;
    // Client code only; connections are made by member/dial.rs, so the generated `connect` is left out.
    tonic_prost_build::configure().build_server(false).build_transport(false).compile_fds(files)?;
    println!("cargo::rerun-if-changed=proto");
    Ok(())
}
