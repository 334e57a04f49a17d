//! Agents on other machines: a remote shell, the system's `ssh` unless the user names another,
//! starts `clump agent` there, and hands on its standard input and output.

use super::agent_starter::{AgentProcess, ProcessEnds};
use super::staged::StagedFiles;
use crate::keeper::{AGENT_COMMAND, RELAY};
use crate::spec::RemoteStart;
use anyhow::Context;
use clump_os::printable::printable;
use clump_os::process::{self, Program};
use clump_os::socket;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Options for OpenSSH behind the user's own, which win: a question to a terminal that nobody
/// sees would wait for ever, and a connection that stays for later commands would outlive the job.
const OPTIONS: [&str; 8] =
    ["-T", "-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=6", "-o", "ControlMaster=no"];

/// Process that is started on a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Its agent.
    Agent,
    /// A relay, which starts the machine's agent and reaches further machines.
    Relay,
}

impl Role {
    /// Returns the options behind [`AGENT_COMMAND`].
    fn options(self) -> &'static str {
        if self == Self::Relay { RELAY } else { "" }
    }
}

/// Starts agents by a remote shell.
#[derive(Debug)]
pub(super) struct SshStarter<'a> {
    remote: &'a RemoteStart,
    /// Files that go to each machine first, if any do.
    staged: Option<&'a StagedFiles>,
}

impl<'a> SshStarter<'a> {
    pub(super) fn new(remote: &'a RemoteStart, staged: Option<&'a StagedFiles>) -> Self {
        Self { remote, staged }
    }

    /// Returns true if machines may start others: a resource manager starts what it runs itself.
    pub(super) fn can_relay(&self) -> bool {
        self.shell() != Some(OsStr::new("srun"))
    }

    fn shell(&self) -> Option<&OsStr> {
        self.remote.shell.first().map(Path::new).and_then(Path::file_name)
    }

    /// Returns the words that start the agent on `machine`, or a relay there.
    pub(super) fn words(&self, machine: &str, role: Role) -> Vec<OsString> {
        let mut words = self.remote.shell.clone();
        let shell_is = |name| self.shell() == Some(OsStr::new(name));
        if shell_is("ssh") {
            words.extend(OPTIONS.map(OsString::from));
        }
        words.push(machine.into());
        if shell_is("srun") {
            // It runs a program, and no shell.
            words.extend(["sh", "-c"].map(OsString::from));
        }
        words.push(match self.staged {
            Some(files) => files.command(role.options()),
            None => {
                let mut command = quoted(&self.clump());
                command.push(format!(" {AGENT_COMMAND}{}", role.options()));
                command
            }
        });
        words
    }

    /// Starts the client that reaches `machine`.
    ///
    /// # Errors
    /// Fails if there is no such client.
    pub(super) fn start_client(
        &self,
        machine: &str,
        role: Role,
        without: &[OsString],
    ) -> anyhow::Result<ProcessEnds> {
        let words = self.words(machine, role);
        let (shell, rest) = words.split_first().context("no program reaches other machines")?;
        let (ours, theirs) = socket::stream_pair()?;
        let mut program = Program::new(shell, rest.iter().cloned());
        program.without = without.to_vec();
        program.stream = Some(theirs);
        let child = process::start(&program).with_context(|| {
            let shell = printable(shell);
            format!("`{shell}`, which is to reach {machine}, cannot be run; `--ssh` names another")
        })?;
        Ok(ProcessEnds { process: AgentProcess::Child(child), stream: ours })
    }

    /// Returns the path of clump on the machines.
    pub(super) fn clump(&self) -> OsString {
        let own = || std::env::current_exe().map_or_else(|_| "clump".into(), OsString::from);
        self.remote.clump.clone().unwrap_or_else(own)
    }
}

/// Quotes a word for the login shell of another machine, if it needs it: as all usual shells
/// understand.
fn quoted(word: &OsStr) -> OsString {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+:@%,".contains(byte);
    let bytes = word.as_bytes();
    if !bytes.is_empty() && bytes.iter().all(plain) {
        return word.to_owned();
    }
    let mut quoted = vec![b'\''];
    for &byte in bytes {
        match byte {
            b'\'' => quoted.extend_from_slice(b"'\\''"),
            byte => quoted.push(byte),
        }
    }
    quoted.push(b'\'');
    OsString::from_vec(quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_chooses_the_shell_and_openssh_never_asks() {
        let mut remote =
            RemoteStart { clump: Some("/opt/my clump/clump".into()), ..RemoteStart::default() };
        let words = SshStarter::new(&remote, None).words("b", Role::Agent);
        assert_eq!(words.first().unwrap(), "ssh");
        assert!(words.iter().any(|word| word == "BatchMode=yes"), "{words:?}");
        assert_eq!(words[words.len() - 2..], ["b", "'/opt/my clump/clump' agent"]);
        assert!(SshStarter::new(&remote, None).can_relay());
        remote.shell = vec!["srun".into(), "--nodelist".into()];
        let words = SshStarter::new(&remote, None).words("b", Role::Agent);
        assert_eq!(words[..5], ["srun", "--nodelist", "b", "sh", "-c"]);
        assert!(!SshStarter::new(&remote, None).can_relay(), "Slurm starts all itself");
        remote.shell = vec!["/x/fake".into(), "-p".into(), "22".into()];
        remote.clump = Some("clump".into());
        assert_eq!(
            SshStarter::new(&remote, None).words("b", Role::Agent),
            ["/x/fake", "-p", "22", "b", "clump agent"]
        );
        let relay = SshStarter::new(&remote, None).words("b", Role::Relay);
        assert_eq!(relay.last().unwrap(), "clump agent --relay");
    }

    #[test]
    fn paths_are_quoted_for_any_shell() {
        assert_eq!(quoted(OsStr::new("/usr/bin/clump-1.0_x")), "/usr/bin/clump-1.0_x");
        assert_eq!(quoted(OsStr::new("a b")), "'a b'");
        assert_eq!(quoted(OsStr::new("it's")), "'it'\\''s'");
        assert_eq!(quoted(OsStr::new("")), "''");
        assert_eq!(quoted(OsStr::new("$(x);")), "'$(x);'");
    }
}
