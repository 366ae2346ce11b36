/* tools/tigon/doctor/doctor.h - devices, and what becomes of each operator there. */
#ifndef TIGON_DOCTOR_H
#define TIGON_DOCTOR_H

#include <tigon/tigon.h>

enum { DOCTOR_DEVICES = 16, DOCTOR_TEXT = 1024 };

/* What a call of an operator tries first on a device. */
typedef enum standing {
    STANDS_OWN,      /* an implementation of the device's */
    STANDS_COMPOSED, /* one that is made of calls of other operators, which run on the device */
    STANDS_CPU,      /* the CPU's, in memory that both see */
    STANDS_COPIED,   /* the CPU's, with copies: TIGON_FALLBACK=host */
    STANDS_NONE,     /* nothing: an error */
    STANDINGS
} standing;

/* One that a backend serves, or whose driver is looked for. */
typedef struct device {
    char name[32];
    const tg_probe *probe; /* its driver's, or NULL */
    tg_ctx *ctx;           /* of that device; NULL: it cannot be used */
    char why[DOCTOR_TEXT]; /* it cannot */
    int count[STANDINGS];  /* operators */
} device;

typedef struct doctor {
    char chosen[32];         /* the device of a context that the environment makes */
    char wrong[DOCTOR_TEXT]; /* why there is none; "" */
    int asked;               /* TIGON_DEVICE names it */
    int n;
    device list[DOCTOR_DEVICES];
} doctor;

/* Settings of the environment count; for the list of devices all but TIGON_DEVICE. 0, or
 * -1 after a message. */
int doctor_look(doctor *d);
void doctor_close(doctor *d);

/* What becomes of an operator there; *impl: what is tried first, or runs instead; -1 for none. */
standing doctor_stands(const device *v, int op, int *impl);
/* The same in words. */
const char *doctor_words(const device *v, standing s, int op, int impl);

/* In a sentence: what will be used, what is missing, what to type. */
void doctor_verdict(const doctor *d, char *text, size_t size);

#endif
