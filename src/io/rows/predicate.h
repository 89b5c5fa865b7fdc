/* Predicates at work: which rows pass, 64 at a time, for readers that leave out what nobody wants
 * (reader.h says what a predicate is). */
#ifndef TSR_IO_PREDICATE_H
#define TSR_IO_PREDICATE_H

#include "io/rows/reader.h"

/* What a predicate said of texts that are asked once each, and two rooms for it to work in. */
typedef struct tsr__judged {
  uint8_t *text; /* by code; 0: not asked yet */
  size_t room;
  tsr__text made[2];
} tsr__judged;

/* A predicate, and the column that it is asked of. */
typedef struct tsr__judge {
  const tsr__predicate *predicate;
  tsr_coltype type;
  const void *values;
  const uint64_t *validity; /* NULL: no value is null */
  tsr__dict_local *dict;    /* whose codes texts are */
  tsr__judged *judged;
  bool *no_memory; /* set where there is none */
} tsr__judge;

/* Which of up to 64 elements from `at` on pass, bit 0 the first. They lie in one word of
 * validity. */
uint64_t tsr__judge_word(const tsr__judge *judge, int64_t at, int count);
/* The same of texts as they lie; bit i of `valid`: there is one. */
uint64_t tsr__judge_texts(const tsr__judge *judge, const tsr__text_span *texts, uint64_t valid);
/* Whether one passes. */
bool tsr__judge_text(const tsr__judge *judge, tsr__text_span text);

void tsr__judged_open(tsr__judged *judged, tsr__heap *heap);
void tsr__judged_close(tsr__judged *judged, tsr__heap *heap);

#endif
