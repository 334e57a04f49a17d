//! The agents of a job: which process starts each, and their start.
//!
//! The launcher starts as many as its fan-out says, itself. If there are more on other machines, it
//! starts relays, equally many machines each, and these start the agents of their machines.

use super::agent_handle::AgentHandle;
use super::agent_starter::{AgentProcess, AgentRequest, AgentStarter, StartedAgent};
use super::fork_starter::{self, ForkStarter};
use super::relay_link::{RelayLink, RelayedStart};
use super::ssh_starter::{Role, SshStarter};
use super::staged::StagedFiles;
use crate::spec::JobSpec;
use clump_boot::boot::VARIABLES;
use clump_os::process;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::ops::Range;

/// Agents by node, and the relays that some of them need.
#[derive(Debug)]
pub(super) struct StartedAgents {
    pub(super) agents: Vec<AgentHandle>,
    pub(super) relays: Vec<RelayLink>,
}

/// The command that starts an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartCommand {
    /// The command.
    pub words: Vec<OsString>,
    /// The ranks of the agent's node.
    pub ranks: Range<u32>,
    /// The machine that runs the command; none: this one.
    pub on: Option<String>,
}

/// Starts an agent for every node, at most `fan_out` of other machines by this process. If one
/// cannot be started, the others notice that the launcher ends.
///
/// # Errors
/// Fails if a process or a thread cannot be started, or if files to be copied are not found.
pub(super) fn start_agents(spec: &JobSpec, fan_out: usize) -> anyhow::Result<StartedAgents> {
    // This process may itself be a rank of another job.
    let without = VARIABLES.map(OsString::from);
    let plan = StartPlan::new(spec, fan_out)?;
    let shell = SshStarter::new(&spec.remote, plan.staged.as_ref());
    let files = || -> anyhow::Result<Vec<File>> {
        Ok(plan.staged.as_ref().map(StagedFiles::open).transpose()?.unwrap_or_default())
    };
    let (mut agents, mut relays) = (BTreeMap::new(), Vec::new());
    for node in plan.here() {
        let request =
            AgentRequest { node, machine: None, reads_input: node == 0, without: &without };
        agents.insert(node, AgentHandle::new(ForkStarter.start(&request)?, None, Vec::new())?);
    }
    for group in &plan.groups {
        let (&[first, ..], [_, rest @ ..]) = (&group[..], &group[..]) else { continue };
        let machine = plan.machine(first);
        if rest.is_empty() {
            let request =
                AgentRequest { node: first, machine, reads_input: first == 0, without: &without };
            let started = SshStarter::new(&spec.remote, plan.staged.as_ref()).start(&request)?;
            let handle = AgentHandle::new(started, machine.map(str::to_owned), files()?)?;
            agents.insert(first, handle);
            continue;
        }
        let machine = machine.unwrap_or_default();
        let client = shell.start_client(machine, Role::Relay, &without)?;
        let words = |node: &u32| shell.words(plan.machine(*node).unwrap_or_default(), Role::Agent);
        let others = rest.iter().map(|node| RelayedStart { words: words(node) });
        let starts = [RelayedStart { words: Vec::new() }].into_iter().chain(others).collect();
        let (relay, ends) = RelayLink::begin(client, machine, starts, files()?)?;
        debug_assert_eq!(ends.len(), group.len(), "the relay runs them all");
        for (&node, (process, streams, errors)) in group.iter().zip(ends) {
            let process = AgentProcess::Relayed(process, Some(errors));
            let started = StartedAgent { process, streams };
            // The relay has the files of its own machine already.
            let files = if node == first { Vec::new() } else { files()? };
            let handle = AgentHandle::new(started, plan.machine(node).map(str::to_owned), files)?;
            agents.insert(node, if node == first { handle } else { handle.started_by(machine) });
        }
        relays.push(relay);
    }
    debug_assert_eq!(agents.len() as u32, spec.nodes.max(1), "an agent for every node");
    Ok(StartedAgents { agents: agents.into_values().collect(), relays })
}

/// Returns the command that starts the agent of each node.
///
/// # Errors
/// Fails if files to be copied are not found, or if settings are invalid.
pub fn commands(spec: &JobSpec) -> anyhow::Result<Vec<StartCommand>> {
    let plan = StartPlan::new(spec, fan_out_of(&clump_boot::Config::load()?))?;
    let shell = SshStarter::new(&spec.remote, plan.staged.as_ref());
    let mut all = BTreeMap::new();
    for node in plan.here() {
        all.insert(node, (fork_starter::words("N"), None));
    }
    for group in &plan.groups {
        let first = group.first().copied().unwrap_or_default();
        for &node in group {
            let role = if node == first && group.len() > 1 { Role::Relay } else { Role::Agent };
            let words = shell.words(plan.machine(node).unwrap_or_default(), role);
            let on = plan.machine(first).filter(|_| node != first).map(str::to_owned);
            all.insert(node, (words, on));
        }
    }
    let of = |(node, (words, on))| StartCommand { words, ranks: spec.ranks_of(node), on };
    Ok(all.into_iter().map(of).collect())
}

/// Returns the most agents of other machines that a launcher with these settings starts itself.
pub(super) fn fan_out_of(config: &clump_boot::Config) -> usize {
    usize::try_from(config.start_fan_out).unwrap_or(usize::MAX)
}

/// Assignment of agents to the processes that start them.
#[derive(Debug)]
struct StartPlan<'a> {
    spec: &'a JobSpec,
    staged: Option<StagedFiles>,
    /// Nodes on other machines: the first of each group is started by the launcher, and its machine
    /// starts the others.
    groups: Vec<Vec<u32>>,
}

impl<'a> StartPlan<'a> {
    fn new(spec: &'a JobSpec, fan_out: usize) -> anyhow::Result<Self> {
        let stages = spec.remote.stage && !spec.machines.is_empty();
        let staged = stages.then(|| StagedFiles::find(spec)).transpose()?;
        let mut plan = Self { spec, staged, groups: Vec::new() };
        let far: Vec<u32> = plan.nodes().filter(|&node| plan.machine(node).is_some()).collect();
        let can_relay = SshStarter::new(&spec.remote, None).can_relay();
        plan.groups = groups(&far, if can_relay { fan_out } else { far.len() });
        Ok(plan)
    }

    fn nodes(&self) -> Range<u32> {
        0..self.spec.nodes.max(1)
    }

    /// Returns the nodes on this machine.
    fn here(&self) -> impl Iterator<Item = u32> {
        self.nodes().filter(|&node| self.machine(node).is_none())
    }

    /// Returns the name of a node's machine, unless it is this one.
    fn machine(&self, node: u32) -> Option<&'a str> {
        let machine = self.spec.machines.get(node as usize).map(|machine| machine.name.as_str());
        machine.filter(|name| *name != "localhost" && *name != process::host_name())
    }
}

/// Divides `nodes` into at most `most` groups of nearly equal size, in their order.
fn groups(nodes: &[u32], most: usize) -> Vec<Vec<u32>> {
    let count = most.clamp(1, nodes.len().max(1));
    let start = |group: usize| group * nodes.len() / count;
    let all = (0..count).map(|group| nodes[start(group)..start(group + 1)].to_vec());
    let groups: Vec<Vec<u32>> = all.filter(|group| !group.is_empty()).collect();
    debug_assert_eq!(groups.iter().map(Vec::len).sum::<usize>(), nodes.len(), "each is in one");
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Machine;

    #[test]
    fn no_process_starts_more_than_its_share() {
        assert!(groups(&[], 16).is_empty());
        assert_eq!(groups(&[3, 4, 7], 16), [[3], [4], [7]], "the launcher starts few itself");
        assert_eq!(groups(&[0, 1, 2, 3, 4], 2), [vec![0, 1], vec![2, 3, 4]]);
        for (count, most) in [(17, 16), (256, 16), (40, 3), (5, 1)] {
            let nodes: Vec<u32> = (0..count).collect();
            let groups = groups(&nodes, most);
            assert_eq!(groups.len(), most);
            assert_eq!(groups.concat(), nodes);
            let each = (count as usize).div_ceil(most);
            assert!(groups.iter().all(|group| group.len() <= each), "{count} by {most}");
        }
    }

    #[test]
    fn commands_say_where_they_are_run() {
        let mut spec = JobSpec::new("/bin/true", Vec::new(), 20);
        spec.nodes = 20;
        spec.machines = (0..20).map(|n| Machine { name: format!("m{n}"), ranks: 1 }).collect();
        spec.remote.clump = Some("clump".into());
        let all = commands(&spec).unwrap();
        assert_eq!(all.len(), 20);
        let here = all.iter().filter(|command| command.on.is_none()).count();
        assert_eq!(here, 16, "{all:?}");
        for command in &all {
            let relays = command.words.last().unwrap() == "clump agent --relay";
            let name = command.words[command.words.len() - 2].to_string_lossy().into_owned();
            let starts = all.iter().any(|other| other.on.as_deref() == Some(&name));
            assert_eq!(relays, starts, "{command:?}");
        }
        spec.remote.shell = vec!["srun".into()];
        assert!(commands(&spec).unwrap().iter().all(|command| command.on.is_none()));
    }
}
