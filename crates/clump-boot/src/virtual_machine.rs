//! Machines for virtual time as users name them, and knobs that make them slower.

use crate::machine::in_words;
use clump_loggp::{BaseParameters, KnobClass, KnobScope, KnobTable, Knobs};
use clump_os::text_file;
use clump_virtual::{Machine, PathCosts};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Most bytes of a machine file.
const MAX_BYTES: u64 = 1 << 20;

/// A machine for virtual time: its name, and the text of its file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VirtualMachine {
    /// The name, or the path of its file.
    pub name: String,
    /// The text of its file.
    pub file: String,
}

impl VirtualMachine {
    /// Finds a machine that comes with clump, or reads a machine file; behind a comma, values that
    /// it is to have instead: `now1997,cpu=40,network.L_us=20`.
    ///
    /// # Errors
    /// There is none of that name, or the file describes no machine.
    pub fn find(name: &str) -> Result<Self, String> {
        let (known, changes) = match name.split_once(',') {
            Some((known, changes)) if changes.contains('=') => (known, changes),
            _ => (name, ""),
        };
        let file = match Machine::built_in(known) {
            Some(file) => file.to_owned(),
            None => text_file::read(Path::new(known), MAX_BYTES).map_err(|e| {
                let names = Machine::names().collect::<Vec<_>>().join(", ");
                format!("`{known}` is none of {names}, and no machine file can be read there: {e}")
            })?,
        };
        let file = match changes {
            "" => file,
            _ => Machine::altered(&file, changes).map_err(|e| format!("{known}: {e}"))?,
        };
        let found = Self { name: name.to_owned(), file };
        found.machine().map(|_| found)
    }

    /// Reads its file.
    ///
    /// # Errors
    /// It describes no machine.
    pub fn machine(&self) -> Result<Machine, String> {
        Machine::read(&self.file).map_err(|e| format!("{}: {e}", self.name))
    }

    /// Returns the parameters of its paths, which knobs are set beside, in the order of
    /// [`clump_loggp::knobs::SCOPES`].
    ///
    /// # Errors
    /// Its file describes no machine.
    pub fn bases(&self) -> Result<[BaseParameters; 2], String> {
        let Machine { node, network, .. } = self.machine()?;
        Ok([node, network].map(|costs| base(&costs)))
    }

    /// Returns a sentence that says what values of knobs are set beside.
    ///
    /// # Errors
    /// Its file describes no machine.
    pub fn basis(&self) -> Result<String, String> {
        Ok(format!("knobs are set beside {}: {}", self.name, in_words(&self.bases()?)))
    }

    /// Reads knobs that are set beside its parameters.
    ///
    /// # Errors
    /// The text names no knobs, or some that virtual time does not have: a capacity, or those of
    /// one class of messages.
    pub fn knobs(&self, text: &str) -> Result<KnobTable, String> {
        let table = KnobTable::parse(text, &self.bases()?).map_err(|why| why.to_string())?;
        for scope in [KnobScope::Shm, KnobScope::Net] {
            let [short, bulk, onesided] = [KnobClass::Short, KnobClass::Bulk, KnobClass::OneSided]
                .map(|class| *table.get(scope, class));
            // Messages of words alone have no bytes for G to delay.
            let same = |other: &Knobs| Knobs { byte_ps: 0, stream_ps: 0, ..*other };
            if bulk != onesided || same(&short) != same(&bulk) {
                return Err("in virtual time all classes of messages cost the same".into());
            }
            if bulk.capacity != 0 {
                return Err("there is no capacity in virtual time".into());
            }
        }
        Ok(table)
    }

    /// Returns the machine, made slower by knobs.
    ///
    /// # Errors
    /// As for [`VirtualMachine::knobs`].
    pub fn slowed(&self, text: &str) -> Result<Machine, String> {
        let (machine, table) = (self.machine()?, self.knobs(text)?);
        let slower = |costs, scope| slower(&costs, table.get(scope, KnobClass::Bulk));
        let node = slower(machine.node, KnobScope::Shm);
        let network = slower(machine.network, KnobScope::Net);
        debug_assert!(network.latency_ns >= machine.network.latency_ns, "knobs only delay");
        Ok(Machine { node, network, ..machine })
    }
}

/// Returns the costs of a path as parameters.
#[expect(clippy::cast_precision_loss, reason = "costs are below 2^53 ns")]
fn base(costs: &PathCosts) -> BaseParameters {
    let PathCosts { send_ns, receive_ns, gap_ns, latency_ns, byte_ps, .. } = *costs;
    let [o_s_ns, o_r_ns, g_ns, l_ns] =
        [send_ns, receive_ns, gap_ns, latency_ns].map(|ns| Some(ns as f64));
    BaseParameters { o_s_ns, o_r_ns, g_ns, l_ns, big_g_ns_per_byte: Some(byte_ps as f64 / 1e3) }
}

/// Returns costs with what knobs add to them.
fn slower(costs: &PathCosts, knobs: &Knobs) -> PathCosts {
    debug_assert!(costs.send_ns > 0, "invariant 2 of clump-virtual");
    PathCosts {
        send_ns: costs.send_ns.saturating_add(knobs.send_ns),
        receive_ns: costs.receive_ns.saturating_add(knobs.receive_ns),
        gap_ns: costs.gap_ns.max(knobs.gap_ns),
        latency_ns: costs.latency_ns.saturating_add(knobs.latency_ns),
        byte_ps: costs.byte_ps.saturating_add(knobs.byte_ps),
        ..*costs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> VirtualMachine {
        VirtualMachine::find("now1997").unwrap()
    }

    #[test]
    fn knobs_are_added_to_the_machine_or_are_what_it_is_to_have() {
        let costs = |text: &str| now().slowed(text).unwrap().network;
        let base = now().machine().unwrap().network;
        assert_eq!(costs(""), base);
        let o = costs("o=+100us");
        assert_eq!((o.send_ns, o.receive_ns, o.gap_ns), (102_900, 102_900, 5_800));
        assert_eq!(costs("o=102900ns"), o);
        assert_eq!(costs("g=+10us").gap_ns, 15_800, "beside the machine's");
        assert_eq!((costs("g=100us").gap_ns, costs("g=1us").gap_ns), (100_000, 5_800));
        assert_eq!(costs("L=+95us").latency_ns, 100_000);
        assert_eq!(costs("G=1000ns/B").byte_ps, 1_000_000, "1 MB/s");
        assert_eq!(costs("G=+1ns/B").byte_ps, base.byte_ps + 1000);
        assert_eq!(costs("o=+5us,scope=shm"), base);
    }

    #[test]
    fn what_virtual_time_has_not_is_refused() {
        let why = |text: &str| now().slowed(text).unwrap_err();
        assert!(why("o=1us").contains("takes 2900 ns anyway"), "{}", why("o=1us"));
        assert!(why("o=+1us,class=short").contains("all classes"), "{}", why("o=+1us,class=short"));
        assert!(why("capacity=8").contains("no capacity"), "{}", why("capacity=8"));
        assert!(now().slowed("G=+5ns/B").is_ok());
        let missing = VirtualMachine::find("no-such").unwrap_err();
        assert!(missing.contains("none of now1997, clump1997"), "{missing}");
    }
}
