//! Sockets that nothing can be received from: where the operating system refuses that for good, the
//! job cannot go on, and says why.

use crate::silence::name;
use clump_driver::ReceiveFailure;
use clump_shm::node::NodeMemory;

/// The exit code of such a job.
pub(crate) const CODE: u8 = 125;

/// Looks for such sockets, until one is found.
#[derive(Debug, Default)]
pub(crate) struct Receiving {
    told: bool,
}

impl Receiving {
    /// Why the job cannot go on, once: by what ranks and interfaces of the node have noted, and by
    /// the agent's `own` socket.
    pub(crate) fn poll_notices(
        &mut self,
        node: &NodeMemory,
        own: Option<ReceiveFailure>,
    ) -> Option<String> {
        if self.told {
            return None;
        }
        let mut all = node.local_ranks().chain(node.own_interfaces());
        let here = node.node();
        let noted = all.find_map(|id| {
            let failure = ReceiveFailure::from_bits(node.rank(id)?.receive_failure())?;
            let who = match node.node_of_interface(id) {
                Some(_) => name(node, id),
                None => format!("{} on node {here}", name(node, id)),
            };
            Some((who, failure))
        });
        let agent = || Some((format!("the agent of node {here}"), own?));
        let (who, failure) = noted.or_else(agent)?;
        self.told = true;
        Some(text(&who, failure))
    }
}

fn text(who: &str, failure: ReceiveFailure) -> String {
    let call = failure.call.name();
    let remedy = if failure.is_refusal() {
        format!(
            "a filter of system calls there refuses {call} (seccomp: of a container, a sandbox or a service \
             manager?); allow {call}, or run the job without that filter"
        )
    } else {
        "the fault is that machine's: look at its kernel's log and at its free memory, and run the job elsewhere \
         meanwhile"
            .to_owned()
    };
    format!("{who} can receive nothing from other nodes ({failure}): {remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump_shm::node::NodeConfig;

    /// `recvmmsg` that failed with EPERM, as the driver writes it.
    const REFUSED: u64 = 3 << 32 | 1;

    #[test]
    fn who_receives_nothing_is_told_of_once_with_call_reason_and_remedy() {
        let config = NodeConfig { node: 1, node_of: &[0, 1], proxies: 1, ..NodeConfig::new(2) };
        let node = NodeMemory::create(&config).unwrap();
        let own = ReceiveFailure::from_bits(1 << 32 | 5);
        let said = Receiving::default().poll_notices(&node, own).unwrap();
        assert!(said.contains("the agent of node 1") && said.contains("(recvfrom: "), "{said}");
        assert!(said.contains("os error 5") && said.contains("kernel's log"), "{said}");
        let interface = node.own_interfaces().next().unwrap();
        for id in [interface, 1] {
            let mut receiving = Receiving::default();
            assert_eq!(receiving.poll_notices(&node, None).is_some(), id == 1, "noted already");
            node.rank(id).unwrap().note_receive_failure(REFUSED);
            let mut receiving = Receiving::default();
            let said = receiving.poll_notices(&node, own).unwrap();
            assert!(said.starts_with(&name(&node, id)) && said.contains("node 1 can"), "{said}");
            assert!(said.contains("(recvmmsg: ") && said.contains("os error 1"), "{said}");
            assert!(said.contains("allow recvmmsg"), "{said}");
            assert_eq!(receiving.poll_notices(&node, own), None, "once");
        }
    }
}
