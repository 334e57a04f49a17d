//! Long messages whose sender is gone, and the end of what was packed.
#![allow(clippy::unwrap_used, reason = "a test that cannot begin has failed")]

use super::*;
use crate::message_part::{MessagePart, Progress};
use crate::seal::JobKey;
use clump_wire::Security;
use clump_wire::frame::MessageFragment;

const ROUTE: Route = Route { from: 1, to: 2, tag: 3 };

fn queue() -> TxQueue {
    let sealer = JobKey::new(&mut [3; 32]).unwrap().sealer(Security::Crc, 0, 1, 1).unwrap();
    TxQueue::new(0, 1472, true, &sealer)
}

fn long(queue: &mut TxQueue, total: usize, at_hand: usize) -> Progress {
    let (words, bytes) = ([0, total as u64], vec![7; at_hand]);
    let mut progress = Progress::default();
    let message = Message::request((FrameKind::Long, 1), ROUTE, (&words, &bytes));
    let part = MessagePart { total, ..MessagePart::whole(&message, None) };
    let all = queue.append_part(&part, &mut progress, usize::MAX);
    queue.check_invariants(std::iter::empty());
    assert_eq!(all, total == at_hand);
    progress
}

fn send_all(queue: &mut TxQueue) {
    queue.close();
    while queue.has_whole() {
        let unit = queue.launch(1, Content::Data).unwrap();
        queue.on_arrived(unit);
    }
}

#[test]
fn what_is_abandoned_is_forgotten_and_holds_up_no_other() {
    let mut queue = queue();
    let progress = long(&mut queue, 100_000, 9_000);
    send_all(&mut queue);
    assert_eq!(queue.long_messages.len(), 1, "its parts may still come");
    queue.abandon(progress);
    let bytes = queue.open.unwrap().bytes;
    let filling = &queue.memory.bulk.filling().unwrap().memory;
    let end = Frames::new(filling.get(filling.len() - bytes, filling.len()).unwrap()).next();
    let end = end.unwrap().unwrap();
    let fragment = Some(MessageFragment { message: progress.message.unwrap(), at: 9_000 });
    assert_eq!(
        (end.head.kind, end.head.fragment, end.payload),
        (FrameKind::Part, fragment, &[][..])
    );
    long(&mut queue, 50_000, 50_000);
    send_all(&mut queue);
    assert_eq!((queue.long_messages.len(), queue.waiting()), (0, 0));
    // A second call has nothing to send.
    queue.abandon(progress);
    assert_eq!(queue.waiting(), 0);
}

#[test]
fn what_goes_ahead_belongs_to_what_was_packed() {
    let mut queue = queue();
    let medium = Message::request((FrameKind::Medium, 1), ROUTE, (&[1], &[7; 1000]));
    while !queue.has_batch() {
        queue.append(&medium, None);
    }
    let bulk = queue.end();
    queue.append(&Message::request((FrameKind::Short, 1), ROUTE, (&[1], &[])), None);
    let end = queue.end();
    assert!(queue.control.is_some() && bulk.is_before(end) && !end.is_before(bulk));
    queue.close();
    let mut units = Vec::new();
    while queue.has_whole() {
        units.push(queue.launch(1, Content::Data).unwrap());
    }
    assert!(queue.sent.has_sent_before(bulk) && !queue.sent.has_sent_before(end), "control waits");
    let control = queue.launch(1, Content::Control).unwrap();
    assert!(queue.sent.has_sent_before(end) && !queue.sent.has_arrived_before(bulk));
    units.into_iter().for_each(|unit| queue.on_arrived(unit));
    assert!(queue.sent.has_arrived_before(bulk) && !queue.sent.has_arrived_before(end));
    queue.on_arrived(control);
    assert!(queue.sent.has_arrived_before(end));
    queue.check_invariants(std::iter::empty());
}
