/* A rank that dies. With the argument `survive`, under `clump run --on-death continue`: messages to
 * it are returned. Without: a waiting call fails. */
#include "am2_world.h"

#define DIE 1
#define HELLO 2

static int back_status, greeted;
static op_t back_opcode;

static void die(void *token) {
    (void)token;
    _exit(9);
}

static void hello(void *token) {
    (void)token;
    greeted = 1;
}

static void came_back(int status, op_t opcode, void *token) {
    (void)token;
    back_status = status;
    back_opcode = opcode;
}

static void set_handlers(void) {
    OK(AM_SetHandler(ep, 0, came_back));
    OK(AM_SetHandler(ep, DIE, die));
    OK(AM_SetHandler(ep, HELLO, hello));
}

int main(int argc, char **argv) {
    (void)argv;
    world_begin(AM_SEQ, set_handlers);
    if (me == 1) {
        OK(AM_Request0(ep, 0, HELLO));
        UNTIL(0);
    }
    UNTIL(greeted);
    OK(AM_Request0(ep, 1, DIE));
    if (argc == 1) {
        int waited = AM_OK;
        while (waited == AM_OK) waited = AM_WaitSema(eb);
        EXPECT(waited == AM_ERR_RESOURCE && strstr(clump_error_text(), "rank 1") != NULL);
        puts("rank 0: told of the death");
        return 9;
    }
    /* Messages in flight when it died may be returned too. */
    while (back_status == 0) {
        OK(AM_RequestI0(ep, 1, HELLO, "anybody there", 13));
        OK(AM_Poll(eb));
    }
    EXPECT(back_status == EUNREACHABLE && (back_opcode == AM_REQUEST_IM || back_opcode == AM_REQUEST_M));
    puts("rank 0: it came back");
    OK(AM_Terminate());
    return 0;
}
