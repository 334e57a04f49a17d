//! Settings that are lists of keys and values, as in `loss=2%,delay=5ms`.

use crate::key::Key;
use crate::nearest::nearest;
use crate::{Error, Result};

/// Defines the struct of such a setting, as `key_table` does.
macro_rules! key_list {
    (
        $(#[$about:meta])*
        pub struct $list:ident of $variable:expr;
        $(#[$keys_about:meta])*
        pub static $keys:ident;

        $($rows:tt)*
    ) => {
        $crate::key_table::key_table! {
            $(#[$about])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq)]
            pub struct $list {}
            $(#[$keys_about])*
            pub static $keys of Some($variable);

            $($rows)*
        }

        impl Default for $list {
            fn default() -> Self {
                Self::of(&$keys.iter().map(|key| key.default).collect::<Vec<_>>())
            }
        }

        impl $list {
            /// Reads a list; what it does not name stays as it is. `origin` says where it stands.
            ///
            /// # Errors
            /// Fails if a word is no `KEY=VALUE`, or names an unknown key, one twice, or a value
            /// out of range.
            pub fn read(&self, origin: &str, text: &str) -> $crate::Result<Self> {
                $crate::key_list::read($keys, self.numbers(), origin, text).map(|all| Self::of(&all))
            }

            /// Writes what is not at its default, as `read` reads it.
            pub fn written(&self) -> String {
                $crate::key_list::written($keys, &self.numbers())
            }

            /// Returns each key with its value.
            pub fn entries(&self) -> impl Iterator<Item = (&'static $crate::key::Key, String)> {
                $keys.iter().zip(self.numbers()).map(|(key, number)| (key, key.show(number)))
            }
        }
    };
}

pub(crate) use key_list;

/// Reads a list into the numbers of its keys.
pub(crate) fn read(
    keys: &'static [Key],
    mut numbers: Vec<u64>,
    origin: &str,
    text: &str,
) -> Result<Vec<u64>> {
    let mut named = Vec::new();
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let bad = |what: &str, value: &str, expected: String| Error::BadValue {
            origin: format!("{what} of {origin}"),
            value: value.into(),
            expected,
        };
        let Some((name, value)) = word.split_once('=') else {
            return Err(bad("a word", word, "KEY=VALUE, with commas between".into()));
        };
        let name = name.trim();
        let Some(at) = keys.iter().position(|key| key.name == name) else {
            return Err(bad("a key", name, one_of(keys, name)));
        };
        if named.contains(&at) {
            return Err(bad(&format!("the second {name}"), value, "left out".into()));
        }
        named.push(at);
        numbers[at] = keys[at].parse(|| format!("{name} of {origin}"), value)?;
    }
    Ok(numbers)
}

/// Writes the values that are not at their defaults.
pub(crate) fn written(keys: &[Key], numbers: &[u64]) -> String {
    let changed = keys.iter().zip(numbers).filter(|(key, number)| **number != key.default);
    let words = changed.map(|(key, &number)| format!("{}={}", key.name, key.show(number)));
    words.collect::<Vec<_>>().join(",")
}

/// Describes the valid keys, and the one that is like `name`.
fn one_of(keys: &'static [Key], name: &str) -> String {
    let names: Vec<&str> = keys.iter().map(|key| key.name).collect();
    let meant = nearest(name, names.iter().copied());
    let meant = meant.map_or(String::new(), |meant| format!(" (did you mean {meant}?)"));
    format!("one of {}{meant}", names.join(", "))
}
