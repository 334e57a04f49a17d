//! States on their way to their owners: one-way bulk messages, whose handler stores them.
//!
//! Between nodes messages overtake each other, so a level ends by counting: every rank sends every
//! other the number of its messages, and waits until that many have arrived.

use crate::murphi::store::StateStore;
use crate::traffic::Traffic;
use anyhow::{Context, Result, bail};
use clump::Clump;
use clump::am::{Dest, Endpoint, Handler, Payload, Tag};
use std::cell::RefCell;
use std::rc::Rc;

/// The right to send to a checker's endpoints.
const TAG: Tag = Tag(0x6d75_7270);
/// States, each with its parent's key; words: the sender.
const BATCH: Handler = Handler(1);
/// The end of a level; words: the sender, the number of messages that it has sent so far.
const END: Handler = Handler(2);
/// Bytes of a batch.
const BATCH_BYTES: usize = 32 << 10;

/// The receiving side, which handlers fill.
#[derive(Debug)]
struct ReceivedStates {
    store: StateStore,
    words: usize,
    /// Messages that have arrived, by sender.
    arrived: Vec<u64>,
    /// Messages that senders have announced.
    announced: Vec<u64>,
    /// Levels that senders have ended.
    ended: Vec<u64>,
    returned: Option<String>,
    bytes: Vec<u8>,
    state: Vec<u64>,
}

impl ReceivedStates {
    fn batch(&mut self, words: &[u64], payload: &Payload<'_>) -> Result<(), String> {
        let from = self.sender(words)?;
        let size = (self.words + 1) * 8;
        if payload.is_empty() || !payload.len().is_multiple_of(size) {
            return Err(format!(
                "rank {from} sent {} bytes, which are no whole states",
                payload.len()
            ));
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        payload.append_to(&mut bytes);
        for record in bytes.chunks_exact(size) {
            self.state.clear();
            let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
            self.state.extend(record.chunks_exact(8).map(word));
            let parent = self.state.pop().unwrap_or(0);
            self.store.insert(&self.state, parent);
        }
        self.bytes = bytes;
        self.arrived[from] += 1;
        Ok(())
    }

    fn end(&mut self, words: &[u64]) -> Result<(), String> {
        let from = self.sender(words)?;
        let count = *words.get(1).ok_or("an end without a count")?;
        self.announced[from] = self.announced[from].max(count);
        self.ended[from] += 1;
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

    fn is_complete(&self, me: usize, level: u64) -> bool {
        (0..self.arrived.len())
            .filter(|&rank| rank != me)
            .all(|rank| self.ended[rank] >= level && self.arrived[rank] >= self.announced[rank])
    }
}

/// Sends states to their owners, and stores those that come.
#[derive(Debug)]
pub struct StateExchange {
    endpoint: Endpoint,
    peers: Vec<Dest>,
    me: usize,
    received: Rc<RefCell<ReceivedStates>>,
    /// Bytes that have not been sent, by rank.
    outgoing: Vec<Vec<u8>>,
    batch_bytes: usize,
    /// Messages that were sent, by rank.
    sent: Vec<u64>,
    levels: u64,
    /// Messages, for the report.
    pub traffic: Traffic,
}

impl StateExchange {
    /// Opens this rank's endpoint, and maps those of all ranks. Collective.
    ///
    /// # Errors
    /// Fails if the endpoints cannot be opened or mapped, or if a rank is lost.
    pub fn open(cl: &Clump, store: StateStore, words: usize, traffic: Traffic) -> Result<Self> {
        let (me, ranks) = (cl.rank(), cl.nranks());
        let received = Rc::new(RefCell::new(ReceivedStates {
            store,
            words,
            arrived: vec![0; ranks],
            announced: vec![0; ranks],
            ended: vec![0; ranks],
            returned: None,
            bytes: Vec::new(),
            state: Vec::new(),
        }));
        let endpoint = Endpoint::open(cl, TAG)?;
        let at = received.clone();
        endpoint
            .set_handler(BATCH, move |_, words, payload| at.borrow_mut().batch(words, &payload))?;
        let at = received.clone();
        endpoint.set_handler(END, move |_, words, _| at.borrow_mut().end(words))?;
        let at = received.clone();
        endpoint.on_returned(move |message| {
            at.borrow_mut().returned.get_or_insert_with(|| format!("{message:?}"));
        })?;
        let peers = cl.map_ranks(&endpoint)?;
        let size = (words + 1) * 8;
        let batch_bytes = BATCH_BYTES.min(endpoint.max_medium()) / size * size;
        if batch_bytes == 0 {
            bail!("a state of {size} bytes does not fit into a message");
        }
        let (outgoing, sent) = (vec![Vec::new(); ranks], vec![0; ranks]);
        Ok(Self { endpoint, peers, me, received, outgoing, batch_bytes, sent, levels: 0, traffic })
    }

    /// Calls a function with this rank's states.
    pub fn with<R>(&self, work: impl FnOnce(&mut StateStore) -> R) -> R {
        work(&mut self.received.borrow_mut().store)
    }

    /// Brings a state to its owner, with its parent's key.
    ///
    /// # Errors
    /// Fails if a rank is lost, or if a message came back.
    pub fn put(&mut self, owner: usize, state: &[u64], parent: u64) -> Result<()> {
        if owner == self.me {
            self.with(|store| store.insert(state, parent));
            return Ok(());
        }
        let Some(buffer) = self.outgoing.get_mut(owner) else { bail!("there is no rank {owner}") };
        state.iter().for_each(|word| buffer.extend_from_slice(&word.to_le_bytes()));
        buffer.extend_from_slice(&parent.to_le_bytes());
        if buffer.len() >= self.batch_bytes { self.send(owner) } else { Ok(()) }
    }

    fn send(&mut self, to: usize) -> Result<()> {
        let mut buffer = std::mem::take(&mut self.outgoing[to]);
        if !buffer.is_empty() {
            self.endpoint
                .request_bulk(self.peers[to], BATCH, &buffer, &[self.me as u64])
                .with_context(|| format!("sending states to rank {to}"))?;
            self.sent[to] += 1;
            self.traffic.bulk(to, buffer.len() as u64);
        }
        buffer.clear();
        self.outgoing[to] = buffer;
        Ok(())
    }

    /// Stores states that have arrived.
    ///
    /// # Errors
    /// Fails if a rank is lost, or if a message came back.
    pub fn poll(&self) -> Result<()> {
        self.endpoint.poll()?;
        self.check()
    }

    fn check(&self) -> Result<()> {
        match &self.received.borrow().returned {
            Some(message) => bail!("a message came back: {message}"),
            None => Ok(()),
        }
    }

    /// Sends what is left of a level, and waits until all states of it are at their owners.
    /// Collective.
    ///
    /// # Errors
    /// Fails if a rank is lost, or if a message came back.
    pub fn end_level(&mut self) -> Result<()> {
        self.levels += 1;
        let me = self.me;
        for to in (0..self.peers.len()).filter(|&to| to != me) {
            self.send(to)?;
            let words = [self.me as u64, self.sent[to]];
            self.endpoint.request(self.peers[to], END, &words)?;
            self.traffic.writes(to, 1, 16);
        }
        let (received, me, level) = (self.received.clone(), self.me, self.levels);
        self.endpoint.poll_until(|| {
            let received = received.borrow();
            received.is_complete(me, level) || received.returned.is_some()
        })?;
        self.check()
    }
}
