// Chains of pointers through the memory of all ranks: read one after another, and by tasks, whose
// reads travel together.
//
//   clump-c++ -std=c++20 -O2 gas_chase.cpp -o gas_chase && clump run -n 2 --nodes 2 ./gas_chase
#include <clump/clump.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

using table = clump::spread<uint64_t>;

static clump::task<> chase(clump::task_group &tasks, const table &next, uint64_t &at, int steps) {
    for (; steps > 0; steps--) at = (co_await tasks.get(next[at])).value();
}

template <class F> static double seconds(F run) {
    const auto start = std::chrono::steady_clock::now();
    run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

static double median(std::vector<double> &of) {
    std::sort(of.begin(), of.end());
    return of[of.size() / 2];
}

int main(int argc, char **argv) try {
    constexpr size_t chains = 1000, words = 1 << 16;
    constexpr int steps = 8;
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
    clump::world cl(argc, argv);
    clump::pgas gas(cl);
    table next(gas, words, clump::layout::cyclic);
    const size_t ranks = static_cast<size_t>(cl.nranks());
    size_t word = static_cast<size_t>(cl.rank());
    for (uint64_t &at : next.local()) {
        at = (word * 48271 + 1) % words;
        word += ranks;
    }
    std::vector<double> plain, side_by_side;
    uint64_t wrong = 0;
    for (int round = 0; round < rounds; round++) {
        std::vector<uint64_t> one(chains), all(chains);
        for (size_t i = 0; i < chains; i++) one[i] = all[i] = i * 61 + static_cast<size_t>(round);
        gas.barrier().value();
        plain.push_back(seconds([&] {
            for (uint64_t &at : one) {
                for (int step = 0; step < steps; step++) at = next[at].read().value();
            }
        }));
        gas.barrier().value();
        clump::task_group tasks(gas);
        side_by_side.push_back(seconds([&] {
            for (uint64_t &at : all) tasks.spawn(chase(tasks, next, at, steps));
            tasks.run().value();
        }));
        for (size_t i = 0; i < chains; i++) wrong += one[i] != all[i];
    }
    wrong = cl.all_reduce(wrong, clump::op::sum).value();
    if (cl.rank() == 0) {
        const double slow = median(plain), fast = median(side_by_side);
        std::printf("%zu chains of %d reads: %.2f ms by plain reads, %.2f ms by tasks: %.1f times as fast\n", chains,
                    steps, slow * 1e3, fast * 1e3, slow / fast);
        std::printf("%llu of %zu ends are wrong\n", static_cast<unsigned long long>(wrong), chains * ranks);
    }
    return wrong != 0;
} catch (const clump::failure &f) {
    std::fprintf(stderr, "%s\n", f.what());
    return 1;
}
