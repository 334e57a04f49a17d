//! Results of a search: counts, and the error of a model.

/// Class of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorClass {
    /// An invariant does not hold.
    Invariant,
    /// A deadlock.
    Deadlock,
    /// A rule does something wrong.
    Rule,
    /// A start state does something wrong.
    Start,
    /// A loop over a scalarset depends on the order.
    Unordered,
}

/// An error of a model. The least one is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundError {
    /// Rules on the way there.
    pub steps: u64,
    /// Class.
    pub class: ErrorClass,
    /// Key of the state; 0 at start states.
    pub key: u64,
    /// Number of the rule or the invariant.
    pub rule: u64,
    /// Instance of it.
    pub instance: u64,
}

impl FoundError {
    /// Words of no error.
    pub const NONE: [u64; 5] = [u64::MAX; 5];
    const CLASSES: [ErrorClass; 5] = [
        ErrorClass::Invariant,
        ErrorClass::Deadlock,
        ErrorClass::Rule,
        ErrorClass::Start,
        ErrorClass::Unordered,
    ];

    /// Returns it as words.
    pub fn to_words(self) -> [u64; 5] {
        [self.steps, self.class as u64, self.key, self.rule, self.instance]
    }

    /// Returns the error of words, if it is one.
    pub fn from_words([steps, class, key, rule, instance]: [u64; 5]) -> Option<Self> {
        let class = Self::CLASSES.get(usize::try_from(class).ok()?).copied()?;
        Some(Self { steps, class, key, rule, instance })
    }
}

/// Counts and error of a search, the same on all ranks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchResult {
    /// Distinct states.
    pub states: u64,
    /// Rules that fired.
    pub fired: u64,
    /// Steps to the states that are farthest away; unknown without levels.
    pub depth: u64,
    /// Largest number of states of a level.
    pub widest: u64,
    /// Bytes of memory for states, tables and queues of all ranks.
    pub bytes: u64,
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// Bytes of keys that stand for states.
    pub key_bytes: u64,
    /// States that were dropped for want of memory.
    pub lost: u64,
    /// True if the search ended before all states were expanded, at a bound.
    pub ended_early: bool,
    /// The least error.
    pub error: Option<FoundError>,
}
