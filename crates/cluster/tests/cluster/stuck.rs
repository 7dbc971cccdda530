//! A part of Ceph that does not answer keeps a gateway from nothing that needs others.

use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use onefold_backend::rados::{Fate, FatedRados, RadosPool, Update};
use onefold_cluster::{BootClock, Gateway, LeaseClock, Running, Settings, Shards};
use onefold_volume::Options;

use crate::common::domain::{Moved, about, domain, node};

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn comes(is_so: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !is_so() && begun.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(50));
    }
    is_so()
}

#[test]
fn a_shard_whose_objects_do_not_answer_keeps_no_other_one_waiting() {
    let (inner, clock) = (domain(), Arc::<Moved>::default());
    let a = node(&inner, &clock, "a");
    let [stuck, other] = ["stuck", "other"].map(|name| {
        let id = a.create(name).id();
        a.gateway.give_back(id).unwrap();
        id
    });
    let (asked, is_asked) = mpsc::channel();
    let held = Arc::new((Mutex::new(true), Condvar::new()));
    let (key, gate) = (stuck.to_string(), Arc::clone(&held));
    let fate = move |object: &str, _: Option<&Update>| {
        if object.starts_with(&key) {
            asked.send(()).unwrap();
            let (is_held, released) = &*gate;
            drop(released.wait_while(is_held.lock().unwrap(), |is_held| *is_held).unwrap());
        }
        Fate::Answered
    };
    let pool: Arc<dyn RadosPool> = Arc::new(FatedRados::new(Arc::clone(&inner), fate));
    let boot: Arc<dyn LeaseClock> = Arc::new(BootClock);
    let options = Options { table_bytes: 1 << 20, ..Options::default() };
    let settings = Settings::new(about("b"), options);
    let b = Arc::new(Gateway::begin(&pool, &boot, settings, Arc::new(())).unwrap());
    let (running, shards, to) = (Running::start(&b), Shards::new(&inner), b.lease().id());
    assert!(shards.want(stuck, to).unwrap());
    is_asked.recv_timeout(PATIENCE).expect("the gateway takes the first shard");
    assert!(shards.want(other, to).unwrap());
    let is_open = |id| b.open_shards().iter().any(|shard| shard.id() == id);
    let other_came = comes(|| is_open(other));
    let stuck_waits = !is_open(stuck);
    *held.0.lock().unwrap() = false;
    held.1.notify_all();
    let stuck_came = comes(|| is_open(stuck));
    drop(running);
    assert_eq!((other_came, stuck_waits, stuck_came), (true, true, true));
    b.end().unwrap();
}
