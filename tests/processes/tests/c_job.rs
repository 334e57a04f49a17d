//! Jobs of C programs: joining, leaving, misuse; alone, on one node and on two.

use clump_process_tests::Job;
use clump_process_tests::c_programs::{Linked, workshop};

#[test]
fn a_c_program_is_a_rank_wherever_it_runs() {
    let Some(shop) = workshop("a C program as a rank") else { return };
    for linked in [Linked::Static, Linked::Shared] {
        let program = shop.build("tests/c/job.c", linked);
        let alone = Job::any(&program).finish();
        alone.expect_clean();
        assert_eq!(alone.out, "rank 0 of 1 on node 0 of 1\n");
        let one = Job::of_program("-n 3", &program, []).finish();
        one.expect_clean();
        assert!(one.out.contains("rank 2 of 3 on node 0 of 1\n"), "{}", one.out);
        let two = Job::of_program("-n 4 --nodes 2", &program, []).finish();
        two.expect_clean();
        assert!(two.out.contains("rank 3 of 4 on node 1 of 2\n"), "{}", two.out);
    }
}
