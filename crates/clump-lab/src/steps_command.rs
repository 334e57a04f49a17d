//! `clump lab steps`: steps of a send and a receive.

use crate::pair::Scope;
use crate::steps::net::{self, Cost};
use crate::steps::{self, Breakdown};
use crate::text;
use anyhow::Result;
use std::fmt::{self, Display, Formatter};

/// Options of `clump lab steps`.
#[derive(Debug, Clone, clap::Args)]
pub struct StepsArgs {
    /// A message through shared memory, or between nodes
    #[arg(long, value_enum, default_value = "net")]
    pub scope: Scope,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Runs the command. Returns the exit code. It needs no job: one thread is both sides.
///
/// # Errors
/// Fails as the measurement does.
pub fn run(args: &StepsArgs) -> Result<u8> {
    match args.scope {
        Scope::Shm => {
            let breakdown: Breakdown = steps::measure()?;
            if args.json {
                println!("{}", serde_json::to_string(&breakdown)?);
            } else {
                print!("{}", text::Steps(&breakdown));
            }
        }
        Scope::Net => {
            let cost = net::measure()?;
            if args.json {
                println!("{}", serde_json::to_string(&cost)?);
            } else {
                print!("{}", StepsText(&cost));
            }
        }
    }
    Ok(0)
}

/// The table, printed in 100 columns.
#[derive(Debug)]
pub struct StepsText<'a>(pub &'a Cost);

impl Display for StepsText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Cost { packet_bytes, send, receive, calls } = self.0;
        writeln!(f, "a packet with one message, step by step, over loopback, one thread; ns")?;
        write!(f, "{:<46}", "")?;
        for payload in net::PAYLOADS {
            let what = if payload == 0 { "short".into() } else { format!("{payload} B") };
            write!(f, "{:>13}{:>13}", format!("{what} aead"), format!("{what} crc"))?;
        }
        writeln!(f)?;
        write!(f, "{:<46}", "bytes of the packet")?;
        for bytes in packet_bytes.as_flattened() {
            write!(f, "{bytes:>13}")?;
        }
        writeln!(f)?;
        for step in send.iter().chain(receive) {
            let indent = if step.name.starts_with("sum") { "" } else { "  " };
            write!(f, "{:<46}", format!("{indent}{}", step.name))?;
            for ns in step.ns.as_flattened() {
                write!(f, "{ns:>13.1}")?;
            }
            writeln!(f)?;
        }
        writeln!(f, "\nthe packet with aead through the kernel, ns a datagram")?;
        writeln!(
            f,
            "{:<46}{:>13}{:>13}{:>13}{:>13}",
            "",
            "short send",
            "receive",
            format!("{} B send", net::PAYLOADS[1]),
            "receive"
        )?;
        for way in calls {
            write!(f, "  {:<44}", way.name)?;
            for (send, receive) in way.send_ns.iter().zip(way.receive_ns) {
                write!(f, "{send:>13.1}{receive:>13.1}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::net::{Calls, NetStep};

    #[test]
    fn the_table_fits_and_names_every_step() {
        let step = |name| NetStep { name, ns: [[12_345.6; 2]; 2] };
        let calls =
            Calls { name: "write, read".into(), send_ns: [9999.9; 2], receive_ns: [1.0; 2] };
        let cost = Cost {
            packet_bytes: [[120, 108], [1144, 1132]],
            send: vec![step("protocol"), step("sum of a send")],
            receive: vec![step("frame read"), step("sum of a receive")],
            calls: vec![calls],
        };
        let text = StepsText(&cost).to_string();
        assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
        for word in ["protocol", "sum of a receive", "1144", "write, read"] {
            assert!(text.contains(word), "{word}\n{text}");
        }
    }
}
