//! Machines of a job, as its user names them: a list, or a file in Open MPI's or MPICH's notation.
//! Strict: anything else is an error that names the line.
//!
//! ```text
//! --hosts a:8,b:8        eight ranks each; `a` alone: one
//! a slots=8              a line of a file as Open MPI's; `max_slots=` is read, and bounds `slots`
//! a:8                    a line of a file as MPICH's
//! # a comment            also behind a machine
//! ```

use clump_agent::spec::Machine;
use clump_lab::wrong_command::WrongCommand;
use std::str::FromStr;

/// Most machines of a job.
pub const MAX_MACHINES: usize = clump_shm::geometry::MAX_NODES;
/// Longest name: that of a user, and of a machine (RFC 1035), and what joins them.
const MAX_NAME: usize = 32 + 1 + 255;
/// Most ranks of a machine.
const MAX_SLOTS: u32 = clump_shm::geometry::MAX_LOCAL_RANKS as u32;

/// Machines in the order in which they get ranks, each with the number that it may have at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosts(Vec<Machine>);

impl FromStr for Hosts {
    type Err = String;

    /// Reads a list with commas.
    fn from_str(text: &str) -> Result<Self, String> {
        Self::gather(text.split(',').map(|word| entry(word.trim())))
    }
}

impl Hosts {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// Fails on whatever is in neither notation, and names the line.
    pub fn from_file_text(text: &str) -> Result<Self, String> {
        let line = |(at, line): (usize, &str)| {
            let line = line.split('#').next().unwrap_or_default().trim();
            let named = |why| format!("line {}: {why}", at + 1);
            (!line.is_empty()).then(|| line_of_file(line).map_err(named))
        };
        Self::gather(text.lines().enumerate().filter_map(line))
    }

    /// Joins entries. A machine that is named twice gets the ranks of both, in its first place.
    fn gather(entries: impl Iterator<Item = Result<Machine, String>>) -> Result<Self, String> {
        let mut all: Vec<Machine> = Vec::new();
        for entry in entries {
            let new = entry?;
            match all.iter_mut().find(|one| one.name == new.name) {
                Some(one) => {
                    one.ranks = one.ranks.saturating_add(new.ranks);
                    if one.ranks > MAX_SLOTS {
                        return Err(format!("`{}` has more than {MAX_SLOTS} ranks", one.name));
                    }
                }
                None => all.push(new),
            }
            if all.len() > MAX_MACHINES {
                return Err(format!("more than {MAX_MACHINES} machines"));
            }
        }
        if all.is_empty() {
            return Err("no machine is named".into());
        }
        Ok(Self(all))
    }

    /// Returns the number of ranks that all machines may have.
    pub fn slots(&self) -> u32 {
        self.0.iter().map(|one| one.ranks).fold(0, u32::saturating_add)
    }

    /// Fills the machines with so many ranks, one after the other; those that get none are left
    /// out.
    ///
    /// # Errors
    /// Fails if there are more ranks than slots.
    pub fn filled(&self, ranks: u32) -> Result<Vec<Machine>, WrongCommand> {
        let mut left = ranks;
        let take = |machine: &Machine| {
            let ranks = machine.ranks.min(left);
            left -= ranks;
            (ranks > 0).then(|| Machine { name: machine.name.clone(), ranks })
        };
        let filled: Vec<Machine> = self.0.iter().filter_map(take).collect();
        if left > 0 {
            return Err(WrongCommand::new(format!(
                "{ranks} ranks do not fit on machines with {} slots in all: name more, or give them more \
                 (--hosts {}:{})",
                self.slots(),
                self.0.first().map_or("NAME", |one| one.name.as_str()),
                ranks
            )));
        }
        debug_assert_eq!(filled.iter().map(|one| one.ranks).sum::<u32>(), ranks);
        Ok(filled)
    }
}

/// Reads `NAME`, `NAME:SLOTS`, `[IPv6]` or `[IPv6]:SLOTS`.
fn entry(word: &str) -> Result<Machine, String> {
    let (name, slots) = match word.strip_prefix('[') {
        Some(rest) => {
            let (address, rest) =
                rest.split_once(']').ok_or_else(|| format!("`{word}` lacks a `]`"))?;
            if address.parse::<std::net::Ipv6Addr>().is_err() {
                return Err(format!("`{address}` is no IPv6 address"));
            }
            match (rest, rest.strip_prefix(':')) {
                ("", _) => (address, None),
                (_, Some(slots)) => (address, Some(slots)),
                _ => return Err(format!("`{word}` is not `[ADDRESS]:SLOTS`")),
            }
        }
        None => match word.split_once(':') {
            Some((_, rest)) if rest.contains(':') => {
                return Err(format!("`{word}`: an IPv6 address stands in brackets, `[{word}]`"));
            }
            Some((name, slots)) => (checked(name)?, Some(slots)),
            None => (checked(word)?, None),
        },
    };
    let ranks = slots.map_or(Ok(1), number)?;
    Ok(Machine { name: name.into(), ranks })
}

/// Reads a line of a file, without its comment.
fn line_of_file(line: &str) -> Result<Machine, String> {
    let mut words = line.split_whitespace();
    let mut machine = entry(words.next().unwrap_or_default())?;
    let mut seen: Vec<&str> = Vec::new();
    let mut most = None;
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            return Err(format!(
                "`{word}` is not understood; a line is `NAME slots=N` or `NAME:N`"
            ));
        };
        if seen.contains(&key) {
            return Err(format!("`{key}=` is there twice"));
        }
        seen.push(key);
        match key {
            "slots" => machine.ranks = number(value)?,
            "max_slots" | "max-slots" => most = Some(number(value)?),
            _ => return Err(format!("`{key}=` is not understood; known are slots and max_slots")),
        }
    }
    if let Some(most) = most {
        if !seen.contains(&"slots") {
            machine.ranks = machine.ranks.min(most);
        } else if most < machine.ranks {
            return Err(format!("max_slots={most} is less than slots={}", machine.ranks));
        }
    }
    Ok(machine)
}

/// Checks a name, which becomes an argument of another program: no option, nothing for a shell.
fn checked(name: &str) -> Result<&str, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_@".contains(&byte);
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(fits) {
        return Err(format!("`{name}` is no name of a machine"));
    }
    let starts = |part: &str| part.starts_with(|first: char| first.is_ascii_alphanumeric());
    if !name.splitn(2, '@').all(starts) || name.matches('@').count() > 1 {
        return Err(format!("`{name}` is no name of a machine"));
    }
    Ok(name)
}

fn number(text: &str) -> Result<u32, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|n| digits && (1..=MAX_SLOTS).contains(n));
    number.ok_or_else(|| format!("`{text}` is no number of ranks from 1 to {MAX_SLOTS}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(all: &[(&str, u32)]) -> Hosts {
        let one = |(name, ranks): &(&str, u32)| Machine { name: (*name).into(), ranks: *ranks };
        Hosts(all.iter().map(one).collect())
    }

    #[test]
    fn both_notations_and_lists_are_read() {
        assert_eq!("a:8,b:8".parse(), Ok(of(&[("a", 8), ("b", 8)])));
        assert_eq!(
            "a, me@b.example.org:2 ,a:3".parse(),
            Ok(of(&[("a", 4), ("me@b.example.org", 2)]))
        );
        assert_eq!("[fd00::1]:4,[::1]".parse(), Ok(of(&[("fd00::1", 4), ("::1", 1)])));
        let open_mpi = "# of the lab\na slots=4 max_slots=8\n\nb  slots=2 # small\nc max-slots=9\n";
        assert_eq!(Hosts::from_file_text(open_mpi), Ok(of(&[("a", 4), ("b", 2), ("c", 1)])));
        assert_eq!(Hosts::from_file_text("a:4\r\nb\r\n"), Ok(of(&[("a", 4), ("b", 1)])));
    }

    #[test]
    fn ranks_fill_one_machine_after_the_other() {
        let hosts: Hosts = "a:2,b:2,c:2".parse().unwrap();
        assert_eq!(hosts.slots(), 6);
        assert_eq!(Hosts(hosts.filled(3).unwrap()), of(&[("a", 2), ("b", 1)]));
        assert_eq!(Hosts(hosts.filled(6).unwrap()), hosts);
        assert!(hosts.filled(7).unwrap_err().to_string().contains("6 slots"));
    }

    #[test]
    fn whatever_else_is_refused_by_name_and_line() {
        for list in [
            "",
            ",",
            "a,",
            "a:",
            "a:0",
            "a:-1",
            "a:+1",
            "a:1:2",
            "a b",
            "-oProxyCommand=x",
            "@b",
            "a@-b",
            "a@b@c",
            "fd00::1",
            "[fd00::1",
            "[x]:1",
            "[::1]2",
            "$(x)",
            "a;b",
            "a:99999999999",
            "a:1025",
            "a:1000,a:25",
        ] {
            assert!(list.parse::<Hosts>().is_err(), "{list}");
        }
        for (text, part) in [
            ("a slots=4\nb slot=2\n", "line 2: `slot=`"),
            ("a slots=4 slots=2", "twice"),
            ("a 4", "line 1: `4`"),
            ("a slots=9 max_slots=2", "less than"),
            ("\n\n", "no machine"),
            ("a slots=", "no number"),
        ] {
            let why = Hosts::from_file_text(text).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }

    #[test]
    fn random_text_is_read_or_refused_and_names_are_never_options() {
        const PARTS: [&str; 20] = [
            "a",
            "b1",
            ":",
            ",",
            "-",
            "@",
            " ",
            "\n",
            "#",
            "slots",
            "max_slots",
            "=",
            "0",
            "7",
            "1024",
            "[",
            "]",
            "::",
            ".",
            "\u{e9}",
        ];
        let mut random = clump_test_tier::Sampler::new(1);
        let mut next = |bound: usize| random.index(bound);
        let mut read = 0;
        for _ in 0..20_000 {
            let text: String = (0..next(12)).map(|_| PARTS[next(PARTS.len())]).collect();
            for hosts in [text.parse::<Hosts>(), Hosts::from_file_text(&text)].into_iter().flatten()
            {
                read += 1;
                assert!((1..=MAX_MACHINES).contains(&hosts.0.len()), "{text:?}");
                for Machine { name, ranks } in &hosts.0 {
                    assert!(
                        !name.starts_with('-') && !name.contains(char::is_whitespace),
                        "{text:?}"
                    );
                    assert!((1..=MAX_SLOTS).contains(ranks), "{text:?}");
                }
            }
        }
        assert!(read > 100, "random text reaches the readers: {read}");
    }
}
