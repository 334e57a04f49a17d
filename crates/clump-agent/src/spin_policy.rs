//! Time that ranks of this node should spin and yield before they sleep: measured, not guessed.
//!
//! With a core of its own a rank spins for twice the measured wake-up latency, within 10 to 40 us,
//! so that waiting costs a small multiple of the best choice, and yields a few times. With more
//! ranks than cores a spinning rank takes time from the rank it waits for. It yields almost at
//! once, and sleeps a little later, because a turn of all ranks through the yields is cheaper than
//! a sleep and a wake each.

use clump_boot::Config;
use clump_os::fence::{self, FenceKind};
use clump_os::sync::{AtomicU32, Ordering};
use clump_os::{clock, futex, thread};
use std::sync::Arc;
use std::time::Duration;

/// Costs of waiting on this machine now, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitCosts {
    /// Time to yield the processor and get it back, with no other thread waiting for it.
    pub yield_ns: u64,
    /// Time from the call that wakes a sleeping thread to that thread running.
    pub wake_ns: u64,
}

/// Time to spin and to yield, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpinPolicy {
    /// Time to spin before yielding.
    pub spin_ns: u64,
    /// Time to yield before sleeping.
    pub yield_ns: u64,
}

/// Cost of a wake-up on an ordinary machine, if it cannot be measured.
const USUAL_WAKE_NS: u64 = 10_000;
/// Longest time that each measurement may take: on a busy machine one yield can take milliseconds.
const BUDGET_NS: u64 = 1_000_000;

impl WaitCosts {
    /// Measures, within 3 ms. Starts a thread and ends it.
    pub fn measure() -> Self {
        Self { yield_ns: yield_cost(), wake_ns: wake_cost() }
    }
}

impl SpinPolicy {
    /// Returns the policy for `ranks` ranks on `cores` cores.
    pub fn suited(ranks: usize, cores: usize, costs: WaitCosts) -> Self {
        if ranks <= cores {
            let spin_ns = (costs.wake_ns * 2).clamp(10_000, 40_000);
            return Self { spin_ns, yield_ns: (costs.yield_ns * 8).clamp(2_000, 20_000) };
        }
        let spin_ns = costs.yield_ns.clamp(300, 1_000);
        Self { spin_ns, yield_ns: (costs.wake_ns * 4).clamp(30_000, 80_000) }
    }

    /// Returns the policy for this machine; the configuration's values prevail.
    pub fn effective(config: &Config, ranks: usize, cores: usize) -> Self {
        if config.lab.spin_ns != 0 && config.lab.yield_ns != 0 {
            return Self { spin_ns: config.lab.spin_ns, yield_ns: config.lab.yield_ns };
        }
        let measured = Self::suited(ranks, cores, WaitCosts::measure());
        let or = |set: u64, measured: u64| if set == 0 { measured } else { set };
        Self {
            spin_ns: or(config.lab.spin_ns, measured.spin_ns),
            yield_ns: or(config.lab.yield_ns, measured.yield_ns),
        }
    }
}

/// Returns the fence for `ranks` ranks on `cores` cores. Ranks without a core of their own sleep
/// and wake all the time, and the asymmetric fence interrupts all processors each time, for one
/// caller after the other.
pub fn suited_fence(ranks: usize, cores: usize) -> FenceKind {
    if ranks > cores { FenceKind::Symmetric } else { fence::register() }
}

fn yield_cost() -> u64 {
    let start = clock::now_ns();
    let mut least = u64::MAX;
    for _ in 0..64 {
        let before = clock::now_ns();
        clock::yield_now();
        let after = clock::now_ns();
        least = least.min(after - before);
        if after - start > BUDGET_NS {
            break;
        }
    }
    least.max(1)
}

/// Word of two threads that wake each other in turn: even, the measuring thread's turn; odd, its
/// partner's; [`STOP`], the measurement has ended.
type TurnWord = AtomicU32;
/// Value of a [`TurnWord`] after the measurement.
const STOP: u32 = u32::MAX;

/// Gives the turn back, unless the measurement has ended since `turn` was read: its end stays.
fn give_back(word: &TurnWord, turn: u32) {
    debug_assert!(turn % 2 == 1 && turn != STOP, "not the partner's turn");
    let given = word.compare_exchange(turn, turn + 1, Ordering::AcqRel, Ordering::Acquire);
    debug_assert!(given == Ok(turn) || given == Err(STOP), "the turn was taken away");
    futex::wake_all(word);
}

/// Runs the partner of the measuring thread until the measurement ends.
fn answer_turns(word: &TurnWord) {
    loop {
        match word.load(Ordering::Acquire) {
            STOP => return,
            turn if turn % 2 == 0 => {
                futex::wait(word, turn, Some(Duration::from_millis(1)));
            }
            turn => give_back(word, turn),
        }
    }
}

/// Measures half the median round trip of two threads that sleep for each other.
fn wake_cost() -> u64 {
    let word = Arc::new(TurnWord::new(0));
    let theirs = word.clone();
    let partner = thread::spawn("clump-wake", move || answer_turns(&theirs));
    // If no thread can be started, the usual cost serves: ranks are what such a limit is for.
    let Ok(partner) = partner else { return USUAL_WAKE_NS };
    let start = clock::now_ns();
    let mut trips = Vec::with_capacity(64);
    while trips.len() < 64 && clock::now_ns() - start < BUDGET_NS {
        let before = clock::now_ns();
        let turn = word.load(Ordering::Acquire) + 1;
        word.store(turn, Ordering::Release);
        futex::wake_all(&word);
        while word.load(Ordering::Acquire) == turn && clock::now_ns() - start < BUDGET_NS {
            futex::wait(&word, turn, Some(Duration::from_micros(200)));
        }
        trips.push(clock::now_ns() - before);
    }
    word.store(STOP, Ordering::Release);
    futex::wake_all(&word);
    let _ = partner.join();
    trips.sort_unstable();
    trips.get(trips.len() / 2).map_or(USUAL_WAKE_NS, |trip| (trip / 2).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_without_a_core_of_their_own_interrupt_no_processor() {
        assert_eq!(suited_fence(16, 2), FenceKind::Symmetric);
        assert_eq!(suited_fence(2, 1), FenceKind::Symmetric);
        assert_eq!(suited_fence(2, 2), fence::register());
    }

    #[test]
    fn costs_are_plausible() {
        let costs = WaitCosts::measure();
        assert!(costs.yield_ns > 0 && costs.wake_ns > 0, "{costs:?}");
    }

    #[test]
    fn a_measurement_that_ends_during_the_turn_of_the_partner_has_ended() {
        let word = TurnWord::new(1);
        word.store(STOP, Ordering::Release);
        give_back(&word, 1);
        assert_eq!(word.load(Ordering::Acquire), STOP, "the partner would wait for ever");
        // Also beside a measuring thread that ends at any time.
        for end in 0..200 {
            let word = TurnWord::new(1);
            std::thread::scope(|scope| {
                scope.spawn(|| answer_turns(&word));
                (0..end).for_each(|_| std::hint::spin_loop());
                word.store(STOP, Ordering::Release);
                futex::wake_all(&word);
            });
        }
    }

    #[test]
    fn who_shares_a_core_hardly_spins() {
        for costs in [(1, 1), (500, 8_000), (u64::from(u32::MAX), u64::from(u32::MAX))] {
            let costs = WaitCosts { yield_ns: costs.0, wake_ns: costs.1 };
            let own = SpinPolicy::suited(2, 2, costs);
            let shared = SpinPolicy::suited(3, 2, costs);
            assert!((10_000..=40_000).contains(&own.spin_ns));
            assert!((300..=1_000).contains(&shared.spin_ns));
            assert!((30_000..=80_000).contains(&shared.yield_ns));
        }
    }

    #[test]
    fn the_user_decides() {
        let config = Config::load_with(&[("lab", "spin=7ns,yield=9ns")]).unwrap();
        assert_eq!(SpinPolicy::effective(&config, 1, 1), SpinPolicy { spin_ns: 7, yield_ns: 9 });
        let config = Config::load_with(&[("lab", "spin=7ns")]).unwrap();
        assert_eq!(SpinPolicy::effective(&config, 1, 1).spin_ns, 7);
    }
}
