//! Agents on other machines: a remote shell, the system's `ssh` unless the user names another,
//! starts `clump agent` there, and hands on its standard input and output.

use super::agent_starter::{AgentProcess, ProcessEnds};
use super::staged::StagedFiles;
use crate::keeper::{self, AGENT_COMMAND, RELAY};
use crate::spec::RemoteStart;
use anyhow::Context;
use clump_os::printable::printable;
use clump_os::process::{self, Program};
use clump_os::shell_text::{quoted, typed};
use clump_os::socket;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Options for OpenSSH behind those of `--ssh`, which win: a question to a terminal that nobody
/// sees would wait for ever, a connection that stays for later commands would outlive the job, and
/// a command of the user's settings would run in the agent's place.
const OPTIONS: [&str; 10] = [
    "-T",
    "-x",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=6",
    "-o",
    "ControlMaster=no",
    "-o",
    "RemoteCommand=none",
];
/// Further settings without which no agent is heard, and the first OpenSSH that knows them; an
/// older one takes them for an error.
const SESSION: [&str; 6] =
    ["-o", "StdinNull=no", "-o", "ForkAfterAuthentication=no", "-o", "SessionType=default"];
const KNOWS_SESSION: (u32, u32) = (8, 7);

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
                self.command(role, keeper::invoked_path().filter(|_| self.remote.clump.is_none()))
            }
        });
        words
    }

    /// Returns the command that starts clump there. It is looked for where this program is; then,
    /// if this one was called by a symbolic `link`, where that is: versions may have folders.
    fn command(&self, role: Role, link: Option<PathBuf>) -> OsString {
        let words = format!("{AGENT_COMMAND}{}", role.options());
        let own = quoted(self.clump());
        let Some(link) = link else {
            let mut command = own;
            command.push(format!(" {words}"));
            return command;
        };
        let mut script = OsString::from("c=");
        script.push(own);
        script.push("; [ -x \"$c\" ] || c=");
        script.push(quoted(link));
        script.push(format!("; exec \"$c\" {words}"));
        let mut command = OsString::from("sh -c ");
        command.push(quoted(script));
        command
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
        let words = with_session(self.words(machine, role));
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

    /// Returns the command by which a user sees what clump says on `machine`.
    pub(super) fn trial(&self, machine: &str) -> String {
        let mut remote = quoted(self.clump());
        remote.push(" --version");
        let (shell, plain) =
            (typed(&self.remote.shell), remote.to_str().filter(|text| is_plain(text)));
        format!("{shell} {machine} {}", plain.map_or_else(|| typed([&remote]), str::to_owned))
    }

    /// Returns the path of clump on the machines.
    pub(super) fn clump(&self) -> OsString {
        let own = || std::env::current_exe().map_or_else(|_| "clump".into(), OsString::from);
        self.remote.clump.clone().unwrap_or_else(own)
    }
}

/// Adds what the OpenSSH of this machine has to be told of its session, before the names of the
/// machine and the command. Other words stay as they are.
pub(crate) fn with_session(mut words: Vec<OsString>) -> Vec<OsString> {
    static VERSION: OnceLock<Option<(u32, u32)>> = OnceLock::new();
    let Some(shell) = words.first().cloned() else { return words };
    if Path::new(&shell).file_name() != Some(OsStr::new("ssh")) {
        return words;
    }
    if *VERSION.get_or_init(|| version_of(&shell)) >= Some(KNOWS_SESSION) {
        let at = words.len().saturating_sub(2);
        words.splice(at..at, SESSION.map(OsString::from));
    }
    words
}

/// Returns the version of an OpenSSH, if it is one.
fn version_of(shell: &OsStr) -> Option<(u32, u32)> {
    let said = Command::new(shell).arg("-V").stdin(Stdio::null()).output().ok()?.stderr;
    read_version(&String::from_utf8_lossy(&said))
}

fn read_version(said: &str) -> Option<(u32, u32)> {
    let (major, rest) = said.trim().strip_prefix("OpenSSH_")?.split_once('.')?;
    let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Returns true if a command reads the same to the shell that gets it from another shell.
fn is_plain(command: &str) -> bool {
    command.split(' ').all(|word| quoted(word) == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_session_are_for_an_openssh_that_knows_them() {
        assert_eq!(read_version("OpenSSH_9.2p1 Debian-2, OpenSSL 3.0\n"), Some((9, 2)));
        assert_eq!(read_version("OpenSSH_for_Windows_8.1"), None);
        assert_eq!(read_version("OpenSSH_10.0"), Some((10, 0)));
        assert!(read_version("OpenSSH_8.4p1") < Some(KNOWS_SESSION) && None < Some(KNOWS_SESSION));
        let other: Vec<OsString> = ["srun", "a", "b"].map(Into::into).into();
        assert_eq!(with_session(other.clone()), other);
    }

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
}
