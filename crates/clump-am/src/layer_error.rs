//! The macro by which each layer above messages defines its error around its kinds of errors.

/// Defines `Error` around `ErrorKind`, which the caller defines: one word of memory, so that
/// results of the hot path stay in registers; its `Debug` form is the message, since `main` prints
/// that form of an error that it returns. Errors of the layers named below become the variants that
/// they are named for.
#[macro_export]
macro_rules! layer_error {
    ($($variant:ident($lower:ty)),* $(,)?) => {
        /// Error of this crate, in one word of memory.
        pub struct Error(Box<Raised>);

        /// Kind of an error, and its relation to the collective that returns it.
        struct Raised {
            kind: ErrorKind,
            /// True if a collective returns it that counts for this rank, too.
            took_part: bool,
        }

        impl std::fmt::Display for Error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0.kind, f)
            }
        }

        impl std::error::Error for Error {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                std::error::Error::source(&self.0.kind)
            }
        }

        impl std::fmt::Debug for Error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }

        impl Error {
            /// Returns the kind of the error.
            pub fn kind(&self) -> &ErrorKind {
                &self.0.kind
            }

            /// Returns the error as one of a collective that this rank took part in.
            #[doc(hidden)]
            #[must_use]
            pub fn having_taken_part(mut self) -> Self {
                self.0.took_part = true;
                self
            }

            /// Returns true if a collective returns the error and this rank took part in it: the
            /// collective is over, and the next one of this rank is the next one of all. So it is
            /// with an error that is not the collective's own (something that was begun before, or
            /// a handler, failed), with one of this rank alone (its arguments, its memory; ranks
            /// that needed its contribution get an error that names it), and where ranks do not
            /// agree about the collective. False: the collective was refused before it began (a
            /// handler runs, in C a handle is none), or a rank died or left.
            pub fn took_part(&self) -> bool {
                self.0.took_part || self.0.kind.took_part()
            }
        }

        impl From<ErrorKind> for Error {
            #[cold]
            fn from(kind: ErrorKind) -> Self {
                Self(Box::new(Raised { kind, took_part: false }))
            }
        }

        $(
            impl From<$lower> for Error {
                #[cold]
                fn from(error: $lower) -> Self {
                    ErrorKind::$variant(error).into()
                }
            }
        )*
    };
}
