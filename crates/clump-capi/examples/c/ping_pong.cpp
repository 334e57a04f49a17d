// Ping-pong in C++20: lambdas as handlers, words by type.
//
//   clump-c++ -std=c++20 -O2 ping_pong.cpp -o ping_pong && clump run -n 2 --nodes 2 ./ping_pong
#include <clump/clump.hpp>

#include <cstdio>

int main(int argc, char **argv) try {
    clump::world cl(argc, argv);
    clump::endpoint ep(cl, clump::tag{0x5eed});
    uint64_t seen = 0;
    auto pong = ep.handler([&](clump::token, uint64_t v) { seen = v; });
    auto ping = ep.handler([=](clump::token t, uint64_t v, clump::bytes) { return t.reply(pong, v + 1); });
    auto names = cl.all_gather(ep.name()).value();

    auto next = ep.map(names.at((cl.rank() + 1) % cl.nranks()), clump::tag{0x5eed}).value();
    for (uint64_t i = 0; i < 1000; ++i) {
        ep.request(next, ping, i).value();
        ep.poll_until([&] { return seen == i + 1; }).value();
    }
    std::vector<std::byte> page(4096);
    ep.request_bulk(next, ping, page, 7).value();
    ep.poll_until([&] { return seen == 8; }).value();
    std::printf("rank %d of %d: last answer %d\n", cl.rank(), cl.nranks(), int(seen));
    cl.barrier().value();
} catch (const clump::failure &f) {
    std::fprintf(stderr, "%s\n", f.what());
    return 1;
}
