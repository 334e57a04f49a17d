//! Resource limits in words: the limit behind a refusal, its value, and the remedy.
//!
//! The kernel returns `ENOMEM` or `EAGAIN`, not which limit it means: so those that are set are
//! named.

use crate::process::limit;
use crate::signal;
use rustix::io::Errno;
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

/// Returns the remedy where the kernel refused for this reason; empty where no limit is meant.
pub(crate) fn remedy(errno: Errno) -> String {
    match errno {
        Errno::MFILE => {
            "; raise the limit of open files (ulimit -Hn; `clump doctor`) or start fewer ranks"
                .into()
        }
        Errno::NFILE => {
            "; the machine has no more open files (sysctl fs.file-max); start fewer ranks".into()
        }
        Errno::FBIG => match set(&[FILE_SIZE]) {
            Some(limit) => format!("; raise {limit}"),
            None => String::new(),
        },
        Errno::NOMEM => match set(&MEMORY) {
            Some(limits) => format!("; raise {limits}, or start fewer ranks"),
            None => String::new(),
        },
        _ => String::new(),
    }
}

/// Returns the reason and the remedy where no process or thread can be started (`EAGAIN`); the C
/// library returns that too where there is no memory for the stack of a thread.
pub(crate) fn no_process() -> String {
    let memory = set(&MEMORY).map_or(String::new(), |limits| format!("; or raise {limits}"));
    format!(
        "no more processes or threads allowed: raise the limit (ulimit -u, or the container's pids \
         limit) or start fewer ranks{memory}"
    )
}

/// Returns the limit that a process ran into which this signal killed, and the remedy.
pub fn behind_signal(number: u8) -> Option<&'static str> {
    match number {
        signal::FILE_SIZE => Some("a file reached the limit of file sizes (ulimit -f); raise it"),
        signal::CPU_TIME => Some("the limit of processor time ran out (ulimit -t); raise it"),
        _ => None,
    }
}

/// A limit in bytes: its name, the option of `ulimit`, the resource.
type Bytes = (&'static str, &'static str, Resource);

const FILE_SIZE: Bytes = ("file sizes", "-f", Resource::Fsize);
const MEMORY: [Bytes; 3] = [
    ("address space", "-v", Resource::As),
    ("private memory", "-d", Resource::Data),
    ("locked memory", "-l", Resource::Memlock),
];

/// Returns those of `limits` that are set, with their values.
fn set(limits: &[Bytes]) -> Option<String> {
    let named = limits.iter().filter_map(|&(what, option, resource)| {
        let allowed = limit(resource).current?;
        // Locked memory is limited everywhere; only a limit of 0 matters.
        let matters = option != "-l" || allowed == 0;
        matters.then(|| format!("the limit of {what}, {} KiB (ulimit {option})", allowed >> 10))
    });
    let named: Vec<String> = named.collect();
    (!named.is_empty()).then(|| named.join(", "))
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
    fn refusals_name_their_limits() {
        assert!(remedy(Errno::MFILE).contains("ulimit -Hn"));
        assert!(no_process().contains("ulimit -u"));
        assert_eq!(remedy(Errno::NOENT), "");
        assert!(behind_signal(signal::FILE_SIZE).is_some_and(|text| text.contains("ulimit -f")));
        assert!(behind_signal(signal::CPU_TIME).is_some_and(|text| text.contains("ulimit -t")));
        assert_eq!(behind_signal(signal::KILL), None);
    }
}
