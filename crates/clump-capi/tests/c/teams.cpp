// Teams in C++: a world's collectives on a grid's rows and columns, in one phase and in two.
#include "expect.h"

#include <clump/clump.hpp>

#include <thread>

#define GOOD(result) EXPECT((result).has_value())

// All collectives of a world or of a team, whose ranks are `members` of the job.
static void everything(clump::collectives &it, const std::vector<int> &members) {
    const int n = it.nranks(), me = it.rank(), mine = members[size_t(me)], last = n - 1;
    EXPECT(size_t(n) == members.size());
    GOOD(it.barrier());
    EXPECT(it.all_gather(mine).value() == members);
    EXPECT(it.gather(last, mine).value() == (me == last ? members : std::vector<int>()));
    std::vector<int> text(3, mine);
    GOOD(it.broadcast(last, std::span(text)));
    EXPECT(text == std::vector<int>(3, members.back()));
    std::vector<double> given;
    for (int other : members) given.push_back(mine + 1000.0 * other);
    EXPECT(it.scatter(0, std::span<const double>(given)).value() == members[0] + 1000.0 * mine);
    const auto got = it.all_to_all(std::span<const double>(given)).value();
    for (int i = 0; i < n; i++) EXPECT(got[size_t(i)] == members[size_t(i)] + 1000.0 * mine);
    // The number of values for a rank depends on the sum of both ranks.
    std::vector<std::vector<int>> parts;
    for (int other : members) parts.emplace_back(size_t((mine + other) % 3), mine);
    const auto of_all = it.all_to_all_v(std::span<const std::vector<int>>(parts)).value();
    for (size_t i = 0; i < members.size(); i++)
        EXPECT(of_all[i] == std::vector<int>(size_t((mine + members[i]) % 3), members[i]));
    EXPECT(it.all_to_all_v(std::span<const std::vector<int>>()).error().status == CLUMP_ERR_ARGUMENT);

    const int sum = std::accumulate(members.begin(), members.end(), 0);
    const int before = std::accumulate(members.begin(), members.begin() + me, 0);
    EXPECT(it.all_reduce(mine, clump::op::sum).value() == sum);
    EXPECT(it.reduce(0, mine, clump::op::sum).value() == (me == 0 ? std::optional(sum) : std::nullopt));
    EXPECT(it.scan(mine, clump::op::sum).value() == before + mine);
    EXPECT(it.exclusive_scan(mine, clump::op::sum).value() == (me > 0 ? std::optional(before) : std::nullopt));
    EXPECT(it.reduce(n, mine, clump::op::sum).error().status == CLUMP_ERR_ARGUMENT);

    // In two phases, with other collectives in between, waited for in another order.
    auto meet = it.start_barrier();
    auto total = it.start_all_reduce(mine, clump::op::sum);
    auto halves = it.start_all_reduce(std::vector<double>{mine / 2.0, 1.0}, clump::op::sum);
    auto names = it.start_all_gather(mine);
    auto word = it.start_broadcast(0, std::vector<int>(5, mine));
    auto swapped = it.start_all_to_all(given);
    auto top = it.start_reduce(last, mine, clump::op::sum);
    auto upto = it.start_scan(mine, clump::op::sum);
    auto below = it.start_exclusive_scan(mine, clump::op::sum);
    auto whole = it.start_gather(0, mine);
    auto shares = it.start_all_to_all_v(std::span<const std::vector<int>>(parts));
    auto own = it.start_scatter(last, std::span<const double>(given));
    EXPECT(it.all_reduce(mine, clump::op::max).value() == *std::max_element(members.begin(), members.end()));
    { auto dropped = it.start_all_gather(mine); }
    const auto share = shares.wait().value();
    for (size_t i = 0; i < members.size(); i++)
        EXPECT(std::vector<int>(share[int(i)].begin(), share[int(i)].end()) == of_all[i]);
    EXPECT(own.wait().value() == members.back() + 1000.0 * mine);
    EXPECT(whole.wait().value() == (me == 0 ? members : std::vector<int>()));
    EXPECT(below.wait().value() == (me > 0 ? std::optional(before) : std::nullopt));
    EXPECT(upto.wait().value() == before + mine);
    EXPECT(top.wait().value() == (me == last ? std::optional(sum) : std::nullopt));
    EXPECT(swapped.wait().value() == got);
    EXPECT(word.wait().value() == std::vector<int>(5, members[0]));
    while (!names.test().value()) std::this_thread::yield();
    EXPECT(names.wait().value() == members);
    EXPECT(names.wait().error().status == CLUMP_ERR_ARGUMENT);
    EXPECT((halves.wait().value() == std::vector<double>{sum / 2.0, double(n)}));
    EXPECT(total.wait().value() == sum);
    GOOD(meet.wait());
    GOOD(it.barrier());
    bool caught = false;
    try {
        (void)it.start_broadcast(n, std::vector<int>(1));
    } catch (const clump::failure &f) {
        caught = f.status() == CLUMP_ERR_ARGUMENT;
    }
    EXPECT(caught);
}

int main(int argc, char **argv) {
    clump::world cl(argc, argv);
    const int rank = cl.rank(), n = cl.nranks(), width = n > 2 ? 2 : 1;
    std::vector<int> all(static_cast<size_t>(n));
    std::iota(all.begin(), all.end(), 0);
    everything(cl, all);

    // A grid: the ranks of a row follow each other, those of a column are `width` apart.
    clump::team row = cl.split(rank / width).value();
    clump::team column = cl.split(rank % width, -rank).value();
    std::vector<int> in_row, in_column;
    for (int r : all) {
        if (r / width == rank / width) in_row.push_back(r);
        if (r % width == rank % width) in_column.insert(in_column.begin(), r);
    }
    everything(row, in_row);
    everything(column, in_column);
    EXPECT(column.member(0).value() == in_column[0] && !column.member(column.nranks()).has_value());
    const int of_row = row.all_reduce(rank, clump::op::sum).value();
    EXPECT(column.all_reduce(of_row, clump::op::sum).value() ==
           [&] { // Every row has this rank's column, but perhaps the last.
               int sum = 0;
               for (int r : in_column)
                   for (int s : all) sum += s / width == r / width ? s : 0;
               return sum;
           }());

    // Two threads use two teams at one time.
    std::thread other([&] {
        for (int i = 0; i < 100; i++)
            EXPECT(column.all_reduce(i + rank, clump::op::sum).value() ==
                   std::accumulate(in_column.begin(), in_column.end(), i * int(in_column.size())));
    });
    for (int i = 0; i < 100; i++) {
        auto begun = row.start_all_reduce(i, clump::op::sum);
        EXPECT(row.all_gather(i).value() == std::vector<int>(in_row.size(), i));
        EXPECT(begun.wait().value() == i * int(in_row.size()));
    }
    other.join();

    // Some ranks are in none.
    clump::team even = cl.split(rank % 2 == 0 ? 0 : -1).value();
    EXPECT(bool(even) == (rank % 2 == 0));
    if (even) EXPECT(even.nranks() == (n + 1) / 2 && even.rank() == rank / 2);
    else EXPECT(even.barrier().error().status == CLUMP_ERR_ARGUMENT);
    // A team may go before what was begun on it has ended.
    auto outlives = [&] { return clump::team(std::move(row)).start_all_reduce(1, clump::op::sum); }();
    EXPECT(outlives.wait().value() == int(in_row.size()));
    EXPECT(!row && row.nranks() < 0);
    GOOD(cl.barrier());
    std::printf("rank %d: teams in C++ are right\n", rank);
}
