//! The bodies of requests and responses.

use std::any::Any;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

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
pub struct Body {
    kind: Kind,
    /// What is let go of when the body has been sent, or nobody wants it any more.
    held: Option<Box<dyn Any + Send>>,
}

#[derive(Debug)]
enum Kind {
    Slices { left: u64, slices: VecDeque<Bytes> },
    Stream { chunks: mpsc::Receiver<Result<Bytes, BoxError>>, whole: Arc<AtomicBool>, ended: bool },
    Boxed(RequestBody),
}

/// The reader of a streamed body went away.
#[derive(Debug, thiserror::Error)]
#[error("nobody reads the response any more")]
pub struct Gone;

/// The producer's end of a streamed body. Unless it says [`BodySender::end`] the response is broken off where the
/// producer stopped, be it by an error, a panic or the end of its scope: nobody must take a part for the whole.
#[derive(Debug)]
pub struct BodySender {
    chunks: mpsc::Sender<Result<Bytes, BoxError>>,
    whole: Arc<AtomicBool>,
}

impl BodySender {
    pub async fn send(&self, data: impl Into<Bytes>) -> Result<(), Gone> {
        self.chunks.send(Ok(data.into())).await.map_err(|_closed| Gone)
    }

    /// Breaks the response off.
    pub async fn fail(self, error: impl Into<BoxError>) -> Result<(), Gone> {
        self.chunks.send(Err(error.into())).await.map_err(|_closed| Gone)
    }

    /// The response is whole.
    pub fn end(self) {
        self.whole.store(true, Ordering::Release);
    }

    /// Resolves when the reader has gone away.
    pub async fn closed(&self) {
        self.chunks.closed().await;
    }
}

impl Body {
    fn of(kind: Kind) -> Self {
        Self { kind, held: None }
    }

    pub fn empty() -> Self {
        Self::of(Kind::Slices { left: 0, slices: VecDeque::new() })
    }

    pub fn full(bytes: impl Into<Bytes>) -> Self {
        Self::slices([bytes.into()])
    }

    pub fn slices(slices: impl IntoIterator<Item = Bytes>) -> Self {
        let slices: VecDeque<Bytes> = slices.into_iter().filter(|slice| !slice.is_empty()).collect();
        Self::of(Kind::Slices { left: slices.iter().map(|slice| slice.len() as u64).sum(), slices })
    }

    /// A body fed by a task.
    pub fn channel() -> (BodySender, Self) {
        let (sender, chunks) = mpsc::channel(STREAM_CHUNKS);
        let whole = Arc::new(AtomicBool::new(false));
        let kind = Kind::Stream { chunks, whole: Arc::clone(&whole), ended: false };
        (BodySender { chunks: sender, whole }, Self::of(kind))
    }

    /// A body made elsewhere (proxied responses).
    pub fn boxed<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self::of(Kind::Boxed(body.map_err(Into::into).boxed_unsync()))
    }

    /// Keeps `held` until the body has been sent or dropped.
    pub(crate) fn holding(mut self, held: impl Any + Send) -> Self {
        self.held = Some(match self.held.take() {
            Some(before) => Box::new((before, held)),
            None => Box::new(held),
        });
        self
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = match &mut self.kind {
            Kind::Slices { left, slices } => slices.pop_front().map(|slice| {
                *left -= slice.len() as u64;
                Ok(Frame::data(slice))
            }),
            Kind::Stream { ended: true, .. } => None,
            Kind::Stream { chunks, whole, ended } => {
                let chunk = ready!(chunks.poll_recv(context));
                *ended = !matches!(chunk, Some(Ok(_)));
                match chunk {
                    Some(chunk) => Some(chunk.map(Frame::data)),
                    None if whole.load(Ordering::Acquire) => None,
                    None => Some(Err("the response was broken off".into())),
                }
            }
            Kind::Boxed(body) => ready!(Pin::new(body).poll_frame(context)),
        };
        if frame.is_none() {
            self.held = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Slices { slices, .. } => slices.is_empty(),
            Kind::Stream { ended, .. } => *ended,
            Kind::Boxed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Slices { left, .. } => SizeHint::with_exact(*left),
            Kind::Stream { .. } => SizeHint::default(),
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

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(body: Body) -> Result<Bytes, BoxError> {
        Ok(body.collect().await?.to_bytes())
    }

    #[tokio::test]
    async fn only_what_its_producer_ended_is_whole() {
        let (sender, body) = Body::channel();
        sender.send("all of it").await.unwrap();
        sender.end();
        assert_eq!(read(body).await.unwrap(), "all of it");

        let (sender, body) = Body::channel();
        sender.send("a part").await.unwrap();
        drop(sender);
        assert!(read(body).await.is_err(), "its producer panicked, or was dropped with its scope");

        let (sender, body) = Body::channel();
        sender.fail("no disk").await.unwrap();
        assert_eq!(read(body).await.unwrap_err().to_string(), "no disk");
    }

    #[tokio::test]
    async fn what_a_body_holds_goes_with_it() {
        let held = Arc::new(());
        let (sender, body) = Body::channel();
        let body = body.holding(held.clone());
        assert_eq!(Arc::strong_count(&held), 2);
        sender.end();
        read(body).await.unwrap();
        assert_eq!(Arc::strong_count(&held), 1);
        drop(Body::full("x").holding(held.clone()));
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
