// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A lie on purpose: a proxy before an etcd that acknowledges some writes and never hands them on. A run with it must
//! fail, by the check of the clients' history; it shows that the tier would notice.
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tonic::body::Body;
use tonic::{Code, Request, Response, Status};
use tower::ServiceExt;

use crate::etcd::proto::kv_server::{Kv, KvServer};
use crate::etcd::proto::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse,
    RangeRequest, RangeResponse, ResponseHeader, TxnRequest, TxnResponse,
};
use crate::etcd::{CallError, Client, Connector};

/// One write out of so many is dropped.
const EVERY: u64 = 50;

#[derive(Clone, Debug)]
struct Liar {
    behind: Client,
    puts: Arc<AtomicU64>,
}

/// A client of the same etcd, by way of the proxy.
pub fn before(client: &Client) -> Client {
    let liar = Liar { behind: client.clone(), puts: Arc::default() };
    Client::new(Connector::new(client.place(), move || {
        let liar = Liar { behind: liar.behind.apart(), puts: Arc::clone(&liar.puts) };
        async move {
            let (near, far) = tokio::io::duplex(64 * 1024);
            tokio::spawn(serve(liar, far));
            Ok(near)
        }
    }))
}

async fn serve(liar: Liar, stream: tokio::io::DuplexStream) {
    let service = hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
        KvServer::new(liar.clone()).oneshot(request.map(Body::new))
    });
    // How a connection ends concerns nobody.
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}

#[tonic::async_trait]
impl Kv for Liar {
    async fn range(&self, request: Request<RangeRequest>) -> Result<Response<RangeResponse>, Status> {
        self.behind.range(request.into_inner()).await.map(Response::new).map_err(|error| status(&error))
    }

    async fn put(&self, request: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        let PutRequest { key, value, .. } = request.into_inner();
        let key = String::from_utf8_lossy(&key).into_owned();
        let number = self.puts.fetch_add(1, Ordering::Relaxed) + 1;
        let revision = if number.is_multiple_of(EVERY) {
            self.behind.get(&key).await.map(|got| got.store_revision + 1)
        } else {
            self.behind.put(&key, value).await
        };
        let revision = revision.map_err(|error| status(&error))?;
        let header = Some(ResponseHeader { revision, ..ResponseHeader::default() });
        Ok(Response::new(PutResponse { header, prev_kv: None }))
    }

    async fn delete_range(
        &self,
        _request: Request<DeleteRangeRequest>,
    ) -> Result<Response<DeleteRangeResponse>, Status> {
        Err(Status::unimplemented("the traffic deletes in transactions"))
    }

    async fn txn(&self, request: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        self.behind.txn(request.into_inner()).await.map(Response::new).map_err(|error| status(&error))
    }

    async fn compact(
        &self,
        _request: Request<CompactionRequest>,
    ) -> Result<Response<CompactionResponse>, Status> {
        Err(Status::unimplemented("the traffic compacts nothing"))
    }
}

/// As sure or unsure as the answer from behind.
fn status(error: &CallError) -> Status {
    let code = match error {
        CallError::Failed(_) => Code::FailedPrecondition,
        CallError::Unknown(_) => Code::Internal,
    };
    Status::new(code, error.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::etcd::fake::Fake;
    use crate::history::{Verdict, judge};
    use crate::traffic::{Plan, Target, Traffic};

    #[tokio::test]
    async fn dropped_writes_are_found_in_the_clients_history() {
        let fake = Fake::new();
        let target = |member: &str| Target {
            member: member.into(),
            client: before(&Client::new(fake.connector(member))),
        };
        let plan = Plan { pace: Duration::from_millis(1), ..Plan::new("t/", 3) };
        let traffic = Traffic::start(plan, vec![target("m-0"), target("m-1")]).await.unwrap();
        traffic.acknowledged(400, Duration::from_secs(30)).await.unwrap();
        let judgement = judge(&traffic.stop().await.unwrap());
        let Verdict::Violated(violations) = &judgement.verdict else { panic!("{judgement}") };
        assert!(violations.iter().any(|violation| violation.what.contains("revision")), "{judgement}");
    }
}
