//! A progress bar on rank 0, for people at a terminal.

use crate::job::Progress;
use clump_os::console;
use indicatif::{ProgressBar, ProgressStyle};

/// Shows one rank's progress as that of all ranks: shares are nearly even.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
    nranks: u64,
    /// Number of ranks that progress as this one does in the current phase.
    alike: u64,
}

impl Bar {
    /// Creates a bar on standard error for a sort of `nranks` ranks; except for its notes it is
    /// invisible if standard error is no terminal, or if `hidden`.
    pub fn new(nranks: usize, hidden: bool) -> Self {
        let bar = if hidden { ProgressBar::hidden() } else { ProgressBar::no_length() };
        Self { bar, nranks: nranks as u64, alike: 1 }
    }
}

/// Returns the template for a phase: without a bar where the amount is unknown, which would be full
/// from the start.
fn template(bytes: u64) -> &'static str {
    match bytes {
        0 => "{msg:22} {bytes:>10} so far {bytes_per_sec:>12}",
        _ => "{msg:22} [{bar:40}] {bytes:>10} of {total_bytes} {bytes_per_sec:>12} {eta:>4}",
    }
}

impl Progress for Bar {
    fn phase(&mut self, name: &str, bytes: u64) {
        // One rank reads a stream, and its length is unknown before its end.
        self.alike = if bytes == 0 { 1 } else { self.nranks };
        self.bar.reset();
        if let Ok(style) = ProgressStyle::with_template(template(bytes)) {
            self.bar.set_style(style.progress_chars("=> "));
        }
        match bytes {
            0 => self.bar.unset_length(),
            _ => self.bar.set_length(bytes * self.alike),
        }
        self.bar.set_message(name.to_owned());
    }

    fn advance(&mut self, bytes: u64) {
        self.bar.inc(bytes * self.alike);
    }

    fn note(&mut self, text: &str) {
        self.bar.suspend(|| console::err(&format!("clump: {text}")));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_amount_has_no_bar() {
        assert!(!template(0).contains("{bar") && !template(0).contains("total"));
        assert!(template(1).contains("{bar:40}") && template(1).contains("{total_bytes}"));
        for bytes in [0, 1] {
            assert!(ProgressStyle::with_template(template(bytes)).is_ok());
        }
        let mut bar = Bar::new(4, true);
        bar.phase("reads", 0);
        bar.advance(10);
        assert_eq!((bar.bar.length(), bar.bar.position()), (None, 10), "one rank reads");
        bar.phase("sorts", 100);
        bar.advance(10);
        assert_eq!((bar.bar.length(), bar.bar.position()), (Some(400), 40));
    }
}
