//! Jobs over several nodes, by hand-made frames and times.

use super::*;
use crate::outcome::JobEnd;
use crate::spec::BoundAddress;
use clump_control::{
    AgentCommand, DeathManner, Event, FinalizedRanks, OnDeath, ProcessEnd, RankDeath, RankStatus,
};

const MS: u64 = 1_000_000;

/// Returns a coordinator of four ranks on two nodes, whose ranks have all joined, and the time.
fn running(on_death: OnDeath) -> Coordinator {
    let mut c = starting(on_death);
    bind(&mut c, 0);
    bind(&mut c, 1);
    for rank in 0..4 {
        c.handle_frame(rank / 2, Frame::Event(Event::Joined(rank)), MS);
    }
    effects(&mut c);
    c
}

fn starting(on_death: OnDeath) -> Coordinator {
    let mut spec = JobSpec::new("prog", Vec::new(), 4);
    (spec.nodes, spec.on_death) = (2, on_death);
    Coordinator::new(&spec, &[70, 71], (2000, 8500), 0)
}

fn bind(c: &mut Coordinator, node: u32) {
    let at = |port: u16| BoundAddress {
        address: ([127, 0, 0, 1], port).into(),
        others: Default::default(),
        epoch: port.into(),
    };
    let port = 10 * (u16::try_from(node).unwrap() + 1);
    let bound =
        BoundAddresses { interfaces: vec![at(port + 3)], ranks: vec![at(port + 1), at(port + 2)] };
    c.handle_frame(node, Frame::Bound(Box::new(bound)), MS);
}

fn offer(c: &mut Coordinator, node: u32) -> AgentOffer {
    let address = ([127, 0, 0, 1], 10 * (node as u16 + 1)).into();
    let (host, program) = (format!("h{node}"), format!("id{node}"));
    let offer = AgentOffer { host, program, addresses: vec![address], left_out: 0, epoch: 9 };
    c.handle_frame(node, Frame::Offered(Box::new(offer.clone())), MS);
    offer
}

fn ended(c: &mut Coordinator, rank: u32, end: ProcessEnd, standing: RankStatus, now_ns: u64) {
    c.handle_frame(rank / 2, Frame::Event(Event::Ended { rank, end, standing }), now_ns);
}

fn effects(c: &mut Coordinator) -> Vec<Effect> {
    std::iter::from_fn(|| c.poll_effect()).collect()
}

/// Returns an order to all nodes that are not lost.
fn order(order: AgentCommand) -> Effect {
    Effect::Say(Frame::Order(order))
}

/// Jumps to the next deadline and returns its time and its effects.
fn next(c: &mut Coordinator) -> (u64, Vec<Effect>) {
    let at = c.next_deadline_ns().expect("a deadline");
    c.handle_timeout(at, at, &|_| false);
    (at / MS, effects(c))
}

/// Delivers the last frame of a node and the end of its agent.
fn leave(c: &mut Coordinator, node: u32, now_ns: u64) {
    let pids = vec![100 + 2 * node, 101 + 2 * node];
    let part = NodeOutcome { node, host: "h".into(), pids, ..NodeOutcome::default() };
    c.handle_frame(node, Frame::Part(Box::new(part)), now_ns);
    assert!(!c.handle_lost(node, "exited with code 0", now_ns), "in good order");
}

#[test]
fn ranks_start_when_all_nodes_are_reached() {
    let mut c = starting(OnDeath::End);
    bind(&mut c, 1);
    assert_eq!(effects(&mut c), []);
    bind(&mut c, 0);
    let said = effects(&mut c);
    let [Effect::Say(Frame::Go(table))] = &said[..] else { panic!("{said:?}") };
    assert_eq!(c.listeners().collect::<Vec<_>>(), [0, 1]);
    let ports =
        |places: &[BoundAddress]| places.iter().map(|p| p.address.port()).collect::<Vec<_>>();
    assert_eq!(
        (ports(&table.interfaces), ports(&table.ranks)),
        (vec![13, 23], vec![11, 12, 21, 22])
    );
}

#[test]
fn agents_hear_of_each_other_when_all_have_offered_themselves() {
    let mut c = starting(OnDeath::End);
    let second = offer(&mut c, 1);
    assert_eq!(effects(&mut c), []);
    let offers = vec![offer(&mut c, 0), second];
    let said = effects(&mut c);
    let [Effect::Notice(text), rest @ ..] = &said[..] else { panic!("{said:?}") };
    assert!(text.contains("build id0 on h0, id1 on h1"), "{text}");
    assert_eq!(rest, [Effect::Say(Frame::Probe(offers))]);
}

#[test]
fn a_node_that_does_not_get_ready_ends_the_job_in_time() {
    let mut c = starting(OnDeath::End);
    offer(&mut c, 0);
    offer(&mut c, 1);
    bind(&mut c, 0);
    effects(&mut c);
    assert_eq!(next(&mut c), (8500, vec![order(AgentCommand::Conclude)]));
    leave(&mut c, 0, 8600 * MS);
    assert_eq!(next(&mut c), (12_500, vec![Effect::CutOff(1)]));
    c.handle_lost(1, "was killed by signal 9", 12_600 * MS);
    let JobEnd::Refused { why, code } = c.close(12_700 * MS).ending else { panic!() };
    assert!(why.contains("node 1 (h1) has not got ready in time") && code == 125, "{why}");
}

#[test]
fn the_ends_of_ranks_are_mirrored_in_few_orders_and_nothing_else_of_them_is() {
    let mut c = running(OnDeath::End);
    let mirror =
        |ranks, barrier| order(AgentCommand::Mirror(vec![FinalizedRanks { ranks, barrier }]));
    c.handle_frame(1, Frame::Event(Event::Joined(3)), 2 * MS);
    assert_eq!(effects(&mut c), []);
    c.handle_frame(0, Frame::Event(Event::Finalized(1, 7)), 2 * MS);
    assert_eq!(effects(&mut c), [mirror(1..2, 7)]);
    c.handle_frame(1, Frame::Event(Event::Finalized(3, 7)), 2 * MS);
    c.handle_frame(1, Frame::Event(Event::Finalized(2, 7)), 2 * MS);
    c.handle_frame(0, Frame::Event(Event::Finalized(2, 8)), 2 * MS);
    assert_eq!(effects(&mut c), [], "rank 2 is not node 0's");
    assert_eq!(next(&mut c), (2, vec![mirror(2..4, 7)]));
    // What is declared afterwards is heard afterwards.
    c.handle_frame(0, Frame::Event(Event::Finalized(0, 7)), 2 * MS);
    ended(&mut c, 2, ProcessEnd::Signal(9), RankStatus::Finalized(7), 2 * MS);
    let death = order(RankDeath { rank: 2, manner: DeathManner::Signal(9) }.into());
    assert_eq!(effects(&mut c), [mirror(0..1, 7), death]);
}

#[test]
fn a_job_that_goes_well() {
    let mut c = running(OnDeath::End);
    for rank in 0..4 {
        ended(&mut c, rank, ProcessEnd::Exit(0), RankStatus::Finalized(7), 5 * MS);
    }
    assert_eq!(effects(&mut c).last(), Some(&order(AgentCommand::Conclude)));
    leave(&mut c, 0, 6 * MS);
    leave(&mut c, 1, 6 * MS);
    let outcome = c.close(7 * MS);
    assert!(outcome.is_clean());
    assert_eq!(outcome.ranks.iter().map(|r| r.pid).collect::<Vec<_>>(), [100, 101, 102, 103]);
    assert!((outcome.wall_ms - 4.0).abs() < 1e-9);
    assert_eq!(outcome.security.as_deref(), Some("aead"));
}

#[test]
fn a_death_is_declared_on_all_nodes_and_ends_the_job() {
    let mut c = running(OnDeath::End);
    ended(&mut c, 2, ProcessEnd::Signal(9), RankStatus::Joined, 10 * MS);
    assert_eq!(
        effects(&mut c),
        [order(RankDeath { rank: 2, manner: DeathManner::Signal(9) }.into())]
    );
    assert_eq!(next(&mut c), (260, vec![order(AgentCommand::Kill)]));
    for rank in [0, 1, 3] {
        ended(&mut c, rank, ProcessEnd::Signal(9), RankStatus::Joined, 270 * MS);
    }
    assert_eq!(effects(&mut c), [order(AgentCommand::Conclude)]);
    leave(&mut c, 0, 280 * MS);
    leave(&mut c, 1, 280 * MS);
    let outcome = c.close(280 * MS);
    let JobEnd::Death(death) = outcome.ending else { panic!("{:?}", outcome.ending) };
    assert_eq!((death.rank, death.node, death.pid, death.killed), (2, 1, 102, 3));
    assert_eq!((outcome.code, death.at_ms), (137, 9));
}

#[test]
fn a_lost_node_ends_the_job_or_is_lived_without() {
    let mut c = running(OnDeath::End);
    assert!(c.handle_lost(1, "was killed by signal 9", 10 * MS));
    assert!(!c.handle_lost(1, "again", 10 * MS));
    let deaths = |ranks| order(AgentCommand::Declare(vec![ranks], DeathManner::NodeLost));
    assert_eq!(effects(&mut c), [deaths(2..4)], "one order for the node");
    assert_eq!(c.listeners().collect::<Vec<_>>(), [0], "nothing is said to the lost");
    assert_eq!(next(&mut c), (260, vec![order(AgentCommand::Kill)]));
    ended(&mut c, 0, ProcessEnd::Signal(9), RankStatus::Joined, 261 * MS);
    ended(&mut c, 1, ProcessEnd::Exit(3), RankStatus::Joined, 261 * MS);
    assert_eq!(effects(&mut c), [order(AgentCommand::Conclude)]);
    leave(&mut c, 0, 262 * MS);
    let outcome = c.close(262 * MS);
    let JobEnd::NodeLost(loss) = &outcome.ending else { panic!("{:?}", outcome.ending) };
    assert_eq!((loss.node, loss.pid, &loss.ranks[..], outcome.code), (1, 71, &[2, 3][..], 125));
    assert_eq!(outcome.ranks.len(), 4);

    let mut c = running(OnDeath::Continue);
    c.handle_lost(0, "was killed by signal 9", 10 * MS);
    assert_eq!(effects(&mut c), [deaths(0..2)]);
    assert_eq!(c.next_deadline_ns(), None);
    ended(&mut c, 2, ProcessEnd::Exit(0), RankStatus::Finalized(7), 900 * MS);
    ended(&mut c, 3, ProcessEnd::Exit(0), RankStatus::Finalized(7), 900 * MS);
    assert_eq!(effects(&mut c).last(), Some(&order(AgentCommand::Conclude)));
}

#[test]
fn a_node_that_nobody_hears_is_cut_off_and_named() {
    let mut c = running(OnDeath::End);
    c.handle_frame(0, Frame::Event(Event::Silent(1)), 1500 * MS);
    assert_eq!(effects(&mut c), []);
    assert_eq!(next(&mut c), (1500, vec![]), "it may be starved");
    assert_eq!(next(&mut c), (1833, vec![Effect::CutOff(1)]), "within two seconds");
    c.handle_lost(1, "was killed by signal 9", 1751 * MS);
    next(&mut c);
    let JobEnd::NodeLost(loss) = c.close(1760 * MS).ending else { panic!() };
    assert!(loss.how.contains("was not heard by node 0"), "{}", loss.how);
}

#[test]
fn a_node_that_is_heard_again_stays() {
    let mut c = running(OnDeath::End);
    c.handle_frame(0, Frame::Event(Event::Silent(1)), 1500 * MS);
    c.handle_frame(0, Frame::Event(Event::Heard(1)), 1600 * MS);
    assert_eq!(c.next_deadline_ns(), None);
}

#[test]
fn the_user_ends_the_job_before_it_has_started() {
    let mut c = starting(OnDeath::End);
    bind(&mut c, 0);
    c.handle_interrupt(2, 10 * MS);
    assert_eq!(effects(&mut c), [order(AgentCommand::Signal(2))]);
    let (at, said) = next(&mut c);
    assert_eq!((at, &said[1..]), (310, &[order(AgentCommand::Conclude)][..]));
    bind(&mut c, 1);
    assert_eq!(effects(&mut c), [], "too late to start");
}

#[test]
fn a_node_that_cannot_start_its_ranks_ends_the_job() {
    let mut c = running(OnDeath::End);
    c.handle_frame(1, Frame::Refused("no program".into(), 127), 2 * MS);
    c.handle_frame(0, Frame::Refused("no program here".into(), 127), 2 * MS);
    assert_eq!(effects(&mut c), [order(AgentCommand::Conclude)], "once");
    leave(&mut c, 0, 3 * MS);
    leave(&mut c, 1, 3 * MS);
    let outcome = c.close(3 * MS);
    assert_eq!(outcome.ending, JobEnd::Refused { why: "no program".into(), code: 127 });
}

#[test]
fn an_agent_that_does_not_end_its_node_is_ended() {
    let mut c = running(OnDeath::End);
    ended(&mut c, 0, ProcessEnd::Signal(6), RankStatus::Joined, 0);
    next(&mut c);
    let (at, said) = next(&mut c);
    assert_eq!((at, said), (4250, vec![Effect::CutOff(0), Effect::CutOff(1)]));
}

/// Runs a job of so many nodes and ranks on each from its first frame to its last, as its agents
/// and the launcher's turns may mix them; returns the frames that each agent got until its ranks
/// had joined, and in all.
fn frames_at_each_agent(nodes: u32, each: u32) -> (usize, usize) {
    let mut spec = JobSpec::new("prog", Vec::new(), nodes * each);
    spec.nodes = nodes;
    let pids: Vec<u32> = (0..nodes).collect();
    let mut c = Coordinator::new(&spec, &pids, (2000, 8000), 0);
    let address = "127.0.0.1:9".parse().unwrap();
    let at = BoundAddress { address, others: Default::default(), epoch: 1 };
    let bound = BoundAddresses { interfaces: vec![at], ranks: vec![at; each as usize] };
    let (mut said, mut now) = (Vec::new(), 0);
    let mut turn = |c: &mut Coordinator, now: u64| {
        c.handle_timeout(now, now, &|_| false);
        let frames = effects(c).into_iter().filter(|what| matches!(what, Effect::Say(_)));
        said.extend(frames);
        said.len() + 1 // the job itself comes first
    };
    for node in 0..nodes {
        offer(&mut c, node);
        turn(&mut c, 0);
    }
    for node in 0..nodes {
        c.handle_frame(node, Frame::Bound(Box::new(bound.clone())), MS);
        turn(&mut c, MS);
    }
    let rank_of = |at: u32| (at % nodes) * each + at / nodes;
    let ranks = || (0..nodes * each).map(rank_of);
    // A turn for each event is the worst that can happen.
    let mut started = 0;
    for rank in ranks() {
        now += 2_000;
        c.handle_frame(rank / each, Frame::Event(Event::Joined(rank)), MS + now);
        started = turn(&mut c, MS + now);
    }
    for rank in ranks() {
        now += 2_000;
        c.handle_frame(rank / each, Frame::Event(Event::Finalized(rank, 3)), MS + now);
        turn(&mut c, MS + now);
    }
    let mut all = 0;
    for rank in ranks() {
        now += 2_000;
        let (end, standing) = (ProcessEnd::Exit(0), RankStatus::Finalized(3));
        c.handle_frame(rank / each, Frame::Event(Event::Ended { rank, end, standing }), MS + now);
        all = turn(&mut c, MS + now);
    }
    assert_eq!(said.last(), Some(&order(AgentCommand::Conclude)));
    (started, all)
}

#[test]
fn an_agent_hears_as_little_however_many_nodes_and_ranks_start() {
    for (nodes, each) in [(2, 2), (64, 16), (4096, 16)] {
        let (started, all) = frames_at_each_agent(nodes, each);
        assert_eq!(started, 3, "the job, the offers and the addresses: {nodes} nodes");
        assert!(all <= 200, "{all} frames at each agent of {nodes} nodes of {each} ranks");
    }
}
