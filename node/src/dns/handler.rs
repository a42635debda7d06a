//! Between the DNS protocol and the zone: headers, sizes, and who answers what.

use std::future::Future;
use std::pin::Pin;

use hickory_proto::op::{Edns, Message, MessageType, Metadata, OpCode, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use hickory_server::net::NetError;
use hickory_server::net::runtime::Time;
use hickory_server::net::xfer::Protocol;
use hickory_server::server::{Request, RequestHandler, ResponseHandler, ResponseInfo};
use hickory_server::zone_handler::MessageResponseBuilder;

use super::upstream::{Transport, Upstream};
use super::zone::{Answer, Zone};
use crate::network::catalog::SharedCatalog;

/// Largest answer over UDP to a client that allows large ones: fits unfragmented nearly everywhere.
pub const MAX_UDP_PAYLOAD: u16 = 1232;
/// A client that does not say takes this much.
const MIN_UDP_PAYLOAD: u16 = 512;
/// Names followed from one ExternalName service to the next.
const MAX_ALIASES: usize = 8;

#[derive(Debug)]
pub struct Handler {
    zone: Zone,
    catalog: SharedCatalog,
    upstream: Upstream,
}

/// What is sent, apart from the question.
#[derive(Debug, Default)]
struct Reply {
    code: ResponseCode,
    authoritative: bool,
    truncated: bool,
    answers: Vec<Record>,
    authorities: Vec<Record>,
    additionals: Vec<Record>,
}

impl Reply {
    fn failure(code: ResponseCode) -> Self {
        Self { code, ..Self::default() }
    }
}

impl From<Message> for Reply {
    fn from(message: Message) -> Self {
        Self {
            code: message.metadata.response_code,
            authoritative: message.metadata.authoritative,
            truncated: message.metadata.truncation,
            answers: message.answers,
            authorities: message.authorities,
            additionals: message.additionals,
        }
    }
}

impl Handler {
    pub fn new(zone: Zone, catalog: SharedCatalog, upstream: Upstream) -> Self {
        Self { zone, catalog, upstream }
    }

    async fn reply(&self, request: &Request) -> Reply {
        if request.metadata.op_code != OpCode::Query || request.metadata.message_type != MessageType::Query {
            return Reply::failure(ResponseCode::NotImp);
        }
        let Ok(info) = request.request_info() else { return Reply::failure(ResponseCode::FormErr) };
        let query = info.query.original();
        let transport = match request.protocol() {
            Protocol::Udp => Transport::Udp,
            _ => Transport::Tcp,
        };
        match self.own(query.name(), query.query_type()) {
            Answer::NotOurs => self.relayed(request.as_slice(), transport).await,
            Answer::NotKnownYet => Reply::failure(ResponseCode::ServFail),
            Answer::NoSuchName => self.negative(ResponseCode::NXDomain),
            Answer::Records { answers, .. } if answers.is_empty() => self.negative(ResponseCode::NoError),
            Answer::Records { answers, additionals } => {
                let answers = self.follow_aliases(answers, query.query_type(), transport).await;
                Reply { authoritative: true, answers, additionals, ..Reply::default() }
            }
        }
    }

    fn own(&self, name: &Name, kind: RecordType) -> Answer {
        self.zone.lookup(&self.catalog.read(), name, kind)
    }

    fn negative(&self, code: ResponseCode) -> Reply {
        Reply { code, authoritative: true, authorities: vec![self.zone.soa()], ..Reply::default() }
    }

    async fn relayed(&self, question: &[u8], transport: Transport) -> Reply {
        match self.upstream.relay(question, transport).await {
            Ok(message) => message.into(),
            Err(error) => {
                tracing::debug!(%error, "a question could not be relayed");
                Reply::failure(ResponseCode::ServFail)
            }
        }
    }

    /// Resolver libraries do not follow an alias themselves: the answer must hold the addresses too.
    async fn follow_aliases(&self, mut answers: Vec<Record>, kind: RecordType, transport: Transport) -> Vec<Record> {
        if !matches!(kind, RecordType::A | RecordType::AAAA) {
            return answers;
        }
        for _ in 0..MAX_ALIASES {
            let Some(RData::CNAME(target)) = answers.last().map(|record| &record.data) else { break };
            let target = target.0.clone();
            match self.own(&target, kind) {
                Answer::Records { answers: more, .. } if !more.is_empty() => answers.extend(more),
                Answer::NotOurs => {
                    answers.extend(self.ask_upstream(target, kind, transport).await);
                    break;
                }
                Answer::Records { .. } | Answer::NoSuchName | Answer::NotKnownYet => break,
            }
        }
        answers
    }

    async fn ask_upstream(&self, name: Name, kind: RecordType, transport: Transport) -> Vec<Record> {
        let mut question = Message::query();
        question.metadata.recursion_desired = true;
        question.add_query(Query::query(name, kind));
        match question.to_vec() {
            Ok(bytes) => self.relayed(&bytes, transport).await.answers,
            Err(error) => {
                tracing::debug!(%error, "an alias leads to a name that cannot be asked for");
                Vec::new()
            }
        }
    }

    async fn respond<R: ResponseHandler>(&self, request: &Request, mut client: R) -> Result<ResponseInfo, NetError> {
        let reply = self.reply(request).await;
        let mut metadata = Metadata::response_from_request(&request.metadata);
        metadata.response_code = reply.code;
        metadata.authoritative = reply.authoritative;
        metadata.truncation = reply.truncated;
        metadata.recursion_available = true;
        let edns = request.edns.as_ref().map(|theirs| {
            let mut ours = Edns::new();
            ours.set_max_payload(theirs.max_payload().clamp(MIN_UDP_PAYLOAD, MAX_UDP_PAYLOAD));
            ours
        });
        let response = MessageResponseBuilder::new(&request.queries, edns.as_ref()).build(
            metadata,
            &reply.answers,
            &reply.authorities,
            [],
            &reply.additionals,
        );
        client.send_response(response).await
    }
}

impl RequestHandler for Handler {
    fn handle_request<'handler, 'request, 'answer, R, T>(
        &'handler self,
        request: &'request Request,
        client: R,
    ) -> Pin<Box<dyn Future<Output = ResponseInfo> + Send + 'answer>>
    where
        R: ResponseHandler + 'answer,
        T: Time + 'answer,
        'handler: 'answer,
        'request: 'answer,
        Self: 'answer,
    {
        Box::pin(async move {
            self.respond(request, client).await.unwrap_or_else(|error| {
                tracing::debug!(%error, "an answer could not be sent");
                unanswered(request)
            })
        })
    }
}

/// For the server's own log only.
fn unanswered(request: &Request) -> ResponseInfo {
    let mut metadata = Metadata::response_from_request(&request.metadata);
    metadata.response_code = ResponseCode::ServFail;
    hickory_proto::op::Header { metadata, counts: hickory_proto::op::HeaderCounts::default() }.into()
}
