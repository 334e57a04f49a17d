//! Identities of the namespaces that this process is in.

use std::os::unix::fs::MetadataExt;

/// Returns a number that only processes in the same namespace of `kind` (`net`, `pid`) have; zero
/// where the kernel has none of that kind.
pub fn identity(kind: &str) -> u64 {
    std::fs::metadata(format!("/proc/self/ns/{kind}")).map_or(0, |namespace| namespace.ino())
}
