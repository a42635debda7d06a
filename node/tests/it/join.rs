//! Joining, coming back, and staying a member, over real TLS.

use std::path::Path;
use std::time::Duration;

use quorate_env::{Env, Scope};
use quorate_node::join::{JoinError, Joining, Membership, join};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::member::{Asked, FakeMember, Life};

const PATIENCE: Duration = Duration::from_secs(20);

fn joining(member: &FakeMember, directory: &Path, token: Option<String>) -> Joining {
    Joining {
        node: "n1".into(),
        addresses: vec!["10.1.0.1".parse().unwrap()],
        members: vec![member.address()],
        token,
        directory: directory.to_owned(),
    }
}

fn serving(membership: &Membership) -> String {
    membership.server_tls().leaf.borrow().cert_pem.clone()
}

/// Whether the serving certificate is for this address.
fn serves(membership: &Membership, address: [u8; 4]) -> bool {
    let certificate = CertificateDer::from_pem_slice(serving(membership).as_bytes()).unwrap();
    // An IP address in the subject's alternative names: its tag, its length, and itself.
    let name = [&[0x87, 4][..], &address].concat();
    certificate.windows(name.len()).any(|bytes| bytes == name)
}

#[tokio::test]
async fn a_node_joins_once_and_keeps_what_it_got() {
    let (member, home, env) = (FakeMember::start().await, tempfile::tempdir().unwrap(), Env::real());
    let first = join(&joining(&member, home.path(), Some(member.token("one"))), &env).await.unwrap();
    assert_eq!(member.asked(), [Asked::Token("one.secret".into())]);
    assert_eq!(first.network().pod_cidr.unwrap().to_string(), "10.244.3.0/24");
    // Neither without a token nor with the one that it joined with.
    for token in [None, Some(member.token("one"))] {
        let again = join(&joining(&member, home.path(), token), &env).await.unwrap();
        assert_eq!(serving(&again), serving(&first));
    }
    assert_eq!(member.asked(), []);
}

#[tokio::test]
async fn what_no_longer_fits_is_replaced_at_the_start() {
    let (member, home, env) = (FakeMember::start().await, tempfile::tempdir().unwrap(), Env::real());
    member.set_life(Life::OLD);
    join(&joining(&member, home.path(), Some(member.token("one"))), &env).await.unwrap();
    member.set_life(Life::NEW);
    member.asked();
    // Old certificates, by themselves.
    join(&joining(&member, home.path(), None), &env).await.unwrap();
    assert_eq!(member.asked(), [Asked::Certificate]);
    // Another address.
    let moved = Joining { addresses: vec!["10.1.0.2".parse().unwrap()], ..joining(&member, home.path(), None) };
    let membership = join(&moved, &env).await.unwrap();
    assert_eq!(member.asked(), [Asked::Certificate]);
    assert!(serves(&membership, [10, 1, 0, 2]) && !serves(&membership, [10, 1, 0, 1]));
    // Another token.
    let again = Joining { token: Some(member.token("two")), ..moved };
    join(&again, &env).await.unwrap();
    assert_eq!(member.asked(), [Asked::Token("two.secret".into())]);
    join(&again, &env).await.unwrap();
    assert_eq!(member.asked(), []);
}

#[tokio::test]
async fn a_membership_of_another_cluster_is_named_with_what_to_do() {
    let (ours, home, env) = (FakeMember::start().await, tempfile::tempdir().unwrap(), Env::real());
    let other = FakeMember::start().await;
    join(&joining(&ours, home.path(), Some(ours.token("one"))), &env).await.unwrap();
    for token in [None, Some(other.token("two"))] {
        let error = join(&joining(&other, home.path(), token), &env).await.unwrap_err();
        assert!(matches!(error, JoinError::OtherCluster { .. }), "{error}");
        let path = home.path().join("membership.json").display().to_string();
        assert!(error.to_string().contains(&path) && error.to_string().contains("remove the file"), "{error}");
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let error = join(&joining(&other, elsewhere.path(), Some(ours.token("one"))), &env).await.unwrap_err();
    assert!(matches!(error, JoinError::ForeignToken { .. }), "{error}");
    assert!(error.to_string().contains("quorate token create"), "{error}");
    assert_eq!(other.asked(), [], "no secret went to a foreign member");
}

#[tokio::test]
async fn certificates_that_ran_out_want_a_token() {
    let (member, home, env) = (FakeMember::start().await, tempfile::tempdir().unwrap(), Env::real());
    let day = Duration::from_secs(24 * 3600);
    member.set_life(Life { behind: day, ahead: Duration::ZERO });
    join(&joining(&member, home.path(), Some(member.token("one"))), &env).await.unwrap();
    member.set_life(Life::NEW);
    member.asked();
    let error = join(&joining(&member, home.path(), None), &env).await.unwrap_err();
    assert!(matches!(error, JoinError::Expired { .. }), "{error}");
    assert!(error.to_string().contains("quorate token create"), "{error}");
    // The same token may still be good.
    join(&joining(&member, home.path(), Some(member.token("one"))), &env).await.unwrap();
    assert_eq!(member.asked(), [Asked::Token("one.secret".into())]);
}

#[tokio::test]
async fn a_node_starts_with_what_it_has_while_the_cluster_is_away() {
    let (member, home, env) = (FakeMember::start().await, tempfile::tempdir().unwrap(), Env::real());
    member.set_life(Life::OLD);
    let wanted = joining(&member, home.path(), Some(member.token("one")));
    let first = join(&wanted, &env).await.unwrap();
    member.kill().await;
    tokio::time::pause();
    let later = Env::simulated(env.clock.wall(), 1);
    let again = join(&Joining { token: None, ..wanted }, &later).await.unwrap();
    assert_eq!(serving(&again), serving(&first));
}

#[tokio::test]
async fn a_running_node_gets_new_certificates_and_uses_them() {
    let (member, home, env) = (FakeMember::start().await, tempfile::tempdir().unwrap(), Env::real());
    // Two thirds are over in a second.
    let (behind, ahead) = (Duration::from_secs(60), Duration::from_secs(31));
    member.set_life(Life { behind, ahead });
    let membership = join(&joining(&member, home.path(), Some(member.token("one"))), &env).await.unwrap();
    member.set_life(Life::NEW);
    member.asked();
    let client = membership.client(&member.address()).await.unwrap();
    let whoami = || {
        let request = http::Request::get("/whoami").body(Vec::new()).unwrap();
        client.request_text(request)
    };
    let (before, mut leaf) = (whoami().await.unwrap(), membership.server_tls().leaf);
    let first = leaf.borrow_and_update().cert_pem.clone();
    let scope = Scope::root("node");
    membership.keep_certified(&env, &scope);
    env.clock.timeout(PATIENCE, leaf.changed()).await.expect("renewed in time").unwrap();
    assert_ne!(leaf.borrow().cert_pem, first);
    assert_ne!(whoami().await.unwrap(), before, "the client shows the new certificate");
    assert_eq!(member.asked(), [Asked::Certificate]);
    assert_eq!(scope.close(PATIENCE).await, Vec::<String>::new());
    // The next start finds the new one.
    let next = join(&joining(&member, home.path(), None), &env).await.unwrap();
    assert_eq!(serving(&next), leaf.borrow().cert_pem);
    assert_eq!(member.asked(), []);
}
