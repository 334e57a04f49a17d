//! Resource limits in words: those too low for clump, and the one behind a signal.

use crate::refusal::limit;
use crate::signal;
use rustix::process::Resource;
use std::fmt;

/// Smallest stack of the main thread with which clump starts: reading the command line takes some
/// 100 KiB, over 320 KiB in a build without optimization, and a rank's handlers run on that stack
/// too.
pub const MIN_STACK_BYTES: u64 = 512 << 10;
/// Smallest limit of private memory with which clump starts: agent and ranks take a few megabytes,
/// and each thread its stack.
pub const MIN_DATA_BYTES: u64 = 16 << 20;
/// Smallest limit of address space with which clump starts: the program, its libraries, the stacks
/// of its threads and the memory of a small node are mapped into it. An allocation that the kernel
/// refuses ends a process without a message.
pub const MIN_ADDRESS_BYTES: u64 = 64 << 20;

/// A limit under which clump cannot run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLow {
    what: &'static str,
    option: &'static str,
    allowed: u64,
    least: u64,
}

impl fmt::Display for TooLow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, option, allowed, least } = self;
        write!(
            f,
            "the limit of {what} is {} KiB, and clump needs {} KiB at least; raise it \
             (ulimit {option} unlimited)",
            allowed >> 10,
            least >> 10
        )
    }
}

impl std::error::Error for TooLow {}

/// Checks the limits that would otherwise end this process without a message: a stack that
/// overflows and memory that is refused in the middle of something cannot be reported any more.
///
/// # Errors
/// One of them is lower than clump can work with.
pub fn check() -> Result<(), TooLow> {
    let stack = ("stack size", "-s", Resource::Stack, MIN_STACK_BYTES);
    let data = ("private memory", "-d", Resource::Data, MIN_DATA_BYTES);
    let address = ("address space", "-v", Resource::As, MIN_ADDRESS_BYTES);
    for (what, option, resource, least) in [stack, data, address] {
        if let Some(allowed) = limit(resource).current.filter(|&allowed| allowed < least) {
            return Err(TooLow { what, option, allowed, least });
        }
    }
    Ok(())
}

/// Returns the limit that a process ran into which this signal killed, and the remedy.
pub fn behind_signal(number: u8) -> Option<&'static str> {
    match number {
        signal::FILE_SIZE => Some("a file reached the limit of file sizes (ulimit -f); raise it"),
        signal::CPU_TIME => Some("the limit of processor time ran out (ulimit -t); raise it"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_too_low_is_named_with_its_remedy() {
        let low = TooLow { what: "stack size", option: "-s", allowed: 65_536, least: 524_288 };
        assert_eq!(
            low.to_string(),
            "the limit of stack size is 64 KiB, and clump needs 512 KiB at least; raise it (ulimit -s \
             unlimited)"
        );
        check().unwrap();
    }

    #[test]
    fn signals_of_limits_name_them() {
        assert!(behind_signal(signal::FILE_SIZE).is_some_and(|text| text.contains("ulimit -f")));
        assert!(behind_signal(signal::CPU_TIME).is_some_and(|text| text.contains("ulimit -t")));
        assert_eq!(behind_signal(signal::KILL), None);
    }
}
