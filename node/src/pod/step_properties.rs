//! Whatever happens, and in whatever order, a pod keeps its promises; and once nothing more happens, it gets where it
//! should.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::memory::Memory;
use super::step_tests::World;
use crate::runtime::ContainerState;

#[derive(Clone, Debug)]
enum Event {
    Step,
    Finish(usize),
    /// The agent ends; each piece of work under way has taken effect or has not.
    Crash(u8),
    Exit(usize, i32),
    LoseSandbox,
    Pass(u16),
    Delete,
    Vanish,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => Just(Event::Step),
        8 => (0_usize..4).prop_map(Event::Finish),
        1 => any::<u8>().prop_map(Event::Crash),
        2 => (0_usize..4, prop_oneof![Just(0), Just(1)]).prop_map(|(index, code)| Event::Exit(index, code)),
        1 => Just(Event::LoseSandbox),
        2 => (0_u16..400).prop_map(Event::Pass),
        1 => Just(Event::Delete),
        1 => Just(Event::Vanish),
    ]
}

fn spec() -> impl Strategy<Value = Value> {
    let policy = prop_oneof![Just("Always"), Just("OnFailure"), Just("Never")];
    (policy, 0_usize..3, any::<bool>(), 1_usize..3).prop_map(|(policy, inits, sidecar, mains)| {
        let named = |kind: &str, index: usize| json!({"name": format!("{kind}{index}"), "image": "i"});
        let mut init: Vec<Value> = (0..inits).map(|index| named("init", index)).collect();
        if sidecar {
            init.push(json!({"name": "side", "image": "i", "restartPolicy": "Always"}));
        }
        let mains: Vec<Value> = (0..mains).map(|index| named("main", index)).collect();
        json!({"restartPolicy": policy, "initContainers": init, "containers": mains})
    })
}

fn play(world: &mut World, event: &Event) {
    match event {
        Event::Step => {
            world.step();
        }
        Event::Finish(index) => {
            if !world.in_flight.is_empty() {
                let index = index % world.in_flight.len();
                world.finish(index);
            }
        }
        Event::Crash(effects) => {
            for (index, action) in std::mem::take(&mut world.in_flight).into_iter().enumerate() {
                if effects >> (index % 8) & 1 == 1 {
                    world.apply(&action);
                }
            }
            world.memory = Memory::default();
        }
        Event::Exit(index, code) => {
            let running: Vec<String> = world
                .observed
                .containers
                .iter()
                .filter(|container| container.state == ContainerState::Running)
                .map(|container| container.name.clone())
                .collect();
            if let Some(name) = running.get(index % running.len().max(1)) {
                world.exit(name, *code);
            }
        }
        Event::LoseSandbox => world.observed.sandboxes.iter_mut().for_each(|sandbox| sandbox.ready = false),
        Event::Pass(seconds) => world.pass(i64::from(*seconds)),
        Event::Delete => world.delete(30),
        Event::Vanish => world.gone = true,
    }
}

fn check(world: &World, never: bool) {
    let ready = world.observed.sandboxes.iter().filter(|sandbox| sandbox.ready).count();
    assert!(ready <= 1, "two live sandboxes: {:?}", world.observed.sandboxes);
    let live = world.observed.containers.iter().filter(|container| container.state == ContainerState::Running);
    let homes: BTreeSet<&str> = live.clone().map(|container| container.sandbox_id.as_str()).collect();
    assert!(homes.len() <= 1, "containers live in two sandboxes");
    let names: BTreeSet<&str> = live.clone().map(|container| container.name.as_str()).collect();
    assert_eq!(names.len(), live.count(), "one container lives twice");
    if never {
        for (name, starts) in &world.starts {
            assert!(name == "side" || *starts <= 1, "{name} was started {starts} times");
        }
    }
    if world.forgotten {
        assert!(world.observed.is_empty(), "forgotten with something left");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn promises_hold_in_every_order(spec in spec(), events in prop::collection::vec(event(), 1..60)) {
        let never = spec["restartPolicy"] == "Never";
        let mut world = World::new(spec);
        for event in &events {
            play(&mut world, event);
            check(&world, never);
            if world.forgotten {
                return Ok(());
            }
        }
        // Quiet at last: back-offs run out, and the pod comes to rest where it belongs.
        for _ in 0..3 {
            world.settle();
            check(&world, never);
            world.pass(301);
        }
        let ending = world.gone || world.pod.metadata.deletion_timestamp.is_some();
        if ending {
            world.settle();
            prop_assert!(world.forgotten, "a deleted pod is not forgotten");
            return Ok(());
        }
        let phase = world.pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
        let running = world.observed.containers.iter().any(|container| container.state == ContainerState::Running);
        match phase.as_str() {
            "Succeeded" | "Failed" => prop_assert!(!running, "{} with a running container", phase),
            "Running" | "Pending" => prop_assert!(running, "{} with nothing running", phase),
            other => prop_assert!(false, "phase {}", other),
        }
    }
}
