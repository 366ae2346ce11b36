/* tests/common/test.h - what test programs share: EXPECT, and a walk over the
 * operators' problems. */
#ifndef TIGON_TEST_H
#define TIGON_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tigon/tigon.h>

static int failures;

/* Counts a failure and prints the first twenty; the test goes on. */
#define EXPECT(condition, ...)                                     \
    do {                                                           \
        if (!(condition) && ++failures <= 20) {                    \
            printf("%s:%d: %s: ", __FILE__, __LINE__, #condition); \
            printf(__VA_ARGS__);                                   \
            printf("\n");                                          \
        }                                                          \
    } while (0)

static inline tg_ctx *new_context(void)
{
    tg_ctx *ctx;
    if (tg_ctx_create(&ctx) != TG_OK) {
        printf("tg_ctx_create: %s\n", tg_last_error());
        exit(1);
    }
    return ctx;
}

/* 1 for an implementation of the CPU that this machine supports; others need their device. */
static inline int runs_on_cpu(const tg_ctx *ctx, int impl)
{
    int i = 0;
    while (strcmp(tg_backend_at(i)->vendor, tg_impl_at(impl)->backend))
        i++;
    return !strcmp(tg_backend_at(i)->device, "cpu") && tg_impl_supported(ctx, impl);
}

static inline int report(void)
{
    printf(failures ? "%d failures\n" : "passed\n", failures);
    return failures != 0;
}

#endif
