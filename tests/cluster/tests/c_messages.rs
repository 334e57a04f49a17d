//! Active messages of C programs: all kinds, all that comes back, misuse; alone, on one node, on two.

use clump_cluster_tests::Job;
use clump_cluster_tests::c_programs::{Linked, workshop};

#[test]
fn messages_of_c_programs_do_what_those_of_rust_do() {
    let Some(shop) = workshop("active messages from C") else { return };
    for linked in [Linked::Static, Linked::Shared] {
        let program = shop.build("tests/c/messages.c", linked);
        let jobs = [
            Job::any(&program),
            Job::of_program("-n 3", &program, []),
            Job::of_program("-n 4 --nodes 2", &program, []),
        ];
        for job in jobs {
            let done = job.finish();
            done.expect_clean();
            assert!(done.out.contains("rank 0: messages are right\n"), "{}", done.out);
        }
    }
}
