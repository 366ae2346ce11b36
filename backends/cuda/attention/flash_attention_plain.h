/* flash_attention_plain.h - which calls of flash_attention some kernels take alone. */
#ifndef CUDA_FLASH_ATTENTION_PLAIN_H
#define CUDA_FLASH_ATTENTION_PLAIN_H

/* Those of either direction without packed rows, bias, sinks, window, softcap and dropout, whose
 * values are as wide as keys. */
#define FLASH_IS_PLAIN(a)                                                       \
    (!(a)->cu_seqlens_q && !(a)->bias && !(a)->sinks && (a)->window_left < 0 && \
     (a)->window_right < 0 && (a)->softcap == 0 && (a)->dropout == 0 &&         \
     (a)->v->shape[3] == (a)->k->shape[3])

/* Forwards that are bound by reading keys and values, once for all heads of a group: those of few
 * queries, each batch being a sequence. */
enum { FLASH_FEW_QUERIES = 16 };
#define FLASH_IS_DECODE(a)                                          \
    (!(a)->cu_seqlens_q && (a)->q->shape[1] <= FLASH_FEW_QUERIES && \
     (a)->k->shape[1] > (a)->q->shape[1] && (a)->dropout == 0)

#endif
