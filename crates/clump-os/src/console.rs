//! Standard output and error of commands: failures are errors, and a stream without a reader does
//! not keep a command from receiving the signals that it holds back.

use crate::alarm::Alarm;
use crate::error::{OsError, Result};
use crate::signal;
use crate::writer::Writer;
use rustix::io::Errno;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::Arc;

/// Number of the format of what commands print with `--json`: another one has other fields, or
/// fields with other meanings.
pub const JSON_FORMAT: u32 = 1;

/// Beginning of the errors of [`out`].
const OUTPUT: &str = "writing standard output";

/// Writes `text` to standard output. Where this thread holds back signals that end a program, a
/// signal ends the waiting for a reader too; the caller then finds it.
///
/// # Errors
/// Standard output cannot be written. [`nobody_reads`] distinguishes a closed reader from other
/// reasons.
pub fn out(text: &str) -> Result<()> {
    let failed = |errno| OsError::new(OUTPUT, errno);
    if !signal::holds_ends_back() {
        let mut stdout = std::io::stdout().lock();
        let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
        return written.map_err(|e| OsError::of(OUTPUT, &e));
    }
    let stream = std::io::stdout().as_fd().try_clone_to_owned();
    let stream = stream.map_err(|e| OsError::of(OUTPUT, &e))?;
    let writer = Writer::start(vec![stream], 0, Arc::new(Alarm::new()?))?;
    writer.write(0, text.as_bytes());
    writer.drain(|| signal::pending(&signal::ENDS).is_none());
    writer.failure(0).map_or(Ok(()), |errno| Err(failed(errno)))
}

/// Returns the columns and rows of the terminal that standard output is.
pub fn size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    let size = (usize::from(size.ws_col), usize::from(size.ws_row));
    (size.0 > 0 && size.1 > 0).then_some(size)
}

/// Writes a line to the error stream, if that can be written; failures cannot be reported anywhere.
/// Waits for a reader no longer than [`out`] does.
pub fn err(line: &str) {
    let text = format!("{line}\n");
    if !signal::holds_ends_back() {
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
        return;
    }
    let Ok(stream) = std::io::stderr().as_fd().try_clone_to_owned() else { return };
    let Ok(bell) = Alarm::new() else { return };
    if let Ok(writer) = Writer::start(vec![stream], 0, Arc::new(bell)) {
        writer.write(0, text.as_bytes());
        writer.drain(|| signal::pending(&signal::ENDS).is_none());
    }
}

/// Writes `parts` to the error stream, one after the other, as far as they can be written at once.
/// Takes no lock and allocates nothing, so that it may be called in a signal handler.
pub fn err_at_once(parts: &[&str]) {
    for part in parts {
        // SAFETY: descriptor 2 is not closed by Rust programs; if it is, the write fails.
        let stderr = unsafe { std::os::fd::BorrowedFd::borrow_raw(2) };
        let _ = rustix::io::write(stderr, part.as_bytes());
    }
}

/// Returns the error of standard output that other code failed to write.
pub fn not_written(why: &std::io::Error) -> OsError {
    OsError::of(OUTPUT, why)
}

/// Returns true if `error` means that the reader of standard output closed it (EPIPE): then a
/// command ends quietly.
pub fn nobody_reads(error: &OsError) -> bool {
    error.call == OUTPUT && error.errno == Errno::PIPE
}
