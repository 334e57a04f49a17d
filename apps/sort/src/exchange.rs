//! The communication of a sort, independent of the transport between ranks.
//!
//! Two implementations: [`crate::threads`] (ranks are threads of one process: tests, and machines
//! without a launcher) and [`crate::over_clump`] (ranks are processes of a clump job).

use anyhow::Result;

/// Destination of arriving records. Called on the thread that drives the exchange, one batch at a
/// time.
pub trait Sink: Send {
    /// Takes a batch of `bytes`, at most [`Exchange::max_batch`]: `fill` is called once with
    /// exactly that much space. May wait for the disk.
    fn take(&mut self, bytes: usize, fill: &mut dyn FnMut(&mut [u8]));
    /// Notes that a peer has given up; later batches are useless.
    fn abandoned(&mut self);
}

/// The ranks of one sort, as one of them sees them.
///
/// A stream of records: every rank calls [`Exchange::open`] once, then [`Exchange::send`] and
/// [`Exchange::progress`] in any order, then [`Exchange::close`] once, which returns when all
/// records sent to this rank have been put in the sink.
pub trait Exchange {
    /// Returns this rank.
    fn rank(&self) -> usize;
    /// Returns the number of ranks.
    fn nranks(&self) -> usize;
    /// Returns the number of nodes that the ranks are on.
    fn nnodes(&self) -> usize {
        1
    }
    /// Returns true if the ranks are threads of one process, so that its memory is counted once.
    fn one_process(&self) -> bool;
    /// Returns the most bytes of one [`Exchange::send`].
    fn max_batch(&self) -> usize;
    /// Returns the most bytes that the network stack keeps at a rank: the same on all.
    fn network_bytes(&self) -> usize {
        0
    }
    /// Returns the `mine` of all ranks, by rank. Collective.
    fn all_gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>>;
    /// Starts a stream into `sink`. Collective.
    fn open(&mut self, sink: Box<dyn Sink>) -> Result<()>;
    /// Sends a batch to another rank or to this one, and receives arriving batches if there is no
    /// room.
    fn send(&mut self, to: usize, batch: &[u8]) -> Result<()>;
    /// Receives arrived batches; returns true if there were any.
    fn progress(&mut self) -> Result<bool>;
    /// Notifies every rank that this one gives up, by [`Sink::abandoned`].
    fn abandon(&mut self) -> Result<()>;
    /// Ends this rank's sending, and waits until all batches to this rank are in the sink.
    fn close(&mut self) -> Result<()>;
}

/// An error that all ranks have learnt of already, or that only follows another rank's.
#[derive(Debug)]
pub struct GivenUp(pub String);

impl std::fmt::Display for GivenUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for GivenUp {}

const FINE: u8 = 1;
const FAILED: u8 = 2;
const FOLLOWS: u8 = 3;

/// Returns the values of all ranks if every rank has one; otherwise a [`GivenUp`] on every rank
/// that names the first that failed by itself. Collective.
///
/// # Errors
/// Fails on every rank if any rank has no value, or if the exchange fails.
pub fn agree(exchange: &mut dyn Exchange, mine: Result<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
    let (state, said) = match mine {
        Ok(bytes) => (FINE, bytes),
        Err(error) if error.is::<GivenUp>() => (FOLLOWS, error.to_string().into_bytes()),
        Err(error) => (FAILED, format!("rank {}: {error:#}", exchange.rank()).into_bytes()),
    };
    let all = exchange.all_gather(&[&[state], said.as_slice()].concat())?;
    let with = |wanted: u8| all.iter().filter(move |m| m.first() == Some(&wanted));
    let text = |m: &[u8]| String::from_utf8_lossy(m.get(1..).unwrap_or_default()).into_owned();
    let others = match with(FAILED).count() {
        0 | 1 => String::new(),
        failed => format!(" (and {} more ranks)", failed - 1),
    };
    match with(FAILED).next().or_else(|| with(FOLLOWS).next()) {
        Some(message) => Err(GivenUp(text(message) + &others).into()),
        None if with(FINE).count() == all.len() => {
            Ok(all.into_iter().map(|m| m[1..].to_vec()).collect())
        }
        None => Err(GivenUp("a rank said something unreadable".into()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn one_that_fails_is_heard_by_all_and_once() {
        let told = crate::threads::run(3, |mut rank| {
            let mine = if rank.rank() == 1 { Err(anyhow!("disk on fire")) } else { Ok(vec![7]) };
            let first = agree(&mut rank, mine).unwrap_err();
            agree(&mut rank, Err(first)).unwrap_err().to_string()
        });
        assert_eq!(told, ["rank 1: disk on fire"; 3]);
        let values = crate::threads::run(3, |mut rank| {
            let mine = vec![rank.rank() as u8];
            agree(&mut rank, Ok(mine)).unwrap()
        });
        assert_eq!(values, vec![vec![vec![0], vec![1], vec![2]]; 3]);
    }
}
