//! Names over the wire, as pods ask for them.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};

use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use serde_json::json;

use crate::lab::{DNS, Namespace, PATIENCE, Room, SILENCE, eventually};

fn question(name: &str, kind: RecordType) -> Message {
    let mut message = Message::query();
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
    message
}

fn over_udp(from: &Namespace, name: &str, kind: RecordType) -> Result<Message, std::io::ErrorKind> {
    let question = question(name, kind).to_vec().unwrap();
    from.inside(move || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        socket.set_read_timeout(Some(SILENCE)).unwrap();
        socket.send_to(&question, (DNS, 53)).map_err(|error| error.kind())?;
        let mut buffer = [0; 4096];
        let (length, from) = socket.recv_from(&mut buffer).map_err(|error| error.kind())?;
        assert_eq!(from, SocketAddr::from((DNS, 53)), "the answer comes from where it was asked");
        Ok(Message::from_vec(&buffer[..length]).unwrap())
    })
}

fn over_tcp(from: &Namespace, name: &str, kind: RecordType) -> Message {
    let question = question(name, kind).to_vec().unwrap();
    from.inside(move || {
        let mut stream = TcpStream::connect((DNS, 53)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&u16::try_from(question.len()).unwrap().to_be_bytes()).unwrap();
        stream.write_all(&question).unwrap();
        let mut length = [0; 2];
        stream.read_exact(&mut length).unwrap();
        let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut answer).unwrap();
        Message::from_vec(&answer).unwrap()
    })
}

fn texts(records: &[Record]) -> Vec<String> {
    records.iter().map(|record| record.data.to_string()).collect()
}

#[test]
fn pods_resolve_services_over_udp_and_tcp() {
    let room = Room::new();
    let n1 = room.node(1);
    let a = n1.pod("a");
    room.api.put(
        "services",
        json!({"metadata": {"namespace": "default", "name": "web"},
               "spec": {"clusterIP": "10.96.0.50", "clusterIPs": ["10.96.0.50"], "ports": [{"name": "http", "port": 80}]}}),
    );
    let name = "web.default.svc.cluster.local.";
    let answer = eventually("the name appears", || match over_udp(&a.namespace, name, RecordType::A) {
        Ok(answer) if !answer.answers.is_empty() => Ok(answer),
        other => Err(Box::new(other)),
    });
    assert_eq!(texts(&answer.answers), ["10.96.0.50"]);
    assert!(answer.metadata.authoritative && answer.metadata.recursion_available);
    assert_eq!(texts(&over_tcp(&a.namespace, name, RecordType::A).answers), ["10.96.0.50"]);
    let srv = over_udp(&a.namespace, "_http._tcp.web.default.svc.cluster.local.", RecordType::SRV).unwrap();
    assert_eq!(texts(&srv.answers), ["0 100 80 web.default.svc.cluster.local."]);
    assert_eq!(texts(&srv.additionals), ["10.96.0.50"]);
    let missing = over_udp(&a.namespace, "nothing.default.svc.cluster.local.", RecordType::A).unwrap();
    assert_eq!(missing.metadata.response_code, ResponseCode::NXDomain);
    assert!(matches!(missing.authorities[0].data, RData::SOA(_)));
    let no_v6 = over_udp(&a.namespace, name, RecordType::AAAA).unwrap();
    assert_eq!((no_v6.metadata.response_code, no_v6.answers.len()), (ResponseCode::NoError, 0));
}

#[test]
fn a_large_answer_is_cut_over_udp_and_whole_over_tcp() {
    let room = Room::new();
    let n1 = room.node(1);
    let a = n1.pod("a");
    let endpoints: Vec<_> = (1..=200).map(|last| json!({"addresses": [format!("10.244.9.{last}")]})).collect();
    room.api
        .put("services", json!({"metadata": {"namespace": "default", "name": "many"}, "spec": {"clusterIP": "None"}}));
    room.api.put(
        "endpointslices",
        json!({"metadata": {"namespace": "default", "name": "many-1", "labels": {"kubernetes.io/service-name": "many"}},
               "addressType": "IPv4", "ports": [], "endpoints": endpoints}),
    );
    let name = "many.default.svc.cluster.local.";
    let cut = eventually("the endpoints appear", || match over_udp(&a.namespace, name, RecordType::A) {
        Ok(answer) if !answer.answers.is_empty() => Ok(answer),
        other => Err(Box::new(other)),
    });
    assert!(cut.metadata.truncation, "the client must know that there is more");
    assert_eq!(over_tcp(&a.namespace, name, RecordType::A).answers.len(), 200);
}

#[test]
fn other_names_are_relayed_to_the_resolver_outside() {
    let room = Room::new();
    let n1 = room.node(1);
    let a = n1.pod("a");
    n1.loaded();
    // The resolver of the outside world answers every A question with its number of labels.
    let socket = room.switch.inside(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 53)).unwrap());
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((length, peer)) = socket.recv_from(&mut buffer) {
            let question = Message::from_vec(&buffer[..length]).unwrap();
            let asked = question.queries[0].clone();
            let mut answer = Message::response(question.metadata.id, question.metadata.op_code);
            let labels = asked.name().num_labels();
            answer.add_answer(Record::from_rdata(
                asked.name().clone(),
                60,
                RData::A(Ipv4Addr::new(192, 0, 2, labels).into()),
            ));
            answer.add_query(asked);
            let _gone = socket.send_to(&answer.to_vec().unwrap(), peer);
        }
    });
    let answer = eventually("the relay works", || over_udp(&a.namespace, "www.example.org.", RecordType::A));
    assert_eq!(texts(&answer.answers), ["192.0.2.3"]);

    // An alias out of the cluster is answered with the addresses behind it.
    room.api.put(
        "services",
        json!({"metadata": {"namespace": "default", "name": "ext"},
               "spec": {"type": "ExternalName", "externalName": "example.org"}}),
    );
    let name = "ext.default.svc.cluster.local.";
    let answer = eventually("the alias appears", || match over_udp(&a.namespace, name, RecordType::A) {
        Ok(answer) if answer.answers.len() == 2 => Ok(answer),
        other => Err(Box::new(other)),
    });
    assert_eq!(texts(&answer.answers), ["example.org.", "192.0.2.2"]);
}
