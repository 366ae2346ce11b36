/* questions.h - what a card is asked beside Tigon's operators: small kernels, each for one thing
 * that CANN's pages leave open or that the model estimates. */
#ifndef ASCEND_QUESTIONS_H
#define ASCEND_QUESTIONS_H

#include <stdint.h>

enum {
    QUESTION_BYTES = 262144, /* of what a kernel is given, and of what it writes */
    QUESTION_FLOATS = QUESTION_BYTES / 4
};

typedef struct question question;
struct question {
    const char *id, *kernel, *cores; /* cores: "", ".cube" or ".mix", as in the kernel's file */
    void (*fill)(const question *q, float *in);
    double (*measure)(const question *q);
    int64_t n, more;  /* what the kernel is given; and what for the second of two times */
    double extra;     /* of the measure or the filling */
    double low, high; /* A: what is measured lies between them */
    const char *asks, *documented, *otherwise;
    const char *then; /* what to do about another answer than A */
};

/* ---- card.c: this process has one card with one kernel; what fails ends it, told to its parent */

void card_open(const question *q, const char *folder);
void card_put(const float *in);
void card_get(float *out);
double card_run(int64_t n); /* us between two events */
double card_clock_mhz(void);
void card_close(void);
__attribute__((format(printf, 1, 2), noreturn)) void card_fail(const char *format, ...);

#endif
