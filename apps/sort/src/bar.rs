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
        let style = ProgressStyle::with_template(
            "{msg:22} [{bar:40}] {bytes:>10} of {total_bytes} {bytes_per_sec:>12} {eta:>4}",
        );
        let bar = if hidden { ProgressBar::hidden() } else { ProgressBar::new(0) };
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("=> "));
        }
        Self { bar, nranks: nranks as u64, alike: 1 }
    }
}

impl Progress for Bar {
    fn phase(&mut self, name: &str, bytes: u64) {
        // One rank reads a stream, and its length is unknown before its end.
        self.alike = if bytes == 0 { 1 } else { self.nranks };
        self.bar.reset();
        self.bar.set_length(bytes * self.alike);
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
