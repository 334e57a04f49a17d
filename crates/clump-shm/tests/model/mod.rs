//! Common code of the models: one runs at a time, with few preemptions, on rings of a few slots.
#![allow(dead_code, reason = "each test file uses a part of it")]

use clump_os::fence::FenceKind;
use clump_os::sync::{Site, with_weakened};
use clump_shm::bulk::Bulk;
use clump_shm::doorbell::{Doorbell, DoorbellHandle, Tally};
use clump_shm::park::Park;
use clump_shm::shared::Shared;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// Lock by which models take turns: the weakened site is global to the process.
static TURN: Mutex<()> = Mutex::new(());

/// Runs `model` in every interleaving with at most `preemptions` of them forced.
pub fn holds(preemptions: usize, model: fn()) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    explore(preemptions, model);
}

/// Fails unless `model` fails once `site` is weakened: a model that does not notice proves nothing.
pub fn notices(site: Site, preemptions: usize, model: fn()) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(with_weakened(site, move || explore(preemptions, model)), "{site:?} is not needed");
}

fn explore(preemptions: usize, model: fn()) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    // Enough for waiting loops of three threads; a thread that is never woken exceeds any number.
    builder.max_branches = 5_000;
    builder.check(model);
}

/// Tries until it works, letting others run in between.
pub fn until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(got) = attempt() {
            return got;
        }
        loom::thread::yield_now();
    }
}

/// Creates a doorbell handle of a receiver that sleeps at `park`.
pub fn bell(doorbell: &Shared<Doorbell>, park: &Shared<Park>, bit: u32) -> DoorbellHandle {
    let (doorbell, park) = (doorbell.clone(), park.clone());
    DoorbellHandle {
        doorbell,
        park,
        alarm: None,
        bit,
        fence: FenceKind::Asymmetric,
        tally: Tally::default().into(),
    }
}

/// Allocates raw memory that is never freed: a model is short.
pub fn raw(bytes: usize) -> NonNull<u8> {
    NonNull::from(Box::leak(vec![0u8; bytes].into_boxed_slice())).cast()
}

/// Creates a bulk ring of `bytes` bytes.
pub fn bulk(bytes: usize) -> Bulk {
    // SAFETY: leaked memory stays mapped.
    unsafe { Bulk::new(raw(bytes), bytes) }
}
