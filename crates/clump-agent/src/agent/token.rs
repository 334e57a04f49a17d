//! Meanings of tokens in the poller; the lower half is a rank or a pipe.

pub(super) const LAUNCHER: u64 = 0;
pub(super) const SIGNALS: u64 = 1 << 32;
pub(super) const END: u64 = 2 << 32;
pub(super) const PIPE: u64 = 3 << 32;
pub(super) const BOOT_SOCKET: u64 = 4 << 32;
pub(super) const HEART: u64 = 5 << 32;
pub(super) const INPUT: u64 = 6 << 32;
pub(super) const CALLER: u64 = 7 << 32;
pub(super) const STARTER: u64 = 8 << 32;
pub(super) const METRICS: u64 = 9 << 32;
pub(super) const KIND: u64 = !0 << 32;
