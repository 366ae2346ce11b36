/* tigon/status.h - the list of errors, and the message behind the last one.
 *
 * Every function that can fail returns a tg_status: TG_OK (0) or a negative value of the list
 * below. The details stand in a message of the calling thread, tg_last_error(); it names the
 * operator, the argument, what was found and what was expected. The library never aborts, exits or
 * prints.
 */
#ifndef TIGON_STATUS_H
#define TIGON_STATUS_H

#if defined(__GNUC__)
#define TG_API __attribute__((visibility("default")))
#else
#define TG_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* name, value, what it means */
#define TG_STATUS_LIST(X)                                                          \
    X(OK, 0, "success")                                                            \
    X(EINVAL, -1, "an argument, option or setting is wrong")                       \
    X(EUNSUPPORTED, -2, "no allowed implementation runs this problem")             \
    X(ENOMEM, -3, "out of memory")                                                 \
    X(EDEVICE, -4, "the device or its driver failed; outputs may be half-written") \
    X(EABI, -5, "the backend was built for another version of Tigon's ABI")        \
    X(ENOTFOUND, -6, "no such device, backend, operator or implementation")

typedef enum tg_status {
#define TG_STATUS_ENUM(name, value, text) TG_##name = value,
    TG_STATUS_LIST(TG_STATUS_ENUM)
#undef TG_STATUS_ENUM
} tg_status;

/* "TG_EINVAL" and so on; "TG_?" for a value outside the list. */
TG_API const char *tg_status_name(tg_status status);

/* What the value means in general, from the list above. */
TG_API const char *tg_status_text(tg_status status);

/* The message of the last failure on this thread; "" before the first. Valid until the next
 * failure. */
TG_API const char *tg_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
