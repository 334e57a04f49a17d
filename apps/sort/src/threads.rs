//! Ranks as threads of one process: an [`Exchange`] over bounded channels.

use crate::exchange::{Exchange, Sink};
use anyhow::{Result, anyhow, bail};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Barrier, Mutex, PoisonError};

/// Batches that may wait for a rank before its senders wait for it.
const QUEUE: usize = 8;
/// Bytes of a batch.
const BATCH: usize = 4000;

enum Message {
    Batch(Vec<u8>),
    Abandon,
    End,
}

struct Table {
    handshake: Barrier,
    values: Mutex<Vec<Vec<u8>>>,
}

/// One rank among threads.
pub struct ThreadRank {
    rank: usize,
    inbox: Receiver<Message>,
    peers: Vec<SyncSender<Message>>,
    table: Arc<Table>,
    sink: Option<Box<dyn Sink>>,
    ended: usize,
    /// Empty batches to send in, so that a stream allocates a bounded number of them.
    spare: Vec<Vec<u8>>,
}

/// Runs `work` on `nranks` threads and returns their results by rank.
pub fn run<T: Send>(nranks: usize, work: impl Fn(ThreadRank) -> T + Sync) -> Vec<T> {
    let table = Arc::new(Table {
        handshake: Barrier::new(nranks),
        values: Mutex::new(vec![vec![]; nranks]),
    });
    let (peers, inboxes): (Vec<_>, Vec<_>) = (0..nranks).map(|_| sync_channel(QUEUE)).unzip();
    std::thread::scope(|scope| {
        let ranks: Vec<_> = inboxes
            .into_iter()
            .enumerate()
            .map(|(rank, inbox)| {
                let (peers, table, work) = (peers.clone(), table.clone(), &work);
                scope.spawn(move || {
                    let spare = Vec::new();
                    work(ThreadRank { rank, inbox, peers, table, sink: None, ended: 0, spare })
                })
            })
            .collect();
        ranks
            .into_iter()
            .map(|rank| rank.join().unwrap_or_else(|e| std::panic::resume_unwind(e)))
            .collect()
    })
}

impl ThreadRank {
    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let me = self.rank;
        (0..self.peers.len()).filter(move |&to| to != me)
    }

    fn deliver(&mut self, message: Message) {
        let Some(sink) = &mut self.sink else { return };
        match message {
            Message::Batch(mut bytes) => {
                sink.take(bytes.len(), &mut |room| room.copy_from_slice(&bytes));
                bytes.clear();
                if self.spare.len() < QUEUE {
                    self.spare.push(bytes);
                }
            }
            Message::Abandon => sink.abandoned(),
            Message::End => self.ended += 1,
        }
    }

    fn post(&mut self, to: usize, mut message: Message) -> Result<()> {
        loop {
            message = match self.peers[to].try_send(message) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(back)) => back,
                Err(TrySendError::Disconnected(_)) => bail!("rank {to} is gone"),
            };
            if !self.progress()? {
                clump_os::clock::yield_now();
            }
        }
    }
}

impl Exchange for ThreadRank {
    fn rank(&self) -> usize {
        self.rank
    }

    fn nranks(&self) -> usize {
        self.peers.len()
    }

    fn one_process(&self) -> bool {
        true
    }

    fn max_batch(&self) -> usize {
        BATCH
    }

    fn all_gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let table = self.table.clone();
        let values = || table.values.lock().unwrap_or_else(PoisonError::into_inner);
        values()[self.rank] = mine.to_vec();
        table.handshake.wait();
        let all = values().clone();
        table.handshake.wait();
        Ok(all)
    }

    fn open(&mut self, sink: Box<dyn Sink>) -> Result<()> {
        (self.sink, self.ended) = (Some(sink), 0);
        self.table.handshake.wait();
        Ok(())
    }

    fn send(&mut self, to: usize, batch: &[u8]) -> Result<()> {
        if to == self.rank {
            let sink = self.sink.as_mut().ok_or_else(|| anyhow!("no stream is open"))?;
            sink.take(batch.len(), &mut |room| room.copy_from_slice(batch));
            return Ok(());
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.extend_from_slice(batch);
        self.post(to, Message::Batch(bytes))
    }

    fn progress(&mut self) -> Result<bool> {
        let mut any = false;
        loop {
            match self.inbox.try_recv() {
                Ok(message) => self.deliver(message),
                Err(TryRecvError::Empty) => return Ok(any),
                Err(TryRecvError::Disconnected) => bail!("the other ranks are gone"),
            }
            any = true;
        }
    }

    fn abandon(&mut self) -> Result<()> {
        for to in self.others() {
            self.post(to, Message::Abandon)?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        for to in self.others() {
            self.post(to, Message::End)?;
        }
        while self.ended + 1 < self.nranks() {
            let message = self.inbox.recv()?;
            self.deliver(message);
        }
        self.sink = None;
        Ok(())
    }
}
