// Tasks in C++: gets and calls of many coroutines side by side, exceptions, depth, destruction.
#include "expect.h"

#include <clump/clump.hpp>

#include <stdexcept>
#include <string>
#include <vector>

#define GOOD(result) EXPECT((result).has_value())

using clump::task, clump::task_group, clump::when_all;

constexpr size_t CHASERS = 10000, STEPS = 8, CALLS = 1000, DEPTH = 100000;

struct pair {
    double a, b;
};

// Counts those that exist; the one made last is destroyed first.
struct nested {
    size_t &alive, number;
    explicit nested(size_t &of) : alive(of), number(++of) {}
    nested(const nested &) = delete;
    ~nested() { EXPECT(alive-- == number); }
};

static size_t successor(size_t at, size_t n) { return (at * 2654435761U + 12345) % n; }

static task<uint64_t> chase(task_group &tasks, const clump::spread<uint64_t> &table, uint64_t at) {
    for (size_t step = 0; step < STEPS; step++) at = (co_await tasks.get(table[at])).value();
    co_return at;
}

static task<> chased(task_group &tasks, const clump::spread<uint64_t> &table, uint64_t from, uint64_t &to) {
    to = co_await chase(tasks, table, from);
}

// Chains of dependent gets, against a serial computation.
static void chains(clump::world &cl, clump::pgas &gas) {
    const size_t n = 1000 * static_cast<size_t>(cl.nranks()) + 1;
    clump::spread<uint64_t> table(gas, n, clump::layout::cyclic);
    for (size_t i = 0, at = static_cast<size_t>(cl.rank()); at < n; i++, at += static_cast<size_t>(cl.nranks())) {
        table.local()[i] = successor(at, n);
    }
    GOOD(gas.barrier());
    task_group tasks(gas);
    std::vector<uint64_t> ends(CHASERS);
    for (size_t i = 0; i < CHASERS; i++) tasks.spawn(chased(tasks, table, i % n, ends[i]));
    GOOD(tasks.run());
    for (size_t i = 0; i < CHASERS; i++) {
        uint64_t at = i % n;
        for (size_t step = 0; step < STEPS; step++) at = successor(at, n);
        EXPECT(ends[i] == at);
    }
    EXPECT(tasks.counts().gets == CHASERS * STEPS && tasks.counts().syncs == STEPS);
    // More tasks than gets that are begun before the group waits.
    ends.resize(2 * CHASERS);
    for (uint64_t &end : ends) tasks.spawn(chased(tasks, table, 7, end));
    GOOD(tasks.run());
    for (uint64_t end : ends) EXPECT(end == ends[0]);
    EXPECT(tasks.counts().syncs <= 4 * STEPS);
    // An index beyond the end is an error of its task.
    const auto beyond = tasks.run([](task_group &group, clump::spread<uint64_t> &all) -> task<clump::result<uint64_t>> {
        co_return co_await group.get(all[all.size()]);
    }(tasks, table));
    EXPECT(!beyond.has_value() && beyond.error().status == CLUMP_ERR_ARGUMENT && !beyond.error().text.empty());
    GOOD(gas.barrier());
}

static task<> add_to(task_group &tasks, clump::spread<uint64_t> &sums, size_t at) {
    (co_await tasks.synced()).value();
    sums[at].add(1).value();
    (co_await tasks.synced()).value();
}

// Updates that tasks wait for together, blocks, elements of other sizes.
static void updates(clump::world &cl, clump::pgas &gas) {
    const size_t n = 10 * static_cast<size_t>(cl.nranks());
    clump::spread<uint64_t> sums(gas, n, clump::layout::cyclic);
    clump::spread<pair> pairs(gas, n, clump::layout::block);
    for (auto &one : pairs.local()) one = {static_cast<double>(cl.rank()), 0.5};
    GOOD(gas.barrier());
    task_group tasks(gas);
    const clump_aggregation before = gas.aggregation();
    for (size_t i = 0; i < 100 * n; i++) tasks.spawn(add_to(tasks, sums, i % n));
    GOOD(tasks.run());
    EXPECT(tasks.counts().syncs == 2 && tasks.counts().gets == 0);
    const clump_aggregation after = gas.aggregation();
    const bool alone = cl.nnodes() == 1;
    EXPECT((after.updates == before.updates) == alone);
    EXPECT(alone || (after.updates - before.updates) / (after.batches - before.batches) >= 10);
    GOOD(gas.barrier());
    for (uint64_t sum : sums.local()) EXPECT(sum == 100 * static_cast<uint64_t>(cl.nranks()));
    const int other = cl.nranks() - 1;
    const auto got = tasks.run([](task_group &group, clump::global_ptr<pair> from) -> task<double> {
        std::vector<pair> block(10);
        const pair one = (co_await group.get(from + 9)).value();
        (co_await group.get(from, std::span(block))).value();
        double sum = one.b;
        for (const pair &each : block) sum += each.a;
        co_return sum;
    }(tasks, pairs.on(other)));
    EXPECT(got.value() == 10.0 * other + 0.5);
    GOOD(gas.barrier());
}

static task<int> plus_one(int value) { co_return value + 1; }

static task<> called(clump::remote_calls &calls, clump::remote_fn<int, int> twice, int rank, int i, int &done) {
    const int first = (co_await calls.call(twice, rank, i).value()).value();
    const int second = (co_await calls.call(twice, rank, 1).value()).value();
    EXPECT(first == 2 * i && second == 2);
    done++;
}

// Calls of many tasks; tasks that wait for one another at different ranks.
static void remote(clump::world &cl, clump::pgas &gas) {
    const int ranks = cl.nranks(), me = cl.rank(), next = (me + 1) % ranks;
    clump::remote_calls calls(gas);
    task_group tasks(gas, calls);
    int rung = 0, spawned = 0, done = 0;
    auto twice = calls.define("twice", [](int i) { return 2 * i; });
    auto fail = calls.define("fail", [](int) -> int { throw std::runtime_error("never"); });
    auto ring = calls.define("ring", [&](int) { rung++; });
    auto begin = calls.define("begin", [&](int by) {
        tasks.spawn([](int &sum, int plus) -> task<> { sum += co_await plus_one(plus); }(spawned, by));
    });
    for (int i = 0; i < static_cast<int>(CALLS); i++) tasks.spawn(called(calls, twice, i % ranks, i, done));
    GOOD(tasks.run());
    EXPECT(done == static_cast<int>(CALLS));
    // Each rank waits until the one before it has called, and a function has begun a task.
    GOOD(tasks.run([&]() -> task<> {
        (co_await calls.call(ring, next, 0).value()).value();
        (co_await calls.call(begin, next, 4).value()).value();
        while (rung == 0 || spawned == 0) (co_await tasks.yield()).value();
        const auto failed = co_await calls.call(fail, next, 0).value();
        EXPECT(!failed.has_value() && failed.error().text.find("failed") != std::string::npos);
    }()));
    EXPECT(rung == 1 && spawned == 5);
    // All kinds together.
    clump::spread<uint64_t> words(gas, static_cast<size_t>(ranks), clump::layout::cyclic);
    words.local()[0] = static_cast<uint64_t>(me) + 70;
    GOOD(gas.barrier());
    const size_t at = static_cast<size_t>(next);
    const auto all = tasks.run(when_all(tasks.get(words[at]), calls.call(twice, next, 21).value(), plus_one(2),
                                        tasks.synced(), tasks.yield(), when_all(plus_one(3), plus_one(4))));
    EXPECT(std::get<0>(*all).value() == at + 70 && std::get<1>(*all).value() == 42 && std::get<2>(*all) == 3);
    GOOD(std::get<3>(*all));
    GOOD(std::get<4>(*all));
    EXPECT(std::get<5>(*all) == std::make_tuple(4, 5));
    // Calls and reads that are dropped.
    {
        uint64_t nowhere = 0;
        task_group dropped(gas, calls);
        for (size_t i = 0; i < 100; i++) {
            dropped.spawn(chased(dropped, words, at, nowhere));
            dropped.spawn(called(calls, twice, next, 1, done));
        }
        EXPECT(!dropped.run_ready() && dropped.counts().gets == 100 && dropped.counts().syncs == 0);
    }
    EXPECT(done == static_cast<int>(CALLS));
    GOOD(calls.end());
}

static task<int> throws(task_group &tasks, int depth) {
    if (depth > 0) co_return co_await throws(tasks, depth - 1);
    (co_await tasks.yield()).value();
    throw std::runtime_error("from below");
}

static task<> counts(int &counted) {
    counted++;
    co_return;
}

static void exceptions(clump::pgas &gas) {
    task_group tasks(gas);
    int counted = 0;
    const auto caught = tasks.run([](task_group &group, int &count) -> task<std::string> {
        std::string text;
        try {
            (void)co_await throws(group, 1000);
        } catch (const std::runtime_error &error) {
            text = error.what();
        }
        co_await counts(count);
        co_return text;
    }(tasks, counted));
    EXPECT(caught.value() == "from below" && counted == 1);
    // One that leaves a task leaves run, when all have ended.
    tasks.spawn([](task_group &group) -> task<> { (void)co_await throws(group, 3); }(tasks));
    bool thrown = false;
    try {
        (void)tasks.run([](task_group &group, int &count) -> task<> {
            for (int i = 0; i < 10; i++) (co_await group.yield()).value();
            co_await counts(count);
        }(tasks, counted));
    } catch (const std::runtime_error &) {
        thrown = true;
    }
    EXPECT(thrown && counted == 2);
    // when_all throws the first in order, when all have ended.
    thrown = false;
    try {
        (void)tasks.run(when_all(throws(tasks, 50), counts(counted), throws(tasks, 0)));
    } catch (const std::runtime_error &) {
        thrown = true;
    }
    EXPECT(thrown && counted == 3);
    std::vector<task<int>> many;
    for (int i = 0; i < 1000; i++) many.push_back(plus_one(i));
    const std::vector<int> sums = tasks.run(when_all(std::move(many))).value();
    EXPECT(sums.size() == 1000 && sums[0] == 1 && sums[999] == 1000);
    EXPECT(tasks.run(when_all(std::vector<task<int>>{})).value().empty());
    // A task runs once.
    task<> once = counts(counted), moved = std::move(once);
    thrown = false;
    try {
        tasks.spawn(std::move(once));
    } catch (const clump::failure &failure) {
        thrown = failure.status() == CLUMP_ERR_HANDLE;
    }
    EXPECT(thrown);
    GOOD(tasks.run(std::move(moved)));
    EXPECT(counted == 4);
    GOOD(tasks.run());
}

static task<size_t> deep(task_group &tasks, size_t &alive, size_t depth) {
    const nested one(alive);
    if (depth > 0) co_return 1 + co_await deep(tasks, alive, depth - 1);
    (co_await tasks.yield()).value();
    co_return 0;
}

// Waits for what no group gets.
static task<> lost(size_t &alive, size_t depth) {
    const nested one(alive);
    if (depth == 0) co_await std::suspend_always();
    co_await lost(alive, depth - 1);
}

// Neither depth nor number of calls takes from the stack; tasks are destroyed wherever they are.
static void depth(clump::pgas &gas) {
    task_group tasks(gas);
    size_t alive = 0, others = 0;
    EXPECT(tasks.run(deep(tasks, alive, DEPTH)).value() == DEPTH && alive == 0);
    const auto loop = tasks.run([]() -> task<int> {
        int sum = 0;
        for (size_t i = 0; i < DEPTH; i++) sum = co_await plus_one(sum);
        co_return sum;
    }());
    EXPECT(loop.value() == static_cast<int>(DEPTH));
    const auto stuck = tasks.run(lost(alive, DEPTH));
    EXPECT(!stuck.has_value() && stuck.error().text.find("no task can run") == 0 && alive == 0);
    EXPECT(tasks.run(plus_one(1)).value() == 2);
    // Not begun, begun, and suspended in several tasks below one.
    {
        const task<> unused = lost(alive, 5);
        task_group dropped(gas);
        dropped.spawn(lost(alive, 3));
    }
    EXPECT(alive == 0);
    {
        task_group dropped(gas);
        dropped.spawn([](task_group &group, size_t &first, size_t &second) -> task<> {
            const nested one(first);
            auto waits = when_all(group.yield(), group.synced());
            (void)co_await when_all(lost(first, DEPTH), deep(group, second, 3), std::move(waits));
        }(dropped, alive, others));
        EXPECT(!dropped.run_ready() && alive == DEPTH + 2 && others == 4);
    }
    EXPECT(alive == 0 && others == 0);
    // A task does not run its own group.
    const auto inner = tasks.run([](task_group &group) -> task<clump::result<void>> { co_return group.run(); }(tasks));
    EXPECT(!inner.has_value() && inner.error().status == CLUMP_ERR_BUSY);
    task_group other(gas);
    const auto foreign = tasks.run([](task_group &not_its) -> task<clump::result<void>> {
        co_return co_await not_its.synced();
    }(other));
    EXPECT(!foreign.has_value() && foreign.error().status == CLUMP_ERR_ARGUMENT);
}

int main(int argc, char **argv) {
    clump::world cl(argc, argv);
    clump::pgas gas(cl);
    chains(cl, gas);
    updates(cl, gas);
    remote(cl, gas);
    exceptions(gas);
    depth(gas);
    GOOD(gas.barrier());
    std::printf("rank %d: tasks in C++ are right\n", cl.rank());
}
