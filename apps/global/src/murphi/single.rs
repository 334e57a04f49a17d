//! A search in one process, by byte code or machine code.

use crate::murphi::engine::{RuleList, StepEngine, StepOutcome};
use crate::murphi::explorer::DeadlockMode;
use crate::murphi::packing::StatePacking;
use crate::murphi::path::{PathFinder, ReplayedPath};
use crate::murphi::search_result::{ErrorClass, FoundError};
use crate::murphi::store::StateStore;
use crate::murphi::store::keys::StoreBounds;
use crate::murphi::symmetry::{StateReduction, SymmetryMode};
use crate::murphi::tree::CheckedModel;
use std::rc::Rc;

/// Bytes of memory for states.
const MAX_BYTES: u64 = 1 << 30;

/// A search.
#[derive(Debug)]
pub struct SingleSearch {
    /// The model.
    pub engine: StepEngine,
    /// Bits of states.
    pub packing: StatePacking,
    /// Symmetry.
    pub reduction: StateReduction,
    /// States.
    pub store: StateStore,
    /// Rules that fired.
    pub fired: u64,
    /// The first thing that the model does wrong.
    pub failure: Option<String>,
    /// The error.
    pub error: Option<FoundError>,
}

impl SingleSearch {
    /// Creates a search.
    ///
    /// # Errors
    /// Fails if the model has no symmetry, and one is to be used.
    pub fn new(model: CheckedModel, mode: SymmetryMode) -> Result<Self, String> {
        let reduction = StateReduction::new(&model, mode)?;
        let packing = StatePacking::of(&model);
        let store = StateStore::new(StoreBounds {
            words: packing.words(),
            compact: None,
            max_bytes: MAX_BYTES,
            spill: None,
            traces: true,
        });
        let store = store.map_err(|error| error.to_string())?;
        let engine = StepEngine::new(Rc::new(model), mode != SymmetryMode::Off);
        Ok(Self { engine, packing, reduction, store, fired: 0, failure: None, error: None })
    }

    fn put(&mut self, parent: u64) -> std::io::Result<()> {
        let mut cells = self.engine.state().to_vec();
        self.reduction.reduce(&self.engine.model, &mut cells);
        self.engine.set_state(&cells);
        let mut words = vec![0; self.packing.words()];
        self.engine.pack(&self.packing, &mut words);
        self.store.insert(&words, parent)
    }

    fn fire_all(
        &mut self,
        list: RuleList,
        from: &[i64],
        (parent, steps): (u64, u64),
    ) -> std::io::Result<()> {
        let model = self.engine.model.clone();
        for rule in 0..self.engine.rules(list).len() {
            let count = self.engine.rules(list).get(rule).map_or(0, |it| model.instances(it));
            for instance in 0..count {
                self.engine.set_state(from);
                match self.engine.fire(list, rule, instance, from) {
                    StepOutcome::Disabled => (),
                    StepOutcome::Fired => {
                        self.fired += u64::from(list == RuleList::Rules);
                        self.put(parent)?;
                    }
                    StepOutcome::Failed(failure) => {
                        let line = format!("{}: {}", failure.at, failure.what);
                        self.failure.get_or_insert(line);
                        let starts = list == RuleList::Starts;
                        let class = if starts { ErrorClass::Start } else { ErrorClass::Rule };
                        let (rule, key) = (rule as u64, parent);
                        let error = FoundError { steps, class, key, rule, instance };
                        self.error.get_or_insert(error);
                    }
                    StepOutcome::Unordered => self.failure = Some("unordered".into()),
                }
            }
        }
        Ok(())
    }

    /// Searches level by level, up to the first with an error.
    ///
    /// # Errors
    /// Never fails: states are in memory.
    pub fn run(&mut self) -> std::io::Result<()> {
        let undefined = self.engine.undefined();
        self.fire_all(RuleList::Starts, &undefined, (0, 0))?;
        self.run_levels()
    }

    /// Searches from a state instead of the model's start states.
    ///
    /// # Errors
    /// Never fails: states are in memory.
    #[cfg(test)]
    pub fn run_from(&mut self, state: &[i64]) -> std::io::Result<()> {
        debug_assert_eq!(state.len(), self.engine.undefined().len(), "a state of the model");
        self.engine.set_state(state);
        self.put(0)?;
        self.run_levels()
    }

    fn run_levels(&mut self) -> std::io::Result<()> {
        for steps in 0.. {
            if self.store.advance()? == 0 || self.failure.is_some() {
                break;
            }
            for number in 0..self.store.level_states() {
                let mut words = vec![0; self.packing.words()];
                self.store.level_state(number, &mut words)?;
                let key = self.store.key(&words);
                self.engine.unpack(&self.packing, &mut words);
                let from = self.engine.state().to_vec();
                if let Some((rule, instance, _)) = self.engine.violated() {
                    self.failure.get_or_insert("invariant".into());
                    let (class, rule) = (ErrorClass::Invariant, rule as u64);
                    self.error.get_or_insert(FoundError { steps, class, key, rule, instance });
                }
                self.fire_all(RuleList::Rules, &from, (key, steps + 1))?;
            }
        }
        Ok(())
    }

    /// Returns the path to the error, replayed.
    pub fn path(&mut self) -> Option<ReplayedPath> {
        let error = self.error?;
        let (mut keys, mut key) = (Vec::new(), error.key);
        while key != 0 {
            keys.push(key);
            key = self.store.parent(key, None).ok()??;
        }
        keys.reverse();
        let (packing, reduction) = (&self.packing, &self.reduction);
        let (engine, keys_of) = (&mut self.engine, &self.store);
        let deadlock = DeadlockMode::Off;
        let mut finder = PathFinder { engine, packing, reduction, keys: keys_of, deadlock };
        let path = finder.path(&keys)?;
        finder.replay(&path, error)
    }
}
