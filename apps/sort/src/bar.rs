//! A progress bar on rank 0, for people at a terminal.

use crate::job::Progress;
use indicatif::{ProgressBar, ProgressStyle};

/// Shows one rank's progress as that of all: shares are nearly even.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
    nranks: u64,
}

impl Bar {
    /// A bar on standard error for a sort of `nranks` ranks; invisible where that is no terminal.
    pub fn new(nranks: usize) -> Self {
        let style = ProgressStyle::with_template(
            "{msg:22} [{bar:40}] {bytes:>10} of {total_bytes} {bytes_per_sec:>12} {eta:>4}",
        );
        let bar = ProgressBar::new(0);
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("=> "));
        }
        Self { bar, nranks: nranks as u64 }
    }
}

impl Progress for Bar {
    fn phase(&mut self, name: &str, bytes: u64) {
        self.bar.reset();
        self.bar.set_length(bytes * self.nranks);
        self.bar.set_message(name.to_owned());
    }

    fn advance(&mut self, bytes: u64) {
        self.bar.inc(bytes * self.nranks);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
