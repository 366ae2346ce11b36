/* hooks.c - the call-outs that -fsanitize=thread of GCC and Clang puts around a kernel's own loads
 * and stores. They are hidden in the kernel's library and tell the model; the sanitizer's run time
 * is not linked. */
#include <stddef.h>
#include <stdint.h>

#include "c_api/asc_calls.h"

#define HOOK __attribute__((visibility("hidden"), used))

#define TOUCH(name, bytes, write)                                      \
    HOOK void __tsan_##name(void *address);                            \
    HOOK void __tsan_##name(void *address)                             \
    {                                                                  \
        asc_touch(address, bytes, write, __builtin_return_address(0)); \
    }
#define TOUCHES(bytes)                      \
    TOUCH(read##bytes, bytes, 0)            \
    TOUCH(write##bytes, bytes, 1)           \
    TOUCH(unaligned_read##bytes, bytes, 0)  \
    TOUCH(unaligned_write##bytes, bytes, 1) \
    TOUCH(volatile_read##bytes, bytes, 0)   \
    TOUCH(volatile_write##bytes, bytes, 1)
TOUCHES(1)
TOUCHES(2)
TOUCHES(4)
TOUCHES(8)
TOUCHES(16)

#define RANGE(name, write)                                                       \
    HOOK void __tsan_##name(void *address, size_t bytes);                        \
    HOOK void __tsan_##name(void *address, size_t bytes)                         \
    {                                                                            \
        asc_touch(address, (uint32_t)bytes, write, __builtin_return_address(0)); \
    }
RANGE(read_range, 0)
RANGE(write_range, 1)

HOOK void __tsan_init(void);
HOOK void __tsan_init(void)
{
}
HOOK void __tsan_func_entry(void *caller);
HOOK void __tsan_func_entry(void *caller)
{
    (void)caller;
}
HOOK void __tsan_func_exit(void);
HOOK void __tsan_func_exit(void)
{
}

/* What the compiler makes of assignments of structures and of loops that fill. */
HOOK void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
HOOK void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    asc_touch(from, (uint32_t)bytes, 0, __builtin_return_address(0));
    asc_touch(to, (uint32_t)bytes, 1, __builtin_return_address(0));
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)to)[i] = ((const unsigned char *)from)[i];
    return to;
}
HOOK void *memmove(void *to, const void *from, size_t bytes);
HOOK void *memmove(void *to, const void *from, size_t bytes)
{
    asc_touch(from, (uint32_t)bytes, 0, __builtin_return_address(0));
    asc_touch(to, (uint32_t)bytes, 1, __builtin_return_address(0));
    unsigned char *t = to;
    const unsigned char *f = from;
    if (t < f)
        for (size_t i = 0; i < bytes; i++)
            t[i] = f[i];
    else
        for (size_t i = bytes; i-- > 0;)
            t[i] = f[i];
    return to;
}
HOOK void *memset(void *to, int value, size_t bytes);
HOOK void *memset(void *to, int value, size_t bytes)
{
    asc_touch(to, (uint32_t)bytes, 1, __builtin_return_address(0));
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)to)[i] = (unsigned char)value;
    return to;
}

/* Clang's own names for these. */
HOOK void *__tsan_memcpy(void *restrict to, const void *restrict from, size_t bytes)
    __attribute__((alias("memcpy")));
HOOK void *__tsan_memmove(void *to, const void *from, size_t bytes)
    __attribute__((alias("memmove")));
HOOK void *__tsan_memset(void *to, int value, size_t bytes) __attribute__((alias("memset")));

/* Which cores a kernel's blocks are: what its qualifier says is the section that it stands in. */
#define KERNEL_KINDS(KIND)    \
    KIND(asc_cube, 1, 0, 0)   \
    KIND(asc_mix_12, 1, 2, 1) \
    KIND(asc_mix_11, 1, 1, 1) \
    KIND(asc_mix_10, 1, 0, 1) \
    KIND(asc_mix_01, 0, 1, 1)
#define DECLARE(section, cubes, vectors, scheduler)                                    \
    extern const char __start_##section[] __attribute__((weak, visibility("hidden"))); \
    extern const char __stop_##section[] __attribute__((weak, visibility("hidden")));
KERNEL_KINDS(DECLARE)

__attribute__((constructor)) static void tell_kinds(void)
{
#define TELL(section, cubes, vectors, scheduler) \
    if (__start_##section)                       \
        asc_kernels(__start_##section, __stop_##section, cubes, vectors, scheduler);
    KERNEL_KINDS(TELL)
}

/* The library leaves: other code may come to stand there. */
__attribute__((destructor)) static void forget_kinds(void)
{
#define FORGET(section, cubes, vectors, scheduler) \
    if (__start_##section)                         \
        asc_kernels(__start_##section, __stop_##section, 0, 0, 0);
    KERNEL_KINDS(FORGET)
}
