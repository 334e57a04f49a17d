//! Names of endpoints: unique in a job, for all time.

/// The global name of an endpoint (paper 000, 2.2): rank, index there, and generation of that
/// index.
///
/// Plain data of 8 bytes, so that ranks can exchange it; zero names nothing.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout,
)]
#[repr(transparent)]
pub struct Name(u64);

impl Name {
    /// Creates the name of the endpoint that `rank` opened at `index`, for the `generation`-th time
    /// (from 1).
    pub fn new(rank: u32, index: u8, generation: u32) -> Self {
        debug_assert!(rank <= 0xff_ffff, "a name holds ranks of 24 bits");
        Self(u64::from(rank & 0xff_ffff) << 40 | u64::from(index) << 32 | u64::from(generation))
    }

    /// Returns the name as one word, for messages.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// Reads a name from a message; any bits are a name, though perhaps of no endpoint.
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the rank that opened it.
    pub fn rank(self) -> u32 {
        (self.0 >> 40) as u32
    }

    /// Returns its index at that rank.
    pub fn index(self) -> u8 {
        (self.0 >> 32) as u8
    }

    /// Returns its generation: which opening of that index it is.
    pub fn generation(self) -> u32 {
        self.0 as u32
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "endpoint {} of rank {}", self.index(), self.rank())
    }
}
