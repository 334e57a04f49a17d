//! The computation of an actor between two calls of the runtime.

use clump_os::clock;
use clump_os::sync::{AtomicBool, AtomicU64, Ordering::Relaxed};
use clump_virtual::{CallKind, Compute, RecordedCosts, Recording};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// No cost was given.
const NONE: u64 = u64::MAX;
/// Time for which the thread has no processor in a part that lost it: longer than clocks are read
/// at different times.
const LOST_NS: u64 = 5_000;

/// The part of the program that an actor executes now.
#[derive(Debug)]
pub struct Computation {
    compute: Compute,
    /// Time of computation by time here, in millionths.
    cpu_ppm: u64,
    /// Processor time at its beginning.
    since_ns: AtomicU64,
    /// Time of the machine then, and computation in parts that lost the processor.
    ticked_ns: AtomicU64,
    preempted_ns: AtomicU64,
    /// True inside a call of the runtime, which costs what the machine says.
    inside: AtomicBool,
    in_handler: AtomicBool,
    /// Calls of the runtime that make others of its calls, and those that a handler interrupts.
    held: AtomicU64,
    interrupted: AtomicU64,
    /// True while the runtime sends what it has collected, and that of what a handler interrupts.
    collected: AtomicBool,
    interrupted_collected: AtomicBool,
    /// Processor time of a page fault here, and what is to be left out of parts for faults.
    fault_ns: AtomicU64,
    left_out_ns: AtomicU64,
    /// The cost that the program gave for this part.
    given_ns: AtomicU64,
    script: Mutex<Script>,
}

/// A recording that is made or charged.
#[derive(Debug)]
enum Script {
    None,
    /// With what was recorded before, the least of which is kept.
    Record(Box<(Recording, Option<Recording>)>),
    Replay(Box<RecordedCosts>),
}

impl Computation {
    /// Begins inside of a call.
    pub(super) fn new(compute: Compute, cpu_ppm: u64) -> Self {
        debug_assert!(compute != Compute::Fixed(NONE), "the mark of no cost");
        let given_ns = AtomicU64::new(NONE);
        let [since_ns, ticked_ns, preempted_ns, fault_ns, left_out_ns] =
            [0, 0, 0, 0, 0].map(AtomicU64::new);
        let (inside, in_handler) = (AtomicBool::new(true), AtomicBool::new(false));
        let (held, interrupted) = (AtomicU64::new(0), AtomicU64::new(0));
        let [collected, interrupted_collected] = [false, false].map(AtomicBool::new);
        let script = match compute.is_recorded() {
            true => Script::Record(Box::default()),
            false => Script::None,
        };
        Self {
            compute,
            cpu_ppm,
            since_ns,
            ticked_ns,
            preempted_ns,
            inside,
            in_handler,
            held,
            interrupted,
            collected,
            interrupted_collected,
            fault_ns,
            left_out_ns,
            given_ns,
            script: Mutex::new(script),
        }
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a recording of before: charges it from its beginning, or keeps the least of it and of
    /// what is recorded now.
    pub(super) fn take(&self, recording: Recording) {
        debug_assert!(matches!(self.compute, Compute::Replay | Compute::Learn), "others need none");
        *self.script() = match self.compute.is_recorded() {
            true => Script::Record(Box::new((Recording::default(), Some(recording)))),
            false => Script::Replay(Box::new(RecordedCosts::new(recording))),
        };
    }

    /// Returns what was recorded; it is gone then.
    pub(super) fn take_recorded(&self) -> Option<Recording> {
        match std::mem::replace(&mut *self.script(), Script::None) {
            Script::Record(recorded) => match *recorded {
                (recording, None) => Some(recording),
                (recording, Some(mut least)) => {
                    least.lower_to(recording);
                    Some(least)
                }
            },
            Script::None | Script::Replay(_) => None,
        }
    }

    /// Returns the computation in parts that lost the processor.
    pub(super) fn preempted_ns(&self) -> u64 {
        self.preempted_ns.load(Relaxed)
    }

    /// Returns the cost of what the program did that was not recorded.
    pub(super) fn diverged_ns(&self) -> u64 {
        match &*self.script() {
            Script::Replay(replay) => self.scaled(replay.diverged_ns()),
            _ => 0,
        }
    }

    fn scaled(&self, ns: u64) -> u64 {
        let ns = u128::from(ns) * u128::from(self.cpu_ppm) / 1_000_000;
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Returns true if reading a clock ends a part, as it does wherever parts differ: what was
    /// recorded is charged at the same reading, and the program sees the same time. Where the
    /// program gives the cost of a part, its time stands still.
    pub(super) fn ends_at_readings(&self) -> bool {
        let differs = !matches!(self.compute, Compute::Fixed(_));
        debug_assert!(!self.compute.is_recorded() || differs, "what is recorded is measured");
        differs && self.given_ns.load(Relaxed) == NONE
    }

    /// Notes that the runtime sends what it has collected, or no longer does. Returns what it did
    /// before.
    pub(super) fn set_collected(&self, is: bool) -> bool {
        debug_assert!(!is || self.inside.load(Relaxed), "a call of the runtime sends it");
        self.collected.swap(is, Relaxed)
    }

    /// Returns true while the runtime sends what it has collected.
    pub(super) fn is_collected(&self) -> bool {
        self.collected.load(Relaxed)
    }

    /// Returns the processor time of this part here.
    fn measured_ns(&self) -> u64 {
        if !self.compute.is_measured() {
            return 0;
        }
        debug_assert!(self.since_ns.load(Relaxed) <= clock::processor_ns(), "it began before");
        let ns = clock::processor_ns().saturating_sub(self.since_ns.load(Relaxed));
        // A part that is shorter leaves the rest to the next.
        let left_out_ns = self.left_out_ns.load(Relaxed);
        self.left_out_ns.store(left_out_ns.saturating_sub(ns), Relaxed);
        ns.saturating_sub(left_out_ns)
    }

    /// Notes the processor time that a page fault takes here outside of calls: it is no
    /// computation of the program.
    pub fn set_fault_here(&self, ns: u64) {
        debug_assert!(ns < NONE, "a time");
        self.fault_ns.store(ns, Relaxed);
    }

    /// Leaves a page fault of the kernel out of the part that runs, and of the next.
    pub(super) fn leave_out_fault(&self) {
        if self.compute.is_measured() && !self.inside.load(Relaxed) {
            let left_out_ns = self.left_out_ns.load(Relaxed);
            debug_assert!(left_out_ns < NONE, "parts are longer than faults at last");
            let fault_ns = self.fault_ns.load(Relaxed);
            self.left_out_ns.store(left_out_ns.saturating_add(fault_ns), Relaxed);
        }
    }

    /// Notes the part that ends, of that processor time, if the thread had no processor for some of
    /// its time: its caches are cold then.
    fn note_preempted(&self, ns: u64) {
        debug_assert!(self.compute.is_measured(), "nothing else is");
        let passed_ns = clock::ticked_ns().saturating_sub(self.ticked_ns.load(Relaxed));
        if passed_ns > ns.saturating_add(LOST_NS) {
            self.preempted_ns.store(self.preempted_ns().saturating_add(self.scaled(ns)), Relaxed);
        }
        debug_assert!(self.preempted_ns() < NONE, "a job ends before");
    }

    /// Enters a call of the runtime: returns the cost of the part that ends here; `None` inside of
    /// a call.
    pub(super) fn end_part(&self, kind: CallKind) -> Option<u64> {
        if self.inside.swap(true, Relaxed) {
            return None;
        }
        let given_ns = self.given_ns.swap(NONE, Relaxed);
        debug_assert!(self.held.load(Relaxed) == 0, "a call that makes others is inside");
        debug_assert!(self.inside.load(Relaxed), "the call has begun");
        let given = (given_ns != NONE).then_some(given_ns);
        let ns = match self.compute {
            Compute::Measured | Compute::Record | Compute::Learn => {
                let ns = self.measured_ns();
                if given.is_none() {
                    self.note_preempted(ns);
                }
                self.scripted(kind, ns, given)
            }
            Compute::Replay => self.scripted(kind, 0, given),
            Compute::Fixed(_) if self.in_handler.load(Relaxed) => 0,
            Compute::Fixed(ns) => ns,
        };
        Some(given.unwrap_or(ns))
    }

    /// Notes a part in the recording that is made, or finds it in the one that is charged; returns
    /// its cost.
    fn scripted(&self, kind: CallKind, measured_ns: u64, given: Option<u64>) -> u64 {
        if self.compute == Compute::Measured {
            return self.scaled(measured_ns);
        }
        debug_assert!(self.inside.load(Relaxed), "a call has begun");
        match &mut *self.script() {
            Script::Record(recorded) => {
                // What the program gives it gives again.
                recorded.0.note(kind, if given.is_some() { 0 } else { measured_ns });
                self.scaled(measured_ns)
            }
            Script::Replay(replay) => self.scaled(replay.part(kind)),
            Script::None => 0,
        }
    }

    /// Enters a call of the runtime, and charges nothing.
    pub(super) fn skip_part(&self) {
        self.inside.store(true, Relaxed);
        debug_assert!(self.end_part(CallKind::Other).is_none(), "it charges nothing");
    }

    /// Leaves a call of the runtime: a part begins, unless it was called by another such call.
    pub(super) fn begin_part(&self) {
        if self.held.load(Relaxed) > 0 {
            return;
        }
        if self.compute.is_measured() {
            self.ticked_ns.store(clock::ticked_ns(), Relaxed);
            self.since_ns.store(clock::processor_ns(), Relaxed);
        }
        self.inside.store(false, Relaxed);
        debug_assert!(self.held.load(Relaxed) == 0, "no other call goes on");
    }

    /// Begins the handler of a message, or ends it: the parts of the program that follow are its.
    /// Returns what is left of its cost at the end.
    pub(super) fn set_handled(&self, message: Option<u64>) -> u64 {
        let is = message.is_some();
        let before = self.in_handler.swap(is, Relaxed);
        debug_assert_ne!(before, is, "no handler runs inside another");
        if is {
            self.interrupted.store(self.held.swap(0, Relaxed), Relaxed);
            self.interrupted_collected.store(self.collected.swap(false, Relaxed), Relaxed);
        } else {
            self.held.store(self.interrupted.load(Relaxed), Relaxed);
            self.collected.store(self.interrupted_collected.load(Relaxed), Relaxed);
        }
        if matches!(self.compute, Compute::Measured | Compute::Fixed(_)) {
            return 0;
        }
        match &mut *self.script() {
            Script::Record(recorded) => {
                recorded.0.set_handled(message);
                0
            }
            Script::Replay(replay) => self.scaled(replay.set_handled(message)),
            Script::None => 0,
        }
    }

    /// Returns true while a handler runs.
    pub fn is_in_handler(&self) -> bool {
        self.in_handler.load(Relaxed)
    }

    /// Begins (1) or ends (-1) a call of the runtime that makes others.
    pub(super) fn hold(&self, more: bool) {
        let held = self.held.load(Relaxed);
        debug_assert!(more || held > 0, "each call ends once");
        self.held.store(if more { held + 1 } else { held.saturating_sub(1) }, Relaxed);
    }

    /// Gives the cost of this part, beside what was given before.
    pub(super) fn give(&self, ns: u64) {
        let before = self.given_ns.load(Relaxed);
        let before = if before == NONE { 0 } else { before };
        debug_assert!(before < NONE, "costs add up to less than no cost");
        self.given_ns.store(before.saturating_add(ns).min(NONE - 1), Relaxed);
    }
}
