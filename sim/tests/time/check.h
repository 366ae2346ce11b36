/* check.h - a condition of a test, counted and told where it does not hold. */
#ifndef TIME_CHECK_H
#define TIME_CHECK_H

#include <stdio.h>

static int failures;

#define CHECK(condition, ...)                                      \
    do {                                                           \
        if (!(condition)) {                                        \
            failures++;                                            \
            printf("%s:%d: %s: ", __FILE__, __LINE__, #condition); \
            printf(__VA_ARGS__);                                   \
            puts("");                                              \
        }                                                          \
    } while (0)

#endif
