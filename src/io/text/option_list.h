/* Lists given as text, as options are: "a, b, \"odd, name\"", and "a i64, day text" where a word
 * follows each item. */
#ifndef TSR_IO_OPTION_LIST_H
#define TSR_IO_OPTION_LIST_H

#include "base/base.h"

typedef struct tsr__option_item {
  const char *text; /* without quotes and outer blanks; NUL-terminated */
  size_t length;
  const char *word; /* what follows it; "" where lists have none */
} tsr__option_item;

typedef struct tsr__option_list {
  int count;
  tsr__option_item *item;
} tsr__option_list;

/* Reads a list into an arena; NULL is the empty list. `what` names it in errors: "columns". With
 * `words` the last word of an item is its word, or what follows its quotes. An item without quotes
 * must not be empty. Errors: TSR_EARG, TSR_ENOMEM. */
typedef struct tsr__option_list_ask {
  const char *what, *text;
  bool words;
} tsr__option_list_ask;
tsr_status tsr__option_list_read(tsr__arena *arena, const tsr__option_list_ask *ask,
                                 tsr__option_list *out, tsr__error *error);

#endif
