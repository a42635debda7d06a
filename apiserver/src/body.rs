//! The bodies of requests and responses.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use tokio::sync::mpsc;

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A request's body, whatever transport it came by.
pub type RequestBody = UnsyncBoxBody<Bytes, BoxError>;

/// Chunks that may wait between a producer and the socket of one response; with the chunk size this bounds a
/// streamed response's memory.
pub(crate) const STREAM_CHUNKS: usize = 4;

/// A response's body: slices known in advance, or a stream with back-pressure.
#[derive(Debug)]
pub struct Body(Kind);

#[derive(Debug)]
enum Kind {
    Slices { left: u64, slices: VecDeque<Bytes> },
    Stream(mpsc::Receiver<Result<Bytes, BoxError>>),
    Boxed(RequestBody),
}

impl Body {
    pub fn empty() -> Self {
        Self(Kind::Slices { left: 0, slices: VecDeque::new() })
    }

    pub fn full(bytes: impl Into<Bytes>) -> Self {
        Self::slices([bytes.into()])
    }

    pub fn slices(slices: impl IntoIterator<Item = Bytes>) -> Self {
        let slices: VecDeque<Bytes> = slices.into_iter().filter(|slice| !slice.is_empty()).collect();
        Self(Kind::Slices { left: slices.iter().map(|slice| slice.len() as u64).sum(), slices })
    }

    /// A body fed by a task. An error sent by it aborts the response, so that the client sees it as incomplete.
    pub fn channel() -> (mpsc::Sender<Result<Bytes, BoxError>>, Self) {
        let (sender, receiver) = mpsc::channel(STREAM_CHUNKS);
        (sender, Self(Kind::Stream(receiver)))
    }

    /// A body made elsewhere (proxied responses).
    pub fn boxed<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(Kind::Boxed(body.map_err(Into::into).boxed_unsync()))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            Kind::Slices { left, slices } => Poll::Ready(slices.pop_front().map(|slice| {
                *left -= slice.len() as u64;
                Ok(Frame::data(slice))
            })),
            Kind::Stream(receiver) => {
                receiver.poll_recv(context).map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)))
            }
            Kind::Boxed(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Slices { slices, .. } => slices.is_empty(),
            Kind::Stream(_) => false,
            Kind::Boxed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Slices { left, .. } => SizeHint::with_exact(*left),
            Kind::Stream(_) => SizeHint::default(),
            Kind::Boxed(body) => body.size_hint(),
        }
    }
}

/// Boxes any body as a request's.
pub fn request_body<B>(body: B) -> RequestBody
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    body.map_err(Into::into).boxed_unsync()
}

/// A request without a body.
pub fn no_body() -> RequestBody {
    request_body(http_body_util::Empty::new().map_err(|never: Infallible| match never {}))
}
