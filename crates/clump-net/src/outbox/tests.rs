//! Long messages whose sender is gone, and the end of what was packed.
#![allow(clippy::unwrap_used, reason = "a test that cannot begin has failed")]

use super::*;
use clump_wire::frame::{FrameKind, Frames, MessageFragment, Route};

const HEAD: FrameHead = FrameHead {
    kind: FrameKind::Long,
    reply: false,
    handler: 1,
    route: Route { from: 1, to: 2, tag: 3 },
    order: None,
    fragment: None,
};

fn long(outbox: &mut Outbox, total: usize, at_hand: usize) -> Progress {
    let (words, bytes) = ([0, total as u64], vec![7; at_hand]);
    let mut progress = Progress::default();
    let payload = PayloadFragment { total, at: 0, bytes: &bytes };
    let message = MessageBody { head: HEAD, words: &words, payload };
    let all = outbox.append_some(&message, &mut progress, usize::MAX);
    outbox.check_invariants(std::iter::empty());
    assert_eq!(all, total == at_hand);
    progress
}

fn send_all(outbox: &mut Outbox) {
    outbox.units.close();
    while outbox.has_whole() {
        let unit = outbox.launch().unwrap();
        outbox.on_arrived(unit);
    }
}

#[test]
fn what_is_abandoned_is_forgotten_and_holds_up_no_other() {
    let mut outbox = Outbox::new(1400, 4, false, true);
    let progress = long(&mut outbox, 100_000, 9_000);
    send_all(&mut outbox);
    assert_eq!(outbox.long_messages.len(), 1, "its parts may still come");
    outbox.abandon(progress);
    let filling = outbox.units.pool.filling();
    let begin = filling.len() - outbox.units.open_bytes().unwrap();
    let end = Frames::new(filling.get(begin, filling.len()).unwrap()).next();
    let end = end.unwrap().unwrap();
    let fragment = Some(MessageFragment { message: progress.message.unwrap(), at: 9_000 });
    assert_eq!(
        (end.head.kind, end.head.fragment, end.payload),
        (FrameKind::Part, fragment, &[][..])
    );
    long(&mut outbox, 50_000, 50_000);
    send_all(&mut outbox);
    assert_eq!((outbox.long_messages.len(), outbox.waiting()), (0, 0));
    // A second call has nothing to send.
    outbox.abandon(progress);
    assert!(!outbox.has_waiting());
}

#[test]
fn what_goes_ahead_belongs_to_what_was_packed() {
    let mut outbox = Outbox::new(1400, 4, false, true);
    let medium = FrameHead { kind: FrameKind::Medium, ..HEAD };
    while !outbox.has_batch() {
        outbox.append(&medium, &[1], &[7; 1000]);
    }
    let bulk = outbox.end();
    outbox.append(&FrameHead { kind: FrameKind::Short, ..HEAD }, &[1], &[]);
    let end = outbox.end();
    assert!(outbox.has_control() && bulk.is_before(end) && !end.is_before(bulk));
    outbox.units.close();
    let mut units = Vec::new();
    while outbox.has_whole() {
        units.push(outbox.launch().unwrap());
    }
    assert!(outbox.has_sent_before(bulk) && !outbox.has_sent_before(end), "control waits");
    let control = outbox.launch_control().unwrap();
    assert!(outbox.has_sent_before(end) && !outbox.has_arrived_before(bulk));
    units.into_iter().for_each(|unit| outbox.on_arrived(unit));
    assert!(outbox.has_arrived_before(bulk) && !outbox.has_arrived_before(end));
    outbox.on_arrived(control);
    assert!(outbox.has_arrived_before(end));
    outbox.check_invariants(std::iter::empty());
}
