/* What the files of the JSON reader share. See json.h for the contract.
 *
 *   json_parse.c   the grammar: members of an object, one after the other
 *   json_array.c   files that are one array, made lines
 *   json.c         opening: blocks of lines in parallel, names and classes
 *   json_kept.c    what opening made of values, by name and row of a block
 *   json_read.c    stripes of rows in parallel, values, dictionaries
 *
 *   file 0: |block 0   |block 1   |    a line belongs to the block in which it begins
 *   file 1: |block 2  |
 *   rows     0 .. 9     10 .. 17   18 .. 25 */
#ifndef TSR_IO_JSON_INNER_H
#define TSR_IO_JSON_INNER_H

#include "io/json/json.h"
#include "io/rows/classes.h"
#include "io/text/decimal.h"

enum { TSR__JSON_DEPTH = 200, TSR__JSON_PAD = 64 };

typedef enum tsr__json_kind {
  TSR__JSON_IS_NULL,
  TSR__JSON_IS_FALSE,
  TSR__JSON_IS_TRUE,
  TSR__JSON_IS_NUMBER,
  TSR__JSON_IS_TEXT,
  TSR__JSON_IS_NESTED
} tsr__json_kind;

/* A value as it stands; of a text what is between its quotes. */
typedef struct tsr__json_token {
  uint8_t kind;
  bool escaped;  /* a text with backslashes; what is nested with line ends of an array's file */
  bool whole;    /* a number without point and exponent */
  bool expected; /* a name that stands as the cursor expected it */
  const char *at;
  size_t length;
} tsr__json_token;

/* Reads one object. `fault` is where and `why` what is wrong, once something is. */
typedef struct tsr__json_cursor {
  const char *at, *end;
  bool begun;
  bool unwrapped; /* of a file that was an array: carriage returns were line ends */
  /* How the next name most likely stands, without escapes: bytes of the text before this line or
   * of it. NULL: unknown. */
  tsr__text_span expects;
  const char *fault, *why;
} tsr__json_cursor;

/* The next member: 1; 0 behind the last one, which must end the text; -1: a fault. */
int tsr__json_next(tsr__json_cursor *cursor, tsr__json_token *key, tsr__json_token *value);
/* The same of an array: its next item. */
int tsr__json_item(tsr__json_cursor *cursor, tsr__json_token *value);
/* Writes a text without its escapes, or nested values with their line ends, at most `length` bytes;
 * returns how many. */
size_t tsr__json_unescape(const tsr__json_token *text, char *to);

/* A name's values in a block, by row: see json_kept.c. Rows beyond the rooms do not name it. */
typedef struct tsr__json_kept {
  int32_t code; /* of the block, after opening of the file */
  uint8_t seen; /* the classes of all; 0: nobody named it */
  bool gone;    /* it was read, and given back */
  uint8_t *class;
  uint64_t *value;
  size_t class_room, value_room;
} tsr__json_kept;

typedef struct tsr__json_block {
  int file;
  const char *from, *to; /* where its lines begin */
  int64_t row, rows;     /* the first row's number; how many */
  const char **bad;      /* where bad lines begin, in order */
  size_t bad_count, bad_room;
  const char *fault, *why; /* of the first one */
  tsr__dict_local names;   /* while opening */
  uint8_t *seen;           /* classes, by the block's own codes of names */
  size_t seen_room;
  tsr__json_kept *kept; /* by the block's own codes */
  size_t kept_room;
  int64_t lines; /* about how many it has: room for what is kept */
  bool unkept;   /* nothing is kept of this block */
  bool no_memory;
} tsr__json_block;

/* Where the first array that is none breaks off. */
typedef struct tsr__json_broken {
  int file;
  const char *at, *why; /* NULL: all are good */
} tsr__json_broken;

struct tsr__json {
  tsr_runtime *rt;
  tsr__heap *heap;
  tsr__json_opts opts; /* its lists are those of the caller of open, unused later */
  tsr__paths paths;
  tsr__loaded *files;
  bool *arrays; /* by file: it was one array */
  tsr__json_broken broken;
  tsr__arena arena;
  const char *path; /* in the arena */
  tsr__decimal *decimal;
  tsr__json_block *blocks;
  int64_t block_count, rows, bad_rows;
  tsr__dict *name_dict;  /* every name there is */
  tsr__dict_local names; /* looks them up; nothing is added after opening */
  int *column_of;        /* by name; -1: not chosen */
  int32_t *name_of;      /* by column */
  tsr__read_column *columns;
  int column_count;
  tsr__peers *peers; /* with whom it is read; NULL: alone */
};

/* Makes lines of files that are arrays. */
tsr_status tsr__json_unwrap(tsr__json *json, tsr__error *error);
/* The line of a place in a file, and the column, both from 1. */
int64_t tsr__json_line_of(const tsr__json *json, int file, const char *at, int64_t *column);

/* A value that was looked at. */
typedef struct tsr__json_found {
  unsigned class;
  const tsr__read_value *value;
  const tsr__json_token *token;
} tsr__json_found;

/* Keeps a value of a block's row; where it cannot be, nothing is kept of the block. */
void tsr__json_keep(tsr__heap *heap, tsr__json_block *block, int32_t code, int64_t row,
                    const tsr__json_found *found);
void tsr__json_kept_free(tsr__heap *heap, tsr__json_block *block);
/* Gives back what a block keeps of a name of the file. */
void tsr__json_kept_drop(tsr__heap *heap, tsr__json_block *block, int32_t name);
/* What a block keeps of a name of the file; of one that it does not have, rooms of 0. */
const tsr__json_kept *tsr__json_kept_of(const tsr__json_block *block, int32_t name);
/* Whether a column of a type can be read from it. */
bool tsr__json_kept_serves(const tsr__json_kept *kept, tsr_coltype type);
/* What was kept, as it was found. */
tsr__read_value tsr__json_kept_value(unsigned class, uint64_t bits);
tsr__json_token tsr__json_kept_text(const tsr__json_block *block, uint64_t bits);

/* One line that is no blank one. */
typedef struct tsr__json_line {
  const char *at, *end, *next;
} tsr__json_line;

/* The next line from `at` on that begins before `to`; false when there is none. `end` ends the
 * file's bytes. */
bool tsr__json_line_at(const char *at, const char *to, const char *end, tsr__json_line *out);

/* Which name a key is. Objects of a file mostly have their keys in one order: the place of the last
 * one found is where to look first. */
typedef struct tsr__json_keys {
  tsr__dict_local *names;
  struct tsr__json_member {
    int32_t code;
    tsr__text_span stands; /* in that object's line; NULL where it has escapes */
  } * order;               /* by member: its name in the last object */
  size_t order_room;
  int64_t *stamp; /* by code: the last line that had it */
  size_t stamp_room;
} tsr__json_keys;

/* The code of the `member`-th key of line `line` (counted from 1); -1: out of memory; -2: the key
 * was there before. With `add` unknown names are added. */
int32_t tsr__json_key_found(tsr__json_keys *keys, const tsr__json_token *key, int64_t member,
                            int64_t line);
static inline int32_t tsr__json_key(tsr__json_keys *keys, const tsr__json_token *key,
                                    int64_t member, int64_t line)
{
  if (!key->expected) return tsr__json_key_found(keys, key, member, line);
  int32_t code = keys->order[member].code;
  if (keys->stamp[code] == line) return -2;
  keys->order[member].stands.at = key->at;
  keys->stamp[code] = line;
  return code;
}
/* tsr__json_next, of the `member`-th. */
static inline int tsr__json_next_of(tsr__json_cursor *c, const tsr__json_keys *keys, int64_t member,
                                    tsr__json_token *key, tsr__json_token *value)
{
  bool known = (size_t)member < keys->order_room;
  c->expects = known ? keys->order[member].stands : (tsr__text_span){ NULL, 0 };
  return tsr__json_next(c, key, value);
}
void tsr__json_keys_free(tsr__json_keys *keys);

/* The class of a value, and the value but for texts. */
unsigned tsr__json_classify(const tsr__decimal *decimal, const tsr__json_token *token,
                            tsr__read_value *value);
/* Whether a column of a type holds values of a class. */
bool tsr__json_fits(tsr_coltype type, unsigned class, const tsr__read_value *value);

#endif
