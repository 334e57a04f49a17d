//! Variables of the environment that look like settings and are none.

use crate::boot::VARIABLES;
use crate::config::{FILE_VARIABLE, KEYS, PREFIX, TEXT_KEYS};
use crate::former_name::new_form;
use crate::nearest::nearest;
use clump_os::printable::printable;
use std::ffi::OsString;

/// Variables that other programs of clump read: the wrappers of compilers.
const OF_WRAPPERS: [&str; 2] = ["CLUMP_CC", "CLUMP_CXX"];
/// Beginnings of the names that tests and the tasks of this tree have.
const FREE: [&[u8]; 2] = [b"CLUMP_TEST_", b"CLUMP_GOLDEN"];

/// Returns a sentence about each variable of this process's environment that begins with `CLUMP_`
/// and that nothing reads, by name.
pub fn unknown_variables() -> Vec<String> {
    unknown(std::env::vars_os().map(|(name, _)| name))
}

fn unknown(names: impl Iterator<Item = OsString>) -> Vec<String> {
    let settings = KEYS.iter().chain(&TEXT_KEYS).map(|key| key.variable);
    let known: Vec<&'static str> =
        settings.chain(VARIABLES).chain(OF_WRAPPERS).chain([FILE_VARIABLE]).collect();
    let is_unknown = |name: &OsString| {
        let bytes = name.as_encoded_bytes();
        bytes.starts_with(PREFIX)
            && !FREE.iter().any(|free| bytes.starts_with(free))
            && !known.iter().any(|known| *name == **known)
    };
    let mut unknown: Vec<OsString> = names.filter(is_unknown).collect();
    unknown.sort_unstable();
    let sentence = |name: OsString| {
        let shown = printable(&name).to_string();
        let bare = |name: &'static str| name.get(PREFIX.len()..);
        let meant = nearest(
            shown.get(PREFIX.len()..).unwrap_or_default(),
            known.iter().copied().filter_map(bare),
        );
        let meant = match (new_form(shown.get(PREFIX.len()..).unwrap_or_default()), meant) {
            (Some(form), _) => format!("; it became {form}"),
            (None, Some(meant)) => format!("; did you mean CLUMP_{meant}?"),
            (None, None) => String::new(),
        };
        format!("the variable {shown} is no setting, and is ignored{meant}")
    };
    unknown.into_iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::unknown;

    #[test]
    fn unknown_variables_are_named_with_their_new_form_or_the_nearest_setting() {
        let names = [
            "CLUMP_NET_FAULT",
            "CLUMP_NET_LOSS_PPM",
            "CLUMP_PGAS_DELAY_US",
            "CLUMP_RANK",
            "CLUMP_SVM",
            "CLUMP_SVM_MOVE_AFTER",
            "CLUMP_TEST_MARK",
            "CLUMP_COLOURS",
            "CLUMPS",
            "HOME",
        ];
        let found = unknown(names.into_iter().map(Into::into));
        assert_eq!(
            found,
            [
                "the variable CLUMP_COLOURS is no setting, and is ignored",
                "the variable CLUMP_NET_FAULT is no setting, and is ignored; did you mean \
                 CLUMP_NET_FAULTS?",
                "the variable CLUMP_NET_LOSS_PPM is no setting, and is ignored; it became \
                 CLUMP_NET_FAULTS=loss=..",
                "the variable CLUMP_PGAS_DELAY_US is no setting, and is ignored; it became \
                 clump run --lab pgas.delay=.. (CLUMP_LAB=pgas.delay=..)",
                "the variable CLUMP_SVM_MOVE_AFTER is no setting, and is ignored; it became \
                 clump run --lab svm.move-after=.. (CLUMP_LAB=svm.move-after=..)",
            ]
        );
    }
}
