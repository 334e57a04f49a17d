/* A token around a ring of ranks that wait for it in a loop of AM_Poll. */
#include "am2_world.h"

#define TOKEN 1
#define ROUNDS 100

static int seen;

static void take_token(void *token) {
    (void)token;
    seen++;
}

static void set_handlers(void) { OK(AM_SetHandler(ep, TOKEN, take_token)); }

int main(void) {
    world_begin(AM_SEQ, set_handlers);
    const int next = (me + 1) % ranks;
    for (int round = 1; round <= ROUNDS; round++) {
        if (me == 0) OK(AM_Request0(ep, next, TOKEN));
        while (seen < round) OK(AM_Poll(eb));
        EXPECT(seen == round);
        if (me > 0) OK(AM_Request0(ep, next, TOKEN));
    }
    world_end();
    return 0;
}
