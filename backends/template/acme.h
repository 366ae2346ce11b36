/* acme.h - what the files of this backend share. */
#ifndef ACME_H
#define ACME_H

#include <tigon/backend.h>

/* The library's services: threads, scratch memory, errors, other operators. */
extern const tg_host *acme_host;

tg_status acme_open(const tg_host *host);

/* Named <vendor>_<operator> and public: that is how a backend without a table is read. */
TG_API tg_status acme_rms_norm_forward(tg_ctx *ctx, const tg_rms_norm_forward_args *args);

#endif
