//! Progress of a sort, for its user.

/// Receiver of a sort's progress. Called from one thread.
pub trait Progress {
    /// Begins a phase of `bytes`; 0: unknown.
    fn phase(&mut self, name: &str, bytes: u64);
    /// Reports `bytes` more as done.
    fn advance(&mut self, bytes: u64);
    /// Shows a notice for the user, in one line.
    fn note(&mut self, _text: &str) {}
}

/// Ignores progress.
#[derive(Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn phase(&mut self, _name: &str, _bytes: u64) {}
    fn advance(&mut self, _bytes: u64) {}
}
