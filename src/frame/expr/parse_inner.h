/* Between the files that read expressions: parse.c one expression, parse_items.c what a text holds
 * of them, hints.c what was meant by what cannot be read. */
#ifndef TSR_FRAME_PARSE_INNER_H
#define TSR_FRAME_PARSE_INNER_H

#include "frame/expr/expr.h"

#include <stdio.h>

/* With the depth of a tree, which bounds the stack of whatever walks it, these bound what a hostile
 * text can cost, whoever wrote it. */
enum {
  TSR__PARSE_LENGTH = 65536, /* of a text in bytes, so of its tokens */
  /* Nodes of a text, so steps of a walk: 0 < x < 9 has x twice, and x may be again such an
   * expression. */
  TSR__PARSE_SIZE = 200000
};

typedef struct tsr__parser {
  tsr__lexer lexer;
  const tsr_formula *given;
  int params; /* `?` seen */
  int depth;  /* of the recursion */
  int size;   /* of the items read */
} tsr__parser;

/* The loosest expression that stands there; NULL: an error was recorded. */
tsr__expr *tsr__parse_expr(tsr__parser *p);

bool tsr__parse_at(const tsr__parser *p, const char *symbol);

/* These record an error and return NULL, so that whoever finds something wrong can return it:
 * at [at, at + span); of what stands there, of which at most 40 bytes are shown; of memory. */
void *tsr__parse_refuse(tsr__parser *p, int at, int span, const char *format, ...) TSR_PRINTF(4, 5);
tsr__expr *tsr__parse_unexpected(tsr__parser *p, const char *expected);
void *tsr__parse_no_memory(tsr__parser *p);

/* ---- hints.c ---- */

/* What a name of other languages is here, as a part of a message; NULL: nothing comes to mind. */
const char *tsr__hint_of_function(const char *name);
/* The same of the token that stands where something else was expected: "; ..." or "". */
const char *tsr__hint_of_token(const tsr__parser *p, const char *expected, char *out, size_t size);

#endif
