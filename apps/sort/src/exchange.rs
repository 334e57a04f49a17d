//! What a sort needs from whatever carries records between ranks.
//!
//! Two implementations: [`crate::threads`] (ranks are threads of one process: tests, and machines
//! without a launcher) and [`crate::over_clump`] (ranks are processes of a clump job).

use anyhow::{Result, anyhow, bail};

/// Where records that arrive go. Called on the thread that drives the exchange, one batch at a time.
pub trait Sink: Send {
    /// Takes a batch of `bytes`, at most [`Exchange::max_batch`]: `fill` is called once with exactly that
    /// much room. May wait for the disk.
    fn take(&mut self, bytes: usize, fill: &mut dyn FnMut(&mut [u8]));
    /// A peer gives up; what arrives from now on has no use.
    fn abandoned(&mut self);
}

/// The ranks of one sort, as one of them sees them.
///
/// A stream of records: every rank calls [`Exchange::open`] once, then [`Exchange::send`] and
/// [`Exchange::progress`] in any order, then [`Exchange::close`] once, which returns when everything
/// sent by anybody to this rank has been put in the sink.
pub trait Exchange {
    /// This rank.
    fn rank(&self) -> usize;
    /// Number of ranks.
    fn nranks(&self) -> usize;
    /// Whether the ranks are threads of one process, so that its memory is counted once.
    fn one_process(&self) -> bool;
    /// Most bytes of one [`Exchange::send`].
    fn max_batch(&self) -> usize;
    /// Everybody's `mine`, by rank. Collective.
    fn all_gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>>;
    /// Starts a stream into `sink`. Collective.
    fn open(&mut self, sink: Box<dyn Sink>) -> Result<()>;
    /// Sends a batch one way to another rank or to this one, and takes in what arrives if there is no room.
    fn send(&mut self, to: usize, batch: &[u8]) -> Result<()>;
    /// Takes in what has arrived; says whether there was anything.
    fn progress(&mut self) -> Result<bool>;
    /// Tells every rank that this one gives up: they learn by [`Sink::abandoned`].
    fn abandon(&mut self) -> Result<()>;
    /// Ends this rank's sending, and waits until everybody's is in the sink.
    fn close(&mut self) -> Result<()>;
}

/// Collective: everybody's values if all ranks came here with one; otherwise an error on every rank that
/// names those that failed.
pub fn agree(exchange: &mut dyn Exchange, mine: Result<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
    let message = match &mine {
        Ok(bytes) => [&[1u8][..], bytes].concat(),
        Err(error) => [&[0u8][..], format!("{error:#}").as_bytes()].concat(),
    };
    let all = exchange.all_gather(&message)?;
    let failed: Vec<String> = all
        .iter()
        .enumerate()
        .filter(|(_, m)| m.first() != Some(&1))
        .map(|(rank, m)| {
            let said = String::from_utf8_lossy(m.get(1..).unwrap_or_default());
            format!("rank {rank}: {said}")
        })
        .collect();
    let own = mine.err();
    match failed.as_slice() {
        [] => Ok(all.into_iter().map(|m| m[1..].to_vec()).collect()),
        [only] => {
            Err(own.unwrap_or_else(|| anyhow!("{only}")).context("the sort has been given up"))
        }
        [first, rest @ ..] => {
            bail!("the sort has been given up: {first} (and {} more)", rest.len())
        }
    }
}
