//! Traffic density as seen by polling, single datagrams or crowds, which decides the receive mode.
//!
//! A single datagram is received fastest with GRO and marks off; a crowd with both on. Switching
//! them costs two system calls (about 0.5 us each), so it is done on evidence and undone on more.

/// Receptions without an empty poll between them that make a crowd.
const CROWD: u32 = 8;
/// Episodes (from one empty poll to the next) of at most [`LONE`] datagrams that end a crowd.
const LONE_EPISODES: u32 = 64;
const LONE: u32 = 2;
/// Empty polls in a row that end a crowd (about 250 us of spinning).
const IDLE_POLLS: u32 = 512;
/// Full receive calls after GRO was turned off: a run that was joined before must not reach a call
/// that cannot tell its boundaries. The queue is empty when it is turned off; the only possible
/// remainder is a datagram that another processor was just about to queue, and these calls take 30
/// us.
const SETTLING_CALLS: u32 = 64;

/// Mode of the next receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReceiveMode {
    /// One datagram without metadata.
    Short,
    /// One with all its metadata; GRO and marks are being turned off.
    Settling,
    /// As many as there are, with all their metadata.
    Full,
}

/// Change to the socket's options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SocketSwitch {
    /// GRO and marks on.
    On,
    /// GRO and marks off.
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Short { streak: u32 },
    Full { episode: u32, lone: u32, idle: u32 },
    Settling { calls: u32, streak: u32 },
    Always,
}

/// The traffic of one socket. Learns of every receive call, and chooses the mode of the next.
#[derive(Debug)]
pub(super) struct Density {
    state: State,
}

impl Default for Density {
    fn default() -> Self {
        Self { state: State::Short { streak: 0 } }
    }
}

impl Density {
    /// Creates a density that always chooses full receives.
    pub(super) fn always_full() -> Self {
        Self { state: State::Always }
    }

    #[inline]
    pub(super) fn receive_mode(&self) -> ReceiveMode {
        match self.state {
            State::Short { .. } => ReceiveMode::Short,
            State::Settling { .. } => ReceiveMode::Settling,
            State::Full { .. } | State::Always => ReceiveMode::Full,
        }
    }

    /// Notes that a receive call found this many datagrams.
    #[inline]
    pub(super) fn on_found(&mut self, datagrams: usize) -> Option<SocketSwitch> {
        let found = u32::try_from(datagrams).unwrap_or(u32::MAX);
        match &mut self.state {
            State::Short { streak } | State::Settling { streak, .. } => {
                *streak = streak.saturating_add(found);
                if *streak < CROWD {
                    return None;
                }
                let episode = *streak;
                self.state = State::Full { episode, lone: 0, idle: 0 };
                Some(SocketSwitch::On)
            }
            State::Full { episode, idle, .. } => {
                *episode = episode.saturating_add(found);
                *idle = 0;
                None
            }
            State::Always => None,
        }
    }

    /// Notes that a receive call found nothing.
    #[inline]
    pub(super) fn on_empty(&mut self) -> Option<SocketSwitch> {
        match &mut self.state {
            State::Short { streak } => *streak = 0,
            State::Settling { calls, streak } => {
                *streak = 0;
                *calls += 1;
                if *calls >= SETTLING_CALLS {
                    self.state = State::Short { streak: 0 };
                }
            }
            State::Full { episode, lone, idle } => {
                *lone = match *episode {
                    0 => *lone,
                    1..=LONE => *lone + 1,
                    _ => 0,
                };
                *episode = 0;
                *idle += 1;
                if *lone >= LONE_EPISODES || *idle >= IDLE_POLLS {
                    self.state = State::Settling { calls: 0, streak: 0 };
                    return Some(SocketSwitch::Off);
                }
            }
            State::Always => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crowded() -> Density {
        let mut density = Density::default();
        for _ in 1..CROWD {
            assert_eq!(density.on_found(1), None);
        }
        assert_eq!(density.on_found(1), Some(SocketSwitch::On));
        assert_eq!(density.receive_mode(), ReceiveMode::Full);
        density
    }

    #[test]
    fn a_ping_pong_never_leaves_the_short_way() {
        let mut density = Density::default();
        for _ in 0..1000 {
            assert_eq!((density.on_found(1), density.on_empty()), (None, None));
        }
        assert_eq!(density.receive_mode(), ReceiveMode::Short);
    }

    #[test]
    fn lone_datagrams_after_a_crowd_lead_back_by_way_of_settling() {
        let mut density = crowded();
        assert_eq!(density.on_empty(), None);
        let mut turn = None;
        for _ in 0..LONE_EPISODES {
            assert_eq!((turn, density.on_found(1)), (None, None));
            turn = density.on_empty();
        }
        assert_eq!(
            (turn, density.receive_mode()),
            (Some(SocketSwitch::Off), ReceiveMode::Settling)
        );
        for _ in 1..SETTLING_CALLS {
            assert_eq!((density.on_found(1), density.on_empty()), (None, None));
            assert_eq!(density.receive_mode(), ReceiveMode::Settling);
        }
        assert_eq!((density.on_empty(), density.receive_mode()), (None, ReceiveMode::Short));
    }

    #[test]
    fn bursts_keep_the_full_way_and_silence_ends_it() {
        let mut density = crowded();
        for _ in 0..1000 {
            assert_eq!((density.on_found(5), density.on_empty()), (None, None));
        }
        assert_eq!(density.receive_mode(), ReceiveMode::Full);
        let turns = (0..IDLE_POLLS).filter_map(|_| density.on_empty()).count();
        assert_eq!((turns, density.receive_mode()), (1, ReceiveMode::Settling));
        assert_eq!(density.on_found(CROWD as usize), Some(SocketSwitch::On));
    }

    #[test]
    fn always_is_always() {
        let mut density = Density::always_full();
        for _ in 0..10_000 {
            assert_eq!((density.on_empty(), density.receive_mode()), (None, ReceiveMode::Full));
        }
    }
}
