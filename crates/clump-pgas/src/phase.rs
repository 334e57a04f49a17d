//! Gets that complete together, at the closing brace of a phase. Those of up to eight bytes are
//! collected as updates are.

use crate::aggregator::PeerSegment;
use crate::element::Element;
use crate::error::Result;
use crate::global_ptr::GlobalPtr;
use crate::global_ref::{GlobalRef, read_from};
use crate::pgas::Pgas;
use clump_rma::SegmentName;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use zerocopy::IntoBytes;

/// Words that are collected before they are requested.
const MAX_WANTED: usize = 1 << 15;

/// Gets in flight. Buffers are borrowed until the phase ends:
/// ```
/// # use clump_pgas::{Pgas, Result, Spread};
/// # fn gather(gas: &Pgas, table: &Spread<u64>) -> Result<u64> {
/// let (mut a, mut b) = (0, 0);
/// gas.phase(|phase| {
///     phase.get(table.at(0), &mut a)?;
///     phase.get(table.at(9), &mut b)
/// })?;
/// Ok(a + b)
/// # }
/// ```
/// A read before the end does not compile:
/// ```compile_fail
/// # use clump_pgas::{Pgas, Result, Spread};
/// # fn gather(gas: &Pgas, table: &Spread<u64>) -> Result<u64> {
/// let mut a = 0;
/// gas.phase(|phase| {
///     phase.get(table.at(0), &mut a)?;
///     println!("{a}");
///     Ok(())
/// })?;
/// Ok(a)
/// # }
/// ```
/// Nor do two gets into one word:
/// ```compile_fail
/// # use clump_pgas::{Pgas, Result, Spread};
/// # fn gather(gas: &Pgas, table: &Spread<u64>) -> Result<u64> {
/// let mut a = 0;
/// gas.phase(|phase| {
///     phase.get(table.at(0), &mut a)?;
///     phase.get(table.at(9), &mut a)
/// })?;
/// Ok(a)
/// # }
/// ```
/// Nor a buffer that dies early:
/// ```compile_fail
/// # use clump_pgas::{Pgas, Result, Spread};
/// # fn gather(gas: &Pgas, table: &Spread<u64>) -> Result<()> {
/// gas.phase(|phase| {
///     let mut a = 0;
///     phase.get(table.at(0), &mut a)
/// })
/// # }
/// ```
#[derive(Debug)]
pub struct Phase<'scope, 'env: 'scope> {
    pgas: Pgas,
    fragments: &'scope clump_rma::Phase<'scope, 'env>,
    wanted: RefCell<WantedWords<'env>>,
}

/// Words that are requested together.
#[derive(Debug, Default)]
struct WantedWords<'env> {
    count: usize,
    groups: HashMap<(SegmentName, u64), WantedGroup<'env>>,
}

/// Words of one segment, and where they go.
#[derive(Debug)]
struct WantedGroup<'env> {
    peer: Rc<PeerSegment>,
    indexes: Vec<u32>,
    /// Buffers, and where in its word each begins.
    buffers: Vec<(&'env mut [u8], usize)>,
}

impl Pgas {
    /// Runs `run`, and waits for all gets that it began.
    ///
    /// # Errors
    /// Fails with the error of `run`, with that of the first get that was refused, or if a node or
    /// rank is lost. Then the contents of the buffers are unspecified.
    pub fn phase<'env, R>(
        &self,
        run: impl for<'a, 'scope> FnOnce(&'a Phase<'scope, 'env>) -> Result<R>,
    ) -> Result<R> {
        self.inner.rma.phase(|fragments| {
            let phase = Phase { pgas: self.clone(), fragments, wanted: RefCell::default() };
            let result = run(&phase);
            // Requests end, also where `run` has failed.
            let asked = phase.fill_wanted();
            Ok(result.and_then(|value| asked.map(|()| value)))
        })?
    }
}

impl<'env> Phase<'_, 'env> {
    /// Begins to read an element.
    ///
    /// # Errors
    /// Fails if it does not exist. On this node it fails if the get is refused; on another, the end
    /// of the phase reports a refusal.
    pub fn get<T: Element>(&self, from: GlobalRef<'_, T>, to: &'env mut T) -> Result<()> {
        let (offset, size, alone) = (from.offset, size_of::<T>(), from.alone);
        let target = &from.peer()?.target;
        if target.is_near() {
            *to = read_from(target, offset)?;
            return Ok(());
        }
        let is_word = size.is_power_of_two() && size <= 8;
        if !is_word || !self.pgas.inner.aggregates() || alone {
            return Ok(self.fragments.get_bytes(target, offset, to.as_mut_bytes())?);
        }
        let peer = from.into_peer()?;
        let count = {
            let mut wanted = self.wanted.borrow_mut();
            wanted.add(peer, offset, to.as_mut_bytes());
            wanted.count
        };
        if count >= MAX_WANTED { self.fill_wanted() } else { Ok(()) }
    }

    /// Begins to read the elements from where a pointer points on.
    ///
    /// # Errors
    /// Fails if they are not inside the pointer's memory; else as [`Phase::get`] does.
    pub fn bulk_get<T: Element>(&self, from: GlobalPtr<T>, to: &'env mut [T]) -> Result<()> {
        from.check(to.len())?;
        let peer = self.pgas.inner.peer(from.segment())?;
        Ok(self.fragments.get_bytes(&peer.target, from.offset(), to.as_mut_bytes())?)
    }

    /// Requests all words that were collected, waits for them, and stores them.
    fn fill_wanted(&self) -> Result<()> {
        let wanted = self.wanted.take();
        self.pgas.inner.wait(|| {
            let mut groups: Vec<_> = wanted.groups.into_iter().collect();
            let mut words: Vec<_> =
                groups.iter().map(|(_, group)| vec![0; group.indexes.len()]).collect();
            self.pgas.inner.rma.phase(|phase| {
                for (((_, base), group), words) in groups.iter().zip(&mut words) {
                    let target = &group.peer.target;
                    phase.get_many(target, base << 35, &group.indexes, words)?;
                }
                Ok(())
            })?;
            for ((_, group), words) in groups.iter_mut().zip(&words) {
                group.give(words);
            }
            Ok(())
        })
    }
}

impl<'env> WantedWords<'env> {
    fn add(&mut self, peer: Rc<PeerSegment>, offset: u64, buffer: &'env mut [u8]) {
        let word = offset / 8;
        let group = self.groups.entry((peer.name(), word >> 32)).or_insert_with(|| {
            let (indexes, buffers) = Default::default();
            WantedGroup { peer, indexes, buffers }
        });
        group.indexes.push(word as u32);
        group.buffers.push((buffer, offset as usize % 8));
        self.count += 1;
    }
}

impl WantedGroup<'_> {
    fn give(&mut self, words: &[u64]) {
        debug_assert_eq!(words.len(), self.buffers.len(), "a word for each buffer");
        for ((buffer, begin), word) in self.buffers.iter_mut().zip(words) {
            let bytes = word.to_le_bytes();
            let part = bytes.get(*begin..*begin + buffer.len());
            debug_assert!(part.is_some(), "elements do not cross words");
            if let Some(part) = part {
                buffer.copy_from_slice(part);
            }
        }
    }
}
