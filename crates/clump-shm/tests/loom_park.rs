//! Parking in every interleaving: no thread sleeps on while there is work.
#![cfg(loom)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "helpers of a test may give up"
)]

use crate::model;

use clump_os::alarm::Alarm;
use clump_os::fence::FenceKind;
use clump_os::sync::{AtomicU64, Ordering, Site};
use clump_shm::park::Park;
use clump_shm::shared::Shared;
use loom::sync::Arc;
use loom::thread;
use model::{holds, notices};

const KIND: FenceKind = FenceKind::Asymmetric;

/// Sleeps until `work` shows `enough`.
fn sleep_until(park: &Park, work: &AtomicU64, enough: u64) {
    while work.load(Ordering::Relaxed) < enough {
        let announced = park.announce(KIND);
        if work.load(Ordering::Relaxed) < enough {
            park.sleep(announced, None);
        } else {
            park.withdraw(announced);
        }
    }
}

fn publish(park: &Park, work: &AtomicU64) {
    work.fetch_add(1, Ordering::Relaxed);
    park.wake_if_asleep(KIND, None);
}

/// Runs a model in which `wakers` publish once each and `sleepers` wait for all of it.
fn meet(wakers: u64, sleepers: usize) {
    let park = Shared::private(Park::default());
    let work = Arc::new(AtomicU64::new(0));
    let mut threads = Vec::new();
    for _ in 0..wakers {
        let (park, work) = (park.clone(), work.clone());
        threads.push(thread::spawn(move || publish(&park, &work)));
    }
    for _ in 1..sleepers {
        let (park, work) = (park.clone(), work.clone());
        threads.push(thread::spawn(move || sleep_until(&park, &work, wakers)));
    }
    sleep_until(&park, &work, wakers);
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(!park.anyone_asleep());
}

fn one_waker() {
    meet(1, 1);
}

fn two_wakers() {
    meet(2, 1);
}

fn two_sleepers() {
    meet(1, 2);
}

/// Runs the model with an alarm instead of a futex; every waker publishes `times`.
fn meet_by_alarm(wakers: u64, times: u64, sleepers: usize) {
    let park = Shared::private(Park::default());
    let alarm = Arc::new(Alarm::new().unwrap());
    let work = Arc::new(AtomicU64::new(0));
    let sleep = move |park: &Park, alarm: &Alarm, work: &AtomicU64| {
        while work.load(Ordering::Relaxed) < wakers * times {
            let announced = park.announce(KIND);
            if work.load(Ordering::Relaxed) < wakers * times {
                park.sleep_on(announced, alarm, None, None);
                // Until the other sleeper has left, an alarm stays rung and no thread sleeps.
                thread::yield_now();
            } else {
                park.withdraw(announced);
            }
        }
    };
    let mut threads = Vec::new();
    for number in 1..wakers + sleepers as u64 {
        let (park, alarm, work) = (park.clone(), alarm.clone(), work.clone());
        threads.push(thread::spawn(move || {
            if number <= wakers {
                for _ in 0..times {
                    work.fetch_add(1, Ordering::Relaxed);
                    park.wake_if_asleep(KIND, Some(&*alarm));
                }
            } else {
                sleep(&park, &alarm, &work);
            }
        }));
    }
    sleep(&park, &alarm, &work);
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(!park.anyone_asleep());
}

#[test]
fn an_alarm_wakes_a_sleeper() {
    holds(3, || meet_by_alarm(1, 1, 1));
}

#[test]
fn an_alarm_wakes_a_sleeper_for_the_last_of_two() {
    holds(3, || meet_by_alarm(2, 1, 1));
}

#[test]
fn an_alarm_wakes_both_sleepers() {
    holds(2, || meet_by_alarm(1, 1, 2));
}

/// One sleeper must not clear the ring that was meant for another.
#[test]
fn an_alarm_that_rings_twice_wakes_both_sleepers() {
    holds(2, || meet_by_alarm(1, 2, 2));
}

#[test]
fn announcing_to_an_alarm_must_fence() {
    notices(Site::ParkFence, 3, || meet_by_alarm(1, 1, 1));
}

#[test]
fn a_sleeper_is_woken() {
    holds(3, one_waker);
}

#[test]
fn a_sleeper_is_woken_for_the_last_of_two() {
    holds(3, two_wakers);
}

#[test]
fn both_sleepers_are_woken() {
    holds(2, two_sleepers);
}

#[test]
fn announcing_must_fence() {
    notices(Site::ParkFence, 3, one_waker);
    notices(Site::ParkFence, 3, two_wakers);
}
