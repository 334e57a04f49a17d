// The global address space in C++: arrays, elements, phases, locks.
#include "expect.h"

#include <clump/clump.hpp>

#include <mutex>

#define GOOD(result) EXPECT((result).has_value())

struct point {
    float x, y, z;
};

int main(int argc, char **argv) {
    clump::world cl(argc, argv);
    clump::pgas gas(cl);
    const size_t n = 100, ranks = static_cast<size_t>(cl.nranks());
    const int next = (cl.rank() + 1) % cl.nranks();
    {
        clump::spread<uint64_t> table(gas, n, clump::layout::cyclic);
        EXPECT(table.size() == n);
        for (size_t i = 0; i < 3 * n; i++) GOOD(table[i % n].add(1));
        GOOD(gas.all_store_sync());
        std::vector<uint64_t> out(n);
        {
            clump::phase ph(gas);
            for (size_t i = 0; i < n; i++) GOOD(ph.get(table[i], out[i]));
        }
        for (uint64_t count : out) EXPECT(count == 3 * ranks);
        EXPECT(!table[n].add(1).has_value() && !table[n].read().has_value());
        for (uint64_t here : table.local()) EXPECT(here == 3 * ranks);
        GOOD(gas.barrier());
        const uint64_t last = table[n - 1].fetch_or(0).value() & table[n - 1].fetch_and(~uint64_t{0}).value();
        EXPECT(last == 3 * ranks);
        const uint64_t ticket = table[0].fetch_add(1).value();
        EXPECT(ticket >= 3 * ranks && ticket < 4 * ranks);
        EXPECT(table.ptr(1) == table.ptr(1 + ranks) - 1);
        GOOD(clump::at(gas, table.on(next) + 1).max(1000));
        GOOD(gas.all_store_sync());
        EXPECT(n < 2 * ranks || clump::at(gas, table.on(cl.rank()) + 1).read().value() == 1000);
        GOOD(gas.barrier());
    }
    {
        const int before = (cl.rank() + cl.nranks() - 1) % cl.nranks();
        const clump::halo_neighbour sides[] = {{before, 1, 1}, {next, 0, 1}};
        clump::halo<point> ring(gas, sides);
        const float me = static_cast<float>(cl.rank());
        const point mine{me, 1, 2};
        point cells[2];
        const std::span<const point> from[] = {{&mine, 1}, {&mine, 1}};
        const std::span<point> to[] = {{&cells[0], 1}, {&cells[1], 1}};
        for (int round = 0; round < 5; round++) GOOD(ring.exchange(from, to));
        EXPECT(cells[0].x == static_cast<float>(before) && cells[1].x == static_cast<float>(next));
        EXPECT(!ring.exchange(std::span(from).first(1), to).has_value());
        GOOD(gas.barrier());
    }
    {
        clump::spread<point> points(gas, 4 * ranks, clump::layout::block);
        EXPECT(points.local().size() == 4 && points.owner(4 * ranks - 1).value() == cl.nranks() - 1);
        const float me = static_cast<float>(cl.rank());
        GOOD(points[static_cast<size_t>(next) * 4].put({me, 1, 2}));
        std::vector<point> more(3, point{me, 3, 4});
        clump::phase ph(gas);
        GOOD(ph.put(points.on(next) + 1, std::span(more)));
        GOOD(ph.end());
        GOOD(gas.all_store_sync());
        const float before = static_cast<float>((cl.rank() + cl.nranks() - 1) % cl.nranks());
        EXPECT(points.local()[0].x == before && points.local()[0].z == 2 && points.local()[3].y == 3);
        std::vector<point> back(4);
        clump::phase reads(gas);
        GOOD(reads.get(points.on(next), std::span(back)));
        GOOD(reads.end());
        EXPECT(back[0].x == me && back[3].z == 4);
        GOOD(gas.barrier());
        // Every second element of the next rank.
        const std::vector<point> apart(2, point{5, 6, me});
        clump::phase strided(gas);
        GOOD(strided.put_strided(points.on(next), 1, 2, apart));
        GOOD(strided.end());
        GOOD(gas.all_store_sync());
        clump::phase reading(gas);
        GOOD(reading.get_strided(points.on(next), 1, 2, std::span(back).first(2)));
        GOOD(reading.end());
        EXPECT(back[0].z == me && back[1].z == me && points.local()[0].y == 6 && points.local()[1].y == 3);
        EXPECT(points.local()[2].y == 6 && points.local()[3].y == 3);
        GOOD(gas.barrier());
    }
    {
        clump::spread<uint32_t> table(gas, n, clump::block_cyclic{4});
        EXPECT(table.owner(4).value() == 1 % cl.nranks() && table.ptr(3) == table.ptr(0) + 3);
        for (size_t i = 0; i < n; i++) GOOD(table[i].add(2));
        GOOD(gas.all_store_sync());
        for (uint32_t here : table.local()) EXPECT(here == 2 * ranks);
        GOOD(gas.barrier());
    }
    {
        clump::spread<double> sums(gas, 1, clump::layout::block);
        clump::global_mutex lock(gas, 5);
        GOOD(sums[0].add(0.5));
        for (int i = 0; i < 4; i++) {
            clump::global_mutex::guard held(lock);
            *held += 1;
        }
        { std::scoped_lock held(lock); }
        GOOD(gas.all_store_sync());
        EXPECT(sums[0].read().value() == 0.5 * static_cast<double>(ranks));
        {
            clump::global_mutex::guard held(lock);
            EXPECT(*held == 5 + 4 * ranks);
        }
        GOOD(gas.barrier());
    }
    EXPECT((gas.aggregation().updates > 0) == (cl.nnodes() > 1));
    GOOD(gas.quiet());
    std::printf("rank %d: global memory in C++ is right\n", cl.rank());
}
