use super::*;
use crate::node::{NodeConfig, NodeMemory};
use clump_virtual::{CallKind, PageCosts, PathCosts};

/// Ranks 0 and 1 on one node, rank 2 on another.
fn actors(nics: u64, network: PathCosts) -> (NodeMemory, [Actor; 3]) {
    let node = NodeMemory::create(&NodeConfig { virtual_nodes: 2, ..NodeConfig::new(3) }).unwrap();
    let costs = PathCosts { send_ns: 1, ..PathCosts::default() };
    let machine = Machine {
        node: costs,
        network,
        nics,
        cpu_ppm: 0,
        execute_ns: 0,
        pages: PageCosts::default(),
    };
    let (compute, node_of, folder) = (Compute::Fixed(0), vec![0, 0, 1], String::new());
    begin(&node, &TimePlan { machine, compute, folder, node_of }).unwrap();
    let all = [0, 1, 2].map(|rank| actor(&node, rank).unwrap().unwrap());
    (node.clone(), all)
}

/// Sends a message after so much computation.
fn send_after(actor: &Actor, ns: u64, to: u32, bytes: u64) -> PendingMessage {
    compute(actor, ns);
    let message = actor.begin_send().unwrap();
    actor.send(message, to, bytes, MessageRole { request: true, of_runtime: false });
    message
}

fn compute(actor: &Actor, ns: u64) {
    actor.begin_part();
    actor.give_cost(ns);
    let enter = || actor.enter(CallKind::Other);
    assert!(enter() && !enter(), "a part ends once");
}

/// Returns the due times of messages to `actor` once it has reached a time.
fn due(actor: &Actor, messages: &[PendingMessage]) -> Vec<Option<u64>> {
    actor.order();
    messages.iter().map(|&message| actor.arrival(message).map(|it| it.due_ns)).collect()
}

#[test]
fn nics_take_messages_in_the_order_of_their_times_not_of_turns() {
    let network =
        PathCosts { send_ns: 3, gap_ns: 100, latency_ns: 5, byte_ps: 1000, ..PathCosts::default() };
    let (_node, [first, second, third]) = actors(1, network);
    let late = send_after(&first, 197, 2, 1);
    let early = send_after(&second, 147, 2, 21);
    compute(&third, 10_000);
    // Sent at 150: until 170 on the wire; the NIC is free again at 250, the other was sent at 200.
    assert_eq!(due(&third, &[late, early]), [Some(255), Some(175)]);
}

#[test]
fn ranks_of_a_node_share_its_nics_by_their_numbers() {
    let network = PathCosts { send_ns: 3, gap_ns: 100, latency_ns: 5, ..PathCosts::default() };
    let (_node, [first, second, third]) = actors(2, network);
    let messages = [send_after(&first, 7, 2, 1), send_after(&second, 7, 2, 1)];
    compute(&third, 10_000);
    assert_eq!(due(&third, &messages), [Some(15), Some(15)], "each has one");
}

#[test]
fn a_message_is_not_known_before_all_that_were_sent_earlier_are() {
    let network = PathCosts { send_ns: 3, latency_ns: 50, ..PathCosts::default() };
    let (_node, [first, _second, third]) = actors(1, network);
    let message = send_after(&first, 997, 2, 1);
    compute(&third, 900);
    assert_eq!(due(&third, &[message]), [None], "another rank may send before 1000");
    compute(&third, 200);
    assert_eq!(due(&third, &[message]), [Some(1050)]);
}

#[test]
fn records_are_used_again_and_requests_leave_some_for_replies() {
    let (node, [first, ..]) = actors(1, PathCosts { send_ns: 1, ..PathCosts::default() });
    let taken = std::iter::from_fn(|| first.begin_send()).collect::<Vec<_>>();
    assert_eq!(taken.len(), 3 << 14, "three quarters of all");
    assert!(first.begin_reply().number() >= 3 << 14);
    first.give_up(taken[7]);
    assert!(first.begin_send().is_none(), "the reply has taken one");
    first.give_up(taken[8]);
    assert_eq!(first.begin_send(), Some(taken[8]));
    assert_eq!(summary(&node).unwrap().unwrap().messages, 0);
}
