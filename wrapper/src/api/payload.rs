// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! An answer's body: whole, or a stream. A whole one lies in the answer itself, so a probe's costs no allocation.
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use http_body_util::Full;
use hyper::body::{Frame, SizeHint};

/// See the module's head.
pub enum Body {
    /// All of it is there.
    Whole(Full<Bytes>),
    /// Comes as it is made.
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl Body {
    /// A whole body.
    pub fn new(bytes: Bytes) -> Self {
        Self::Whole(Full::new(bytes))
    }

    /// Bytes as they come; ends with the stream.
    pub fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self::Stream(Box::pin(stream))
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::Whole(Full::default())
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(body) => f.debug_tuple("Whole").field(body).finish(),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(cx),
            Self::Stream(stream) => stream.as_mut().poll_next(cx).map(|data| data.map(Frame::data).map(Ok)),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}
