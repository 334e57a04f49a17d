// Remote calls and vector forms in C++: typed functions, futures, failures.
#include "expect.h"

#include <clump/clump.hpp>

#include <map>
#include <numeric>
#include <stdexcept>
#include <vector>

#define GOOD(result) EXPECT((result).has_value())

struct pair {
    uint32_t key;
    double value;
};

int main(int argc, char **argv) {
    clump::world cl(argc, argv);
    clump::pgas gas(cl);
    const int ranks = cl.nranks(), me = cl.rank();
    {
        std::map<uint32_t, double> map;
        uint64_t visits = 0;
        clump::remote_calls calls(gas);
        auto insert = calls.define("insert", [&](pair p) { return map.emplace(p.key, p.value).second; });
        auto sum = calls.define("sum", [&](uint32_t key, double plus) { return map.at(key) + plus; });
        auto visit = calls.define("visit", [&](int) { visits++; });
        const uint32_t mine = static_cast<uint32_t>(me);
        const int owner = (me + 1) % ranks;
        auto fresh = calls.call(insert, owner, pair{mine, 1.5 * me}).value();
        while (!fresh.ready().value()) {}
        EXPECT(fresh.wait().value());
        EXPECT(!calls.call(insert, owner, pair{mine, 0}).value().wait().value());
        std::vector<clump::future<double>> sums;
        for (int i = 0; i < 50; i++) sums.push_back(calls.call(sum, owner, mine, i).value());
        for (int i = 0; i < 50; i++) EXPECT(sums[static_cast<size_t>(i)].wait().value() == 1.5 * me + i);
        for (int rank = 0; rank < ranks; rank++) GOOD(calls.send(visit, rank, 7));
        GOOD(calls.call(visit, owner, 1).value().wait());
        // An exception of a function is a failure of its caller.
        const auto missing = calls.call(sum, owner, 1000U, 0.0).value().wait();
        EXPECT(!missing.has_value() && missing.error().text.find("failed") != std::string::npos);
        EXPECT(!calls.call(visit, ranks, 1).has_value());
        (void)calls.call(visit, owner, 2).value(); // dropped, and executed all the same
        GOOD(calls.end());
        EXPECT(visits == static_cast<uint64_t>(ranks) + 2 && map.size() == 1);
    }
    {
        // Objects of every rank, which functions find by what they get as an argument.
        using map_of_words = std::map<uint64_t, uint64_t>;
        clump::remote_calls calls(gas);
        clump::dist_object<map_of_words> map(calls), other(calls, map_of_words{{5, 5}});
        clump::dist_object<std::vector<int>> callers(calls, size_t(2), -1);
        EXPECT(map.number() != other.number() && other->size() == 1 && callers->size() == 2);
        auto insert = calls.define("insert", [](clump::dist_object<map_of_words> &m, uint64_t k, uint64_t v) {
            return m->emplace(k, v).second;
        });
        auto size = calls.define("size", [](const clump::dist_object<map_of_words> &m) { return m->size(); });
        auto push = calls.define("push", [](clump::dist_object<std::vector<int>> &to, int who) { to->push_back(who); });
        const int next = (me + 1) % ranks;
        EXPECT(calls.call(insert, next, map, 42, 7).value().wait().value());
        EXPECT(!calls.call(insert, next, other, 5, 6).value().wait().value());
        EXPECT(calls.call(size, next, other).value().wait().value() == 1);
        for (int rank = 0; rank < ranks; rank++) GOOD(calls.send(push, rank, callers, me));
        GOOD(calls.end());
        EXPECT((*map == map_of_words{{42, 7}}) && (*other == map_of_words{{5, 5}}));
        EXPECT(callers->size() == 2 + static_cast<size_t>(ranks) && callers->front() == -1);
        EXPECT(std::accumulate(callers->begin() + 2, callers->end(), 0) == ranks * (ranks - 1) / 2);
        bool caught = false;
        try {
            // Ranks that make objects of different types find out.
            if (me == 0) clump::dist_object<int> one(calls, 1);
            else clump::dist_object<float> one(calls, 1.0F);
        } catch (const clump::failure &f) {
            caught = f.status() == CLUMP_ERR_ARGUMENT;
        }
        EXPECT(caught == (ranks > 1));
        GOOD(calls.end());
    }
    {
        const size_t n = 40 * static_cast<size_t>(ranks);
        clump::spread<float> table(gas, n, clump::layout::cyclic);
        std::vector<size_t> indexes(40);
        std::iota(indexes.begin(), indexes.end(), 40 * static_cast<size_t>(me));
        std::vector<float> values(40, static_cast<float>(me) + 0.5F), got(40);
        GOOD(table.scatter(indexes, values));
        GOOD(gas.all_store_sync());
        GOOD(table.scatter_add(indexes, 1.0F));
        GOOD(gas.sync());
        GOOD(table.gather(indexes, got));
        for (float one : got) EXPECT(one == static_cast<float>(me) + 1.5F);
        EXPECT(!table.gather(indexes, std::span(got).first(3)).has_value());
        GOOD(gas.barrier());
    }
    std::printf("rank %d: remote calls in C++ are right\n", me);
}
