// Irregular programs in C++: copies of objects, queues of tasks, locks, channels.
#include "expect.h"

#include <clump/clump.hpp>

#include <stdexcept>

#define GOOD(result) EXPECT((result).has_value())

struct pair {
    uint64_t a, b, c;
};

int main(int argc, char **argv) {
    clump::world cl(argc, argv);
    clump::pgas gas(cl);
    const uint64_t ranks = static_cast<uint64_t>(cl.nranks()), me = static_cast<uint64_t>(cl.rank());
    {
        clump::spread<pair> pairs(gas, 4 * ranks, clump::layout::cyclic);
        for (uint64_t at = 0; at < 4; at++) GOOD(pairs[me + at * ranks].write({me, at, me + at}));
        GOOD(gas.barrier());
        clump::object_cache cache(gas, 200);
        clump::object_cache::object_class<pair> of_pairs(cache);
        for (uint64_t at = 0; at < 4 * ranks; at++) {
            const pair got = of_pairs.get(pairs.ptr(at)).value();
            EXPECT(got.a == at % ranks && got.b == at / ranks && got.c == got.a + got.b);
            EXPECT(of_pairs.find(pairs.ptr(at)).value().has_value());
        }
        const clump_cache_counts counts = of_pairs.counts().value();
        EXPECT(counts.near + counts.hits >= 4 * ranks);
        GOOD(cache.invalidate());
        GOOD(cache.fetch());
        GOOD(gas.barrier());
    }
    {
        clump::task_queues queues(gas, 32);
        for (uint64_t task = 0; task < 50; task++) GOOD(queues.push(task));
        uint64_t done = 0;
        GOOD(queues.run([&](uint64_t task) {
            done++;
            if (task < 50) GOOD(queues.push(task + 50));
        }));
        EXPECT(queues.counts().value().done == done);
        bool caught = false;
        GOOD(queues.push(1));
        try {
            GOOD(queues.run([](uint64_t) { throw std::runtime_error("mine"); }));
        } catch (const std::runtime_error &mine) {
            caught = strcmp(mine.what(), "mine") == 0;
        }
        EXPECT(caught || ranks > 1);
        GOOD(gas.barrier());
    }
    {
        clump::lock_array locks(gas, 3);
        clump::spread<uint64_t> sum(gas, 1, clump::layout::block);
        for (int turn = 0; turn < 10; turn++) {
            GOOD(locks.with(2, [&] { GOOD(sum[0].write(sum[0].read().value() + 1)); }));
        }
        GOOD(gas.barrier());
        EXPECT(sum[0].read().value() == 10 * ranks);
        EXPECT(locks.attempts().value().acquired == 10 && locks.attempts().value().failed == 0);
        GOOD(gas.barrier());
    }
    {
        clump::channel<pair> channel(gas, 4);
        uint64_t sum = 0;
        const auto take = [&](int from, std::span<const pair> all) {
            for (const pair &one : all) {
                EXPECT(one.a == static_cast<uint64_t>(from));
                sum += one.b;
            }
        };
        const std::vector<pair> mine(30, pair{me, 2, 0});
        for (int to = 0; to < cl.nranks(); to++) GOOD(channel.send(to, mine, take));
        GOOD(channel.receive(take));
        GOOD(channel.finish(take));
        EXPECT(sum == 60 * ranks);
        // Each item of 1 or more makes one of one less, at the next rank.
        std::vector<pair> waiting(1, pair{me, 9, 0});
        uint64_t seen = 0;
        const auto arrive = [&](int, std::span<const pair> all) {
            for (const pair &one : all) {
                seen++;
                if (one.b > 0) waiting.push_back({me, one.b - 1, 0});
            }
        };
        const auto work = [&] {
            if (waiting.empty()) return false;
            const pair one = waiting.back();
            waiting.pop_back();
            GOOD(channel.send(static_cast<int>((me + 1) % ranks), std::span(&one, 1), arrive));
            return true;
        };
        GOOD(channel.run(work, arrive));
        EXPECT(seen == 10);
        bool caught = false;
        try {
            (void)channel.run([]() -> bool { throw std::runtime_error("work"); }, arrive);
        } catch (const std::runtime_error &mine) {
            caught = strcmp(mine.what(), "work") == 0;
        }
        EXPECT(caught);
    }
    {
        const clump::cost_zones zones(1000, 3);
        uint64_t before = 0;
        for (int rank = 0; rank < 3; rank++) {
            const auto [first, end] = zones.zone(rank).value();
            EXPECT(first == before && zones.owner(first).value() == rank);
            before = end;
        }
        EXPECT(before == 1000 && !zones.zone(3).has_value());
    }
    GOOD(cl.barrier());
    std::printf("rank %d: irregular programs in C++ are right\n", cl.rank());
    return 0;
}
