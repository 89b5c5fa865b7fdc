/* Why an array is to lie at a place: what nodes of placing have as their attribute. */
#ifndef TSR_GRAPH_WHYS_H
#define TSR_GRAPH_WHYS_H

#include "graph/graph.h"

typedef enum tsr__why {
#define WHY(enumerator, who, what) TSR__WHY_##enumerator,
#include "graph/whys.def"
#undef WHY
  TSR__WHYS
} tsr__why;

/* As explanations tell it. */
typedef struct tsr__why_words {
  const char *who, *what;
} tsr__why_words;

extern const tsr__why_words tsr__whys[TSR__WHYS];

typedef struct tsr__place_attr {
  int64_t why; /* tsr__why */
} tsr__place_attr;

static inline tsr__why tsr__why_of(const tsr__program *program, const tsr__gnode *node)
{
  const tsr__place_attr *attr = tsr__attr_of(program, node);
  return (tsr__why)attr->why;
}

#endif
