//! Tests of a proxy client with proxies that only read their lanes.

use super::*;
use crate::transport::{Accept, ReplyRoom, Transport, Urgency};
use clump_shm::inbox::Inbox;
use clump_shm::lane::Peek;
use clump_shm::node::NodeConfig;
use clump_shm::rank::RankState;
use proptest::prelude::*;

const RANKS: u32 = 4;
const PROXIES: u32 = 2;

/// Messages and bytes of payloads.
type Counts = (usize, usize);

/// Rank 0 of a node with two ranks and two proxies; ranks 2 and 3 are on another node.
struct Bench {
    memory: NodeMemory,
    client: ProxyClient,
    proxies: Vec<Inbox<()>>,
    /// A long request that has begun: its flow, its bytes, and its progress.
    long: Option<(FlowId, usize, Progress)>,
    handed_over: Counts,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Request { to: u32, bytes: usize },
    Long { to: u32, bytes: usize },
    Reply { to: u32, bytes: usize, words: usize, refusable: bool },
    Credit { to: u32, total: u64 },
    Take { which: usize, most: usize },
    Leave { rank: u32 },
    Sleep,
}

fn step() -> impl Strategy<Value = Step> {
    let to = || 2..RANKS;
    prop_oneof![
        4 => (to(), 0..9000_usize).prop_map(|(to, bytes)| Step::Request { to, bytes }),
        2 => (to(), 0..200_000_usize).prop_map(|(to, bytes)| Step::Long { to, bytes }),
        8 => (to(), 0..9000_usize, 0..frame::MAX_WORDS, any::<bool>()).prop_map(
            |(to, bytes, words, refusable)| Step::Reply { to, bytes, words, refusable }
        ),
        2 => (to(), 0..50_000_u64).prop_map(|(to, total)| Step::Credit { to, total }),
        2 => (0..2_usize, 0..20_usize).prop_map(|(which, most)| Step::Take { which, most }),
        1 => to().prop_map(|rank| Step::Leave { rank }),
        1 => Just(Step::Sleep),
    ]
}

impl Bench {
    fn new(dispatch: Dispatch) -> Self {
        let (node_of, survive, spin_ns, yield_ns) = (&[0, 0, 1, 1], false, 1, 1);
        let (ranks, node, proxies, job_id) = (RANKS as usize, 0, PROXIES, 7);
        let memory = NodeMemory::create(&NodeConfig {
            ranks,
            node,
            node_of,
            proxies,
            virtual_nodes: 0,
            job_id,
            survive,
            spin_ns,
            yield_ns,
        });
        let memory = memory.unwrap();
        let open = |id| Inbox::open(&memory, id, 0).unwrap();
        let proxies = memory.own_interfaces().map(open).collect();
        let client = ProxyClient::with_clock(&memory, 0, dispatch, Box::new(|| 1 << 40)).unwrap();
        Self { memory, client, proxies, long: None, handed_over: (0, 0) }
    }

    fn me() -> u64 {
        Name::new(0, 0, 1).to_bits()
    }

    fn flow(&self, to: u32) -> FlowId {
        self.client.open_flow(Self::me(), Name::new(to, 0, 1).to_bits(), false)
    }

    fn count(&mut self, pushed: SendResult, (messages, bytes): Counts) {
        if pushed == SendResult::Sent {
            self.handed_over.0 += messages;
            self.handed_over.1 += bytes;
        }
    }

    fn take(&mut self, which: usize, most: usize) -> Counts {
        let inbox = &mut self.proxies[which];
        inbox.process_doorbells().unwrap();
        assert!(!inbox.requests.has_message(), "a rank of a small node has a lane");
        let (mut hot, mut taken) = (std::mem::take(&mut inbox.hot), (0, 0));
        for lane in &mut hot {
            let mut words = [0; MAX_WORDS];
            while taken.0 < most
                && let Peek::Message(header) = lane.receiver.peek(&mut words)
            {
                let (mut beside, mut spill) = (Vec::new(), Default::default());
                lane.receiver.payload(header).append_to(&mut beside);
                let decoded = Forward::decode(header, &words, &beside, &mut spill);
                let message = decoded.unwrap().message;
                assert_eq!(Name::from_bits(message.route.from).rank(), 0);
                taken = (taken.0 + 1, taken.1 + message.payload.len());
                lane.receiver.advance(header);
            }
        }
        inbox.hot = hot;
        taken
    }

    /// Goes on with a long request. Each fragment is a message.
    fn go_on(&mut self) {
        let Some((flow, bytes, mut progress)) = self.long.take() else { return };
        let (before, payload) = (progress, vec![1; bytes]);
        let route = self.client.inner().flows.get(flow).unwrap().route(0);
        let body = (&[0, bytes as u64][..], &payload[..]);
        let request = Message::request((FrameKind::Long, 1), route, body);
        let pushed = self.client.send(flow, &request, &mut progress);
        let went = progress.done - before.done;
        let first = before.message.is_none() && progress.message.is_some() && went == 0;
        let most = self.memory.geometry().max_medium();
        self.count(SendResult::Sent, (went.div_ceil(most) + usize::from(first), went));
        if pushed == SendResult::Full {
            self.long = Some((flow, bytes, progress));
        }
    }

    fn take_step(&mut self, step: Step) -> Counts {
        match step {
            Step::Request { to, bytes } => {
                let (flow, payload) = (self.flow(to), vec![1; bytes]);
                let route = self.client.inner().flows.get(flow).unwrap().route(0);
                let request = Message::request((FrameKind::Medium, 1), route, (&[5], &payload));
                let pushed = self.client.send(flow, &request, &mut Progress::default());
                self.count(pushed, (1, bytes));
            }
            Step::Long { to, bytes } => {
                let flow = self.flow(to);
                self.long.get_or_insert((flow, bytes, Progress::default()));
                self.go_on();
            }
            Step::Reply { to, bytes, words, refusable } => {
                let (words, payload) = (&vec![5; words][..], &vec![1; bytes][..]);
                let name = Name::new(to, 0, 1).to_bits();
                let names = (Self::me(), name);
                let reply = Message::answer((FrameKind::Medium, 1), names, (words, payload));
                let room = if refusable { ReplyRoom::Limited } else { ReplyRoom::Unlimited };
                let pushed = self.client.reply(&reply, room);
                assert!(refusable || pushed == SendResult::Sent);
                self.count(pushed, (1, bytes));
            }
            Step::Credit { to, total } => {
                let from = Name::new(to, 0, 1).to_bits();
                let head = (FrameKind::Credit, 0);
                let words = &[total];
                let report = Message::answer(head, (from, Self::me()), (words, &[]));
                assert_eq!(self.client.accept(&report.to_owned()), Accept::Done);
            }
            Step::Take { which, most } => return self.take(which, most),
            Step::Leave { rank } => {
                self.memory.peer(rank).unwrap().mirror_state(RankState::Finalized);
                let block = self.memory.rank(0).unwrap();
                self.client.housekeeping(&self.memory, &block);
            }
            Step::Sleep => drop(self.client.flush(Urgency::Sleep)),
        }
        (0, 0)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() })]

    #[test]
    fn what_is_handed_over_is_taken_once_and_stored_bytes_are_counted(
        which in 0..3_usize,
        steps in proptest::collection::vec(step(), 1..400),
    ) {
        let mut bench = Bench::new(Dispatch::ALL[which]);
        let (mut taken, mut asked) = ((0, 0), 0);
        let add = |taken: &mut Counts, more: Counts| {
            *taken = (taken.0 + more.0, taken.1 + more.1);
        };
        for step in steps {
            add(&mut taken, bench.take_step(step));
            bench.client.check_invariants();
        }
        bench.client.begin_close();
        bench.handed_over.0 += PROXIES as usize;
        for _ in 0..10_000 {
            bench.client.flush(Urgency::Due);
            bench.client.check_invariants();
            let now = [0, 1].map(|which| bench.take(which, usize::MAX));
            now.iter().for_each(|now| add(&mut taken, *now));
            asked += 1;
            if now == [(0, 0); 2] && bench.client.flush(Urgency::Due).is_none() {
                break;
            }
        }
        // Credit requests and reports carry no bytes.
        prop_assert_eq!(taken.1, bench.handed_over.1, "{} turns", asked);
        prop_assert!(taken.0 >= bench.handed_over.0);
    }
}
