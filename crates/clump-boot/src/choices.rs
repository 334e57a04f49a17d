//! Settings and parameters of studies that are choices among names.

use crate::setting_value::choice;
use std::str::FromStr;

choice! {
    /// The policy that chooses a message's proxy (paper 002, section 3.6). Messages in order, and
    /// one-sided operations, always take the same.
    pub enum Dispatch {
        /// One proxy for all messages of a rank.
        #[default]
        Fixed = "fixed",
        /// The proxies in turn.
        RoundRobin = "round-robin",
        /// The one that has the least to do for this rank.
        LeastLoaded = "least-loaded",
    }
}

choice! {
    /// Carrier of long payloads between nodes.
    pub enum NetBulk {
        /// Datagrams, as for everything else.
        #[default]
        Datagram = "datagram",
        /// Streams (TCP) for payloads of 128 KiB and more where datagrams are short, datagrams
        /// elsewhere.
        Auto = "auto",
        /// Streams for payloads of 32 KiB and more, and datagrams where there is none.
        Stream = "stream",
    }
}

choice! {
    /// A choice of driver.
    pub enum NetDriver {
        /// The fastest that this machine offers and that helps on the path at hand.
        #[default]
        Auto = "auto",
        /// UDP sockets: everywhere, without privileges.
        Udp = "udp",
        /// Short messages as Ethernet frames through packet sockets (AF_PACKET), long ones by UDP.
        Packet = "packet",
        /// Short messages through AF_XDP for one rank of a node, through packet sockets for the
        /// others; long ones by UDP.
        Xdp = "xdp",
    }
}

choice! {
    /// A step of the protocol ladder (paper 003, section 2); each has all that is below it.
    pub enum SvmProtocol {
        /// Requests of other nodes wake a thread of the node.
        Base = "base",
        /// Write notices and barriers are deposited.
        Dw = "dw",
        /// Pages and their versions are fetched.
        Rf = "rf",
        /// Diffs are stored directly.
        Dd = "dd",
        /// Locks are handed over by network interfaces: no thread is woken.
        #[default]
        Nil = "nil",
        /// Ranks carry the protocol out by deposits, fetches and locks.
        Deposit = "deposit",
    }
}

choice! {
    /// A choice of shared memory: each has what is before it, too. Stacks are never shared.
    pub enum SvmShare {
        /// The heap that programs ask clump for.
        Heap = "heap",
        /// Global and static variables of the program.
        Globals = "globals",
        /// Allocations of the program by `malloc` and its kin.
        #[default]
        Malloc = "malloc",
    }
}

choice! {
    /// A choice of access control.
    pub enum SvmFaults {
        /// The best that the kernel permits.
        #[default]
        Auto = "auto",
        /// Protection of ranges, and signals: everywhere.
        Protect = "protect",
        /// Faults of single pages (userfaultfd), as signals.
        Userfault = "userfault",
        /// Faults of single pages, and stores found by scans at releases (Linux 6.7).
        Scan = "scan",
        /// Faults of single pages, and stores found by scans of the rank alone, none of its
        /// interface.
        ScanOwn = "scan-own",
    }
}

choice! {
    /// A choice of what shares a message.
    pub enum SvmDiffs {
        /// One message for each run of changed bytes (direct diffs of paper 003, section 2).
        Runs = "runs",
        /// One message for each page.
        Pages = "pages",
        /// One message for all pages of a home.
        #[default]
        Home = "home",
    }
}

choice! {
    /// A choice of consistency.
    pub enum SvmConsistency {
        /// None: data is published by locks, barriers and flags.
        Plain = "plain",
        /// A rank that faults on a page sees what its writers had seen.
        #[default]
        Fetch = "fetch",
    }
}

choice! {
    /// A choice of what brings pages before they are used, where ranks fetch them.
    pub enum SvmAhead {
        /// All of it.
        #[default]
        Auto = "auto",
        /// Sequences of pages alone.
        None = "none",
        /// Patterns in faults: runs of pages at equal distances.
        Strides = "strides",
        /// Use of pages after they became stale, the last times.
        History = "history",
    }
}

choice! {
    /// A choice of the sender of notices.
    pub enum SvmNotices {
        /// As the step of the protocol ladder has it.
        #[default]
        Auto = "auto",
        /// Releases send them to all nodes.
        Push = "push",
        /// Acquires ask for them.
        Pull = "pull",
    }
}

choice! {
    /// A choice of answers.
    pub enum SvmFetch {
        /// As the step of the protocol ladder has it.
        #[default]
        Auto = "auto",
        /// The home answers once it has what is asked for.
        Wait = "wait",
        /// The home answers at once, and the requester asks again.
        Retry = "retry",
    }
}

impl FromStr for NetDriver {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|driver| driver.name() == text);
        found.ok_or_else(|| format!("`{text}` is no driver; one of {}", Self::NAMES.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for (number, driver) in NetDriver::ALL.into_iter().enumerate() {
            assert_eq!((driver as usize, driver.to_string().parse()), (number, Ok(driver)));
        }
        assert!("tcp".parse::<NetDriver>().unwrap_err().contains("udp, packet"));
    }
}
