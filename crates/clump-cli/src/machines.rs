//! The options that name the machines of a job, and the way to reach them.

use crate::allocation::Allocation;
use crate::hosts::Hosts;
use clap::Args;
use clump_agent::JobSpec;
use clump_agent::spec::RemoteStart;
use clump_lab::wrong_command::WrongCommand;
use clump_os::text_file;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

/// Most bytes of a file of machines.
const MAX_BYTES: u64 = 1 << 26;

/// Machines of a job.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Machines")]
pub struct Machines {
    /// Machines of the job and how many ranks each may have, with commas between them; ssh starts
    /// an agent on each
    #[arg(long, value_name = "A:8,B:8", conflicts_with_all = ["nodes", "netns", "addresses"])]
    pub hosts: Option<Hosts>,
    /// File with a machine in each line, as Open MPI's (`a slots=8`) or MPICH's (`a:8`)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["hosts", "nodes", "netns", "addresses"])]
    pub hostfile: Option<PathBuf>,
    /// Command that runs a command on a machine; the machine's name and the command follow
    /// [default: ssh]
    #[arg(long, value_name = "COMMAND", value_parser = words)]
    pub ssh: Option<Words>,
    /// Path of clump on the machines [default: that of this program]
    #[arg(long, value_name = "PATH")]
    pub agent: Option<OsString>,
    /// Copy clump and the program to every machine, into a folder that is removed at the end
    #[arg(long, conflicts_with = "agent")]
    pub stage: bool,
    /// Interfaces or networks by which machines talk, with commas between them [default: all that
    /// reach each other]
    #[arg(long, value_name = "NAME|CIDR", value_delimiter = ',', value_parser = interface)]
    pub interface: Vec<String>,
    /// Range of UDP ports by which machines talk [default: any]
    #[arg(long, value_name = "FIRST-LAST", value_parser = ports)]
    pub port: Option<(u16, u16)>,
}

/// Words of a command, as a shell divides them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words(Vec<OsString>);

impl Machines {
    /// Returns true if the job is to run on machines that its user names.
    pub fn are_named(&self) -> bool {
        self.hosts.is_some() || self.hostfile.is_some()
    }

    /// Reads the machines that the user names, else, unless nodes are virtual, those of an
    /// allocation of Slurm; none: this one.
    ///
    /// # Errors
    /// Fails if the file of machines cannot be read or understood.
    pub fn read(&self, is_virtual: bool) -> Result<Option<Hosts>, WrongCommand> {
        let Some(path) = &self.hostfile else {
            let allocated =
                || self.allocation(is_virtual).map(|found| found.map(|found| found.hosts));
            return self.hosts.clone().map_or_else(allocated, |hosts| Ok(Some(hosts)));
        };
        let named = |why: &dyn std::fmt::Display| {
            WrongCommand::new(format!("{} (--hostfile): {why}", path.display()))
        };
        let text = text_file::read(path, MAX_BYTES).map_err(|e| named(&e))?;
        Hosts::from_file_text(&text).map(Some).map_err(|e| named(&e))
    }

    /// Returns the allocation that gives the machines, if one does.
    fn allocation(&self, is_virtual: bool) -> Result<Option<Allocation>, WrongCommand> {
        if self.are_named() || is_virtual {
            return Ok(None);
        }
        Allocation::find().map_err(WrongCommand::new)
    }

    /// Writes them into a job's description.
    ///
    /// # Errors
    /// Fails as [`Machines::read`] does, or if the ranks do not fit.
    pub(crate) fn apply(&self, spec: &mut JobSpec, is_virtual: bool) -> Result<(), WrongCommand> {
        let Some(hosts) = self.read(is_virtual)? else {
            let limits = !self.interface.is_empty() || self.port.is_some() || self.stage;
            if self.ssh.is_some() || self.agent.is_some() || limits {
                return Err(WrongCommand::new(
                    "--ssh, --agent, --stage, --interface and --port are for machines that --hosts or --hostfile names",
                ));
            }
            return Ok(());
        };
        spec.machines = hosts.filled(spec.ranks)?;
        spec.nodes = u32::try_from(spec.machines.len()).unwrap_or(u32::MAX);
        let allocated = self.allocation(is_virtual)?.map(|found| found.shell());
        let default = allocated.unwrap_or(RemoteStart::default().shell);
        spec.remote = RemoteStart {
            shell: self.ssh.clone().map_or(default, |words| words.0),
            clump: self.agent.clone(),
            stage: self.stage,
            interfaces: self.interface.clone(),
            ports: self.port,
        };
        Ok(())
    }
}

/// Reads the name of an interface, or a network.
pub(crate) fn interface(text: &str) -> Result<String, String> {
    let Some((address, bits)) = text.split_once('/') else {
        let fits = !text.is_empty() && !text.contains(char::is_whitespace);
        return if fits { Ok(text.into()) } else { Err("no name of an interface".into()) };
    };
    let widths = address.parse::<IpAddr>().map(|address| if address.is_ipv4() { 32 } else { 128 });
    match (widths, bits.parse::<u32>()) {
        (Ok(width), Ok(bits)) if bits <= width => Ok(text.into()),
        _ => Err(format!("`{text}` is no network, as 10.0.0.0/8 or fd00::/16 are")),
    }
}

/// Reads a port, or a range of them.
pub(crate) fn ports(text: &str) -> Result<(u16, u16), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse::<u16>(), last.parse::<u16>()) {
        (Ok(first @ 1..), Ok(last)) if first <= last => Ok((first, last)),
        _ => Err(format!("`{text}` is no range of ports, as 40000-40999 is")),
    }
}

/// Divides a command into words: quotes and backslashes keep their contents, and nothing is
/// replaced.
pub(crate) fn words(text: &str) -> Result<Words, String> {
    let mut all = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\n' => all.extend(word.take()),
            '\\' => {
                let next = chars.next().ok_or("it ends in a backslash")?;
                word.get_or_insert_default().push(next);
            }
            quote @ ('\'' | '"') => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        None => return Err(format!("a quote {quote} is not closed")),
                        Some(end) if end == quote => break,
                        Some('\\') if quote == '"' => word.extend(chars.next()),
                        Some(c) => word.push(c),
                    }
                }
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    all.extend(word);
    if all.is_empty() {
        return Err("no command".into());
    }
    Ok(Words(all.into_iter().map(OsString::from).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_and_ports_are_read_or_refused() {
        for text in ["eth0", "10.0.0.0/8", "fd00::/16", "0.0.0.0/0"] {
            assert_eq!(interface(text), Ok(text.into()));
        }
        for text in ["", "10.0.0.0/33", "10.0.0/8", "eth0/8", "fd00::/129", "a b"] {
            assert!(interface(text).is_err(), "{text}");
        }
        assert_eq!((ports("4000-4001"), ports("65535")), (Ok((4000, 4001)), Ok((65535, 65535))));
        for text in ["", "0", "9-8", "0-9", "1-65536", "a-b", "1-2-3", "-1"] {
            assert!(ports(text).is_err(), "{text}");
        }
    }

    #[test]
    fn commands_are_divided_as_shells_do() {
        let of = |all: &[&str]| Ok(Words(all.iter().map(OsString::from).collect()));
        assert_eq!(words("ssh -p 2222  -i key"), of(&["ssh", "-p", "2222", "-i", "key"]));
        assert_eq!(words("'/my ssh' \"a \\\" b\" c\\ d ''"), of(&["/my ssh", "a \" b", "c d", ""]));
        for wrong in ["", "  ", "ssh 'x", "ssh \\"] {
            assert!(words(wrong).is_err(), "{wrong}");
        }
    }
}
