// The C++ layer: typed handlers, errors as values and exceptions, objects that close themselves.
#include "expect.h"

#include <clump/clump.hpp>

#include <numeric>

#define GOOD(result) EXPECT((result).has_value())

enum class colour : uint16_t { red = 3, green = 9 };
struct pair {
    int16_t a;
    float b;
};

static void messages(clump::world &cl) {
    clump::endpoint ep(cl, clump::tag{7});
    uint64_t sum = 0;
    size_t payload = 0;
    int empty = 0, answers = 0;
    auto add = ep.handler([&](clump::token t, uint64_t v) {
        EXPECT(!t.may_reply() && !t.reply(clump::handler_of<>{1}).has_value());
        sum += v;
        answers++;
    });
    auto typed = ep.handler([=](clump::token t, colour c, pair p, double d, int negative) {
        EXPECT(c == colour::green && p.a == -2 && p.b == 0.5f && d == 1e300 && negative == -1 && t.may_reply());
        return t.reply(add, 40);
    });
    auto bulk = ep.handler([&, add](clump::token t, uint8_t what, clump::bytes b) {
        payload = b.size();
        EXPECT(what == 200 && (b.empty() || b.back() == std::byte{9}));
        return t.reply(add, b.size());
    });
    auto nothing = ep.handler([&](clump::token) { empty++; });
    auto throws = ep.handler([](clump::token, int kind) {
        if (kind == 0) throw std::runtime_error("thrown on purpose");
        throw 5;
    });
    auto refuses = ep.handler([=](clump::token t) -> clump::result<void> {
        if (auto first = t.reply(add, 1); !first) return first;
        return t.reply(add, 2); // only once
    });
    static_assert(std::is_same_v<decltype(typed), clump::handler_of<colour, pair, double, int>>);
    static_assert(std::is_same_v<decltype(bulk), clump::handler_of<uint8_t>>);
    int back = 0;
    GOOD(ep.on_returned([&](const clump::returned &m) {
        back = m.reason();
        EXPECT((m.words().empty() || m.words()[0] == 5) && m.rank() == m.to().rank() - 0 * back);
    }));
    auto names = cl.all_gather(ep.name()).value();
    EXPECT(names.at(cl.rank()).rank() == cl.rank());
    auto next = ep.map(names.at((cl.rank() + 1) % cl.nranks()), clump::tag{7}).value();
    auto self = ep.map_ordered(ep.name(), clump::tag{7}).value();

    GOOD(ep.hold());
    GOOD(ep.release());
    EXPECT(ep.try_drain().value());
    GOOD(ep.request(next, typed, colour::green, pair{-2, 0.5f}, 1e300, -1));
    GOOD(ep.poll_until([&] { return sum == 40; }));
    std::vector<std::byte> page(ep.max_medium(), std::byte{9});
    GOOD(ep.request_bulk(next, bulk, page, 200));
    GOOD(ep.poll_until([&] { return sum == 40 + page.size(); }));
    GOOD(ep.request_bulk(next, bulk, {}, 200));
    GOOD(ep.request(self, nothing));
    GOOD(ep.poll_until([&] { return empty == 1; }));
    GOOD(cl.barrier());
    GOOD(ep.poll_until([&] { return payload == 0; }));
    page.push_back(std::byte{9});
    EXPECT(ep.request_bulk(next, bulk, page, 200).error().status == CLUMP_ERR_TOO_LONG);

    auto until_failed = [&](clump::result<void> sent) {
        if (!sent) return sent.error();
        for (;;)
            if (auto polled = ep.wait(); !polled) return polled.error();
    };
    EXPECT(until_failed(ep.request(self, throws, 0)).text.find("thrown on purpose") != std::string::npos);
    EXPECT(until_failed(ep.request(self, throws, 1)).status == CLUMP_ERR_HANDLER_FAILED);
    EXPECT(until_failed(ep.request(self, refuses)).text.find("answered once") != std::string::npos);
    // One word where the handler takes four; a payload where it takes none.
    GOOD(ep.request(self, clump::handler_of<int>{typed.number}, 5));
    GOOD(ep.poll_until([&] { return back == CLUMP_RETURNED_BAD_ARGUMENTS; }));
    back = 0;
    GOOD(ep.request_bulk(self, nothing, clump::bytes(page).first(8)));
    GOOD(ep.poll_until([&] { return back == CLUMP_RETURNED_BAD_ARGUMENTS; }));
    GOOD(ep.request(self, clump::handler_of<int>{200}, 5));
    GOOD(ep.poll_until([&] { return back == CLUMP_RETURNED_BAD_HANDLER; }));
    // Messages that are not read here before the endpoint closes are returned to sender.
    GOOD(ep.poll_until([&] { return answers == 4; }));
    GOOD(ep.unmap(next));
    EXPECT(ep.request(next, nothing).error().status == CLUMP_ERR_DESTINATION);
    bool caught = false;
    try {
        GOOD(ep.poll_until([]() -> bool { throw 7; }));
    } catch (int thrown) {
        caught = thrown == 7;
    }
    EXPECT(caught);
    try {
        ep.request(clump::dest{}, nothing).value();
    } catch (const clump::failure &f) {
        caught = f.status() == CLUMP_ERR_DESTINATION;
    }
    EXPECT(caught);
    EXPECT(ep.export_segment(4096).value().size() == 4096);
    EXPECT(!ep.export_segment(4096));
    clump::endpoint moved = std::move(ep);
    GOOD(moved.poll());
    EXPECT(ep.poll().error().status == CLUMP_ERR_ARGUMENT);
    GOOD(cl.barrier());
}

// An endpoint destroyed inside its own handler cannot be closed there: it stays, and so does the
// state of its handlers.
static void goes_in_its_handler(clump::world &cl) {
    auto *ep = new clump::endpoint(cl, clump::tag{8});
    clump_ep *raw = ep->get();
    int runs = 0;
    auto leave = ep->handler([&runs, &ep, text = std::string(1000, 'x')](clump::token) {
        delete std::exchange(ep, nullptr);
        EXPECT(text.front() == 'x' && text.back() == 'x');
        runs++;
    });
    const int self = ep->map(ep->name(), clump::tag{8}).value().index;
    for (int round = 1; round <= 3; round++) {
        OK(clump_request(raw, self, leave.number));
        while (runs < round) OK(clump_poll(raw));
    }
    OK(clump_ep_close(raw));
}

static void memory(clump::world &cl) {
    clump::rma rma(cl);
    auto [mine, all] = rma.allocate(cl, 4096);
    clump::target &first = all.at(0);
    EXPECT(all.at(cl.rank()).is_near());
    for (int i = 0; i < 10; i++) GOOD(first.add<uint64_t>(0, 2));
    GOOD(first.fetch_add<uint32_t>(8, 1));
    GOOD(rma.quiet());
    GOOD(cl.barrier());
    EXPECT(first.load<uint64_t>(0).value() == 20 * uint64_t(cl.nranks()));
    EXPECT(first.get_word<uint32_t>(8).value() == uint32_t(cl.nranks()));
    EXPECT(first.load<uint64_t>(4).error().status == CLUMP_ERR_ALIGNMENT);
    GOOD(cl.barrier());
    const uint64_t own = 64 + 8 * uint64_t(cl.rank());
    GOOD(first.put<uint64_t>(own, 3));
    GOOD(rma.quiet());
    EXPECT(first.swap<uint64_t>(own, 4).value() == 3);
    EXPECT(first.compare_swap<uint64_t>(own, 4, 5).value() == 4);
    EXPECT(first.atomic<uint64_t>(own, CLUMP_ATOMIC_MAX, 50).value() == 5);
    std::vector<int> out(16, cl.rank()), in(16, -1);
    GOOD(all.at((cl.rank() + 1) % cl.nranks()).put(1024, std::span(out)));
    GOOD(rma.quiet());
    GOOD(all.at((cl.rank() + 1) % cl.nranks()).get(1024, std::span<int>(in)));
    EXPECT(in == out);

    std::vector<clump::segment> locks;
    if (cl.rank() == 0) locks.push_back(rma.export_locks(1));
    auto names = cl.all_gather(locks.empty() ? clump::segment_name{} : locks[0].name()).value();
    clump::lock lock = rma.open_lock(names.at(0), 0);
    for (int i = 0; i < 20; i++) {
        clump::lock::guard held(lock);
        lock.set_word(lock.word() + 1);
    }
    GOOD(cl.barrier());
    if (cl.rank() == 0) {
        // The release of the lock by another node may still be in flight.
        clump::lock::guard held(lock);
        EXPECT(lock.word() == 20 * uint64_t(cl.nranks()));
    }
    bool caught = false;
    try {
        lock.release();
    } catch (const clump::failure &f) {
        caught = f.status() == CLUMP_ERR_NOT_HELD;
    }
    EXPECT(caught);
    GOOD(cl.barrier());
}

// Strided puts and gets, split-phase operations, signals and flags, around a ring.
static void more_memory(clump::world &cl) {
    clump::rma rma(cl);
    auto [mine, all] = rma.allocate(cl, 8192);
    clump::target &next = all.at((cl.rank() + 1) % cl.nranks()), &own = all.at(cl.rank());
    const auto *words = static_cast<const uint64_t *>(mine.base());

    // Every third word of the next rank, from the second on.
    std::vector<uint64_t> out(40), in(40, 0);
    std::iota(out.begin(), out.end(), 100 * uint64_t(cl.rank()));
    const clump::strides thirds{8, 8, 24};
    GOOD(next.put_strided(thirds, std::span(out)));
    GOOD(rma.quiet());
    GOOD(next.get_strided(thirds, std::span<uint64_t>(in)));
    EXPECT(in == out);
    EXPECT(next.get_strided(clump::strides{0, 16, 24}, std::span<uint64_t>(in).first(3)).error().status ==
           CLUMP_ERR_BOUNDS);
    GOOD(cl.barrier());
    const uint64_t before = 100 * uint64_t((cl.rank() + cl.nranks() - 1) % cl.nranks());
    for (size_t i = 0; i < 40; i++) EXPECT(words[1 + 3 * i] == before + i && words[3 * i] == 0);
    GOOD(cl.barrier());

    // Begun, then waited for; and begun, and dropped.
    auto put = next.start_put(2048, std::span<const uint64_t>(out));
    GOOD(put.wait());
    EXPECT(put.test().error().status == CLUMP_ERR_ARGUMENT && put.wait().error().status == CLUMP_ERR_ARGUMENT);
    auto swapped = next.start_atomic<uint64_t>(2048, CLUMP_SWAP, 7);
    while (!swapped.test().value()) {}
    EXPECT(swapped.wait().value() == out[0]);
    auto compared = next.start_atomic<uint32_t>(2048, CLUMP_COMPARE_SWAP, 9, 7);
    EXPECT(compared.wait().value() == 7);
    { auto left = next.start_atomic<uint64_t>(4096, CLUMP_ADD, 5); }
    GOOD(rma.quiet());
    EXPECT(next.load<uint64_t>(4096).value() == 5);
    bool refused = false;
    try {
        refused = !next.start_put(8190, std::span<const uint64_t>(out)).wait();
    } catch (const clump::failure &f) {
        refused = f.status() == CLUMP_ERR_BOUNDS; // on this node it cannot even be begun
    }
    EXPECT(refused);
    std::ranges::fill(in, 0);
    GOOD(next.start_get(2056, std::span<uint64_t>(in).first(20)));
    GOOD(next.start_get(2056 + 160, std::span<uint64_t>(in).subspan(20, 19)));
    GOOD(rma.sync());
    EXPECT(std::equal(in.begin(), in.begin() + 39, out.begin() + 1));
    GOOD(cl.barrier());

    // Data that was put is there when its signal is.
    const clump_signal then{next.name().value, 6000, 1, 1};
    GOOD(next.put_signal(5000, std::span(out), then));
    EXPECT(own.wait_until(6000, clump::comparison::at_least, 1).value() == 1);
    EXPECT(words[625] == before && words[664] == before + 39);
    GOOD(cl.barrier());
    GOOD(next.signal(6000, 50));
    EXPECT(own.wait_until(6000, clump::comparison::equal, 50).value() == 50);

    // A flag at each rank, which the one before sets.
    clump::segment flags = rma.export_flags(2);
    auto names = cl.all_gather(flags.name()).value();
    clump::flag there = rma.open_flag(names.at((cl.rank() + 1) % cl.nranks()), 1);
    clump::flag here = rma.open_flag(names.at(cl.rank()), 1);
    EXPECT(!here.wait_within(clump::comparison::at_least, 100, std::chrono::milliseconds(1)).value());
    EXPECT(!here.wait_within(clump::comparison::equal, 100, std::chrono::seconds(-1)).value());
    GOOD(there.set(3));
    EXPECT(here.wait(clump::comparison::at_least, 3).value() == 3);
    GOOD(cl.barrier());
    GOOD(there.add(4));
    EXPECT(here.wait_within(clump::comparison::not_equal, 3, std::chrono::seconds(100)).value() == 7);
    EXPECT(here.value().value() == 7);
    bool none = false;
    try {
        clump::flag beyond = rma.open_flag(names.at(0), 1 << 20);
        none = !beyond.set(1) || !rma.quiet();
    } catch (const clump::failure &f) {
        none = f.status() == CLUMP_ERR_BOUNDS;
    }
    EXPECT(none);
    GOOD(cl.barrier());
}

int main(int argc, char **argv) {
    clump::world cl(argc, argv);
    EXPECT(!clump::world::join().has_value());
    const int rank = cl.rank(), n = cl.nranks();
    EXPECT(cl.node_of(rank).value() == cl.node() && !cl.node_of(n) && cl.nnodes() >= 1);
    EXPECT(cl.all_reduce(rank + 1, clump::op::sum).value() == n * (n + 1) / 2);
    EXPECT(cl.all_reduce(0.5, clump::op::max).value() == 0.5);
    EXPECT(cl.all_reduce(0.5f, clump::op::bit_or).error().status == CLUMP_ERR_ARGUMENT);
    EXPECT(cl.all_reduce<int8_t>(int8_t(-rank), clump::op::min).value() == -(n - 1));
    std::vector<uint16_t> values(5, uint16_t(rank));
    GOOD(cl.all_reduce(std::span(values), clump::op::max));
    EXPECT(values[4] == n - 1);
    GOOD(cl.broadcast(0, std::span(values)));
    auto all = cl.all_gather(pair{int16_t(rank), 1.5f}).value();
    EXPECT(all.size() == size_t(n) && all.back().a == n - 1);
    const auto gathered = cl.gather(n - 1, rank * 3).value();
    EXPECT(gathered.size() == size_t(rank == n - 1 ? n : 0));
    for (size_t i = 0; i < gathered.size(); i++) EXPECT(gathered[i] == int(i) * 3);
    std::vector<double> given(size_t(n), rank + 0.25);
    for (int i = 0; i < n; i++) given[size_t(i)] += 100.0 * i;
    EXPECT(cl.scatter(0, std::span<const double>(given)).value() == 0.25 + 100.0 * rank);
    const auto got = cl.all_to_all(std::span<const double>(given)).value();
    for (int i = 0; i < n; i++) EXPECT(got[size_t(i)] == i + 0.25 + 100.0 * rank);
    EXPECT(cl.all_to_all(std::span<const double>(given).first(0)).error().status == CLUMP_ERR_ARGUMENT);
    EXPECT(cl.reduce(0, rank + 1, clump::op::sum).value() ==
           (rank == 0 ? std::optional<int>(n * (n + 1) / 2) : std::nullopt));
    EXPECT(cl.scan(rank + 1, clump::op::sum).value() == (rank + 1) * (rank + 2) / 2);
    EXPECT(cl.exclusive_scan(rank + 1, clump::op::sum).value() ==
           (rank > 0 ? std::optional<int>(rank * (rank + 1) / 2) : std::nullopt));
    clump::result<int> wrong = clump::error{CLUMP_ERR_BUSY, "so"};
    EXPECT(std::move(wrong).value_or(3) == 3);
    messages(cl);
    goes_in_its_handler(cl);
    memory(cl);
    more_memory(cl);
    GOOD(cl.finalize());
    EXPECT(cl.barrier().error().status == CLUMP_ERR_ARGUMENT);
    std::printf("rank %d: the layers are right\n", rank);
}
