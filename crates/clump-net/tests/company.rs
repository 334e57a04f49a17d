//! Full packets that wait for others, so that one call of the driver sends them all, in virtual
//! time.

use crate::pair;
use clump_wire::Security;
use clump_wire::SendResult;
use pair::{MILLISECOND, Pair};

#[test]
fn full_packets_go_together_while_others_are_under_way() {
    let mut pair = Pair::new(Security::Crc);
    let flow = pair.flow(0, false);
    let sent = |pair: &Pair| pair.sides[0].stack.stats().units_sent;
    assert_eq!(pair.send(flow, &[0], &[1; 100]), SendResult::Sent);
    assert_eq!(sent(&pair), 1, "with nothing under way a message goes at once");
    let mut count = 1;
    while sent(&pair) == 1 {
        assert_eq!(pair.send(flow, &[count], &[1; 100]), SendResult::Sent);
        count += 1;
        assert!(count < 1000, "nothing ever goes");
    }
    // Payload, word and head of each are 120 bytes.
    assert!((16_000..18_500).contains(&(count * 120)), "{count} messages waited for each other");
    assert!(sent(&pair) > 10, "and all that is full went");
    // A smaller batch is sent when time passes, or when no messages are added.
    for more in 0..40 {
        assert_eq!(pair.send(flow, &[count + more], &[1; 100]), SendResult::Sent);
    }
    let before = sent(&pair);
    let mut got = 0;
    for _ in 0..10 {
        got += pair.look(1, Some(0)).len() as u64;
        pair.look(0, Some(0));
        pair.now += MILLISECOND / 100;
    }
    assert_eq!(got, count + 40, "everything came");
    assert!(sent(&pair) > before);
}
