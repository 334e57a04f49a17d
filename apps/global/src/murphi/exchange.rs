//! States on their way to their owners, by one-way bulk sends of the runtime.

use crate::murphi::store::StateStore;
use crate::traffic::Traffic;
use anyhow::{Result, bail};
use clump::pgas::{BulkChannel, GlobalResult, Pgas};
use std::cell::{Cell, RefCell};

/// Words that are sent together.
const BATCH_WORDS: usize = 4 << 10;
/// Words of each sender that a receiver has room for: fewer for many ranks.
const MAX_RING_WORDS: usize = 64 << 10;
/// Words of the senders together that a receiver has room for.
const MAX_RINGS_WORDS: usize = 16 << 20;
/// Parent in a record that says to end the search.
const STOP: u64 = u64::MAX;

/// Sends states to their owners, and stores those that come.
#[derive(Debug)]
pub struct StateExchange {
    channel: BulkChannel<u64>,
    me: usize,
    words: usize,
    store: RefCell<StateStore>,
    /// Words that have not been sent, by rank.
    outgoing: RefCell<Vec<Vec<u64>>>,
    /// Words of a state of which the rest has not arrived, by rank.
    partial: RefCell<Vec<Vec<u64>>>,
    stops: Cell<bool>,
    failure: RefCell<Option<std::io::Error>>,
    traffic: RefCell<Traffic>,
}

impl StateExchange {
    /// Opens channels between all ranks. Collective.
    ///
    /// # Errors
    /// Fails if memory has run out, or if a rank is lost.
    pub fn open(gas: &Pgas, store: StateStore, words: usize, traffic: Traffic) -> Result<Self> {
        let (me, ranks) = (gas.rank(), gas.nranks());
        let capacity = (MAX_RINGS_WORDS / ranks).clamp(BATCH_WORDS, MAX_RING_WORDS);
        let channel = BulkChannel::open(gas, if ranks == 1 { 1 } else { capacity })?;
        let none = || RefCell::new(vec![Vec::new(); ranks]);
        let (outgoing, partial) = (none(), none());
        Ok(Self {
            channel,
            me,
            words,
            store: RefCell::new(store),
            outgoing,
            partial,
            stops: Cell::new(false),
            failure: RefCell::default(),
            traffic: RefCell::new(traffic),
        })
    }

    /// Calls a function with this rank's states.
    pub fn with<R>(&self, work: impl FnOnce(&mut StateStore) -> R) -> R {
        work(&mut self.store.borrow_mut())
    }

    /// Returns the words of a state.
    pub fn words(&self) -> usize {
        self.words
    }

    /// Returns the messages so far, for the report.
    pub fn traffic(&self) -> Traffic {
        self.traffic.borrow().clone()
    }

    /// Returns true if a rank has ended the search.
    pub fn stops(&self) -> bool {
        self.stops.get()
    }

    /// Brings a state to its owner, with its parent's key.
    ///
    /// # Errors
    /// Fails if a rank is lost, or if a disk is full.
    pub fn put(&self, owner: usize, state: &[u64], parent: u64) -> Result<()> {
        debug_assert_eq!(state.len(), self.words, "a state");
        if owner == self.me {
            return Ok(self.with(|store| store.insert(state, parent))?);
        }
        let mut outgoing = self.outgoing.borrow_mut();
        let Some(buffer) = outgoing.get_mut(owner) else { bail!("there is no rank {owner}") };
        buffer.extend_from_slice(state);
        buffer.push(parent);
        if buffer.len() < BATCH_WORDS {
            return Ok(());
        }
        drop(outgoing);
        self.send(owner)
    }

    fn send(&self, to: usize) -> Result<()> {
        let mut buffer =
            self.outgoing.borrow_mut().get_mut(to).map(std::mem::take).unwrap_or_default();
        if !buffer.is_empty() {
            self.channel.send(to, &buffer, |from, words| self.take(from, words))?;
            self.traffic.borrow_mut().bulk(to, 8 * buffer.len() as u64);
        }
        buffer.clear();
        if let Some(empty) = self.outgoing.borrow_mut().get_mut(to) {
            *empty = buffer;
        }
        self.check()
    }

    /// Stores states that have come from a rank: whole ones, and parts of others.
    fn take(&self, from: usize, mut words: &[u64]) -> GlobalResult<()> {
        let size = self.words + 1;
        let mut partial = self.partial.borrow_mut();
        let Some(begun) = partial.get_mut(from) else {
            clump_bug::bug!("states have come from rank {from}, which there is not");
            return Ok(());
        };
        if !begun.is_empty() {
            let (rest, behind) = words.split_at((size - begun.len()).min(words.len()));
            begun.extend_from_slice(rest);
            words = behind;
            if begun.len() == size {
                self.insert(begun);
                begun.clear();
            }
        }
        let records = words.chunks_exact(size);
        begun.extend_from_slice(records.remainder());
        debug_assert!(begun.len() < size, "the rest of the state comes");
        records.for_each(|record| self.insert(record));
        Ok(())
    }

    fn insert(&self, record: &[u64]) {
        let Some((parent, state)) = record.split_last() else {
            clump_bug::bug!("a record has a parent");
            return;
        };
        if *parent == STOP {
            self.stops.set(true);
        } else if let Err(error) = self.with(|store| store.insert(state, *parent)) {
            self.failure.borrow_mut().get_or_insert(error);
        }
    }

    fn check(&self) -> Result<()> {
        match self.failure.borrow_mut().take() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// Stores states that have arrived.
    ///
    /// # Errors
    /// Fails if a rank is lost, or if a disk is full.
    pub fn poll(&self) -> Result<()> {
        self.channel.receive(|from, words| self.take(from, words))?;
        self.check()
    }

    /// Sends what is left.
    ///
    /// # Errors
    /// Fails as [`StateExchange::put`] does.
    pub fn flush(&self) -> Result<()> {
        let ranks = self.outgoing.borrow().len();
        (0..ranks).try_for_each(|to| self.send(to))
    }

    /// Ends the search at all ranks.
    ///
    /// # Errors
    /// Fails as [`StateExchange::put`] does.
    pub fn stop(&self) -> Result<()> {
        self.stops.set(true);
        let record = vec![STOP; self.words + 1];
        let ranks = self.outgoing.borrow().len();
        for to in (0..ranks).filter(|to| *to != self.me) {
            if let Some(buffer) = self.outgoing.borrow_mut().get_mut(to) {
                buffer.extend_from_slice(&record);
            }
        }
        self.flush()
    }

    /// Sends what is left of a level, and waits until all states of it are at their owners.
    /// Collective.
    ///
    /// # Errors
    /// Fails if a rank is lost, or if a disk is full.
    pub fn end_level(&self) -> Result<()> {
        self.flush()?;
        self.channel.finish(|from, words| self.take(from, words))?;
        debug_assert!(self.partial.borrow().iter().all(Vec::is_empty), "whole states");
        self.check()
    }

    /// Runs `work` until it has returned false at all ranks and no state is on its way. Collective.
    ///
    /// # Errors
    /// Fails as `work` does, or if a rank is lost, or if a disk is full.
    pub fn run(&self, mut work: impl FnMut() -> Result<bool>) -> Result<()> {
        let mut failure = Ok(());
        let step = || {
            if failure.is_err() {
                return Ok(false);
            }
            let more = self.check().and_then(|()| work()).and_then(|more| {
                if more {
                    return Ok(true);
                }
                self.flush()?;
                Ok(false)
            });
            match more {
                Ok(more) => Ok(more),
                Err(error) => {
                    failure = Err(error);
                    Ok(false)
                }
            }
        };
        self.channel.run(step, |from, words| self.take(from, words))?;
        failure.and_then(|()| self.check())
    }
}
