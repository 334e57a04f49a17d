/* Every call for 0 to 16 arguments takes exactly that many: each is a function of that type.
 * Compiled as C and as C++; run for the limits. */
#include "am2_arity.h"
#include "am2_world.h"

#define FORMS(n)                                                                                             \
    static int (*const request_##n)(ep_t, int, handler_t T##n) = AM_Request##n;                              \
    static int (*const medium_##n)(ep_t, int, handler_t, const void *, size_t T##n) = AM_RequestI##n;        \
    static int (*const long_##n)(ep_t, int, uintptr_t, handler_t, const void *, size_t T##n) =               \
        AM_RequestXfer##n;                                                                                   \
    static int (*const async_##n)(ep_t, int, uintptr_t, handler_t, const void *, size_t T##n) =              \
        AM_RequestXferAsync##n;                                                                              \
    static int (*const reply_##n)(void *, handler_t T##n) = AM_Reply##n;                                     \
    static int (*const reply_medium_##n)(void *, handler_t, const void *, size_t T##n) = AM_ReplyI##n;       \
    static int (*const reply_long_##n)(void *, uintptr_t, handler_t, const void *, size_t T##n) =            \
        AM_ReplyXfer##n;
EACH(FORMS)

#define FORM(n)                                                                                              \
    EXPECT(request_##n && medium_##n && long_##n && async_##n);                                              \
    EXPECT(reply_##n && reply_medium_##n && reply_long_##n);

static void set_handlers(void) {}

int main(void) {
    EACH(FORM)
    world_begin(AM_PAR, set_handlers);
    int number = 0;
    uintptr_t bytes = 0;
    EXPECT(AM_MaxShort() == 16 && AM_MaxMedium() >= 512 && AM_MaxLong() >= 8192 && AM_MaxNumHandlers() == 256);
    OK(AM_MaxNumTranslations(&number));
    EXPECT(number >= 256);
    OK(AM_MaxSegLength(&bytes));
    EXPECT(bytes >= (uintptr_t)AM_MaxLong());
    OK(AM_GetNumHandlers(ep, &number));
    EXPECT(number == 256);
    OK(AM_SetNumTranslations(ep, 1000));
    OK(AM_SetExpectedResources(ep, 2000, 100));
    OK(AM_GetNumTranslations(ep, &number));
    EXPECT(number == 2000);
    GIVES(AM_ERR_IN_USE, ranks > 1 ? AM_SetNumTranslations(ep, ranks - 1) : AM_Map(ep, 0, names[0], 1));
    OK(AM_SetNumHandlers(ep, 10));
    GIVES(AM_ERR_BAD_ARG, AM_SetHandler(ep, 10, set_handlers));
    handler_t last = 0;
    for (int at = 1; at < 10; at++) OK(AM_SetHandlerAny(ep, &last, set_handlers));
    EXPECT(last == 9);
    GIVES(AM_ERR_RESOURCE, AM_SetHandlerAny(ep, &last, set_handlers));
    OK(AM_Init());
    OK(AM_Terminate()); /* the first of two */
    world_end();
    return 0;
}
