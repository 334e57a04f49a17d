//! Locks between nodes: a queue of nodes, each of which knows the next (MCS locks), and a lock that
//! stays where it was released until another node asks for it.
//!
//! The keeper of a lock has the node that asked for it last. A node that wants it puts itself
//! there, by one atomic operation, and tells the node before, by another. If the lock lies there
//! unused, that operation has taken it away; else the node before grants it with its release.
//!
//! ```text
//! elsewhere -> asked     a rank asks for the lock
//! asked -> used          the node before grants it, or had it unused
//! used -> kept           released, and nobody has asked
//! kept -> used           a rank of the same node enters again; no other node learns of it
//! used -> elsewhere      released to the next node
//! kept, with a next      the next node has taken it away
//! ```

use crate::deposit::layout::DepositLayout;
use crate::deposit::node_side::NodeSide;
use crate::deposit::port::DepositPort;

/// Set while the lock is at the node.
const HERE: u64 = 1 << 63;
/// Set while a rank of the node uses the lock, or waits for it.
const BUSY: u64 = 1 << 62;
/// First bit of the next node, counted from 1.
const NEXT_SHIFT: u32 = 50;
/// Bits of a node's number, here and in the time.
const NODE_BITS: u32 = 12;
/// First bit of the node that released the lock last, above the number of its interval.
const NODE_SHIFT: u32 = NEXT_SHIFT - NODE_BITS;
const _: () = assert!(NEXT_SHIFT + NODE_BITS == 62);

/// Most nodes of a job whose locks these are.
pub const MAX_LOCKING_NODES: u16 = (1 << NODE_BITS) - 1;

/// A lock, as far as one node is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Token(u64);

impl Token {
    fn of_next(node: u16) -> Self {
        debug_assert!(node < MAX_LOCKING_NODES, "nodes are counted in {NODE_BITS} bits");
        Self((u64::from(node) + 1) << NEXT_SHIFT)
    }

    fn of_time((node, number): (u16, u64)) -> Self {
        debug_assert!(number < 1 << NODE_SHIFT, "intervals do not overflow");
        Self(u64::from(node) << NODE_SHIFT | number)
    }

    fn next(self) -> Option<u16> {
        ((self.0 >> NEXT_SHIFT & ((1 << NODE_BITS) - 1)) as u16).checked_sub(1)
    }

    /// Returns the node that released the lock last, and its last interval then.
    fn time(self) -> (u16, u64) {
        let node = self.0 >> NODE_SHIFT & ((1 << NODE_BITS) - 1);
        (node as u16, self.0 & ((1 << NODE_SHIFT) - 1))
    }

    /// Returns true if the lock lies here unused.
    fn is_unused(self) -> bool {
        self.0 & (HERE | BUSY) == HERE
    }

    fn is_used(self) -> bool {
        self.0 & (HERE | BUSY) == HERE | BUSY
    }
}

/// A lock that a rank has acquired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Acquired {
    /// The node that released it last, and its last interval then.
    pub(super) released: (u16, u64),
    /// True if the node of the rank had it last.
    pub(super) was_here: bool,
}

/// Queues of nodes for locks, as one of the nodes has them.
#[derive(Debug)]
pub(super) struct LockQueue {
    pub(super) node: NodeSide,
}

impl LockQueue {
    /// Acquires a lock for the only rank of its node that has it, or asks for it. Returns none if
    /// there is no such lock.
    pub(super) fn acquire<P: DepositPort>(
        &self,
        port: &P,
        lock: u64,
        serve: &mut impl FnMut() -> Result<(), P::Error>,
    ) -> Result<Option<Acquired>, P::Error> {
        let Some(at) = self.node.layout.token(lock) else { return Ok(None) };
        let token = Token(port.load(at));
        debug_assert_eq!(token.0 & BUSY, 0, "one rank of a node at a time");
        let is_kept = token.is_unused() && token.next().is_none();
        let was_here = is_kept && port.exchange(at, token.0, token.0 | BUSY);
        let token = if was_here { token } else { self.ask(port, (lock, at), serve)? };
        debug_assert!(Token(port.load(at)).is_used(), "it is here");
        Ok(Some(Acquired { released: token.time(), was_here }))
    }

    /// Asks for a lock that is elsewhere, and waits for it. Returns the token that came.
    fn ask<P: DepositPort>(
        &self,
        port: &P,
        (lock, at): (u64, u64),
        serve: &mut impl FnMut() -> Result<(), P::Error>,
    ) -> Result<Token, P::Error> {
        let (keeper, me) = (self.node.layout.keeper(lock), self.node.config.node);
        // If the lock was taken away, it has been: no other node changes the word before this one
        // has asked.
        port.store(at, BUSY);
        let before = port.swap(keeper, self.node.layout.tail(lock), u64::from(me) + 1)?;
        let Some(before) = before.checked_sub(1) else {
            // Nobody has ever asked for it.
            return Ok(Token(port.set_bits(at, HERE)));
        };
        debug_assert_ne!(before, u64::from(me), "a lock that others have taken away has a next");
        let found = Token(port.fetch_or(before as u16, at, Token::of_next(me).0)?);
        if found.is_unused() {
            debug_assert_eq!(found.next(), None, "one node asks another");
            port.set_bits(at, HERE);
            return Ok(found);
        }
        self.node.await_deposited(port, (at, HERE), serve)?;
        Ok(Token(port.load(at)))
    }

    /// Releases a lock. Returns false if there is no such lock.
    pub(super) fn release<P: DepositPort>(&self, port: &P, lock: u64) -> Result<bool, P::Error> {
        let Some(at) = self.node.layout.token(lock) else { return Ok(false) };
        let time = Token::of_time((self.node.config.node, port.load(DepositLayout::CLOSED)));
        loop {
            let token = Token(port.load(at));
            debug_assert!(token.is_used(), "a rank of this node has it");
            if let Some(next) = token.next() {
                port.store(at, 0);
                port.grant(next, at, HERE | time.0)?;
                return Ok(true);
            }
            if port.exchange(at, token.0, HERE | time.0) {
                return Ok(true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_a_place_a_next_and_a_time() {
        let time = Token::of_time((MAX_LOCKING_NODES, (1 << NODE_SHIFT) - 1));
        let used = Token(HERE | BUSY | time.0);
        assert!(used.is_used() && !used.is_unused() && used.next().is_none());
        assert_eq!(used.time(), (MAX_LOCKING_NODES, (1 << NODE_SHIFT) - 1));
        let asked = Token(used.0 | Token::of_next(MAX_LOCKING_NODES - 1).0);
        assert_eq!((asked.next(), asked.time()), (Some(MAX_LOCKING_NODES - 1), used.time()));
        assert!(Token(HERE | time.0).is_unused() && !Token(0).is_unused());
    }
}
