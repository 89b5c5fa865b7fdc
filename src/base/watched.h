/* Whether a sanitizer watches memory (1) or not (0): what is kept for others there would hide that
 * somebody still uses it. */
#ifndef TSR_BASE_WATCHED_H
#define TSR_BASE_WATCHED_H

#if defined(__SANITIZE_ADDRESS__)
#define TSR__WATCHED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TSR__WATCHED 1
#endif
#endif
#ifndef TSR__WATCHED
#define TSR__WATCHED 0
#endif

#endif
