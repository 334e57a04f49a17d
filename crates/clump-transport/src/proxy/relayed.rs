//! Long messages of which a rank has handed over the beginning and not yet all.

use clump_net::Progress;
use clump_wire::OwnedMessage;
use std::collections::HashMap;

/// Maximum number of messages that one rank may have begun: more than it has endpoints and replies
/// in flight at one proxy.
const MAX_COUNT: usize = 64;

/// A long message whose fragments are still arriving.
#[derive(Debug)]
pub(crate) struct RelayedMessage {
    /// The message, without its payload.
    pub(crate) message: OwnedMessage,
    pub(crate) ordered: bool,
    /// Bytes of all fragments.
    pub(crate) total: usize,
    pub(crate) done: usize,
    pub(crate) progress: Progress,
}

/// The begun messages of all ranks, by rank and number.
#[derive(Debug, Default)]
pub(crate) struct RelayedMessages(HashMap<u32, HashMap<u32, RelayedMessage>>);

impl RelayedMessages {
    /// Returns true if a rank may begin another message. Further ones are discarded, since no
    /// correct rank begins them.
    pub(crate) fn has_room(&self, rank: u32) -> bool {
        self.0.get(&rank).is_none_or(|begun| begun.len() < MAX_COUNT)
    }

    pub(crate) fn insert(&mut self, (rank, number): (u32, u32), begun: RelayedMessage) {
        debug_assert!(begun.done < begun.total, "a message that has gone is not kept");
        debug_assert!(self.has_room(rank), "a rank that has begun too many begins no other");
        let before = self.0.entry(rank).or_default().insert(number, begun);
        debug_assert!(before.is_none(), "the message of that number was ended");
    }

    /// Checks that each rank has begun no more than it may, and that no message has gone already.
    pub(crate) fn check_invariants(&self) {
        for of_rank in self.0.values() {
            debug_assert!(of_rank.len() <= MAX_COUNT, "a rank has begun few messages");
            let under_way = |begun: &RelayedMessage| begun.done < begun.total;
            debug_assert!(of_rank.values().all(under_way), "a message that has gone is not kept");
            let whole =
                |begun: &RelayedMessage| begun.message.words.get(1) == Some(&(begun.total as u64));
            debug_assert!(of_rank.values().all(whole), "the length is that of its words");
        }
    }

    pub(crate) fn remove(&mut self, (rank, number): (u32, u32)) -> Option<RelayedMessage> {
        self.0.get_mut(&rank)?.remove(&number)
    }

    /// Removes and returns the messages of some ranks.
    pub(crate) fn take_of(&mut self, is_gone: impl Fn(u32) -> bool) -> Vec<RelayedMessage> {
        let gone = self.0.extract_if(|&rank, _| is_gone(rank));
        gone.flat_map(|(_, begun)| begun.into_values()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump_wire::frame::{FrameKind, Route};

    fn begun() -> RelayedMessage {
        let route = Route { from: 1, to: 2, tag: 3 };
        let (kind, reply, words, payload) = (FrameKind::Long, false, vec![0, 9], Vec::new());
        let message = OwnedMessage { kind, reply, handler: 1, route, words, payload };
        let (total, done, progress) = (9, 1, Progress::default());
        RelayedMessage { message, ordered: false, total, done, progress }
    }

    #[test]
    fn a_rank_that_begins_without_end_is_bounded_and_no_other_is() {
        let mut all = RelayedMessages::default();
        let mut number = 0;
        while all.has_room(3) {
            all.insert((3, number), begun());
            number += 1;
        }
        all.check_invariants();
        assert_eq!(number as usize, MAX_COUNT);
        assert!(all.has_room(4));
        assert!(all.remove((3, 7)).is_some() && all.has_room(3));
        all.insert((4, 1), begun());
        assert_eq!(all.take_of(|rank| rank == 3).len(), MAX_COUNT - 1);
        assert!(all.remove((3, 0)).is_none() && all.remove((4, 1)).is_some());
    }
}
