//! Names of former settings, and their forms as keys of lists.

use crate::key::Key;
use crate::lab::LAB_KEYS;
use crate::net_faults::NET_FAULT_KEYS;

/// Returns the form that a former setting has now, if it is a key of a list: `name` without
/// `CLUMP_`, or in small letters.
pub(crate) fn new_form(name: &str) -> Option<String> {
    let plain = |name: &str| name.to_ascii_lowercase().replace(['.', '-'], "_");
    let name = plain(name);
    let name =
        ["_ppm", "_ns", "_us"].iter().find_map(|unit| name.strip_suffix(unit)).unwrap_or(&name);
    let find = |keys: &'static [Key], prefix: &str| {
        keys.iter().find(|key| plain(&format!("{prefix}{}", key.name)) == name)
    };
    let fault = find(NET_FAULT_KEYS, "net_").map(|key| format!("CLUMP_NET_FAULTS={}=..", key.name));
    let lab = || {
        find(LAB_KEYS, "").map(|key| format!("clump run --lab {0}=.. (CLUMP_LAB={0}=..)", key.name))
    };
    fault.or_else(lab)
}

#[cfg(test)]
mod tests {
    use super::new_form;

    #[test]
    fn a_former_setting_has_a_new_form_and_another_name_has_none() {
        for name in ["NET_DELAY_NS", "net_delay_ns"] {
            assert_eq!(new_form(name).unwrap(), "CLUMP_NET_FAULTS=delay=..");
        }
        let lab = "clump run --lab net.poll-min=.. (CLUMP_LAB=net.poll-min=..)";
        assert_eq!(new_form("NET_POLL_MIN").unwrap(), lab);
        assert!(new_form("SPIN_NS").unwrap().contains("--lab spin=.."));
        for name in ["LANES", "NET_SPIN_NS", "LOSS", ""] {
            assert_eq!(new_form(name), None, "{name}");
        }
    }
}
