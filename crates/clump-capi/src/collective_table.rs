//! The macro that makes functions for C of a table of collectives.

/// Defines three functions for each row: of all ranks, of a team, and the one that begins it on a
/// team. The bodies of a row run unsafe: what they rely on is in the texts for C. Rows are
/// separated by empty lines; `examples/headers` reads them, too.
macro_rules! collectives {
    ($(
        $of_job:ident, $of_team:ident, $start:ident($($argument:ident: $type:ty),+ $(,)?)
        $(#[$doc:meta])+
        |$team:ident| $run:expr,
        $(#[$start_doc:meta])+
        |$handle:ident| $begin:expr;
    )+) => {$(
        $(#[$doc])+
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $of_job(cl: *mut clump_t, $($argument: $type),+) -> c_int {
            guard(|| {
                outside_handlers(cl, stringify!($of_job), |job| {
                    let $team = job.runtime.team();
                    // SAFETY: the caller's.
                    unsafe { $run }
                })
            })
        }

        #[doc = concat!("Executes ::", stringify!($of_job), " among the ranks of a team, by their numbers in it.")]
        ///
        /// # Safety
        #[doc = concat!("As for ::", stringify!($of_job), ".")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $of_team(team: *mut clump_team, $($argument: $type),+) -> c_int {
            guard(|| {
                in_team(team, stringify!($of_team), |$team| {
                    // SAFETY: the caller's.
                    unsafe { $run }
                })
            })
        }

        $(#[$start_doc])+
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $start(
            team: *mut clump_team,
            $($argument: $type),+
        ) -> *mut clump_pending {
            guard_pointer(|| {
                team_handle(team, stringify!($start), |$handle| {
                    // SAFETY: the caller's.
                    unsafe { $begin }
                })
            })
        }
    )+};
}

pub(crate) use collectives;
