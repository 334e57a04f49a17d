//! Barriers of whole jobs in one thread: many nodes, messages in any order and arbitrarily late,
//! ranks that fall asleep.

use super::{BarrierMessage, BarrierProgress, Lines, Listener};
use crate::rank_map::RankMap;
use clump_os::fence::FenceKind;
use clump_test_tier::Sampler;
use proptest::prelude::*;

const FENCE: FenceKind = FenceKind::Symmetric;

/// Activity of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Computing,
    InBarrier,
    Asleep,
    Done,
}

struct Rank {
    attendance: BarrierProgress,
    listener: Listener,
    doing: Doing,
}

/// A message that was sent and not yet handled.
#[derive(Debug, Clone, Copy)]
struct Sent {
    from: usize,
    tell: BarrierMessage,
}

/// A job under a random schedule.
struct Job {
    nodes: Vec<std::ops::Range<usize>>,
    ranks: Vec<Rank>,
    wire: Vec<Sent>,
    last: u64,
    random: Sampler,
    messages: usize,
}

impl Job {
    fn new(sizes: &[usize], last: u64, seed: u64) -> Self {
        let mut end = 0;
        let range = |&size: &usize| {
            end += size;
            end - size..end
        };
        let nodes: Vec<_> = sizes.iter().map(range).collect();
        let memories: Vec<_> =
            sizes.iter().map(|&size| Lines::private(size, sizes.len())).collect();
        let first = nodes.iter().map(|of| of.start as u32).chain([end as u32]).collect();
        let map = RankMap::from_first(first).unwrap();
        let rank = |me: usize| {
            let lines = &memories[nodes.iter().position(|of| of.contains(&me)).unwrap()];
            Rank {
                attendance: BarrierProgress::new(lines, &map, me as u32).unwrap(),
                listener: Listener::new(lines, &map, me as u32),
                doing: Doing::Computing,
            }
        };
        let ranks = (0..end).map(rank).collect();
        Self { nodes, ranks, wire: Vec::new(), last, random: Sampler::new(seed), messages: 0 }
    }

    fn node_of(&self, rank: usize) -> std::ops::Range<usize> {
        self.nodes.iter().find(|of| of.contains(&rank)).unwrap().clone()
    }

    fn wake_node_of(&mut self, rank: usize) {
        for rank in self.node_of(rank) {
            self.wake(rank);
        }
    }

    fn wake(&mut self, rank: usize) {
        if self.ranks[rank].doing == Doing::Asleep {
            self.ranks[rank].attendance.awake();
            self.ranks[rank].doing = Doing::InBarrier;
        }
    }

    /// Lets one rank take one step, if it is awake.
    fn step(&mut self, at: usize) {
        self.ranks[at].attendance.check_invariants();
        let earliest = self.ranks.iter().map(|rank| rank.attendance.epoch()).min().unwrap();
        let rank = &mut self.ranks[at];
        match rank.doing {
            Doing::Asleep | Doing::Done => {}
            Doing::Computing if rank.attendance.epoch() == self.last => rank.doing = Doing::Done,
            Doing::Computing => {
                rank.doing = Doing::InBarrier;
                if rank.attendance.arrive(FENCE) {
                    self.wake_node_of(at);
                }
            }
            Doing::InBarrier => {
                if rank.attendance.complete() {
                    assert!(
                        rank.attendance.poll_message().is_none(),
                        "left with a message to send"
                    );
                    assert!(earliest >= rank.attendance.epoch(), "left before all had arrived");
                    rank.doing = Doing::Computing;
                } else if let Some(tell) = rank.attendance.poll_message() {
                    rank.attendance.on_message_sent();
                    self.wire.push(Sent { from: at, tell });
                    self.messages += 1;
                    // The network wakes the rank that it is for.
                    self.wake(tell.rank as usize);
                } else if self.random.index(3) == 0 {
                    self.fall_asleep(at);
                }
            }
        }
    }

    /// Falls asleep as a waiting loop does: announce, check once more, sleep.
    fn fall_asleep(&mut self, at: usize) {
        let rank = &mut self.ranks[at];
        rank.attendance.announce_sleep();
        if rank.attendance.complete() || rank.attendance.poll_message().is_some() {
            rank.attendance.awake();
        } else {
            rank.doing = Doing::Asleep;
        }
    }

    /// Hands over any message, early or late, if its rank polls the network.
    fn deliver(&mut self) {
        if self.wire.is_empty() {
            return;
        }
        let at = self.random.index(self.wire.len());
        let to = self.wire[at].tell.rank as usize;
        // Computing ranks do not poll; those that are done have handled all that mattered.
        if self.ranks[to].doing == Doing::Computing {
            return;
        }
        let Sent { from, tell } = self.wire.swap_remove(at);
        self.wake(to);
        if self.ranks[to].listener.handle_message(from as u32, tell.epoch, FENCE).unwrap() {
            self.wake_node_of(to);
        }
    }

    fn is_over(&self) -> bool {
        self.ranks.iter().all(|rank| rank.doing == Doing::Done)
    }

    /// Runs to the end; returns `None` when the job is stuck.
    fn run(&mut self) -> Option<usize> {
        // Far more steps than any schedule that is not stuck takes.
        let most = 2_000 * self.ranks.len() * self.last as usize;
        for _ in 0..most {
            if self.is_over() {
                return Some(self.messages);
            }
            if self.random.index(3) == 0 {
                self.deliver();
            } else {
                let at = self.random.index(self.ranks.len());
                self.step(at);
            }
        }
        None
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn all_leave_and_nobody_too_early(
        sizes in prop::collection::vec(1usize..4, 1..20), last in 1u64..6, seed in 1u64..)
    {
        let messages = Job::new(&sizes, last, seed).run();
        let a_node = if sizes.len() <= super::DIRECT {
            sizes.len() - 1
        } else {
            sizes.len().next_power_of_two().ilog2() as usize
        };
        prop_assert_eq!(messages, Some(sizes.len() * a_node * last as usize));
    }
}

#[test]
fn a_message_may_come_before_its_predecessor_and_before_its_receiver() {
    let map = RankMap::from_first(vec![0, 1, 2]).unwrap();
    let lines = Lines::private(1, 2);
    let mut here = BarrierProgress::new(&lines, &map, 0).unwrap();
    let listener = Listener::new(&lines, &map, 0);
    // Barrier 1 is announced before this rank has reached it.
    assert_eq!(listener.handle_message(1, 1, FENCE), Ok(false));
    assert!(!here.arrive(FENCE) && !here.complete());
    assert_eq!(here.poll_message(), Some(BarrierMessage { rank: 1, epoch: 1 }));
    here.on_message_sent();
    assert!(here.complete());
    // Node 1 completes barrier 2 before its message about it is here: the message about 3 implies
    // it.
    assert!(!here.arrive(FENCE) && !here.complete());
    here.on_message_sent();
    assert!(!here.complete());
    assert_eq!(listener.handle_message(1, 3, FENCE), Ok(false));
    assert!(here.complete());
    assert_eq!(listener.handle_message(1, 2, FENCE), Ok(false));
    assert_eq!(lines.last_arrival_of(1), 3);
}

#[test]
fn what_nobody_can_have_said_is_refused() {
    let (lines, map) = (Lines::private(2, 2), RankMap::from_first(vec![0, 2, 4]).unwrap());
    let listener = Listener::new(&lines, &map, 0);
    assert!(listener.handle_message(2, 2, FENCE).is_err(), "this node has not come to barrier 1");
    assert!(listener.handle_message(1, 1, FENCE).is_err(), "a rank of this node");
    assert!(listener.handle_message(9, 1, FENCE).is_err(), "no rank");
    assert_eq!(lines.last_arrival_of(1), 0);
    for wrong in [vec![0, 1, 4], vec![0, 3, 4], vec![0, 2], vec![0, 2, 3, 4]] {
        let wrong = RankMap::from_first(wrong).unwrap();
        assert!(BarrierProgress::new(&lines, &wrong, 0).is_none(), "lines of another job");
    }
    assert!(BarrierProgress::new(&lines, &map, 4).is_none(), "no rank");
}
