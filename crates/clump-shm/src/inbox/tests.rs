//! An endpoint's lanes and queues under random use: nothing is lost, and every lane is polled,
//! armed or held back.

use super::*;
use crate::lane::Peek;
use crate::node::NodeConfig;
use crate::path::Path;
use crate::queue::Take;
use crate::slot::{Header, INLINE};
use proptest::prelude::*;

/// Senders; more than stay polled when they are idle.
const SENDERS: usize = 12;

fn node() -> NodeMemory {
    let config = NodeConfig { survive: true, ..NodeConfig::new(1 + SENDERS) };
    NodeMemory::create(&config).unwrap()
}

#[derive(Debug, Clone)]
enum Step {
    Send(usize),
    Poll,
    Hold,
    Release,
    Tick,
    /// Lanes are armed for a sleep; true: which came about.
    Sleep(bool),
    /// A sender retires, and takes another path.
    Retire(usize),
    FreeRetired,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..SENDERS).prop_map(Step::Send),
        6 => Just(Step::Poll),
        1 => Just(Step::Hold),
        2 => Just(Step::Release),
        3 => Just(Step::Tick),
        2 => any::<bool>().prop_map(Step::Sleep),
        1 => (0..SENDERS).prop_map(Step::Retire),
        2 => Just(Step::FreeRetired),
    ]
}

/// Some have lanes, the others share the queue.
fn path(node: &NodeMemory, to: Name, sender: usize) -> Path {
    let from = Name::new(sender as u32 + 1, 0, 1);
    Path::for_requests(node, from, to, (!sender.is_multiple_of(6)).then_some(0)).unwrap()
}

/// Takes all that a poll finds; returns the words of the messages.
fn poll(inbox: &mut Inbox<()>) -> Vec<u64> {
    let (mut got, mut words) = (Vec::new(), [0; 2 * INLINE]);
    inbox.recheck_after_arming();
    inbox.process_doorbells().unwrap();
    for lane in &mut inbox.hot {
        while let Peek::Message(header) = lane.receiver.peek(&mut words) {
            got.push(words[0]);
            lane.recent += 1;
            lane.receiver.advance(header);
        }
    }
    while inbox.pending[0] {
        match inbox.requests.take(&mut words, |_| false) {
            Take::Message(taken) => {
                got.push(words[0]);
                inbox.requests.done(&taken);
            }
            Take::Skipped | Take::Empty => inbox.pending[0] = inbox.requests.has_message(),
        }
    }
    got
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn every_message_is_found_and_every_lane_has_one_place(
        steps in prop::collection::vec(any_step(), 1..200))
    {
        let node = node();
        let mut inbox: Inbox<()> = Inbox::open(&node, 0, 5).unwrap();
        let mut paths: Vec<Path> = (0..SENDERS).map(|s| path(&node, inbox.name(), s)).collect();
        let (mut sent, mut got) = (Vec::new(), Vec::new());
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Send(sender) => {
                    if paths[sender].push(Header::short(1, 1), &[number as u64]).is_ok() {
                        sent.push(number as u64);
                    }
                }
                Step::Poll => {
                    let found = poll(&mut inbox);
                    prop_assert!(found.is_empty() || !inbox.is_holding(), "found while held back");
                    got.extend(found);
                }
                Step::Hold => inbox.hold(),
                Step::Release => inbox.release(),
                Step::Tick => {
                    // A sender that retired and took another path has two lanes, or more.
                    let most = node.geometry().lanes() as u32;
                    (0..ARM_AFTER).for_each(|_| assert!(inbox.tick() <= most));
                }
                Step::Sleep(slept) => {
                    inbox.arm_all_notifications();
                    if slept {
                        fence::heavy(node.fence());
                        inbox.anything_waiting();
                    }
                }
                Step::Retire(sender) => {
                    paths[sender].retire();
                    paths[sender] = path(&node, inbox.name(), sender);
                }
                Step::FreeRetired => inbox.free_retired(|()| true),
            }
            inbox.check_invariants();
        }
        inbox.release();
        got.extend(poll(&mut inbox));
        got.sort_unstable();
        prop_assert_eq!(got, sent);
        inbox.close();
        prop_assert!(paths.iter().all(|path| !path.is_open()));
    }
}
