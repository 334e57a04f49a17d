//! News of streams, which stacks tell each other by datagrams: each arrives exactly once.

/// An event in the life of a stream. Streams carry records one way; each has a number among those
/// of its sender to its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamNotice {
    /// The sender wants one.
    Wanted { stream: u32 },
    /// The receiver listens for it at this port, and has chosen these numbers for its key.
    Offered { stream: u32, port: u16, random: [u64; 2] },
    /// The receiver has taken so many records of it.
    Taken { stream: u32, count: u64 },
    /// The sender gives it up, and wants to know what was taken.
    GivenUp { stream: u32 },
    /// It is over; the receiver has taken so many records, and takes no more. Also an answer to
    /// `Wanted` where there will be none.
    Ended { stream: u32, count: u64 },
}

impl StreamNotice {
    /// Encodes it as the words of a frame.
    pub(crate) fn encode(self) -> [u64; 5] {
        let words = match self {
            Self::Wanted { stream } => [1, u64::from(stream), 0, 0, 0],
            Self::Offered { stream, port, random: [one, two] } => {
                [2, u64::from(stream), u64::from(port), one, two]
            }
            Self::Taken { stream, count } => [3, u64::from(stream), count, 0, 0],
            Self::GivenUp { stream } => [4, u64::from(stream), 0, 0, 0],
            Self::Ended { stream, count } => [5, u64::from(stream), count, 0, 0],
        };
        debug_assert!(Self::parse(&words) == Some(self), "the receiver reads what was written");
        words
    }

    /// Parses the words of a frame; `None` if no correct peer sends them.
    pub(crate) fn parse(words: &[u64]) -> Option<Self> {
        let &[what, stream, first, one, two] = words else { return None };
        let stream = u32::try_from(stream).ok()?;
        Some(match what {
            1 => Self::Wanted { stream },
            2 => {
                let port = u16::try_from(first).ok()?;
                Self::Offered { stream, port, random: [one, two] }
            }
            3 => Self::Taken { stream, count: first },
            4 => Self::GivenUp { stream },
            5 => Self::Ended { stream, count: first },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_peer_sends_is_refused() {
        for words in [&[][..], &[1], &[0, 1, 2, 3, 4], &[6, 1, 2, 3, 4], &[1, 1 << 32, 0, 0, 0]] {
            assert_eq!(StreamNotice::parse(words), None, "{words:?}");
        }
        assert_eq!(StreamNotice::parse(&[2, 1, 1 << 16, 0, 0]), None, "no port");
        let notice = StreamNotice::Offered { stream: 3, port: 9, random: [1, u64::MAX] };
        assert_eq!(notice.encode(), [2, 3, 9, 1, u64::MAX]);
        assert_eq!(StreamNotice::Ended { stream: 3, count: 7 }.encode(), [5, 3, 7, 0, 0]);
    }
}
