// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The network between members: each reaches the others' peer ports through listeners of ours, which hold back or delay
//! what goes one way. A way is from one member to another, whoever dialled: what is held back arrives later or with its
//! connection never, as in a network that loses packets. Clients do not come this way.
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::schedule::MEMBERS;

/// How much of one direction waits for its time; beyond that the sender is slowed down.
const ROOM: usize = 1 << 20;
const PIECE: usize = 16 << 10;
const DIAL: Duration = Duration::from_secs(5);

/// How it is on the way from one member to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// Nothing passes.
    pub blocked: bool,
    /// How late each packet arrives.
    pub delay: Duration,
}

type Ways = Arc<[[watch::Sender<Way>; MEMBERS]; MEMBERS]>;

/// All ways. Dropped, all connections end.
#[derive(Debug)]
pub struct Links {
    ways: Ways,
    _listeners: JoinSet<()>,
}

impl Links {
    /// Listens at `host` for each member on the port of `targets`, and passes on to that member; who calls is known by the
    /// address.
    ///
    /// # Errors
    /// An address that cannot be bound.
    pub async fn listen(
        host: IpAddr,
        members: [IpAddr; MEMBERS],
        targets: [SocketAddr; MEMBERS],
    ) -> Result<Self> {
        let ways: Ways =
            Arc::new(std::array::from_fn(|_| std::array::from_fn(|_| watch::Sender::new(Way::default()))));
        let mut listeners = JoinSet::new();
        for (to, target) in targets.into_iter().enumerate() {
            let address = SocketAddr::new(host, target.port());
            let listener =
                TcpListener::bind(address).await.with_context(|| format!("listen on {address}"))?;
            let ways = Arc::clone(&ways);
            listeners.spawn(async move {
                let mut connections = JoinSet::new();
                loop {
                    tokio::select! {
                        accepted = listener.accept() => {
                            let Ok((stream, caller)) = accepted else { continue };
                            let Some(from) = members.iter().position(|member| *member == caller.ip()) else { continue };
                            connections.spawn(pass(stream, target, ways[from][to].subscribe(), ways[to][from].subscribe()));
                        }
                        Some(_) = connections.join_next() => {}
                    }
                }
            });
        }
        Ok(Self { ways, _listeners: listeners })
    }

    /// Changes the way from one member to another.
    pub fn set(&self, from: usize, to: usize, way: Way) {
        self.ways[from][to].send_replace(way);
    }

    /// All ways are free again.
    pub fn free(&self) {
        for way in self.ways.iter().flatten() {
            way.send_replace(Way::default());
        }
    }
}

async fn pass(
    near: TcpStream,
    target: SocketAddr,
    mut there: watch::Receiver<Way>,
    mut back: watch::Receiver<Way>,
) {
    // A connection needs both ways.
    let is_free = |way: &Way| !way.blocked;
    if there.wait_for(is_free).await.is_err() || back.wait_for(is_free).await.is_err() {
        return;
    }
    let Ok(Ok(far)) = tokio::time::timeout(DIAL, TcpStream::connect(target)).await else { return };
    let (_, _) = (near.set_nodelay(true), far.set_nodelay(true));
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    // The end of either direction ends both: etcd has no use for half a connection.
    tokio::select! {
        () = carry(near_read, far_write, there) => {}
        () = carry(far_read, near_write, back) => {}
    }
}

async fn carry(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    mut way: watch::Receiver<Way>,
) {
    let mut waiting: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
    let mut held = 0;
    let mut buffer = vec![0; PIECE];
    loop {
        let now = *way.borrow_and_update();
        let due = waiting.front().map(|(due, _)| *due);
        tokio::select! {
            changed = way.changed() => if changed.is_err() { return },
            read = from.read(&mut buffer), if !now.blocked && held < ROOM => match read {
                Ok(0) | Err(_) => return,
                Ok(size) => {
                    held += size;
                    waiting.push_back((Instant::now() + now.delay, buffer[..size].to_vec()));
                }
            },
            () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() && !now.blocked => {
                let Some((_, piece)) = waiting.pop_front() else { continue };
                held -= piece.len();
                if to.write_all(&piece).await.is_err() {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A member at 127.0.0.1 that calls itself through the links, as member 0 calling member 1.
    async fn pair() -> (Links, TcpStream, TcpStream) {
        let local: IpAddr = [127, 0, 0, 1].into();
        let other: IpAddr = [127, 0, 0, 2].into();
        let far = TcpListener::bind((other, 0)).await.unwrap();
        let target = far.local_addr().unwrap();
        let free = |address: IpAddr| async move {
            TcpListener::bind((address, 0)).await.unwrap().local_addr().unwrap()
        };
        let unused = free([127, 0, 0, 3].into()).await;
        let unused_too = free([127, 0, 0, 4].into()).await;
        let members = [local, other, [127, 0, 0, 3].into()];
        let links = Links::listen(local, members, [unused, target, unused_too]).await.unwrap();
        let near = TcpStream::connect((local, target.port())).await.unwrap();
        let (far, _) = far.accept().await.unwrap();
        (links, near, far)
    }

    async fn arrives(from: &mut TcpStream, to: &mut TcpStream) -> bool {
        from.write_all(b"x").await.unwrap();
        let mut byte = [0];
        tokio::time::timeout(Duration::from_millis(300), to.read_exact(&mut byte)).await.is_ok()
    }

    #[tokio::test]
    async fn what_is_blocked_one_way_passes_the_other_and_comes_later() {
        let (links, mut near, mut far) = pair().await;
        assert!(arrives(&mut near, &mut far).await && arrives(&mut far, &mut near).await);
        links.set(0, 1, Way { blocked: true, ..Way::default() });
        assert!(!arrives(&mut near, &mut far).await, "blocked");
        assert!(arrives(&mut far, &mut near).await, "the other way");
        links.free();
        let mut byte = [0];
        tokio::time::timeout(Duration::from_secs(5), far.read_exact(&mut byte)).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_delay_delays() {
        let (links, mut near, mut far) = pair().await;
        links.set(0, 1, Way { delay: Duration::from_millis(200), ..Way::default() });
        // The way may be read after the first byte.
        arrives(&mut far, &mut near).await;
        let begun = Instant::now();
        assert!(arrives(&mut near, &mut far).await);
        assert!(begun.elapsed() >= Duration::from_millis(190), "{:?}", begun.elapsed());
    }
}
