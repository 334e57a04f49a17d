//! The search, breadth first: all ranks expand their states of a level, and end it together.
//!
//! A level is expanded to its end even if an error is found in it, and of all errors the least is
//! reported. So counts and counterexamples depend on the model alone.

use crate::murphi::checkpoint::{Checkpoints, SearchPoint};
use crate::murphi::engine::{RuleList, StepEngine, StepOutcome};
use crate::murphi::exchange::StateExchange;
use crate::murphi::packing::StatePacking;
use crate::murphi::search_result::{ErrorClass, FoundError, SearchResult};
use crate::murphi::store::keys::owner;
use crate::murphi::symmetry::StateReduction;
use anyhow::Result;
use clap::ValueEnum;
use clump::{Clump, Max};
use clump_os::{clock, console};
use std::rc::Rc;

/// Kind of state that counts as a deadlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DeadlockMode {
    /// Nothing
    Off,
    /// A state in which no rule can fire
    Stuck,
    /// A state that no rule leads out of
    Stuttering,
}

impl DeadlockMode {
    /// Returns the name that the command line has for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Stuck => "stuck",
            Self::Stuttering => "stuttering",
        }
    }
}

/// Order of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SearchOrder {
    /// Level by level: a path to an error is a shortest one, and the same in each run
    Levels,
    /// As states come: ranks do not wait for each other at the end of each level
    Asynchronous,
}

impl SearchOrder {
    /// Returns the name that the command line has for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Levels => "levels",
            Self::Asynchronous => "asynchronous",
        }
    }
}

/// Bounds of a search.
#[derive(Debug, Clone)]
pub struct SearchBounds {
    /// Kind of state that counts as a deadlock.
    pub deadlock: DeadlockMode,
    /// Seconds between lines of progress; 0: none.
    pub progress: u64,
    /// The search ends when there are more states.
    pub max_states: u64,
    /// Order.
    pub order: SearchOrder,
}

/// A search, as one rank sees it.
pub struct ModelSearch<'a> {
    /// The job.
    pub cl: &'a Clump,
    /// The model.
    pub engine: StepEngine,
    /// Bits of states.
    pub packing: StatePacking,
    /// Symmetry.
    pub reduction: StateReduction,
    /// States of this rank, and those on their way.
    pub exchange: Rc<StateExchange>,
    /// Bounds.
    pub bounds: SearchBounds,
    /// Checkpoints, if there are any.
    pub checkpoints: Option<Checkpoints>,
    /// A state, packed, that is being worked on.
    words: Vec<u64>,
    /// The state that is being expanded.
    from: Vec<i64>,
}

/// Counts of a level on one rank.
#[derive(Debug, Clone, Copy, Default)]
struct LevelCounts {
    fired: u64,
    error: Option<FoundError>,
}

impl LevelCounts {
    fn found(&mut self, error: FoundError) {
        self.error = Some(self.error.map_or(error, |known| known.min(error)));
    }
}

/// Times of lines of progress.
#[derive(Debug, Clone, Copy)]
struct ProgressClock {
    began: u64,
    shown: u64,
}

impl ProgressClock {
    fn new() -> Self {
        let now = clock::now_ns();
        Self { began: now, shown: now }
    }
}

impl<'a> ModelSearch<'a> {
    /// Creates a search.
    pub fn new(
        cl: &'a Clump,
        engine: StepEngine,
        (packing, reduction): (StatePacking, StateReduction),
        exchange: Rc<StateExchange>,
        bounds: SearchBounds,
    ) -> Self {
        let (words, from) = (vec![0; packing.words()], vec![0; engine.model.cells as usize]);
        let checkpoints = None;
        Self { cl, engine, packing, reduction, exchange, bounds, checkpoints, words, from }
    }

    /// Searches the states of the model. Collective.
    ///
    /// # Errors
    /// Fails if a rank is lost, or if a disk is full.
    pub fn run(&mut self) -> Result<SearchResult> {
        match self.bounds.order {
            SearchOrder::Levels => self.run_levels(),
            SearchOrder::Asynchronous => self.run_asynchronous(),
        }
    }

    fn run_levels(&mut self) -> Result<SearchResult> {
        let mut clock = ProgressClock::new();
        let mut counts = LevelCounts::default();
        let resumed = match &mut self.checkpoints {
            Some(checkpoints) => checkpoints.resume(self.cl, &self.exchange)?,
            None => None,
        };
        let mut point = match resumed {
            Some(point) => point,
            None => {
                let mut point = SearchPoint::default();
                self.starts(&mut counts)?;
                point.found = self.end_level(&counts, &mut point.result)?;
                point
            }
        };
        loop {
            let SearchPoint { result, level, found } = &mut point;
            let ends = *found == 0 || result.error.is_some() || result.lost > 0;
            result.ended_early = result.states > self.bounds.max_states;
            if ends || result.ended_early {
                return Ok(point.result);
            }
            result.depth = *level;
            counts = LevelCounts::default();
            let states = self.exchange.with(|store| store.level_states());
            for number in 0..states {
                self.expand(number, *level + 1, &mut counts)?;
                if number % 64 == 0 {
                    self.exchange.poll()?;
                    let within = || format!("rank 0 has {number} of {states} of level {level}: ");
                    self.show_progress(&mut clock, within, (result, *found));
                }
            }
            *found = self.end_level(&counts, result)?;
            *level += 1;
            self.show_progress(&mut clock, String::new, (result, *found));
            if let Some(checkpoints) = &mut self.checkpoints
                && point.result.error.is_none()
            {
                checkpoints.save_if_due(self.cl, &self.exchange, &point)?;
            }
        }
    }

    /// Searches without levels: each rank expands states as they come.
    fn run_asynchronous(&mut self) -> Result<SearchResult> {
        let mut clock = ProgressClock::new();
        let mut counts = LevelCounts::default();
        self.starts(&mut counts)?;
        let exchange = self.exchange.clone();
        let (mut next, mut states) = (0, 0);
        let limit = self.bounds.max_states / self.cl.nranks() as u64;
        exchange.run(|| {
            if self.exchange.stops() {
                return Ok(false);
            }
            if next == self.exchange.with(|store| store.level_states()) {
                let found = self.exchange.with(|store| store.advance())?;
                (next, states) = (0, states + found);
                let fired = counts.fired;
                let shown = SearchResult { states, fired, ..SearchResult::default() };
                self.show_progress(&mut clock, || "rank 0: ".to_owned(), (&shown, found));
                let lost = self.exchange.with(|store| store.lost());
                if lost > 0 || states > limit {
                    self.exchange.stop()?;
                    return Ok(false);
                }
                return Ok(found > 0);
            }
            for _ in 0..64 {
                if next == self.exchange.with(|store| store.level_states()) {
                    break;
                }
                self.expand(next, 0, &mut counts)?;
                next += 1;
            }
            if counts.error.is_some() {
                self.exchange.stop()?;
            }
            Ok(true)
        })?;
        let mut result = SearchResult::default();
        self.exchange.with(|store| store.advance())?;
        self.gather(states, &counts, &mut result)?;
        let stops = u64::from(self.exchange.stops());
        result.ended_early = self.cl.all_reduce(stops, Max)? > 0;
        Ok(result)
    }

    /// Makes the start states that this rank owns.
    fn starts(&mut self, counts: &mut LevelCounts) -> Result<()> {
        let undefined = self.engine.undefined();
        let model = self.engine.model.clone();
        for (rule, definition) in model.starts.iter().enumerate() {
            for instance in 0..model.instances(definition) {
                self.engine.set_state(&undefined);
                match self.engine.fire(RuleList::Starts, rule, instance, &undefined) {
                    StepOutcome::Disabled => (),
                    StepOutcome::Fired => self.put_state(0, true)?,
                    StepOutcome::Failed(_) | StepOutcome::Unordered => {
                        let (class, rule) = (ErrorClass::Start, rule as u64);
                        counts.found(FoundError { steps: 0, class, key: 0, rule, instance });
                    }
                }
            }
        }
        Ok(())
    }

    /// Brings the engine's state to its owner; a start state only if that is this rank.
    fn put_state(&mut self, parent: u64, start: bool) -> Result<()> {
        if self.reduction.changes() {
            let mut cells = self.engine.state().to_vec();
            self.reduction.reduce(&self.engine.model, &mut cells);
            self.engine.set_state(&cells);
        }
        self.engine.pack(&self.packing, &mut self.words);
        let key = self.exchange.with(|store| store.key(&self.words));
        let to = owner(key, self.cl.nranks());
        if start && to != self.cl.rank() {
            return Ok(());
        }
        self.exchange.put(to, &self.words, parent)
    }

    /// Checks a state of the level, and fires all its rules.
    fn expand(&mut self, number: u64, steps: u64, counts: &mut LevelCounts) -> Result<()> {
        let mut words = std::mem::take(&mut self.words);
        let key = self.exchange.with(|store| {
            store.level_state(number, &mut words)?;
            Ok::<_, std::io::Error>(store.key(&words))
        })?;
        self.engine.unpack(&self.packing, &mut words);
        self.words = words;
        let mut from = std::mem::take(&mut self.from);
        from.copy_from_slice(self.engine.state());
        let result = self.fire_all((key, steps), &from, counts);
        self.from = from;
        result
    }

    fn fire_all(
        &mut self,
        (key, steps): (u64, u64),
        from: &[i64],
        counts: &mut LevelCounts,
    ) -> Result<()> {
        if let Some((rule, instance, _)) = self.engine.violated() {
            let (class, rule, steps) = (ErrorClass::Invariant, rule as u64, steps.max(1) - 1);
            counts.found(FoundError { steps, class, key, rule, instance });
        }
        let (mut enabled, mut leaves) = (false, false);
        let model = self.engine.model.clone();
        for (rule, definition) in model.rules.iter().enumerate() {
            for instance in 0..model.instances(definition) {
                let class = match self.engine.fire(RuleList::Rules, rule, instance, from) {
                    StepOutcome::Disabled => continue,
                    StepOutcome::Fired => {
                        counts.fired += 1;
                        enabled = true;
                        if self.engine.state() != from {
                            leaves = true;
                            self.put_state(key, false)?;
                        }
                        self.engine.set_state(from);
                        continue;
                    }
                    StepOutcome::Failed(_) => ErrorClass::Rule,
                    StepOutcome::Unordered => ErrorClass::Unordered,
                };
                (enabled, leaves) = (true, true);
                counts.found(FoundError { steps, class, key, rule: rule as u64, instance });
                self.engine.set_state(from);
            }
        }
        let dead = match self.bounds.deadlock {
            DeadlockMode::Off => false,
            DeadlockMode::Stuck => !enabled,
            DeadlockMode::Stuttering => !leaves,
        };
        if dead {
            let (class, steps) = (ErrorClass::Deadlock, steps.max(1) - 1);
            counts.found(FoundError { steps, class, key, rule: 0, instance: 0 });
        }
        Ok(())
    }

    /// Ends a level on all ranks. Returns the number of states that were found in it.
    fn end_level(&mut self, counts: &LevelCounts, result: &mut SearchResult) -> Result<u64> {
        self.exchange.end_level()?;
        // States of the next level may come from now on.
        let found = self.exchange.with(|store| store.advance())?;
        self.gather(found, counts, result)
    }

    /// Adds what all ranks have found to a result. Returns the number of states.
    fn gather(&self, found: u64, counts: &LevelCounts, result: &mut SearchResult) -> Result<u64> {
        let mine = self.exchange.with(|store| {
            let bytes = [store.peak_bytes(), store.disk_bytes(), store.key_bytes()];
            [found, counts.fired, store.lost(), bytes[0], bytes[1], bytes[2]]
        });
        let error = counts.error.map_or(FoundError::NONE, FoundError::to_words);
        let all = self.cl.all_gather(mine)?;
        let errors = self.cl.all_gather(error)?;
        let sum = |of: usize| all.iter().map(|it| it[of]).sum::<u64>();
        let found = sum(0);
        result.states += found;
        result.fired += sum(1);
        result.lost = sum(2);
        result.bytes = result.bytes.max(sum(3));
        result.disk_bytes = result.disk_bytes.max(sum(4));
        result.key_bytes = result.key_bytes.max(sum(5));
        result.widest = result.widest.max(found);
        result.error = errors.into_iter().filter_map(FoundError::from_words).min();
        Ok(found)
    }

    /// Shows counts, if it is time. Within a level they are those of its begin.
    fn show_progress(
        &self,
        clock: &mut ProgressClock,
        place: impl FnOnce() -> String,
        (result, queue): (&SearchResult, u64),
    ) {
        let now = clock::now_ns();
        let ProgressClock { began, shown } = *clock;
        let waits = self.bounds.progress * 1_000_000_000;
        if waits == 0 || self.cl.rank() != 0 || now - shown < waits {
            return;
        }
        clock.shown = now;
        let seconds = (now - began) as f64 / 1e9;
        let bytes = self.exchange.with(|store| store.bytes() * self.cl.nranks() as u64);
        console::err(&format!(
            "{}{} states, {} rules fired, {queue} queued, depth {}, {:.0} states/s, {:.1} MB",
            place(),
            result.states,
            result.fired,
            result.depth,
            result.states as f64 / seconds,
            result.bytes.max(bytes) as f64 / 1e6
        ));
    }

    /// Returns the keys of the states on the way to a state, the start state's first; `None` if
    /// parents were not kept. Collective.
    ///
    /// # Errors
    /// Fails if a rank is lost, or if a file cannot be read.
    pub fn way_to(&self, key: u64, steps: u64) -> Result<Option<Vec<u64>>> {
        let levels = self.bounds.order == SearchOrder::Levels;
        let (mut way, mut key, mut level) = (vec![key], key, steps);
        loop {
            let parent = self.exchange.with(|store| store.parent(key, levels.then_some(level)));
            let parent = parent?.map_or(0, |parent| parent.saturating_add(1));
            let parent = self.cl.all_reduce(parent, Max)?;
            key = match parent {
                0 => return Ok(None),
                1 => break,
                parent => parent - 1,
            };
            way.push(key);
            level = level.saturating_sub(1);
        }
        way.reverse();
        Ok(Some(way))
    }
}
