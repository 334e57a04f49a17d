// Costs and sampled regions, from C and C++: where time is virtual two executions are measured, and
// the others cost their mean; elsewhere every one is executed.
#include "expect.h"

#include <clump/clump.hpp>

#include <stdexcept>

#define GOOD(result) EXPECT((result).has_value())

int main(int argc, char **argv) {
    clump::world cl(argc, argv);
    const bool is_virtual = argc > 1;
    constexpr std::uint64_t read = 10;
    int executed = 0;
    std::uint64_t begun = cl.now_ns();
    for (int i = 0; i < 5; i++) {
        const bool was = cl.sample("region", 2, [&] { GOOD(cl.cost(executed++ == 0 ? 1000 : 3000)); }).value();
        EXPECT(was == (!is_virtual || i < 2));
    }
    EXPECT(executed == (is_virtual ? 2 : 5));
    EXPECT(!is_virtual || cl.now_ns() - begun == 5 * 2000 + (5 * 2 + 1) * read);

    // The same from C; names are of one table.
    clump_t *job = cl.get();
    begun = clump_now_ns(job);
    EXPECT(clump_sample_begin(job, "region", 2) == !is_virtual);
    if (!is_virtual) EXPECT(clump_sample_end(job, "region") == CLUMP_OK);
    EXPECT(clump_cost(job, 500) == CLUMP_OK);
    EXPECT(!is_virtual || clump_now_ns(job) - begun == 2000 + 500 + 3 * read);

    // A region that throws has ended.
    for (int i = 0; i < 2; i++) try {
            (void)cl.sample("throws", 9, [] { throw std::runtime_error("out of it"); });
            EXPECT(false);
        } catch (const std::runtime_error &) {}
    EXPECT(cl.sample("region", 0, [] {}).error().status == CLUMP_ERR_ARGUMENT);
    GOOD(cl.barrier());
    std::printf("rank %d: sampled regions are right\n", cl.rank());
}
