//! Members that must not take part: told other things, of a foreign authority, with a directory that is not theirs.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_env::{Clock, Env, Scope};
use quorate_raft_store::{Config, Consistency, OpenError, Store};

use crate::support::{PATIENCE, create, eventually, logged};
use crate::tls_members::{Authority, Members, open_all, try_open};

/// Must not outlast a test's patience, whatever happens.
async fn refused(config: Config) -> OpenError {
    match Clock::real().timeout(PATIENCE, try_open(config)).await {
        Ok(Err(error)) => error,
        Ok(Ok(store)) => {
            store.halt().await;
            panic!("opened");
        }
        Err(_elapsed) => panic!("neither opened nor refused"),
    }
}

/// A member that waits for others to form a group with.
fn waiting(config: Config) -> (Scope, tokio::task::JoinHandle<Result<Store, OpenError>>) {
    let scope = Scope::root("waiting");
    let opening = Store::open(config, Env::real(), scope.clone());
    (scope, tokio::task::spawn(opening))
}

/// A member that is started again, as a service manager does, whenever it is told that another is wrong.
fn supervised(config: Config) -> (Scope, tokio::task::JoinHandle<Vec<OpenError>>) {
    let scope = Scope::root("supervised");
    let within = scope.clone();
    let life = async move {
        let mut told = Vec::new();
        loop {
            match Store::open(config.clone(), Env::real(), within.clone()).await {
                Err(OpenError::Stopped) => return told,
                Err(error) => told.push(error),
                Ok(store) => panic!("{store:?} formed a group with a stranger"),
            }
        }
    };
    (scope, tokio::task::spawn(life))
}

async fn stopped(scope: Scope, opening: tokio::task::JoinHandle<Result<Store, OpenError>>) {
    scope.cancel();
    let ended = Clock::real().timeout(PATIENCE, opening).await.expect("it stops when told").unwrap();
    assert!(matches!(ended, Err(OpenError::Stopped)), "{ended:?}");
}

async fn written(stores: &BTreeMap<String, Store>, keys: &[&str]) {
    for store in stores.values() {
        for key in keys {
            let (found, _) = store.get((*key).to_owned(), Consistency::Linearizable).await.unwrap();
            found.unwrap_or_else(|| panic!("{key} is lost"));
        }
    }
}

async fn close_all(stores: BTreeMap<String, Store>) {
    for store in stores.into_values() {
        store.close().await;
    }
}

/// A group whose members all know their cluster.
async fn formed(members: &Members) -> BTreeMap<String, Store> {
    let stores = open_all(members).await;
    eventually("a cluster id", async || stores.values().all(|store| store.status().cluster_id.is_some())).await;
    stores
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_disagree_do_not_form_a_group() {
    logged();
    let members = Members::new(&["a", "b", "c"]);
    let others = ["a", "b"].map(|name| supervised(members.config(name)));
    let mut longer = members.config("c");
    longer.initial_members.insert("d".into(), "127.0.0.1:1".into());
    let error = refused(longer).await;
    assert!(matches!(error, OpenError::MembersDisagree { .. }), "{error}");
    assert!(error.to_string().contains("d is listed here only; give all members the same list"), "{error}");
    for (scope, life) in others {
        scope.cancel();
        for error in life.await.unwrap() {
            assert!(error.to_string().contains("d is listed there only; give all members the same list"), "{error}");
        }
    }
    // Nothing was decided by that: with one list they form.
    close_all(formed(&members).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_returns_with_another_list_is_told() {
    logged();
    let members = Members::new(&["a", "b", "c"]);
    let mut stores = formed(&members).await;
    stores["a"].commit(create("before", "x")).await.unwrap();
    stores.remove("c").unwrap().close().await;

    let mut longer = members.config("c");
    longer.initial_members.insert("d".into(), "127.0.0.1:1".into());
    let error = refused(longer).await;
    assert!(matches!(error, OpenError::MembersOnRecord { .. }), "{error}");
    assert!(error.to_string().contains("d is not on record"), "{error}");

    let mut elsewhere = members.config("c");
    elsewhere.initial_members.insert("b".into(), "127.0.0.1:1".into());
    let error = refused(elsewhere).await;
    assert!(matches!(&error, OpenError::MembersDisagree { peer, .. } if peer == "a"), "{error}");

    stores.insert("c".to_owned(), try_open(members.config("c")).await.unwrap());
    written(&stores, &["before"]).await;
    close_all(stores).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_directory_takes_no_part() {
    logged();
    let members = Members::new(&["a", "b", "c"]);
    let mut stores = formed(&members).await;
    stores.remove("b").unwrap().close().await;
    // Acknowledged by a and c alone.
    stores["a"].commit(create("acknowledged", "x")).await.unwrap();
    close_all(stores).await;

    // With b alone, an empty c must not make a majority that never saw the write.
    let emptied = Config { data_dir: members.directory.path().join("empty"), ..members.config("c") };
    let b = try_open(members.config("b")).await.unwrap();
    let error = refused(emptied.clone()).await;
    assert!(matches!(&error, OpenError::Wiped { name, .. } if name == "c"), "{error}");
    assert!(error.to_string().contains("mount or move back the directory it had"), "{error}");
    assert!(!b.leadership().borrow().is_self, "elected by a member that has forgotten what it acknowledged");

    // Where nobody can tell it, it waits.
    b.close().await;
    let (scope, mut opening) = waiting(emptied);
    let waited = Clock::real().timeout(Duration::from_secs(2), &mut opening).await;
    assert!(waited.is_err(), "decided without having heard the others");
    stopped(scope, opening).await;

    let stores = open_all(&members).await;
    written(&stores, &["acknowledged"]).await;
    close_all(stores).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_of_a_foreign_authority_is_told() {
    logged();
    let members = Members::new(&["a", "b", "c"]);
    let foreign = Config { peer_tls: Some(Authority::new().tls()), ..members.config("c") };
    let (scope, life) = supervised(members.config("a"));
    let error = refused(foreign.clone()).await;
    assert!(matches!(&error, OpenError::Untrusted { peer, .. } if peer == "a"), "{error}");
    assert!(error.to_string().contains("give all members a copy of the same --pki-dir"), "{error}");
    scope.cancel();
    for error in life.await.unwrap() {
        assert!(matches!(&error, OpenError::Untrusted { peer, .. } if peer == "c"), "{error}");
    }

    let mut mixed = members.authority.tls();
    mixed.ca_pem = Authority::new().tls().ca_pem;
    let error = refused(Config { peer_tls: Some(mixed), ..members.config("c") }).await;
    assert!(matches!(error, OpenError::Tls(_)), "{error}");
    assert!(error.to_string().contains("not of its own authority"), "{error}");

    let mut stores = formed(&members).await;
    stores.remove("c").unwrap().close().await;
    // A member of the group by its directory: it runs, but nobody talks to it.
    let stranger = try_open(foreign).await.unwrap();
    stores["a"].commit(create("meanwhile", "x")).await.unwrap();
    assert!(!stranger.status().ready);
    stranger.close().await;
    stores.insert("c".to_owned(), try_open(members.config("c")).await.unwrap());
    written(&stores, &["meanwhile"]).await;
    close_all(stores).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_of_another_cluster_is_not_listened_to() {
    logged();
    let members = Members::new(&["a", "b", "c"]);
    let other = formed(&members).await;
    for number in 0..20 {
        other["a"].commit(create(&format!("other/{number}"), "x")).await.unwrap();
    }
    close_all(other).await;
    let others_c = members.directory.path().join("c-of-the-other");
    std::fs::rename(members.directory.path().join("c"), &others_c).unwrap();
    for name in ["a", "b"] {
        std::fs::remove_dir_all(members.directory.path().join(name)).unwrap();
    }

    let mut stores = formed(&members).await;
    stores["a"].commit(create("ours", "x")).await.unwrap();
    stores.remove("c").unwrap().close().await;
    let astray = Config { data_dir: others_c, ..members.config("c") };
    let error = refused(astray.clone()).await;
    assert!(matches!(error, OpenError::OtherCluster { .. }), "{error}");
    assert!(error.to_string().contains("point --data-dir to"), "{error}");

    // Where it meets nobody it starts; its longer log must not replace ours when the others come.
    close_all(stores).await;
    let stray = try_open(astray).await.unwrap();
    let opened = ["a", "b"].map(|name| try_open(members.config(name)));
    let stores: BTreeMap<_, _> = ["a", "b"]
        .map(str::to_owned)
        .into_iter()
        .zip(futures::future::join_all(opened).await.into_iter().map(Result::unwrap))
        .collect();
    stores["b"].commit(create("more", "x")).await.unwrap();
    written(&stores, &["ours", "more"]).await;
    assert!(!stray.status().ready);
    assert!(stray.get("more", Consistency::Local).await.unwrap().0.is_none());
    stray.close().await;
    close_all(stores).await;
}
