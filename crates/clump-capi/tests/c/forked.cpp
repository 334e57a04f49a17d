// A child by fork of a C++ program: destructors of all kinds run in it, and do not affect the rank.
#include "expect.h"

#include <clump/clump.hpp>

#include <memory>
#include <sys/wait.h>
#include <unistd.h>

// Destroyed at the end of the process.
static std::unique_ptr<clump::endpoint> forever;
thread_local std::unique_ptr<clump::rma> of_thread;

int main(int argc, char **argv) {
    clump::world cl(argc, argv);
    clump::endpoint ep(cl, clump::tag{9});
    forever = std::make_unique<clump::endpoint>(cl, clump::tag{9});
    of_thread = std::make_unique<clump::rma>(cl);
    uint64_t seen = 0;
    auto note = ep.handler([&](clump::token, uint64_t v) { seen += v; });
    auto names = cl.all_gather(ep.name()).value();
    auto next = ep.map(names.at((cl.rank() + 1) % cl.nranks()), clump::tag{9}).value();
    cl.barrier().value();
    for (int way = 0; way < 3; way++) {
        ep.request(next, note, 1).value();
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
            EXPECT(!ep.request(next, note, 100).has_value() && clump_error() == CLUMP_ERR_FORKED);
            if (way == 0) return 0; // through all destructors
            if (way == 1) exit(0);  // through those of statics
            try {
                cl.barrier().value();
            } catch (const clump::failure &) {
                return 0;
            }
            return 4;
        }
        int status = 0;
        EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        ep.poll_until([&] { return seen == uint64_t(way) + 1; }).value();
        cl.barrier().value();
    }
    forever.reset();
    of_thread.reset();
    cl.barrier().value();
    if (cl.rank() == 0) puts("rank 0: destructors are right");
}
