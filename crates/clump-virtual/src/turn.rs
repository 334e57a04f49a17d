//! The choice of the actor that runs next: conservative, one at a time.
//!
//! The *time* of an actor is the earliest at which it can do anything: its clock while it can run,
//! the time at which it is woken while it waits, none while nothing known wakes it.

/// Time of an actor that nothing known wakes.
pub const NEVER: u64 = u64::MAX;

/// Returns the actor with the least time, and that; the lowest number where times are equal.
pub fn next(times: impl IntoIterator<Item = u64>) -> Option<(usize, u64)> {
    let times = times.into_iter().enumerate().filter(|&(_, time)| time != NEVER);
    times.min_by_key(|&(number, time)| (time, number))
}

/// Returns true if an actor at `now_ns` sees all that it can see at that time: no other actor, the
/// first of which acts at `other_ns`, can have an effect on it that early. `lookahead_ns`: the
/// least time between an act and its effect.
pub fn sees_all(now_ns: u64, other_ns: u64, lookahead_ns: u64) -> bool {
    other_ns.saturating_add(lookahead_ns) > now_ns
}

/// Returns the time before which all sends are known: nothing happens before `first_ns`, and sends
/// cost at least `send_ns`.
pub fn horizon(first_ns: u64, send_ns: u64) -> u64 {
    debug_assert!(send_ns > 0, "invariant 2");
    first_ns.saturating_add(send_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_actor_with_the_least_time_is_next() {
        assert_eq!(next([7, 3, NEVER, 3]), Some((1, 3)));
        assert_eq!(next([NEVER, NEVER]), None);
        assert_eq!(next([]), None);
    }

    #[test]
    fn an_actor_goes_on_while_nothing_can_reach_it() {
        // Paper 001's machine: o + L = 8; r0 at 13, r1 at 2.
        assert!(sees_all(2, 13, 8) && !sees_all(21, 13, 8));
        assert!(!sees_all(13, 13, 0) && sees_all(13, 13, 1));
        assert!(sees_all(u64::MAX - 1, NEVER, 8));
        assert_eq!(horizon(20, 3), 23);
    }
}
