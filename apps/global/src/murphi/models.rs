//! Built-in models, with the values of their constants by size.

use clump_app_frame::InputSize;

/// A built-in model.
#[derive(Debug, Clone, Copy)]
struct OwnModel {
    name: &'static str,
    text: &'static str,
    /// The constant that sizes differ in; none if empty.
    constant: &'static str,
    /// Its values: ci, measure, paper.
    values: [i64; 3],
}

macro_rules! own {
    ($name:literal, $constant:literal, $values:expr) => {
        OwnModel {
            name: $name,
            text: include_str!(concat!("../../models/", $name, ".m")),
            constant: $constant,
            values: $values,
        }
    };
}

const OWN: &[OwnModel] = &[
    own!("bakery", "N", [2, 3, 3]),
    own!("counter", "Bits", [12, 20, 24]),
    own!("dekker", "", [0, 0, 0]),
    own!("german", "Nodes", [2, 4, 5]),
    own!("hanoi", "Disks", [6, 12, 14]),
    own!("list", "Processors", [2, 4, 2]),
    own!("mesi", "Caches", [3, 6, 8]),
    own!("msi", "Caches", [2, 3, 3]),
    own!("peterson", "N", [2, 4, 5]),
    own!("sci", "Processors", [2, 4, 2]),
];

/// Returns the names of built-in models.
pub fn names() -> Vec<&'static str> {
    OWN.iter().map(|it| it.name).collect()
}

/// Returns the text of a built-in model, and the values of its constants.
pub fn find(name: &str, size: InputSize) -> Option<(&'static str, Vec<(String, i64)>)> {
    let own = OWN.iter().find(|it| it.name == name)?;
    let [ci, measure, paper] = own.values;
    let value = (own.constant.to_owned(), size.of(ci, measure, paper));
    Some((own.text, if own.constant.is_empty() { Vec::new() } else { vec![value] }))
}

#[cfg(test)]
mod tests {
    use super::{find, names};
    use crate::murphi::reader::read;
    use clump_app_frame::InputSize;

    #[test]
    fn built_in_models_are_models() {
        for name in names() {
            for size in [InputSize::Ci, InputSize::Measure, InputSize::Paper] {
                let (text, constants) = find(name, size).unwrap();
                let model = read(text, &constants).map_err(|error| error.show(name, text));
                assert!(model.is_ok(), "{}", model.unwrap_err());
            }
        }
    }
}
