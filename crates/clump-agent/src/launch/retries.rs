//! Starts what reaches machines again whose names resolve late (`late_names.rs`).

use super::agent_handle::AgentHandle;
use super::ssh_starter::{Role, SshStarter};
use super::staged::StagedFiles;
use super::{Launcher, token};
use clump_boot::boot::VARIABLES;
use clump_os::clock;
use std::ffi::OsString;

impl Launcher {
    /// Starts what reaches machines again whose names were not known, if their time has come.
    pub(super) fn retry_late_names(&mut self) -> anyhow::Result<()> {
        let now_ns = clock::now_ns();
        for (node, link) in self.agents.iter().enumerate() {
            // What relays start is theirs.
            let is_over = link.hello().is_none() && link.exit().is_some() && link.pid().is_some();
            let said = if is_over { link.said().1.to_lowercase() } else { String::new() };
            if said.contains("could not resolve hostname") {
                self.late_names.plan(node, &said, now_ns);
            }
        }
        for node in self.late_names.due(now_ns) {
            let Some(name) = self.agents.get(node).and_then(|link| link.machine()) else {
                continue;
            };
            let name = name.to_owned();
            let stages = self.spec.remote.stage;
            let staged = stages.then(|| StagedFiles::find(&self.spec)).transpose()?;
            let uploads = staged.as_ref().map(StagedFiles::open).transpose()?.unwrap_or_default();
            let shell = SshStarter::new(&self.spec.remote, staged.as_ref());
            let without = VARIABLES.map(OsString::from);
            let started = shell.start_client(&name, Role::Agent, &without)?.into_agent()?;
            let mut link = AgentHandle::new(started, Some(name), uploads)?;
            let low = node as u64;
            let tokens = (token::AGENT | low, token::END | low, token::ERRORS | low);
            link.watch(&self.poller, tokens)?;
            self.agents[node] = link;
        }
        Ok(())
    }
}
