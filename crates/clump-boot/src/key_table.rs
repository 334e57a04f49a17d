//! The macro by which one table defines a struct of settings and the rows that describe them.

/// Defines a struct with a field for each row, beside those that it lists, and the rows as keys of
/// a list, or as settings (`None`).
macro_rules! key_table {
    (
        $(#[$about:meta])*
        pub struct $table:ident {
            $($(#[$other_about:meta])* $other_pub:vis $other:ident: $other_kind:ty,)*
        }
        $(#[$keys_about:meta])*
        pub static $keys:ident of $list:expr;

        $($name:ident: $kind:ty = $default:literal in $least:literal..=$most:literal, $unit:literal, $written:literal, $doc:literal;)+
    ) => {
        $(#[$about])*
        pub struct $table {
            $(#[doc = $doc] pub $name: $kind,)+
            $($(#[$other_about])* $other_pub $other: $other_kind,)*
        }

        $(#[$keys_about])*
        pub static $keys: &[$crate::key::Key] = &[$($crate::key::Key::new(
            $list,
            (stringify!($name), $written),
            ($default, $least, $most),
            $unit,
            <$kind as $crate::setting_value::SettingValue>::CHOICES,
            $doc,
        )),+];

        impl $table {
            /// Creates it of the rows' numbers, in order; a missing one is the default.
            fn of(numbers: &[u64], $($other: $other_kind),*) -> Self {
                use $crate::setting_value::SettingValue;
                debug_assert_eq!(numbers.len(), $keys.len(), "a number for each row");
                let mut next = numbers.iter().copied();
                Self {
                    $($name: <$kind>::from_number(next.next().unwrap_or($default)),)+
                    $($other,)*
                }
            }

            /// Returns the rows' numbers, in order.
            fn numbers(&self) -> Vec<u64> {
                use $crate::setting_value::SettingValue;
                vec![$(self.$name.number()),+]
            }
        }
    };
}

pub(crate) use key_table;
