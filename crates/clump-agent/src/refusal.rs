//! The reason why a node cannot start its ranks.

/// The reason why a rank could not be started, and the code a shell would give.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) why: String,
    pub(crate) code: u8,
}

impl Refusal {
    pub(crate) fn new(why: impl std::fmt::Display, code: u8) -> Self {
        Self { why: why.to_string(), code }
    }
}
