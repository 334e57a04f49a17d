//! Ranks as processes of a clump job: an [`Exchange`] over active messages.
//!
//! A batch is one medium message, copied from the sender's staging area into the queue and from
//! there straight to its place among the collected records. Back-pressure is the queue's own: a
//! request that finds no room polls, which receives arrived messages.
//!
//! Between nodes messages overtake each other, the last of a stream too. So a stream ends by
//! counting: every rank sends every other the number of its messages, and waits until that many
//! have arrived.

use crate::exchange::{Exchange, Sink};
use crate::record::RECORD;
use anyhow::{Context, Result, anyhow, bail};
use clump::Clump;
use clump::am::{Dest, Endpoint, Handler, Payload, Tag};
use std::cell::RefCell;
use std::rc::Rc;

/// The right to send to a sort's endpoints.
const TAG: Tag = Tag(0x736f_7274);
/// Records; words: the sender.
const BATCH: Handler = Handler(1);
/// The end of a stream; words: the sender, the number of messages that it has sent before.
const END: Handler = Handler(2);
/// The sender gives up; words: the sender.
const ABANDON: Handler = Handler(3);
/// Memory of a network interface, however many peers it has: buffers of its socket, pages of
/// zero-copy sends, the backstop's stack. Planned with 3 MiB, ranks were found to hold 1.4 MB more
/// than planned.
const INTERFACE_BYTES: usize = 5 << 20;
/// Bytes in flight to a rank of another node, or received from it and waiting; a sender that has
/// more waits. A medium message and a congestion window fit.
const PEER_BYTES: usize = 768 << 10;
/// Packet buffers for such a rank that are kept for reuse.
const SPARE_BYTES: usize = 256 << 10;

/// The receiving side of a stream, filled by the handlers.
#[derive(Default)]
struct Stream {
    sink: Option<Box<dyn Sink>>,
    /// Messages that have arrived, by sender.
    arrived: Vec<u64>,
    /// Messages that were sent to this rank, by senders that have ended.
    sent: Vec<Option<u64>>,
    /// Description of a message of ours that was returned.
    returned: Option<String>,
}

impl Stream {
    fn batch(&mut self, words: &[u64], payload: &Payload<'_>) -> Result<(), String> {
        let from = self.sender(words)?;
        let bytes = payload.len();
        if bytes == 0 || !bytes.is_multiple_of(RECORD) {
            return Err(format!("rank {from} sent {bytes} bytes, which are no whole records"));
        }
        let sink = self.sink.as_mut().ok_or("records arrived before or after their stream")?;
        sink.take(bytes, &mut |room| {
            payload.copy_to(room);
        });
        self.arrived[from] += 1;
        Ok(())
    }

    fn end(&mut self, words: &[u64]) -> Result<(), String> {
        let from = self.sender(words)?;
        self.sent[from] = Some(*words.get(1).ok_or("an end without a count")?);
        Ok(())
    }

    fn abandon(&mut self, words: &[u64]) -> Result<(), String> {
        let from = self.sender(words)?;
        if let Some(sink) = &mut self.sink {
            sink.abandoned();
        }
        // Counted, so that it belongs to this stream and not to one that is opened later.
        self.arrived[from] += 1;
        Ok(())
    }

    /// Returns the sender that a message names, if there is such a rank.
    fn sender(&self, words: &[u64]) -> Result<usize, String> {
        let from = words.first().copied().unwrap_or(u64::MAX);
        usize::try_from(from)
            .ok()
            .filter(|&from| from < self.arrived.len())
            .ok_or_else(|| format!("a message names rank {from}, which there is not"))
    }

    fn is_complete(&self) -> bool {
        self.sent.iter().zip(&self.arrived).all(|(sent, arrived)| *sent == Some(*arrived))
    }
}

/// One rank of a clump job.
pub struct ClumpRank {
    clump: Clump,
    endpoint: Endpoint,
    peers: Vec<Dest>,
    stream: Rc<RefCell<Stream>>,
    /// Messages sent in this stream, by receiver.
    sent: Vec<u64>,
    /// Most ranks of other nodes that any rank has.
    remote: usize,
}

/// Returns the most ranks on other nodes that a rank on one of these nodes has.
fn max_remote(node_of: &[u32]) -> usize {
    let of = |node: &u32| node_of.iter().filter(|other| *other == node).count();
    node_of.len() - node_of.iter().map(of).min().unwrap_or(0)
}

impl ClumpRank {
    /// Opens this rank's endpoint and maps those of all ranks. Collective.
    ///
    /// # Errors
    /// Fails if the endpoints cannot be opened or mapped, or if a rank died.
    pub fn open(clump: &Clump) -> Result<Self> {
        let endpoint = Endpoint::open(clump, TAG)?;
        let stream = Rc::new(RefCell::new(Stream::default()));
        let at = stream.clone();
        endpoint
            .set_handler(BATCH, move |_, words, payload| at.borrow_mut().batch(words, &payload))?;
        let at = stream.clone();
        endpoint.set_handler(END, move |_, words, _| at.borrow_mut().end(words))?;
        let at = stream.clone();
        endpoint.set_handler(ABANDON, move |_, words, _| at.borrow_mut().abandon(words))?;
        let at = stream.clone();
        endpoint.on_returned(move |message| {
            at.borrow_mut().returned.get_or_insert_with(|| format!("{message:?}"));
        })?;
        let names = clump.all_gather(endpoint.name())?;
        let peers = names
            .iter()
            .map(|name| endpoint.map(name, TAG))
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let sent = vec![0; peers.len()];
        let node_of: Vec<u32> = (0..).zip(&peers).map(|(r, _)| clump.node().node_of(r)).collect();
        let remote = max_remote(&node_of);
        if let Some(network) = endpoint.context().network() {
            // The memory is for records.
            network.set_spare(0);
        }
        Ok(Self { clump: clump.clone(), endpoint, peers, stream, sent, remote })
    }

    fn check(&self) -> Result<()> {
        match &self.stream.borrow().returned {
            Some(message) => bail!("a message came back: {message}"),
            None => Ok(()),
        }
    }

    fn tell_others(&mut self, handler: Handler) -> Result<()> {
        let me = self.rank();
        for to in (0..self.nranks()).filter(|&to| to != me) {
            let words = [me as u64, self.sent[to]];
            self.endpoint.request(self.peers[to], handler, &words)?;
            self.sent[to] += 1;
        }
        Ok(())
    }
}

impl Exchange for ClumpRank {
    fn rank(&self) -> usize {
        self.clump.rank()
    }

    fn nranks(&self) -> usize {
        self.clump.nranks()
    }

    fn nnodes(&self) -> usize {
        self.clump.nnodes()
    }

    fn one_process(&self) -> bool {
        false
    }

    fn max_batch(&self) -> usize {
        self.endpoint.max_medium() / RECORD * RECORD
    }

    fn network_bytes(&self) -> usize {
        match self.remote {
            0 => 0,
            remote => INTERFACE_BYTES + remote * (PEER_BYTES + SPARE_BYTES),
        }
    }

    fn all_gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        Ok(self.clump.all_gather_bytes(mine)?)
    }

    fn open(&mut self, sink: Box<dyn Sink>) -> Result<()> {
        let (me, nranks) = (self.rank(), self.nranks());
        let mut stream = self.stream.borrow_mut();
        stream.sink = Some(sink);
        stream.arrived = vec![0; nranks];
        stream.sent = vec![None; nranks];
        // Batches to this rank itself are not counted.
        stream.sent[me] = Some(0);
        drop(stream);
        self.sent = vec![0; nranks];
        // No rank may send before all ranks can receive.
        Ok(self.clump.barrier()?)
    }

    fn send(&mut self, to: usize, batch: &[u8]) -> Result<()> {
        let me = self.rank();
        if to == me {
            let mut stream = self.stream.borrow_mut();
            let sink = stream.sink.as_mut().ok_or_else(|| anyhow!("no stream is open"))?;
            sink.take(batch.len(), &mut |room| room.copy_from_slice(batch));
            return Ok(());
        }
        if let Some(network) = self.endpoint.context().network() {
            let most = self.remote * PEER_BYTES;
            self.endpoint.poll_until(|| network.snapshot().memory_bytes <= most)?;
        }
        self.endpoint
            .request_bulk(self.peers[to], BATCH, batch, &[me as u64])
            .with_context(|| format!("sending records to rank {to}"))?;
        self.sent[to] += 1;
        Ok(())
    }

    fn progress(&mut self) -> Result<bool> {
        let handled = self.endpoint.poll()?;
        self.check()?;
        Ok(handled > 0)
    }

    fn abandon(&mut self) -> Result<()> {
        self.tell_others(ABANDON)
    }

    fn close(&mut self) -> Result<()> {
        self.tell_others(END)?;
        let stream = self.stream.clone();
        self.endpoint.poll_until(|| {
            let stream = stream.borrow();
            stream.is_complete() || stream.returned.is_some()
        })?;
        self.check()?;
        self.stream.borrow_mut().sink = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump_os::sync::{AtomicBool, Ordering};
    use std::sync::Arc;

    struct Told(Arc<AtomicBool>);

    impl Sink for Told {
        fn take(&mut self, _bytes: usize, _fill: &mut dyn FnMut(&mut [u8])) {}
        fn abandoned(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_smallest_node_has_max_ranks_elsewhere() {
        assert_eq!(max_remote(&[0, 0, 0, 0]), 0);
        assert_eq!(max_remote(&[0, 0, 0, 1, 1]), 3);
        assert_eq!(max_remote(&[0, 1, 2, 3]), 3);
    }

    #[test]
    fn a_stream_is_complete_when_all_is_there_whatever_came_first() {
        let told = Arc::new(AtomicBool::new(false));
        let mut stream = Stream {
            sink: Some(Box::new(Told(told.clone()))),
            arrived: vec![0; 3],
            sent: vec![Some(0), None, None],
            returned: None,
        };
        // Rank 1 sent one batch and gave up; its end comes first. Rank 2 sent nothing.
        stream.end(&[1, 2]).unwrap();
        stream.end(&[2, 0]).unwrap();
        assert!(!stream.is_complete());
        stream.abandon(&[1]).unwrap();
        assert!(told.load(Ordering::Relaxed) && !stream.is_complete());
        stream.arrived[1] += 1;
        assert!(stream.is_complete());
        for wrong in [&[3, 0][..], &[], &[u64::MAX, 1]] {
            assert!(stream.end(wrong).is_err() && stream.abandon(wrong).is_err());
        }
        assert!(stream.end(&[1]).is_err(), "an end without a count");
    }
}
