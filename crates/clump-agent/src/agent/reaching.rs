//! The agent between its sockets and its ranks: it finds out by which addresses other nodes are
//! reached, then binds the sockets of its ranks at those that are of use.

use super::{Agent, Result, token};
use crate::frame::{Frame, Key};
use crate::heartbeat_socket::HeartbeatSocket;
use crate::net::NodeNetwork;
use crate::path_probe::{PathProbe, ProbeEnd};
use crate::refusal::Refusal;
use crate::spec::{AddressTable, AgentOffer, BoundAddress};
use clump_os::epoll::Interest;
use clump_os::{clock, process};
use std::net::{IpAddr, SocketAddr};

/// Part of the node timeout after which silence counts; the rest is for agreeing on which node is
/// lost.
const SILENCE_SHARE: (u64, u64) = (3, 4);
/// The exit code of a job whose nodes cannot reach each other.
const UNREACHED: u8 = 125;

impl Agent {
    /// Begins to find out how to reach the other agents, and to beat.
    pub(super) fn probe_paths(&mut self, offers: &[AgentOffer]) -> Result<()> {
        let Some(own) = self.node.unbound.as_mut().filter(|_| self.heartbeats.is_none()) else {
            return Ok(());
        };
        let (plan, now_ns) = (&self.node.plan, clock::now_ns());
        let challenge = process::random()?;
        let node = (plan.node, plan.sharing.nodes);
        let mut probe = PathProbe::new(own.addresses.clone(), node, offers, challenge, now_ns);
        if !plan.addresses.is_empty() {
            probe.take_as_given();
        }
        let silence_ns = SILENCE_SHARE.0 * plan.node_timeout_ms * 1_000_000 / SILENCE_SHARE.1;
        let times = (silence_ns, plan.job_id, now_ns);
        let mut key = Key::new(|| *own.key)?;
        let sockets = std::mem::take(&mut own.sockets);
        let peers = (plan.node, offers);
        let heartbeats =
            HeartbeatSocket::new(sockets, probe, &mut key, own.security, peers, times)?;
        for socket in heartbeats.sockets() {
            self.poller.add(socket, token::HEART, Interest::Read)?;
        }
        self.heartbeats = Some(heartbeats);
        self.offers = offers.to_vec();
        self.handle_probe_end()
    }

    /// Goes on when it is known how to reach the others: binds the sockets of ranks, or says which
    /// node cannot be reached.
    pub(super) fn handle_probe_end(&mut self) -> Result<()> {
        let Some(heartbeats) = &mut self.heartbeats else { return Ok(()) };
        let frame = match heartbeats.poll_probe_end(clock::now_ns()) {
            None => return Ok(()),
            Some(ProbeEnd::Unreached(nodes)) => {
                Frame::Refused(self.explain_unreached(&nodes), UNREACHED)
            }
            Some(ProbeEnd::Reached) => match self.bind() {
                Ok(frame) => frame,
                Err(Refusal { why, code }) => Frame::Refused(why, code),
            },
        };
        Ok(self.outputs.say(&self.poller, &frame)?)
    }

    /// Binds the sockets of the node's ranks and interfaces.
    fn bind(&mut self) -> std::result::Result<Frame, Refusal> {
        let none = || Refusal::new("the launcher spoke out of turn", UNREACHED);
        let paths = self.heartbeats.as_ref().map(HeartbeatSocket::paths).ok_or_else(none)?;
        let chosen = paths.chosen();
        let addresses: Vec<IpAddr> =
            chosen.iter().filter_map(|&own| paths.own_address(own)).collect();
        let own = self.node.unbound.take().ok_or_else(none)?;
        let node = self.node.plan.node;
        let net = NodeNetwork::bind(node, &addresses, &mut self.node.memory, own)?;
        self.node.driver = net.access.driver;
        let bound = Box::new(net.bound.clone());
        self.node.net = Some(net);
        self.chosen = chosen;
        Ok(Frame::Bound(bound))
    }

    /// Returns the addresses of all processes as this node reaches them: for each of its own
    /// addresses, one of the other's that it reaches.
    pub(super) fn routed(&self, table: &AddressTable) -> AddressTable {
        let memory = &self.node.memory;
        let interfaces = (memory.interfaces() as usize).max(1);
        let of_rank = |(rank, at): (usize, &BoundAddress)| {
            let rank = u32::try_from(rank).unwrap_or(u32::MAX);
            self.routed_to(memory.node_of(rank), at)
        };
        let of_interface = |(number, at): (usize, &BoundAddress)| {
            self.routed_to(u32::try_from(number / interfaces).unwrap_or(u32::MAX), at)
        };
        AddressTable {
            interfaces: table.interfaces.iter().enumerate().map(of_interface).collect(),
            ranks: table.ranks.iter().enumerate().map(of_rank).collect(),
        }
    }

    fn routed_to(&self, node: u32, at: &BoundAddress) -> BoundAddress {
        let Some(heartbeats) = self.heartbeats.as_ref().filter(|_| node != self.node.plan.node)
        else {
            return *at;
        };
        let paths = heartbeats.paths();
        let theirs: Vec<SocketAddr> = at.addresses().collect();
        let reached: Vec<Vec<usize>> =
            self.chosen.iter().map(|&own| paths.reached(node, own, &theirs)).collect();
        let fits = |(place, &own): (usize, &usize)| {
            let mut before = self.chosen.iter().zip(&reached).take(place);
            // A second path by one interface leads through the same cable.
            let is_served = before.any(|(&other, reached)| {
                paths.is_same_interface(own, other) && !reached.is_empty()
            });
            let all = reached.get(place)?;
            let at = if all.contains(&place) { Some(&place) } else { all.first() };
            at.and_then(|&at| theirs.get(at)).copied().filter(|_| !is_served)
        };
        let mut fitting: Vec<Option<SocketAddr>> =
            self.chosen.iter().enumerate().map(fits).collect();
        fitting.truncate(fitting.iter().rposition(Option::is_some).map_or(0, |last| last + 1));
        // A path in between that leads nowhere is found to be out, and seldom tried.
        let any = fitting.iter().flatten().next().copied().unwrap_or(at.address);
        let routes = fitting.into_iter().map(|there| there.unwrap_or(any));
        BoundAddress::of(routes, at.epoch).unwrap_or(*at)
    }

    /// Returns a line for each other node: the addresses by which this one reaches it, in the order
    /// in which they are preferred.
    pub(super) fn describe_routes(&self, routed: &AddressTable) -> String {
        let Some(paths) = self.heartbeats.as_ref().map(HeartbeatSocket::paths) else {
            return String::new();
        };
        let name = |node: u32| self.offers.get(node as usize).map_or("", |offer| &offer.host);
        let (memory, here) = (&self.node.memory, self.node.plan.node);
        let interfaces = (memory.interfaces() as usize).max(1);
        let route = |node: u32| {
            let rank = self.spec.ranks_of(node).start as usize;
            let interface = node as usize * interfaces;
            let at = routed.ranks.get(rank).or_else(|| routed.interfaces.get(interface))?;
            let own = self.chosen.iter().filter_map(|&own| paths.own_address(own));
            let pairs =
                own.zip(at.addresses()).map(|(own, there)| format!("{own} -> {}", there.ip()));
            let pairs = pairs.collect::<Vec<_>>().join(", ");
            let (own, other) = (name(here), name(node));
            Some(format!("clump: node {here} ({own}) reaches node {node} ({other}): {pairs}\n"))
        };
        (0..self.spec.nodes).filter(|&node| node != here).filter_map(route).collect()
    }

    /// Returns the words for nodes that do not answer.
    fn explain_unreached(&self, nodes: &[u32]) -> String {
        let own = self.offers.get(self.node.plan.node as usize);
        let (here, node) = (own.map_or("", |own| own.host.as_str()), self.node.plan.node);
        let list = |offer: &AgentOffer| {
            let all: Vec<String> = offer.addresses.iter().map(SocketAddr::to_string).collect();
            let more = match offer.left_out {
                0 => String::new(),
                n => format!(" and {n} more, not tried: choose by --interface"),
            };
            format!("{} ({}{more})", offer.host, all.join(", "))
        };
        let far: Vec<&AgentOffer> =
            nodes.iter().filter_map(|&node| self.offers.get(node as usize)).collect();
        let others: Vec<String> = far.iter().copied().map(list).collect();
        let first = others.first().map_or("", String::as_str);
        let more = match others.len() {
            0 | 1 => String::new(),
            n => format!(" and {} more", n - 1),
        };
        let from: Vec<String> = own
            .iter()
            .flat_map(|own| &own.addresses)
            .map(|address| address.ip().to_string())
            .collect();
        if let Some(lonely) = own.iter().chain(&far).copied().find(|offer| is_lonely(offer)) {
            return explain_lonely(lonely);
        }
        format!(
            "node {node} ({here}) has no answer by UDP from {first}{more}, asked from {}\n  \
             next:   a firewall between them drops UDP, or no network joins them: let UDP pass between the machines",
            from.join(", ")
        )
    }
}

/// Returns true if a machine has offered no address that leads to it from elsewhere.
fn is_lonely(offer: &AgentOffer) -> bool {
    offer.addresses.iter().all(|address| address.ip().is_loopback())
}

/// Returns the words for a machine that has no network.
fn explain_lonely(offer: &AgentOffer) -> String {
    let ips: Vec<String> = offer.addresses.iter().map(|address| address.ip().to_string()).collect();
    format!(
        "machine {} offers no address but those of loopback ({}): its links are down, or have no address\n  \
         next:   `ip -brief address` there shows them; `ip link set NAME up` sets a link up",
        offer.host,
        ips.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_a_network_is_told_from_one_behind_a_firewall() {
        let offer = |all: &[&str]| AgentOffer {
            host: "b".into(),
            program: String::new(),
            addresses: all.iter().map(|one| one.parse().unwrap()).collect(),
            left_out: 0,
            epoch: 0,
        };
        let alone = offer(&["127.0.0.1:9", "[::1]:9"]);
        assert!(is_lonely(&alone) && !is_lonely(&offer(&["127.0.0.1:9", "10.0.0.1:9"])));
        let text = explain_lonely(&alone);
        assert!(text.starts_with("machine b offers no address but those of loopback"), "{text}");
        assert!(text.contains("127.0.0.1, ::1") && text.contains("ip link set"), "{text}");
    }
}
