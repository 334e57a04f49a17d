//! Access of a rank to its node's memory, and operations on that of other nodes.

use crate::diff::Diff;
use std::ops::Range;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;

/// Bytes of one page.
pub type PageBytes = [u8; PAGE_BYTES];

/// Part of a node's copy of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PagePart {
    /// The bytes that ranks use.
    Frame,
    /// Those that they are compared with.
    Twin,
}

/// Bytes of one page that are deposited at its home.
#[derive(Debug, Clone)]
pub struct DepositedRun {
    /// The page.
    pub page: u32,
    /// The bytes that were written.
    pub diff: Diff,
}

/// Notices that are deposited at a node.
#[derive(Debug, Clone)]
pub struct DepositedNotices<'a> {
    /// Places of parts of the words.
    pub parts: [(u64, Range<usize>); 2],
    /// The words.
    pub words: &'a [u64],
    /// Place of a slot, and its words, the first one last.
    pub slot: (u64, [u64; 3]),
}

/// Runs that are deposited at a home.
#[derive(Debug, Clone)]
pub struct DepositedBytes<'a> {
    /// The runs.
    pub runs: &'a [DepositedRun],
    /// Word that is made at least so much before the runs.
    pub announced: Option<(u64, u64)>,
    /// Word that is made at least so much behind the runs.
    pub arrived: (u64, u64),
    /// Notices for the home, behind all that.
    pub notices: Option<DepositedNotices<'a>>,
}

/// Memory of the rank's node, and operations on that of others.
///
/// Words are read by acquire and written by release. Operations on other nodes are executed in any
/// order, but for what is said of each.
pub trait DepositPort {
    /// Reason why the rank cannot go on.
    type Error;

    /// Reads a word of the own node.
    fn load(&self, at: u64) -> u64;
    /// Writes a word of the own node.
    fn store(&self, at: u64, value: u64);
    /// Writes a word of the own node, if it is `old`.
    fn exchange(&self, at: u64, old: u64, new: u64) -> bool;
    /// Sets bits of a word of the own node. Returns the word before.
    fn set_bits(&self, at: u64, bits: u64) -> u64;
    /// Orders words of the own node that were written before against those that are read after, by
    /// all ranks that call this: of two that write and then read, one reads what the other wrote.
    fn fence(&self);
    /// Waits until a word of the own node is not `seen`; may return early.
    ///
    /// # Errors
    /// Fails once a rank has died.
    fn wait_changed(&self, at: u64, seen: u64) -> Result<(), Self::Error>;
    /// Waits until a word of the own node, which others deposit, is at least so much, or until
    /// another word is. Returns false if it was the other.
    ///
    /// # Errors
    /// Fails once a rank has died.
    fn wait_deposited(
        &self,
        word: (u64, u64),
        other: Option<(u64, u64)>,
    ) -> Result<bool, Self::Error>;
    /// Wakes ranks of the node that wait until a word changes.
    fn wake(&self, at: u64);

    /// Reads the node's frame of a page.
    fn read_frame(&self, page: u32, to: &mut PageBytes);
    /// Commits memory for the node's frame of a page, or for its twin.
    ///
    /// # Errors
    /// Fails if there is none.
    fn commit(&self, page: u32, part: PagePart) -> Result<(), Self::Error>;
    /// Writes bytes of the node's frame of a page, which is committed, from its byte `first` on.
    fn write_frame(&self, page: u32, first: usize, bytes: &[u8]);
    /// Reads the twin of a page.
    fn read_twin(&self, page: u32, to: &mut PageBytes);
    /// Writes the twin of a page, which is committed.
    fn write_twin(&self, page: u32, bytes: &PageBytes);
    /// Returns the bytes in which a page differs from its twin.
    fn difference(&self, twin: &PageBytes, page: &PageBytes) -> Diff;

    /// Returns the home of a page by the rules of allocations; none if the first use decides.
    fn placed_home(&self, page: u32) -> Option<u16>;

    /// Reads words of the home of pages, then their frames, and behind those other words of that
    /// node, both from a place on. Pages ascend.
    ///
    /// # Errors
    /// Fails if the home, or a rank, is lost.
    fn fetch(
        &self,
        home: u16,
        before: (u64, &mut [u64]),
        pages: (&[u32], &mut [PageBytes]),
        behind: (u64, &mut [u64]),
    ) -> Result<(), Self::Error>;
    /// Adds 1 to words of another node, one behind the other, and before anything that this thread
    /// reads there from now on.
    ///
    /// # Errors
    /// Fails if the node, or a rank, is lost.
    fn count(&self, node: u16, words: &[u64]) -> Result<(), Self::Error>;
    /// Reads words of any node.
    ///
    /// # Errors
    /// Fails if the node, or a rank, is lost.
    fn read_words(&self, node: u16, at: u64, to: &mut [u64]) -> Result<(), Self::Error>;
    /// Makes words of any node at least so much, one behind the other and behind all that this
    /// thread has written there; does not wait for that.
    ///
    /// # Errors
    /// Fails if the node, or a rank, is lost.
    fn raise(&self, node: u16, words: &[(u64, u64)]) -> Result<(), Self::Error>;
    /// Writes a word of another node if it is 0. Returns the word that is there then.
    ///
    /// # Errors
    /// Fails if the node, or a rank, is lost.
    fn claim(&self, node: u16, at: u64, value: u64) -> Result<u64, Self::Error>;
    /// Writes a word of any node. Returns the word before.
    ///
    /// # Errors
    /// Fails if the node, or a rank, is lost.
    fn swap(&self, node: u16, at: u64, value: u64) -> Result<u64, Self::Error>;
    /// Sets bits of a word of another node. Returns the word before.
    ///
    /// # Errors
    /// Fails if the node, or a rank, is lost.
    fn fetch_or(&self, node: u16, at: u64, bits: u64) -> Result<u64, Self::Error>;
    /// Sets bits of a word of another node that are not set; does not wait for that.
    ///
    /// # Errors
    /// Fails if the node, or a rank, is lost.
    fn grant(&self, node: u16, at: u64, bits: u64) -> Result<(), Self::Error>;
    /// Writes runs into the frames of pages at their home, and words around them, behind all words
    /// written there before.
    ///
    /// # Errors
    /// Fails if the home, or a rank, is lost.
    fn deposit_bytes(&self, home: u16, bytes: &DepositedBytes<'_>) -> Result<(), Self::Error>;
    /// Writes parts of words to places of another node, behind all that this thread has written
    /// there, and then, behind them, the words of a slot, its first word last.
    ///
    /// # Errors
    /// Fails if the node, or a rank, is lost.
    fn deposit_notices(&self, node: u16, notices: &DepositedNotices<'_>)
    -> Result<(), Self::Error>;
}
