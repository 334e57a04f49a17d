//! The search, breadth first: all ranks expand their states of a level, and end it together.
//!
//! A level is expanded to its end even if an error is found in it, and of all errors the least is
//! reported. So counts and counterexamples depend on the model alone.

use crate::murphi::engine::{RuleList, StepEngine, StepOutcome};
use crate::murphi::exchange::StateExchange;
use crate::murphi::packing::StatePacking;
use crate::murphi::store::owner;
use crate::murphi::symmetry::StateReduction;
use anyhow::Result;
use clap::ValueEnum;
use clump::{Clump, Max};
use clump_os::{clock, console};

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

/// Class of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorClass {
    /// An invariant does not hold.
    Invariant,
    /// A deadlock.
    Deadlock,
    /// A rule does something wrong.
    Rule,
    /// A start state does something wrong.
    Start,
    /// A loop over a scalarset depends on the order.
    Unordered,
}

/// An error of a model. The least one is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundError {
    /// Rules on the way there.
    pub steps: u64,
    /// Class.
    pub class: ErrorClass,
    /// Key of the state; 0 at start states.
    pub key: u64,
    /// Number of the rule or the invariant.
    pub rule: u64,
    /// Instance of it.
    pub instance: u64,
}

impl FoundError {
    const NONE: [u64; 5] = [u64::MAX; 5];
    const CLASSES: [ErrorClass; 5] = [
        ErrorClass::Invariant,
        ErrorClass::Deadlock,
        ErrorClass::Rule,
        ErrorClass::Start,
        ErrorClass::Unordered,
    ];

    fn to_words(self) -> [u64; 5] {
        [self.steps, self.class as u64, self.key, self.rule, self.instance]
    }

    fn from_words([steps, class, key, rule, instance]: [u64; 5]) -> Option<Self> {
        let class = Self::CLASSES.get(usize::try_from(class).ok()?).copied()?;
        Some(Self { steps, class, key, rule, instance })
    }
}

/// Counts and error of a search, the same on all ranks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchResult {
    /// Distinct states.
    pub states: u64,
    /// Rules that fired.
    pub fired: u64,
    /// Steps to the states that are farthest away.
    pub depth: u64,
    /// Largest number of states of a level.
    pub widest: u64,
    /// Bytes of states, tables and queues of all ranks.
    pub bytes: u64,
    /// States that were dropped for want of memory.
    pub lost: u64,
    /// The least error.
    pub error: Option<FoundError>,
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
    /// States on their way.
    pub exchange: StateExchange,
    /// Kind of state that counts as a deadlock.
    pub deadlock: DeadlockMode,
    /// Seconds between lines of progress; 0: none.
    pub progress: u64,
    /// Largest number of states.
    pub max_states: u64,
}

/// Counts of this rank in a level.
#[derive(Debug, Clone, Copy)]
struct LevelCounts {
    fired: u64,
    error: Option<FoundError>,
}

impl LevelCounts {
    fn found(&mut self, error: FoundError) {
        self.error = Some(self.error.map_or(error, |known| known.min(error)));
    }
}

impl ModelSearch<'_> {
    /// Searches all states. Collective.
    ///
    /// # Errors
    /// Fails if a rank is lost.
    pub fn run(&mut self) -> Result<SearchResult> {
        let began = clock::now_ns();
        let mut shown = began;
        let mut counts = LevelCounts { fired: 0, error: None };
        self.starts(&mut counts)?;
        let mut result = SearchResult::default();
        for level in 0.. {
            let found = self.end_level(&counts, &mut result)?;
            counts = LevelCounts { fired: 0, error: None };
            let ends = found == 0 || result.error.is_some() || result.lost > 0;
            self.show_progress((began, &mut shown), &result, found);
            if ends || result.states > self.max_states {
                return Ok(result);
            }
            result.depth = level;
            for number in 0..self.exchange.with(|store| store.level_states()) {
                self.expand(number, level + 1, &mut counts)?;
                if number % 64 == 0 {
                    self.exchange.poll()?;
                }
            }
        }
        Ok(result)
    }

    /// Makes the start states that this rank owns.
    fn starts(&mut self, counts: &mut LevelCounts) -> Result<()> {
        let undefined = self.engine.undefined();
        let instances: Vec<u64> = self
            .engine
            .rules(RuleList::Starts)
            .iter()
            .map(|it| self.engine.model.instances(it))
            .collect();
        for (rule, count) in instances.into_iter().enumerate() {
            for instance in 0..count {
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
        let mut cells = self.engine.state().to_vec();
        self.reduction.reduce(&self.engine.model, &mut cells);
        let mut words = vec![0; self.packing.words()];
        self.packing.pack(&cells, &mut words);
        let key = self.exchange.with(|store| store.key(&words));
        let to = owner(key, self.cl.nranks());
        if start && to != self.cl.rank() {
            return Ok(());
        }
        self.exchange.put(to, &words, parent)
    }

    /// Checks a state of the level, and fires all its rules.
    fn expand(&mut self, number: u64, steps: u64, counts: &mut LevelCounts) -> Result<()> {
        let mut words = vec![0; self.packing.words()];
        let key = self.exchange.with(|store| {
            store.level_state(number, &mut words);
            store.key(&words)
        });
        let mut from = vec![0; self.engine.model.cells as usize];
        self.packing.unpack(&words, &mut from);
        self.engine.set_state(&from);
        if let Some((rule, instance, _)) = self.engine.violated() {
            let (class, rule) = (ErrorClass::Invariant, rule as u64);
            counts.found(FoundError { steps: steps - 1, class, key, rule, instance });
        }
        let (mut enabled, mut leaves) = (false, false);
        let model = self.engine.model.clone();
        for (rule, definition) in model.rules.iter().enumerate() {
            for instance in 0..model.instances(definition) {
                let class = match self.engine.fire(RuleList::Rules, rule, instance, &from) {
                    StepOutcome::Disabled => continue,
                    StepOutcome::Fired => {
                        counts.fired += 1;
                        enabled = true;
                        if self.engine.state() != from {
                            leaves = true;
                            self.put_state(key, false)?;
                        }
                        self.engine.set_state(&from);
                        continue;
                    }
                    StepOutcome::Failed(_) => ErrorClass::Rule,
                    StepOutcome::Unordered => ErrorClass::Unordered,
                };
                (enabled, leaves) = (true, true);
                counts.found(FoundError { steps, class, key, rule: rule as u64, instance });
                self.engine.set_state(&from);
            }
        }
        let dead = match self.deadlock {
            DeadlockMode::Off => false,
            DeadlockMode::Stuck => !enabled,
            DeadlockMode::Stuttering => !leaves,
        };
        if dead {
            let class = ErrorClass::Deadlock;
            counts.found(FoundError { steps: steps - 1, class, key, rule: 0, instance: 0 });
        }
        Ok(())
    }

    /// Ends a level on all ranks. Returns the number of states that were found in it.
    fn end_level(&mut self, counts: &LevelCounts, result: &mut SearchResult) -> Result<u64> {
        self.exchange.end_level()?;
        // States of the next level may come from now on.
        let (found, lost, bytes) = self.exchange.with(|store| {
            let found = store.found();
            store.advance();
            (found, store.lost(), store.bytes())
        });
        let error = counts.error.map_or(FoundError::NONE, FoundError::to_words);
        let all = self.cl.all_gather([found, lost, bytes, counts.fired])?;
        let errors = self.cl.all_gather(error)?;
        let sum = |of: usize| all.iter().map(|it| it[of]).sum::<u64>();
        let found = sum(0);
        (result.lost, result.bytes) = (sum(1), result.bytes.max(sum(2)));
        result.states += found;
        result.fired += sum(3);
        result.widest = result.widest.max(found);
        result.error = errors.into_iter().filter_map(FoundError::from_words).min();
        Ok(found)
    }

    fn show_progress(&self, (began, shown): (u64, &mut u64), result: &SearchResult, queue: u64) {
        let now = clock::now_ns();
        if self.progress == 0 || self.cl.rank() != 0 || now - *shown < self.progress * 1_000_000_000
        {
            return;
        }
        *shown = now;
        let seconds = (now - began) as f64 / 1e9;
        console::err(&format!(
            "{} states, {} rules fired, {queue} queued, depth {}, {:.0} states/s, {:.1} MB",
            result.states,
            result.fired,
            result.depth,
            result.states as f64 / seconds,
            result.bytes as f64 / 1e6
        ));
    }

    /// Returns the keys of the states on the way to a state, the start state's first. Collective.
    ///
    /// # Errors
    /// Fails if a rank is lost.
    pub fn way_to(&self, key: u64, steps: u64) -> Result<Vec<u64>> {
        let (mut way, mut key) = (vec![key], key);
        while way.len() as u64 <= steps {
            let parent = self.exchange.with(|store| store.parent(key)).unwrap_or(0);
            key = self.cl.all_reduce(parent, Max)?;
            if key == 0 {
                break;
            }
            way.push(key);
        }
        way.reverse();
        Ok(way)
    }
}
