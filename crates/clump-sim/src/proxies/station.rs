//! A rank whose messages proxies carry: a real proxy client, a real inbox, and a small program.

use super::setting::{Destinations, ProxyWorkload, Setting};
use super::tally::Tally;
use crate::kernel::{Random, Time};
use crate::proxy_client_rank::ProxyClientRank;
use crate::sleeper::Sleeper;
use clump_net::{FlowId, Progress};
use clump_shm::name::Name;
use clump_shm::node::NodeMemory;
use clump_transport::{
    Arrival, ProxyClient, ReplyOutlet, ReplyRoom, Requesters, Transport, Urgency, credit_bytes,
    pool_of,
};
use clump_wire::frame::{FrameKind, Route};
use clump_wire::{Message, SendResult};
use std::collections::VecDeque;

const TAG: u64 = 7;
/// Handlers: of requests that are answered, of answers, of streamed messages.
const ASK: u8 = 1;
const ANSWER: u8 = 2;
const STREAM: u8 = 3;

/// Answer that is due.
#[derive(Debug)]
struct Answer {
    to: u64,
    bytes: usize,
}

/// A simulated rank of the experiment.
#[derive(Debug)]
pub(crate) struct Station {
    pub(crate) rank: u32,
    pub(crate) node: u32,
    client_rank: ProxyClientRank,
    pub(crate) sleeper: Sleeper,
    memory: NodeMemory,
    random: Random,
    ranks: u32,
    /// Operations left.
    left: u64,
    /// Time of the next operation; `None` while it waits for an answer.
    next_at: Option<Time>,
    answers: VecDeque<Answer>,
    requesters: Requesters,
    /// Time until which it does not poll.
    deaf_until: Time,
    /// Total time of computing.
    pub(crate) thought: Time,
    /// Time at which its last operation ended.
    pub(crate) finished_at: Option<Time>,
}

impl Station {
    pub(crate) fn new(
        memory: &NodeMemory,
        rank: u32,
        setting: &Setting,
        begin: Time,
    ) -> anyhow::Result<Self> {
        let client_rank = ProxyClientRank::open(memory, (rank, TAG), setting.dispatch, begin)?;
        let node = memory.node();
        let sends = setting.load == ProxyWorkload::Asks || node == 0;
        let requesters =
            Requesters::new(client_rank.name.to_bits(), pool_of(setting.ranks as usize));
        let mut station = Self {
            rank,
            node,
            client_rank,
            sleeper: Sleeper::new(memory, rank),
            memory: memory.clone(),
            random: Random::new(setting.seed ^ u64::from(rank + 1) << 40),
            ranks: setting.nodes * setting.ranks,
            left: if sends { setting.operations } else { 0 },
            next_at: None,
            answers: VecDeque::new(),
            requesters,
            deaf_until: begin + if sends { 0 } else { setting.deaf },
            thought: 0,
            finished_at: (!sends).then_some(begin),
        };
        if sends {
            station.think(begin, setting);
        }
        Ok(station)
    }

    fn think(&mut self, now: Time, setting: &Setting) {
        let think = self.random.wait(setting.think);
        self.thought += think;
        self.next_at = Some(now + think);
    }

    /// Acts. Returns the time at which it acts next.
    pub(crate) fn act(
        &mut self,
        now: Time,
        setting: &Setting,
        tally: &mut Tally,
    ) -> anyhow::Result<Time> {
        if now < self.deaf_until {
            return Ok(self.deaf_until);
        }
        self.client_rank.set_time(now);
        self.sleeper.wake();
        self.client_rank.client.flush(Urgency::Due);
        let handled = self.poll(now, setting, tally)?;
        let mut full = !self.send_answers(now, tally);
        while let Some(due) = self.next_at
            && due <= now
            && !full
        {
            full = !self.operate((now, due), setting, tally);
        }
        if handled > 0 {
            return Ok(now + setting.handle * handled);
        }
        if full {
            return Ok(now + 1_000);
        }
        self.client_rank.arm_notifications();
        if !self.sleeper.sleep(|| self.client_rank.anything_waiting()) {
            return Ok(now + setting.handle);
        }
        Ok(self.next_at.unwrap_or(Time::MAX))
    }

    /// Handles the messages in its lanes. Returns their number.
    fn poll(&mut self, now: Time, setting: &Setting, tally: &mut Tally) -> anyhow::Result<u64> {
        let mut handled = 0;
        for queued in self.client_rank.take()? {
            let mut outlet = ClientOutlet {
                client: &self.client_rank.client,
                credit: credit_bytes(&self.memory),
            };
            let requester = match self.requesters.admit(&mut outlet, &queued.message(), false) {
                Arrival::Done => continue,
                Arrival::Answer if is_small(queued.kind) => None,
                Arrival::Request(requester) if is_small(queued.kind) => Some(requester),
                other => {
                    anyhow::bail!("rank {} was handed {queued:?}, which is {other:?}", self.rank)
                }
            };
            handled += 1;
            tally.on_handled(now, queued.words.first().copied().unwrap_or(now));
            if queued.handler == ASK {
                let (to, bytes) = (queued.route.from, queued.payload.len());
                self.answers.push_back(Answer { to, bytes });
            }
            if let Some(requester) = requester {
                requester.note_consumed(&mut outlet, queued.payload.len());
            }
            if queued.handler == ANSWER {
                self.on_end(now, setting);
            }
        }
        self.requesters.check_invariants();
        Ok(handled)
    }

    fn on_end(&mut self, now: Time, setting: &Setting) {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.finished_at.get_or_insert(now);
            self.next_at = None;
        } else {
            self.think(now, setting);
        }
    }

    /// Begins an operation. Returns false when it finds no room.
    fn operate(&mut self, (now, due): (Time, Time), setting: &Setting, tally: &mut Tally) -> bool {
        let streams = setting.load == ProxyWorkload::Streams;
        let to = if streams { self.rank + setting.ranks } else { self.choose(setting) };
        if self.memory.is_local(to) {
            // Shared memory: its time counts as none.
            self.on_end(now, setting);
            return true;
        }
        let bytes = if self.random.one_in(2) { setting.payload } else { setting.other_payload };
        let name = Name::new(to, 0, 1).to_bits();
        let me = self.client_rank.name.to_bits();
        let flow: FlowId = self.client_rank.client.open_flow(me, name, false);
        let kind = if bytes == 0 { FrameKind::Short } else { FrameKind::Medium };
        let (handler, words) = (if streams { STREAM } else { ASK }, [now]);
        let (route, payload) = (Route { from: me, to: name, tag: TAG }, vec![0; bytes]);
        let request = Message::request((kind, handler), route, (&words, &payload));
        let pushed = self.client_rank.client.send(flow, &request, &mut Progress::default());
        if pushed != SendResult::Sent {
            tally.refused += 1;
            return false;
        }
        tally.change(now, 1);
        if streams {
            // The next is due at its own time, even if this one was late.
            self.on_end(due, setting);
        } else {
            self.next_at = None;
        }
        true
    }

    /// Chooses the rank to send a request to.
    fn choose(&mut self, setting: &Setting) -> u32 {
        let leaves = match setting.destinations {
            Destinations::Uniform => {
                let other = self.random.below(u64::from(self.ranks) - 1) as u32;
                return if other < self.rank { other } else { other + 1 };
            }
            Destinations::Neighbours => 1e6 / f64::from(setting.ranks).sqrt(),
        };
        if !self.random.chance(leaves as u32) {
            return self.rank;
        }
        let first = self.node * setting.ranks;
        let other = self.random.below(u64::from(self.ranks - setting.ranks)) as u32;
        if other < first { other } else { other + setting.ranks }
    }

    fn send_answers(&mut self, now: Time, tally: &mut Tally) -> bool {
        while let Some(answer) = self.answers.front() {
            let kind = if answer.bytes == 0 { FrameKind::Short } else { FrameKind::Medium };
            let (from, to) = (self.client_rank.name.to_bits(), answer.to);
            let (words, payload) = (&[now][..], &vec![0; answer.bytes][..]);
            let reply = Message::answer((kind, ANSWER), (from, to), (words, payload));
            let pushed = self.client_rank.client.reply(&reply, ReplyRoom::Limited);
            if pushed != SendResult::Sent {
                return false;
            }
            tally.change(now, 1);
            self.answers.pop_front();
        }
        true
    }
}

/// The way of a rank's reports: its proxies.
struct ClientOutlet<'a> {
    client: &'a ProxyClient,
    credit: u64,
}

impl ReplyOutlet for ClientOutlet<'_> {
    fn reply(&mut self, reply: &Message<'_>) -> SendResult {
        self.client.reply(reply, ReplyRoom::Limited)
    }

    fn reply_anyway(&mut self, reply: &Message<'_>) {
        let _ = self.client.reply(reply, ReplyRoom::Unlimited);
    }

    fn report(&mut self, from: u64, to: u64, consumed: [u64; 2]) {
        let words = &consumed;
        self.reply_anyway(&Message::answer((FrameKind::Credit, 0), (from, to), (words, &[])));
    }

    fn credit(&self) -> u64 {
        self.credit
    }
}

/// Returns true if clients send such messages.
fn is_small(kind: FrameKind) -> bool {
    matches!(kind, FrameKind::Short | FrameKind::Medium)
}
