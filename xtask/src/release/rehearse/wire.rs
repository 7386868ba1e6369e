// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The wire between a release and its registry: hands bytes on, and breaks when it is told to. It understands none of them.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Context, Result};

/// No limit.
const WHOLE: u64 = u64::MAX;

/// A port that leads to another one. The thread that accepts ends with the process.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) port: u16,
    left: Arc<AtomicU64>,
    broke: Arc<AtomicBool>,
}

impl Wire {
    /// Leads to `port` of this machine.
    pub(super) fn to(port: u16) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("listen on this machine")?;
        let own = listener.local_addr().context("the port that was given")?.port();
        let left = Arc::new(AtomicU64::new(WHOLE));
        let broke = Arc::new(AtomicBool::new(false));
        std::thread::spawn({
            let (left, broke) = (Arc::clone(&left), Arc::clone(&broke));
            move || {
                for from in listener.incoming().map_while(Result::ok) {
                    if let Ok(to) = TcpStream::connect(("127.0.0.1", port)) {
                        connect(from, to, &left, &broke);
                    }
                }
            }
        });
        Ok(Self { port: own, left, broke })
    }

    /// Breaks every connection once so many bytes more were sent to the registry.
    pub(super) fn break_after(&self, bytes: u64) {
        self.broke.store(false, Ordering::SeqCst);
        self.left.store(bytes, Ordering::SeqCst);
    }

    /// Mends it, and tells whether it broke.
    pub(super) fn mend(&self) -> bool {
        self.left.store(WHOLE, Ordering::SeqCst);
        self.broke.load(Ordering::SeqCst)
    }
}

fn connect(from: TcpStream, to: TcpStream, left: &Arc<AtomicU64>, broke: &Arc<AtomicBool>) {
    let (Ok(back_from), Ok(back_to)) = (to.try_clone(), from.try_clone()) else { return };
    let (left, broke) = (Arc::clone(left), Arc::clone(broke));
    std::thread::spawn(move || hand_on(from, to, Some((&left, &broke))));
    std::thread::spawn(move || hand_on(back_from, back_to, None));
}

fn hand_on(mut from: TcpStream, mut to: TcpStream, limit: Option<(&AtomicU64, &AtomicBool)>) {
    let mut block = [0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut block) {
        if let Some((left, broke)) = limit {
            let take = |now: u64| if now == WHOLE { Some(now) } else { now.checked_sub(read as u64) };
            if left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_err() {
                broke.store(true, Ordering::SeqCst);
                break;
            }
        }
        if to.write_all(&block[..read]).is_err() {
            break;
        }
    }
    // Both ends see it, whoever ended it.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
