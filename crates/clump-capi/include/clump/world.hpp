/* The job, in C++20: ranks, nodes and collectives. Written by hand. */
#ifndef CLUMP_WORLD_HPP
#define CLUMP_WORLD_HPP

#include "clump/standard.hpp"

#include "clump/result.hpp"
#include "clump/team.hpp"

#include <cstdint>
#include <utility>

namespace clump {

/* The job that this process is a rank of; one per process. Its destructor finalizes. Functions are
 * those of <clump/job.h>, with their errors and rules for threads; collectives are those of all
 * ranks. */
class world : public collectives {
  public:
    /* Joins the job; throws failure. */
    world(int &argc, char **&argv) : world(detail::or_throw(clump_init(&argc, &argv))) {}
    /* Joins the job. */
    static result<world> join() {
        clump_t *cl = clump_init(nullptr, nullptr);
        if (cl == nullptr) return error::last();
        return world(cl);
    }
    world(world &&other) noexcept : collectives(std::move(other)), cl_(std::exchange(other.cl_, nullptr)) {}
    world &operator=(world &&) = delete;
    ~world() {
        team_.reset();
        if (cl_ != nullptr) clump_finalize(cl_);
    }

    int node() const { return clump_node(cl_); }
    int nnodes() const { return clump_nnodes(cl_); }
    result<int> node_of(int rank) const { return detail::count(clump_node_of(cl_, rank)); }

    /* Time of this rank, and the cost of its computation where time is virtual. */
    std::uint64_t now_ns() const { return clump_now_ns(cl_); }
    result<void> cost(std::uint64_t ns) { return detail::nothing(clump_cost(cl_, ns)); }
    /* Executes a region, or charges the mean of `times` executions that were measured, as
     * clump_sample_begin does; returns true if it was executed. */
    template <class F> result<bool> sample(const char *name, int times, F &&region) {
        const result<int> begun = detail::count(clump_sample_begin(cl_, name, times));
        if (!begun) return begun.error();
        if (*begun == 0) return false;
        const ending ends{cl_, name};
        std::forward<F>(region)();
        return true;
    }

    /* Finalizes now, and returns the error if that failed, as clump_finalize does. */
    result<void> finalize() {
        const int done = clump_finalize(cl_);
        if (done == 0) {
            cl_ = nullptr;
            (void)team_.release();
        }
        return detail::nothing(done);
    }

    clump_t *get() const noexcept { return cl_; }

  private:
    /* Ends a region, also where it throws. */
    struct ending {
        clump_t *cl;
        const char *name;
        ~ending() { clump_sample_end(cl, name); }
    };

    explicit world(clump_t *cl) : collectives(clump_team_world(cl)), cl_(cl) {}
    clump_t *cl_;
};

} // namespace clump

#endif /* CLUMP_WORLD_HPP */
