//! Limits behind refusals of the kernel: it returns `ENOMEM` or `EAGAIN`, not which limit it means,
//! so those that are set are named.

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};

/// Returns soft and hard limit of this process; none where a filter refuses the call, for which
/// rustix's own panics. Allocates nothing, so that it may be called between fork and exec.
pub(crate) fn limit(resource: Resource) -> Rlimit {
    let mut found = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the kernel writes one `rlimit`, which lives during the call, or nothing.
    unsafe { libc::getrlimit(resource as libc::__rlimit_resource_t, &raw mut found) };
    let known = |value| (value != libc::RLIM_INFINITY).then_some(value);
    Rlimit { current: known(found.rlim_cur), maximum: known(found.rlim_max) }
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
    fn refusals_name_their_limits() {
        assert!(remedy(Errno::MFILE).contains("ulimit -Hn"));
        assert!(no_process().contains("ulimit -u"));
        assert_eq!(remedy(Errno::NOENT), "");
    }
}
