//! Types that a setting can have, each kept as a number.

/// A type of settings.
pub(crate) trait SettingValue: Copy {
    /// Names of its values by number, if it is a choice.
    const CHOICES: &'static [&'static str] = &[];
    /// Returns the value of a number.
    fn from_number(number: u64) -> Self;
    /// Returns the number of a value.
    fn number(self) -> u64;
}

impl SettingValue for u64 {
    fn from_number(number: u64) -> Self {
        number
    }
    fn number(self) -> u64 {
        self
    }
}

impl SettingValue for bool {
    fn from_number(number: u64) -> Self {
        number != 0
    }
    fn number(self) -> u64 {
        u64::from(self)
    }
}

/// Defines an enum of which each value has a name.
macro_rules! choice {
    (
        $(#[$about:meta])*
        pub enum $choice:ident {
            $($(#[$value_about:meta])* $value:ident = $name:literal,)+
        }
    ) => {
        $(#[$about])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, serde::Serialize,
            serde::Deserialize,
        )]
        pub enum $choice {
            $($(#[$value_about])* #[serde(rename = $name)] $value,)+
        }

        impl $choice {
            /// All, by number.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$value),+];
            /// Their names.
            pub const NAMES: [&str; Self::ALL.len()] = [$($name),+];

            /// Returns its name as users write it.
            pub fn name(self) -> &'static str {
                Self::NAMES[self as usize]
            }
        }

        impl std::fmt::Display for $choice {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl $crate::setting_value::SettingValue for $choice {
            const CHOICES: &'static [&'static str] = &Self::NAMES;
            fn from_number(number: u64) -> Self {
                let at = usize::try_from(number).ok();
                at.and_then(|at| Self::ALL.get(at)).copied().unwrap_or_default()
            }
            fn number(self) -> u64 {
                self as u64
            }
        }
    };
}

pub(crate) use choice;
