//! An engine's store of keys, through which its ranks find each other.

use crate::error::Result;

/// The store of one rank.
pub(crate) trait KeyStore {
    /// Returns the engine's number of this process, and how many it started together.
    fn place(&self) -> (u32, u32);

    /// Publishes a value; others read it after the next fence.
    ///
    /// # Errors
    /// The engine refuses, or is gone.
    fn put(&mut self, key: &str, value: &str) -> Result<()>;

    /// Waits until all processes have called it.
    ///
    /// # Errors
    /// The engine refuses, or is gone.
    fn fence(&mut self) -> Result<()>;

    /// Returns what process `rank` has published under `key`.
    ///
    /// # Errors
    /// The engine refuses, is gone, or knows nothing.
    fn get(&mut self, rank: u32, key: &str) -> Result<String>;

    /// Takes leave of the engine, which from now on knows only the end of this process.
    ///
    /// # Errors
    /// The engine refuses, or is gone.
    fn finish(&mut self) -> Result<()>;
}
