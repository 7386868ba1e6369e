// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! etcd as a client and as a supervisor meets it: `READY=1`, and the few calls that a run needs. The messages hold only
//! the fields that are used here.
use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};

use crate::process::Program;
use crate::scene::{LONG, Scene};

/// A call on loopback.
const LIMIT: Duration = Duration::from_secs(10);

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StatusRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Header {
    #[prost(uint64, tag = "2")]
    pub(crate) member_id: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(uint64, tag = "4")]
    pub(crate) leader: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct MoveLeaderRequest {
    #[prost(uint64, tag = "1")]
    pub(crate) target: u64,
}

/// Whatever an answer holds that nobody looks at.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Ignored {}

/// A connection to one member. Cheap to clone; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Client(Grpc<Channel>);

impl Client {
    /// Connects to nothing yet. Needs a runtime.
    pub(crate) fn new(address: SocketAddr) -> Result<Self> {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).context("an address")?;
        Ok(Self(Grpc::new(endpoint.connect_timeout(LIMIT).timeout(LIMIT).connect_lazy())))
    }

    async fn call<Q, A>(&mut self, path: &'static str, request: Q) -> Result<A>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        self.0.ready().await.with_context(|| format!("connect for {path}"))?;
        let codec = tonic_prost::ProstCodec::default();
        let answer = self.0.unary(tonic::Request::new(request), PathAndQuery::from_static(path), codec).await;
        Ok(answer.with_context(|| format!("call {path}"))?.into_inner())
    }

    /// A read through consensus.
    pub(crate) async fn read(&mut self, key: &[u8]) -> Result<()> {
        let request = RangeRequest { key: key.to_vec() };
        self.call::<_, Ignored>("/etcdserverpb.KV/Range", request).await.map(drop)
    }

    pub(crate) async fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let request = PutRequest { key: key.to_vec(), value: value.to_vec() };
        self.call::<_, Ignored>("/etcdserverpb.KV/Put", request).await.map(drop)
    }

    /// The member's id and its leader's.
    pub(crate) async fn status(&mut self) -> Result<(u64, u64)> {
        let answer: StatusResponse = self.call("/etcdserverpb.Maintenance/Status", StatusRequest {}).await?;
        Ok((answer.header.context("a status without a header")?.member_id, answer.leader))
    }

    pub(crate) async fn move_leader(&mut self, target: u64) -> Result<()> {
        let request = MoveLeaderRequest { target };
        self.call::<_, Ignored>("/etcdserverpb.Maintenance/MoveLeader", request).await.map(drop)
    }
}

/// A runtime for calls, on the thread that asks for it.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("start a runtime")
}

/// etcd without a supervisor, and when it said `READY=1`.
#[derive(Debug)]
pub(crate) struct Bare {
    pub(crate) program: Program,
    pub(crate) ready: Instant,
}

impl Bare {
    /// Starts it on the scene's config, which is written first, and waits for `READY=1`.
    pub(crate) fn start(scene: &Scene<'_>, config: &[u8]) -> Result<Self> {
        std::fs::write(scene.config_path(), config).context("write a config")?;
        let path = scene.path().join("notify");
        // Of a run before in the same scene.
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).with_context(|| format!("bind {}", path.display()))?;
        let mut command = scene.etcd();
        command.env("NOTIFY_SOCKET", &path);
        let mut program = scene.run(command, "etcd")?;
        let ready = wait_ready(&socket, &mut program)?;
        Ok(Self { program, ready })
    }

    /// Exec to `READY=1`, in ms.
    pub(crate) fn took(&self) -> f64 {
        (self.ready - self.program.began).as_secs_f64() * 1e3
    }
}

fn wait_ready(socket: &UnixDatagram, program: &mut Program) -> Result<Instant> {
    // Woken by the datagram itself; the time limit is only there to look at the program now and then.
    socket.set_read_timeout(Some(Duration::from_millis(200))).context("set a time limit")?;
    let deadline = Instant::now() + LONG;
    let mut said = [0; 256];
    loop {
        if let Ok(length) = socket.recv(&mut said)
            && said[..length].split(|byte| *byte == b'\n').any(|line| line == b"READY=1")
        {
            return Ok(Instant::now());
        }
        crate::interrupted()?;
        program.check_alive().context("waiting for READY=1")?;
        if Instant::now() >= deadline {
            bail!("etcd did not say READY=1 within {LONG:?}; {}", program.tail());
        }
    }
}
