//! Steps of programs that tests run.

/// Step of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Reads a byte, which must be that of the oracle.
    Read(usize),
    /// Writes a byte.
    Write(usize, u8),
    /// Acquires a lock.
    Lock(u64),
    /// Releases a lock.
    Unlock(u64),
    /// Passes a barrier of so many ranks.
    Barrier(u64, u32),
    /// Sets a flag.
    Set(u64, u64),
    /// Waits for a flag.
    Await(u64, u64),
    /// Makes the second node the home of pages.
    Place(u32, u32),
    /// Publishes what was written.
    Fence,
    /// Reads a byte that others may write just now, and keeps it.
    Peek(usize),
    /// Reads a byte, which must be `.1` if the byte kept is.
    Follow(usize, u8),
}
