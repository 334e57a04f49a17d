//! The memory of nodes, as one rank reaches it.

use crate::deposit::USED;
use crate::deposit::cluster::{Change, Cluster, Flight, NodeMemory, Placing, State};
use clump_hlrc::Diff;
use clump_hlrc::deposit::{
    DepositPort, DepositedBytes, DepositedNotices, PAGE_BYTES, PageBytes, PagePart,
};
use std::cell::Cell;
use std::convert::Infallible;

/// Memory of the rank's node, and of others.
pub struct Port {
    pub cluster: Cluster,
    pub thread: usize,
    pub node: u16,
    /// Number of the last operation that later ones come behind.
    pub fenced: Cell<u64>,
}

impl Port {
    fn with<R>(&self, work: impl FnOnce(&mut NodeMemory) -> R) -> R {
        self.cluster.step(self.thread);
        work(&mut self.cluster.lock().nodes[usize::from(self.node)])
    }

    /// Sends a change, behind operations with numbers below `behind`. Returns its number.
    fn send(&self, node: u16, behind: u64, change: Change) -> u64 {
        let mut state = self.cluster.lock();
        state.sent += 1;
        let number = state.sent;
        let behind = behind.max(self.fenced.get());
        state.flights.push(Flight { thread: self.thread, node, number, behind, change });
        number
    }

    fn fence(&self) {
        self.fenced.set(self.cluster.lock().sent + 1);
    }
}

impl DepositPort for Port {
    type Error = Infallible;

    fn load(&self, at: u64) -> u64 {
        self.with(|memory| memory.word(at))
    }

    fn store(&self, at: u64, value: u64) {
        self.with(|memory| memory.words.insert(at, value));
    }

    fn exchange(&self, at: u64, old: u64, new: u64) -> bool {
        self.with(|memory| {
            let is_old = memory.word(at) == old;
            if is_old {
                memory.words.insert(at, new);
            }
            is_old
        })
    }

    fn set_bits(&self, at: u64, bits: u64) -> u64 {
        self.with(|memory| {
            let before = memory.word(at);
            memory.words.insert(at, before | bits);
            before
        })
    }

    fn fence(&self) {
        // Threads run one at a time.
        self.cluster.step(self.thread);
    }

    fn wait_changed(&self, at: u64, seen: u64) -> Result<(), Infallible> {
        let node = usize::from(self.node);
        self.cluster.wait(self.thread, Box::new(move |state| state.nodes[node].word(at) != seen));
        Ok(())
    }

    fn wait_deposited(
        &self,
        (at, least): (u64, u64),
        other: Option<(u64, u64)>,
    ) -> Result<bool, Infallible> {
        let node = usize::from(self.node);
        let is_there = move |state: &State| state.nodes[node].word(at) >= least;
        let is_other = move |state: &State| {
            other.is_some_and(|(at, least)| state.nodes[node].word(at) >= least)
        };
        let either = move |state: &State| is_there(state) || is_other(state);
        self.cluster.wait(self.thread, Box::new(either));
        Ok(is_there(&self.cluster.lock()))
    }

    fn wake(&self, _: u64) {}

    fn read_frame(&self, page: u32, to: &mut PageBytes) {
        self.with(|memory| to.copy_from_slice(memory.frame(page)));
    }

    fn commit(&self, page: u32, part: PagePart) -> Result<(), Infallible> {
        self.with(|memory| memory.committed.insert((page, part as u8)));
        Ok(())
    }

    fn write_frame(&self, page: u32, first: usize, bytes: &[u8]) {
        self.with(|memory| {
            assert!(memory.committed.contains(&(page, PagePart::Frame as u8)), "memory for it");
            memory.frame(page)[first..first + bytes.len()].copy_from_slice(bytes);
        });
    }

    fn read_twin(&self, page: u32, to: &mut PageBytes) {
        self.with(|memory| to.copy_from_slice(&*memory.twins[&page]));
    }

    fn write_twin(&self, page: u32, bytes: &PageBytes) {
        self.with(|memory| {
            assert!(memory.committed.contains(&(page, PagePart::Twin as u8)), "memory for it");
            memory.twins.insert(page, Box::new(*bytes));
        });
    }

    fn difference(&self, twin: &PageBytes, page: &PageBytes) -> Diff {
        Diff::between(twin, page)
    }

    fn placed_home(&self, page: u32) -> Option<u16> {
        match self.cluster.placing {
            Placing::Cyclic => Some((page % u32::from(self.cluster.shape.0)) as u16),
            Placing::FirstUse => None,
            Placing::First => Some(0),
        }
    }

    fn fetch(
        &self,
        home: u16,
        (before, arrived): (u64, &mut [u64]),
        (pages, to): (&[u32], &mut [PageBytes]),
        (at, words): (u64, &mut [u64]),
    ) -> Result<(), Infallible> {
        self.read_words(home, before, arrived)?;
        // What the home's ranks store meanwhile may be in one part of the answer only.
        for (&page, to) in pages.iter().zip(to) {
            for (part, half) in to.chunks_mut(USED / 2).take(2).enumerate() {
                self.cluster.step(self.thread);
                let mut state = self.cluster.lock();
                let frame = state.nodes[usize::from(home)].frame(page);
                half.copy_from_slice(&frame[part * USED / 2..(part + 1) * USED / 2]);
            }
        }
        self.read_words(home, at, words)
    }

    fn count(&self, node: u16, words: &[u64]) -> Result<(), Infallible> {
        for &word in words {
            self.cluster.step(self.thread);
            *self.cluster.lock().nodes[usize::from(node)].words.entry(word).or_default() += 1;
        }
        Ok(())
    }

    fn read_words(&self, node: u16, at: u64, to: &mut [u64]) -> Result<(), Infallible> {
        for (place, word) in (at..).step_by(8).zip(to) {
            self.cluster.step(self.thread);
            *word = self.cluster.lock().nodes[usize::from(node)].word(place);
        }
        Ok(())
    }

    fn raise(&self, node: u16, words: &[(u64, u64)]) -> Result<(), Infallible> {
        self.fence();
        let mut behind = 0;
        for &(at, value) in words {
            if node == self.node {
                self.with(|memory| {
                    let word = memory.words.entry(at).or_default();
                    *word = value.max(*word);
                });
            } else {
                behind = self.send(node, behind, Change::Raise { at, value }) + 1;
            }
        }
        Ok(())
    }

    fn claim(&self, node: u16, at: u64, value: u64) -> Result<u64, Infallible> {
        self.cluster.step(self.thread);
        let mut state = self.cluster.lock();
        let word = state.nodes[usize::from(node)].words.entry(at).or_default();
        if *word == 0 {
            *word = value;
        }
        Ok(*word)
    }

    fn swap(&self, node: u16, at: u64, value: u64) -> Result<u64, Infallible> {
        self.cluster.step(self.thread);
        let before = self.cluster.lock().nodes[usize::from(node)].words.insert(at, value);
        self.cluster.step(self.thread);
        Ok(before.unwrap_or(0))
    }

    fn fetch_or(&self, node: u16, at: u64, bits: u64) -> Result<u64, Infallible> {
        self.cluster.step(self.thread);
        let before = {
            let mut state = self.cluster.lock();
            let word = state.nodes[usize::from(node)].words.entry(at).or_default();
            std::mem::replace(word, *word | bits)
        };
        self.cluster.step(self.thread);
        Ok(before)
    }

    fn grant(&self, node: u16, at: u64, bits: u64) -> Result<(), Infallible> {
        self.send(node, 0, Change::Grant { at, bits });
        Ok(())
    }

    fn deposit_bytes(&self, home: u16, bytes: &DepositedBytes<'_>) -> Result<(), Infallible> {
        if let Some(announced) = bytes.announced {
            self.raise(home, &[announced])?;
        }
        self.fence();
        for run in bytes.runs {
            for (first, bytes) in run.diff.runs() {
                let bytes = bytes.to_vec();
                self.send(home, 0, Change::Bytes { page: run.page, first, bytes });
            }
        }
        self.raise(home, &[bytes.arrived])?;
        match &bytes.notices {
            Some(notices) => self.deposit_notices(home, notices),
            None => Ok(()),
        }
    }

    fn deposit_notices(&self, node: u16, notices: &DepositedNotices<'_>) -> Result<(), Infallible> {
        let DepositedNotices { parts, words, slot: (slot, values) } = notices;
        self.fence();
        let mut behind = 0;
        for (at, part) in parts {
            for (place, &value) in (*at..).step_by(8).zip(&words[part.clone()]) {
                behind = self.send(node, 0, Change::Word { at: place, value }) + 1;
            }
        }
        for place in [1, 2, 0] {
            let (at, value) = (*slot + 8 * place as u64, values[place]);
            behind = self.send(node, behind, Change::Word { at, value }) + 1;
        }
        Ok(())
    }
}

const _: () = assert!(USED <= PAGE_BYTES);
