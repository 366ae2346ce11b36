/* asc_any.args.h - types of data as numbers, for the kernel and its host. */
#ifndef ASC_ANY_ARGS_H
#define ASC_ANY_ARGS_H

enum { ASC_ANY_F32, ASC_ANY_BF16, ASC_ANY_F16 };

#endif
