/* Teams in C++20: ranks that execute collectives together, at once or in two phases. Written by
 * hand. */
#ifndef CLUMP_TEAM_HPP
#define CLUMP_TEAM_HPP

#include "clump/standard.hpp"

#include "clump/pending.hpp"
#include "clump/team.h"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <numeric>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

namespace clump {

/* Operations on two elements. */
enum class op : int {
    sum = CLUMP_SUM.code,
    product = CLUMP_PRODUCT.code,
    min = CLUMP_MIN.code,
    max = CLUMP_MAX.code,
    bit_and = CLUMP_AND.code,
    bit_or = CLUMP_OR.code,
    bit_xor = CLUMP_XOR.code,
};

namespace detail {
/* The clump_type of a number. */
template <class T> constexpr clump_type type_of() {
    static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 8,
                  "integers of 8 to 64 bits, float and double are combined");
    if constexpr (std::is_floating_point_v<T>) return sizeof(T) == 4 ? CLUMP_F32 : CLUMP_F64;
    constexpr int log = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    return clump_type{(std::is_signed_v<T> ? CLUMP_I8 : CLUMP_U8).code + log};
}
inline clump_op number(op it) { return clump_op{static_cast<int>(it)}; }
} // namespace detail

/* Values of each rank of a team, any number of each, one behind the other. */
template <class T> class parts_of_ranks {
    static_assert(std::is_trivially_copyable_v<T>, "values travel as they lie in memory");

  public:
    explicit parts_of_ranks(std::span<const std::vector<T>> parts) {
        for (const std::vector<T> &part : parts) {
            values_.insert(values_.end(), part.begin(), part.end());
            bytes_.push_back(part.size() * sizeof(T));
        }
    }
    /* Space for so many bytes of each rank. */
    explicit parts_of_ranks(std::vector<size_t> bytes)
        : values_(std::accumulate(bytes.begin(), bytes.end(), size_t{0}) / sizeof(T)), bytes_(std::move(bytes)) {}
    /* Returns the values of a rank of the team. */
    std::span<const T> operator[](int rank) const {
        const auto at = bytes_.begin() + rank;
        return std::span<const T>(values_).subspan(std::accumulate(bytes_.begin(), at, size_t{0}) / sizeof(T),
                                                   *at / sizeof(T));
    }
    T *data() { return values_.data(); }
    const T *data() const { return values_.data(); }
    size_t room() const { return values_.size() * sizeof(T); }
    /* The number of bytes of each rank. */
    std::vector<size_t> &bytes() { return bytes_; }
    const std::vector<size_t> &bytes() const { return bytes_; }

  private:
    std::vector<T> values_;
    std::vector<size_t> bytes_;
};

class team;

/* The collectives of a team: a world's, or of some of its ranks. Functions are those of
 * <clump/team.h>, with their errors and rules for threads; ranks are those of the team. */
class collectives {
  public:
    int rank() const { return clump_team_rank(team_.get()); }
    int nranks() const { return clump_team_nranks(team_.get()); }

    result<void> barrier() { return detail::nothing(clump_team_barrier(team_.get())); }

    /* Gathers the values of all ranks, by rank. */
    template <class T> result<std::vector<T>> all_gather(const T &mine) {
        static_assert(std::is_trivially_copyable_v<T>, "values travel as they lie in memory");
        std::vector<T> all(size(), mine);
        if (clump_team_all_gather(team_.get(), &mine, sizeof mine, all.data()) < 0) return error::last();
        return all;
    }

    /* Copies the values of `root` to all ranks. */
    template <class T> result<void> broadcast(int root, std::span<T> values) {
        static_assert(std::is_trivially_copyable_v<T>, "values travel as they lie in memory");
        return detail::nothing(clump_team_broadcast(team_.get(), root, values.data(), values.size_bytes()));
    }

    /* Gathers the values of all ranks on `root`, by rank; empty elsewhere. */
    template <class T> result<std::vector<T>> gather(int root, const T &mine) {
        static_assert(std::is_trivially_copyable_v<T>, "values travel as they lie in memory");
        std::vector<T> all(rank() == root ? size() : 0, mine);
        if (clump_team_gather(team_.get(), root, &mine, sizeof mine, all.data()) < 0) return error::last();
        return all;
    }

    /* Returns this rank's value of those that `root` gives, one for each rank; `values` of other
     * ranks are not read. */
    template <class T> result<T> scatter(int root, std::span<const T> values) {
        static_assert(std::is_trivially_copyable_v<T>, "values travel as they lie in memory");
        if (rank() == root && values.size() != size())
            return one_each();
        T mine;
        const int done = clump_team_scatter(team_.get(), root, values.data(), &mine, sizeof mine);
        return detail::either(done, mine);
    }

    /* Gives `values[i]` to rank `i`; returns what the ranks give to this one, by rank. */
    template <class T> result<std::vector<T>> all_to_all(std::span<const T> values) {
        static_assert(std::is_trivially_copyable_v<T>, "values travel as they lie in memory");
        if (values.size() != size())
            return one_each();
        std::vector<T> got(values.begin(), values.end());
        if (clump_team_all_to_all(team_.get(), values.data(), got.data(), sizeof(T)) < 0) return error::last();
        return got;
    }

    /* Gives the values of `parts[i]`, any number, to rank `i`; returns what the ranks give to this
     * one, by rank. */
    template <class T> result<std::vector<std::vector<T>>> all_to_all_v(std::span<const std::vector<T>> parts) {
        if (parts.size() != size()) return one_each();
        const parts_of_ranks<T> given(parts);
        auto expected = all_to_all(std::span<const size_t>(given.bytes()));
        if (!expected) return expected.error();
        parts_of_ranks<T> got(*std::move(expected));
        const int done = clump_team_all_to_all_v(team_.get(), given.data(), given.bytes().data(), got.data(),
                                                 got.room(), got.bytes().data());
        if (done < 0) return error::last();
        std::vector<std::vector<T>> by_rank;
        for (int rank = 0; rank < nranks(); rank++) by_rank.emplace_back(got[rank].begin(), got[rank].end());
        return by_rank;
    }

    /* Combines all ranks' values; all ranks get the same bits. */
    template <class T> result<T> all_reduce(T value, op with) {
        const int done = clump_team_all_reduce(team_.get(), &value, &value, 1, detail::type_of<T>(),
                                           detail::number(with));
        return detail::either(done, value);
    }
    template <class T> result<void> all_reduce(std::span<T> values, op with) {
        return detail::nothing(clump_team_all_reduce(team_.get(), values.data(), values.data(), values.size(),
                                                detail::type_of<T>(), detail::number(with)));
    }

    /* Combines all ranks' values on `root`: the bits that all_reduce gives. Nothing elsewhere. */
    template <class T> result<std::optional<T>> reduce(int root, T value, op with) {
        const int done = clump_team_reduce(team_.get(), root, &value, &value, 1, detail::type_of<T>(),
                                      detail::number(with));
        if (done < 0) return error::last();
        return rank() == root ? std::optional<T>(value) : std::nullopt;
    }

    /* Combines the values of all ranks up to this one, this one's included. */
    template <class T> result<T> scan(T value, op with) {
        const int done = clump_team_scan(team_.get(), &value, &value, 1, detail::type_of<T>(),
                                    detail::number(with));
        return detail::either(done, value);
    }

    /* Combines the values of all ranks before this one. Nothing on rank 0. */
    template <class T> result<std::optional<T>> exclusive_scan(T value, op with) {
        const int done = clump_team_exclusive_scan(team_.get(), &value, &value, 1, detail::type_of<T>(),
                                              detail::number(with));
        if (done < 0) return error::last();
        return rank() != 0 ? std::optional<T>(value) : std::nullopt;
    }

    /* Collectives in two phases: begun here, waited for through the result. Several may be under
     * way at one time. They throw failure if nothing could be begun. */
    pending<void> start_barrier() { return pending<void>(clump_team_barrier_start(team_.get())); }
    template <class T> pending_collective<std::vector<T>> start_broadcast(int root, std::vector<T> values) {
        static_assert(std::is_trivially_copyable_v<T>, "values travel as they lie in memory");
        return {std::move(values), [&](std::vector<T> &all) {
                    return clump_team_broadcast_start(team_.get(), root, all.data(), all.size() * sizeof(T));
                }};
    }
    template <class T> pending_collective<T> start_all_reduce(T value, op with) {
        return {value, [&](T &all) {
                    return clump_team_all_reduce_start(team_.get(), &value, &all, 1, detail::type_of<T>(),
                                                       detail::number(with));
                }};
    }
    template <class T> pending_collective<std::vector<T>> start_all_reduce(std::vector<T> values, op with) {
        return {std::move(values), [&](std::vector<T> &all) {
                    return clump_team_all_reduce_start(team_.get(), all.data(), all.data(), all.size(),
                                                       detail::type_of<T>(), detail::number(with));
                }};
    }
    template <class T> pending_collective<std::optional<T>> start_reduce(int root, T value, op with) {
        return {rank() == root ? std::optional<T>(value) : std::nullopt, [&](std::optional<T> &all) {
                    return clump_team_reduce_start(team_.get(), root, &value, all ? &*all : nullptr, 1,
                                                   detail::type_of<T>(), detail::number(with));
                }};
    }
    template <class T> pending_collective<T> start_scan(T value, op with) {
        return {value, [&](T &all) {
                    return clump_team_scan_start(team_.get(), &value, &all, 1, detail::type_of<T>(),
                                                 detail::number(with));
                }};
    }
    template <class T> pending_collective<std::optional<T>> start_exclusive_scan(T value, op with) {
        return {rank() != 0 ? std::optional<T>(value) : std::nullopt, [&](std::optional<T> &all) {
                    return clump_team_exclusive_scan_start(team_.get(), &value, all ? &*all : nullptr, 1,
                                                           detail::type_of<T>(), detail::number(with));
                }};
    }
    template <class T> pending_collective<std::vector<T>> start_gather(int root, const T &mine) {
        static_assert(std::is_trivially_copyable_v<T>, "values travel as they lie in memory");
        return {std::vector<T>(rank() == root ? size() : 0, mine), [&](std::vector<T> &all) {
                    return clump_team_gather_start(team_.get(), root, &mine, sizeof mine, all.data());
                }};
    }
    template <class T> pending_collective<T> start_scatter(int root, std::span<const T> values) {
        static_assert(std::is_trivially_copyable_v<T>, "values travel as they lie in memory");
        if (rank() == root && values.size() != size()) throw failure(one_each());
        return {T(), [&](T &mine) {
                    return clump_team_scatter_start(team_.get(), root, values.data(), &mine, sizeof mine);
                }};
    }
    template <class T> pending_collective<std::vector<T>> start_all_gather(const T &mine) {
        static_assert(std::is_trivially_copyable_v<T>, "values travel as they lie in memory");
        return {std::vector<T>(size(), mine), [&](std::vector<T> &all) {
                    return clump_team_all_gather_start(team_.get(), &mine, sizeof mine, all.data());
                }};
    }
    template <class T> pending_collective<std::vector<T>> start_all_to_all(std::vector<T> values) {
        static_assert(std::is_trivially_copyable_v<T>, "values travel as they lie in memory");
        if (values.size() != size()) throw failure(one_each());
        return {std::move(values), [&](std::vector<T> &all) {
                    return clump_team_all_to_all_start(team_.get(), all.data(), all.data(), sizeof(T));
                }};
    }

    /* Sends the ranks their counts first, and then the values. */
    template <class T>
    pending_collective<parts_of_ranks<T>> start_all_to_all_v(std::span<const std::vector<T>> parts) {
        if (parts.size() != size()) throw failure(one_each());
        const parts_of_ranks<T> given(parts);
        auto expected = all_to_all(std::span<const size_t>(given.bytes()));
        if (!expected) throw failure(expected.error());
        return {parts_of_ranks<T>(*std::move(expected)), [&](parts_of_ranks<T> &got) {
                    return clump_team_all_to_all_v_start(team_.get(), given.data(), given.bytes().data(),
                                                         got.data(), got.room(), got.bytes().data());
                }};
    }

    /* Divides the ranks in teams: those that give the same `color` form one, in the order of their
     * `key`s, and of their ranks where keys are equal. If `color` is negative, this rank is in none,
     * and the team is false. Collective. */
    result<team> split(int64_t color, int64_t key = 0);

  protected:
    explicit collectives(clump_team *it) : team_(it) {}
    detail::owned<clump_team, clump_team_free> team_;

  private:
    /* 0 of a team that was moved from. */
    size_t size() const { return static_cast<size_t>(std::max(nranks(), 0)); }
    static error one_each() { return {CLUMP_ERR_ARGUMENT, "one value for each rank"}; }
};

/* Some ranks of the job, which its destructor closes. */
class team : public collectives {
  public:
    /* Takes what clump_team_split gave; null: no team. */
    explicit team(clump_team *it) : collectives(it) {}
    /* True if this rank is in it. */
    explicit operator bool() const noexcept { return team_ != nullptr; }
    /* Returns the job's number of a rank of the team. */
    result<int> member(int rank) const { return detail::count(clump_team_member(team_.get(), rank)); }
    clump_team *get() const noexcept { return team_.get(); }
};

inline result<team> collectives::split(int64_t color, int64_t key) {
    clump_team *part = nullptr;
    if (clump_team_split(team_.get(), color, key, &part) < 0) return error::last();
    return team(part);
}

} // namespace clump

#endif /* CLUMP_TEAM_HPP */
