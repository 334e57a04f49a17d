//! The agents of a job: which process starts each, and their start.
//!
//! The launcher starts as many as its fan-out says, itself. If there are more on other machines, it
//! starts relays, equally many machines behind each, and these start agents and relays likewise.

use super::agent_handle::AgentHandle;
use super::agent_starter::ProcessEnds;
use super::fork_starter;
use super::relay_link::{RelayLink, RelayedStart};
use super::ssh_starter::{self, Role, SshStarter};
use super::staged::StagedFiles;
use super::this_machine::ThisMachine;
use crate::spec::{JobSpec, Machine};
use clump_boot::boot::VARIABLES;
use std::collections::{BTreeMap, VecDeque};
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
        let reads_input = node == 0 && !spec.keyboard;
        let started = fork_starter::start_agent(node, reads_input, &without)?.into_agent()?;
        agents.insert(node, AgentHandle::new(started, None, Vec::new())?);
    }
    // This process starts those without ends, and relays the others.
    let mut ready: VecDeque<(&Group, Option<&str>, Option<ProcessEnds>)> =
        plan.groups.iter().map(|group| (group, None, None)).collect();
    while let Some((group, by, ends)) = ready.pop_front() {
        let machine = plan.machine(group.node).unwrap_or_default();
        let own = || shell.start_client(machine, group.role(), &without);
        let mut ends = ends.map_or_else(own, Ok)?;
        let mut uploads = files()?;
        if group.role() == Role::Relay {
            let words =
                |of: &Group| shell.words(plan.machine(of.node).unwrap_or_default(), of.role());
            let others = group.behind.iter().map(|of| RelayedStart { words: words(of) });
            let starts = [RelayedStart { words: Vec::new() }].into_iter().chain(others).collect();
            // The files of the relay are those of its machine's agent.
            let (relay, mut all) =
                RelayLink::begin(ends, machine, starts, std::mem::take(&mut uploads))?;
            debug_assert_eq!(all.len(), group.behind.len() + 1, "the relay runs them all");
            ends = all.remove(0);
            let behind = group.behind.iter().zip(all);
            ready.extend(behind.map(|(of, ends)| (of, Some(machine), Some(ends))));
            relays.push(relay);
        }
        let handle = AgentHandle::new(ends.into_agent()?, Some(machine.to_owned()), uploads)?;
        agents.insert(group.node, by.into_iter().fold(handle, AgentHandle::started_by));
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
    let mut left: Vec<(&Group, Option<&str>)> = plan.groups.iter().map(|of| (of, None)).collect();
    while let Some((group, on)) = left.pop() {
        let machine = plan.machine(group.node).unwrap_or_default();
        let words = ssh_starter::with_session(shell.words(machine, group.role()));
        let command = (words, on.map(str::to_owned));
        all.insert(group.node, command);
        left.extend(group.behind.iter().map(|of| (of, Some(machine))));
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
    /// The names of the machines of nodes; none: this one.
    machines: Vec<Option<&'a str>>,
    /// Nodes on other machines, by what the launcher starts.
    groups: Vec<Group>,
}

/// A node on another machine, and those that its machine starts.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    node: u32,
    behind: Vec<Group>,
}

impl Group {
    /// Returns what is started on its machine.
    fn role(&self) -> Role {
        if self.behind.is_empty() { Role::Agent } else { Role::Relay }
    }
}

impl<'a> StartPlan<'a> {
    fn new(spec: &'a JobSpec, fan_out: usize) -> anyhow::Result<Self> {
        let stages = spec.remote.stage && !spec.machines.is_empty();
        let staged = stages.then(|| StagedFiles::find(spec)).transpose()?;
        let here = ThisMachine::new(&spec.remote);
        let name = |machine: &'a Machine| Some(&*machine.name).filter(|name| !here.is(name));
        let machines = spec.machines.iter().map(name).collect();
        let mut plan = Self { spec, staged, machines, groups: Vec::new() };
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
        self.machines.get(node as usize).copied().flatten()
    }
}

/// Divides `nodes` into at most `most` groups of nearly equal size, in their order, and what is
/// behind the first of each likewise.
fn groups(nodes: &[u32], most: usize) -> Vec<Group> {
    let count = most.clamp(1, nodes.len().max(1));
    let start = |group: usize| group * nodes.len() / count;
    let of = |group: usize| {
        let (&node, behind) = nodes[start(group)..start(group + 1)].split_first()?;
        Some(Group { node, behind: groups(behind, most) })
    };
    let groups: Vec<Group> = (0..count).filter_map(of).collect();
    debug_assert!(groups.len() <= most.max(1), "no process starts more");
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the nodes of groups, the most that a process starts, and the steps to the last one.
    fn shape(groups: &[Group]) -> (Vec<u32>, usize, usize) {
        let (mut nodes, mut most, mut depth) = (Vec::new(), groups.len(), 0);
        for group in groups {
            let (behind, widest, deepest) = shape(&group.behind);
            nodes.push(group.node);
            nodes.extend(behind);
            (most, depth) = (most.max(widest), depth.max(1 + deepest));
        }
        (nodes, most, depth)
    }

    #[test]
    fn no_process_starts_more_than_its_share() {
        for (count, most, depth) in [
            (0, 16, 0),
            (3, 16, 1),
            (16, 16, 1),
            (17, 16, 2),
            (256, 16, 2),
            (272, 16, 2),
            (273, 16, 3),
            (4096, 16, 3),
            (7, 2, 3),
            (5, 1, 5),
            (4096, 4096, 1),
        ] {
            let nodes: Vec<u32> = (0..count).collect();
            let expected = (nodes.clone(), most.min(count as usize), depth);
            assert_eq!(shape(&groups(&nodes, most)), expected, "{count} by {most}");
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
