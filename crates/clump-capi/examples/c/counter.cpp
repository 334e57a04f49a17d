// Tickets in C++20: a word of rank 0's memory, taken by all ranks.
//
//   clump-c++ -std=c++20 -O2 counter.cpp -o counter && clump run -n 4 --nodes 2 ./counter
#include <clump/clump.hpp>

#include <cstdio>

int main(int argc, char **argv) try {
    clump::world cl(argc, argv);
    clump::rma rma(cl);
    auto [mine, all] = rma.allocate(cl, 128);
    uint64_t last = 0;
    for (int i = 0; i < 1000; ++i) last = all[0].fetch_add<uint64_t>(0, 1).value();
    const uint64_t most = cl.all_reduce(last, clump::op::max).value();
    if (cl.rank() == 0) std::printf("%d ranks took %d tickets\n", cl.nranks(), int(most + 1));
    cl.barrier().value();
} catch (const clump::failure &f) {
    std::fprintf(stderr, "%s\n", f.what());
    return 1;
}
