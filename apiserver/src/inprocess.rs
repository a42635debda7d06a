//! The server as a tower service for parts in the same process: `kube::Client::new(service, "default")` takes it.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};

use crate::body::{Body, BoxError, request_body};
use crate::chain::Trusted;
use crate::fence::Fence;
use crate::identity::Identity;
use crate::server::Server;

/// Requests pass the whole chain; only authentication is replaced by the identity given here.
#[derive(Clone, Debug)]
pub struct InProcess {
    server: Server,
    trusted: Trusted,
}

impl InProcess {
    pub(crate) fn new(server: Server, identity: Identity, fence: Option<Fence>) -> Self {
        Self { server, trusted: Trusted { identity, fence } }
    }
}

impl<B> tower::Service<Request<B>> for InProcess
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.server.clone();
        let mut request = request.map(request_body);
        request.extensions_mut().insert(self.trusted.clone());
        Box::pin(async move { Ok(server.handle(request).await) })
    }
}
