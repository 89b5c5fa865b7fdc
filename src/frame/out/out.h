/* What users see of a frame: tables drawn, plans explained. */
#ifndef TSR_FRAME_OUT_H
#define TSR_FRAME_OUT_H

#include "frame/run/run.h"

/* Evaluates the rows that are to be shown and draws them (NULL: as tsr_frame_text); `text` is the
 * caller's to free after success. `apart` (NULL allowed): whether rows lay over several
 * processes. */
tsr_status tsr__frame_draw(tsr_frame *df, const tsr_show_opts *opts, tsr__text *text, bool *apart,
                           const char *site);
/* A step to be said in words: the numbers of the steps that it stands on, in the order of the
 * frame's parents; -1: none. */
typedef struct tsr__words {
  const tsr__visit *visit;
  const int *from;
} tsr__words;
/* Adds what a step does (verb_words.c). */
void tsr__verb_words(const tsr__words *words, tsr__text *out);
/* The shape of the plan of a frame's columns (tests). */
tsr_status tsr__frame_plan_shape(tsr_frame *df, tsr__plan_shape *out);

#endif
