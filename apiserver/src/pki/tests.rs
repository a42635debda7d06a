use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustls::RootCertStore;
use rustls::client::danger::ServerCertVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::*;

fn env() -> Env {
    Env::simulated("2026-06-01T12:00:00Z".parse().unwrap(), 1)
}

fn made() -> (tempfile::TempDir, Pki) {
    let home = tempfile::tempdir().unwrap();
    let pki = Pki::create(&home.path().join("pki"), &env()).unwrap();
    (home, pki)
}

fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

fn at(time: &str) -> UnixTime {
    let time: jiff::Timestamp = time.parse().unwrap();
    UnixTime::since_unix_epoch(std::time::Duration::from_secs(time.as_second().try_into().unwrap()))
}

/// What a TLS client that trusts `root` says of `certificate` for `name`.
fn client_accepts(root: &Authority, certificate: &str, name: &str, now: UnixTime) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(root.certificate().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier =
        rustls::client::WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    verifier.verify_server_cert(&der(certificate), &[], &name, &[], now).is_ok()
}

#[tokio::test]
async fn files_are_private_and_open_again() {
    let (_home, pki) = made();
    let mut names: Vec<String> = fs::read_dir(pki.dir())
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{entry:?}");
            entry.file_name().into_string().unwrap()
        })
        .collect();
    names.sort();
    let expected = [
        "ca.crt",
        "ca.key",
        "front-proxy-ca.crt",
        "front-proxy-ca.key",
        "peer-ca.crt",
        "peer-ca.key",
        "sa.key",
        "sa.pub",
    ];
    assert_eq!(names, expected);
    let again = Pki::open(pki.dir(), &env()).unwrap();
    assert_eq!((again.ca_hash(), again.tokens().id()), (pki.ca_hash(), pki.tokens().id()));
    assert_eq!(again.ca_hash().len(), 64);
    assert!(matches!(Pki::create(pki.dir(), &env()), Err(PkiError::AlreadyExists { .. })));
    assert_eq!(Pki::open_or_create(pki.dir(), &env()).unwrap().ca_hash(), pki.ca_hash());
}

#[tokio::test]
async fn a_server_certificate_answers_to_every_name_of_the_api() {
    let (_home, pki) = made();
    let leaf = pki.server(&["192.0.2.7".to_owned(), "m1.example".to_owned()], "10.96.0.1".parse().unwrap()).unwrap();
    let now = at("2026-06-01T12:00:00Z");
    for name in ["192.0.2.7", "m1.example", "127.0.0.1", "::1", "localhost", "10.96.0.1", "kubernetes.default.svc"] {
        assert!(client_accepts(pki.cluster(), &leaf.certificate, name, now), "{name}");
    }
    assert!(!client_accepts(pki.cluster(), &leaf.certificate, "192.0.2.8", now));
    assert!(!client_accepts(pki.peer(), &leaf.certificate, "localhost", now), "the authorities are apart");
    assert!(!client_accepts(pki.cluster(), &leaf.certificate, "localhost", at("2027-06-02T12:00:00Z")), "a year");
    assert!(client_accepts(pki.cluster(), &leaf.certificate, "localhost", at("2026-06-01T11:56:00Z")), "backdated");
}

#[tokio::test]
async fn members_verify_each_other_by_one_name() {
    let (_home, pki) = made();
    let leaf = pki.member("m2", &["192.0.2.8".to_owned()]).unwrap();
    for name in [PEER_NAME, "m2", "192.0.2.8", "localhost"] {
        assert!(client_accepts(pki.peer(), &leaf.certificate, name, at("2026-06-01T12:00:00Z")), "{name}");
    }
}

#[tokio::test]
async fn a_node_cannot_ask_for_names_that_are_not_its_own() {
    let (_home, pki) = made();
    let key = rcgen::KeyPair::generate().unwrap();
    let wish = ["n1", "kubernetes", "localhost", "192.0.2.9", "127.0.0.1", "10.96.0.1"].map(str::to_owned);
    let request = rcgen::CertificateParams::new(wish.to_vec()).unwrap().serialize_request(&key).unwrap().pem().unwrap();
    let certificate = pki.sign_node_server("n1", &request, "10.96.0.0/16".parse().unwrap()).unwrap();
    let now = at("2026-06-01T12:00:00Z");
    for (name, granted) in [
        ("n1", true),
        ("192.0.2.9", true),
        ("kubernetes", false),
        ("localhost", false),
        ("127.0.0.1", false),
        ("10.96.0.1", false),
    ] {
        assert_eq!(client_accepts(pki.cluster(), &certificate, name, now), granted, "{name}");
    }
    assert!(matches!(pki.sign_node_client("n1", "nonsense"), Err(PkiError::Request { .. })));
}

#[tokio::test]
async fn damage_is_named() {
    let (_home, pki) = made();
    let dir = pki.dir();
    let path = |name: &str| dir.join(name);
    let ca_key = fs::read(path("ca.key")).unwrap();

    fs::copy(path("peer-ca.key"), path("ca.key")).unwrap();
    assert!(matches!(Pki::open(dir, &env()), Err(PkiError::Mismatch { .. })));
    fs::write(path("ca.key"), "no key").unwrap();
    assert!(matches!(Pki::open(dir, &env()), Err(PkiError::Malformed { .. })));
    fs::remove_file(path("ca.key")).unwrap();
    assert!(matches!(Pki::open(dir, &env()), Err(PkiError::Missing { .. })));
    fs::write(path("ca.key"), ca_key).unwrap();
    let later = Env::simulated("2036-06-01T12:00:00Z".parse().unwrap(), 1);
    assert!(matches!(Pki::open(dir, &later), Err(PkiError::Expired { .. })));
    assert!(Pki::open(dir, &env()).is_ok());
}

#[tokio::test]
async fn a_kubeconfig_embeds_everything() {
    let (_home, pki) = made();
    let admin = pki.admin().unwrap();
    let text = kubeconfig("quorate", "https://127.0.0.1:6443", pki.cluster().pem(), "admin", &admin);
    assert!(text.contains("    server: \"https://127.0.0.1:6443\"\n"), "{text}");
    assert!(text.contains("current-context: \"admin@quorate\"\n"), "{text}");
    assert!(!text.contains("BEGIN"), "keys are base64: {text}");
}

#[tokio::test(start_paused = true)]
async fn a_leaf_is_renewed_while_the_process_runs() {
    let home = tempfile::tempdir().unwrap();
    let env = Env::simulated("2026-06-01T12:00:00Z".parse().unwrap(), 1);
    let pki = Arc::new(Pki::create(&home.path().join("pki"), &env).unwrap());
    let made = Arc::new(AtomicU32::new(0));
    let count = made.clone();
    let renewed = renew::Renewed::new(&pki, "test", move |pki| {
        let number = count.fetch_add(1, Ordering::Relaxed);
        // The third one fails; the second serves on.
        if number == 2 { Err(PkiError::Tls { reason: "test".into() }) } else { pki.admin() }
    })
    .unwrap();
    let day = std::time::Duration::from_secs(24 * 60 * 60);
    let first = renewed.get();
    env.clock.sleep(day * 240).await;
    assert_eq!(renewed.get().certificate, first.certificate, "not before two thirds of its year");
    env.clock.sleep(day * 5).await;
    let second = renewed.get();
    assert_ne!(second.certificate, first.certificate);
    env.clock.sleep(day * 250).await;
    assert_eq!(renewed.get().certificate, second.certificate);
    assert_eq!(renewed.get().certificate, second.certificate, "it is not tried for at each connection");
    assert_eq!(made.load(Ordering::Relaxed), 3);
    env.clock.sleep(day).await;
    assert_ne!(renewed.get().certificate, second.certificate);
}
