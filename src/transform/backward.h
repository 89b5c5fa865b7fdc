/* Inside transform/: going back through a region, and the rules of its nodes.
 *
 *   y = tanh(w * x)             at     %0 w    %1 x    %2 mul    %3 tanh
 *                               due    x * d   -       d = (1 - y^2) * 1      1
 *
 * A replay makes the forward nodes again; then, from the last node to the first, a node's rule
 * gives its operands their parts of what is due to it, which add up. All of it are calls on arrays,
 * so that what nobody needs is never computed, and a gradient can be differentiated in turn. */
#ifndef TSR_TRANSFORM_BACKWARD_H
#define TSR_TRANSFORM_BACKWARD_H

#include "transform/transform.h"

typedef struct tsr__backward {
  tsr__replay replay;
  const tsr__traced *traced;
  tsr_array **due;  /* by node: what flowed back to it so far; NULL: nothing */
  bool *wanted;     /* by node: it depends on an argument that a gradient is asked of */
  bool at_zeros;    /* all that goes back is 0: the vjp in a jvp (forward.c) */
  bool failed;      /* an error is recorded */
  const char *call; /* who asks, as messages name it: "tsr_grad" */
} tsr__backward;

/* A function of tsr_grad and its like, made for another call, whose name its messages are to have.
 * Returns it. */
tsr_function *tsr__gradient_called(tsr_function *f, const char *call);

/* Opens it on the leaves of a trace's arguments. False: the error is recorded. */
bool tsr__backward_open(tsr__backward *back, tsr_scope *scope, const tsr__traced *traced,
                        tsr_array *const *leaves, const char *site);
/* It goes back through a region for another, which went back to its node. */
void tsr__backward_for(tsr__backward *back, const tsr__backward *outer);
/* Asks for the gradient by a leaf. */
void tsr__backward_want(tsr__backward *back, int leaf);
/* Makes the forward nodes. */
void tsr__backward_forward(tsr__backward *back);
/* Result `i` as the replay made it; what flows back to it. */
tsr_array *tsr__backward_result(const tsr__backward *back, int i);
void tsr__backward_seed(tsr__backward *back, int i, tsr_array *due);
/* Goes back. False: an operation has no gradient, and the error is recorded. */
bool tsr__backward_run(tsr__backward *back);
/* What came to a leaf: zeros if nothing did. */
tsr_array *tsr__backward_take(tsr__backward *back, int leaf, tsr_array *like);

/* ---- rules ----------------------------------------------------------------------------------- */

/* A node whose rule is applied. */
typedef struct tsr__pull {
  tsr__backward *back;
  const tsr__gnode *node;
  tsr_array *const
      *in; /* its operands, its result (of several, it itself), and what is due to it */
  tsr_array *out, *due;
  const void *attr;
  const char *site;
} tsr__pull;

typedef void tsr__grad_fn(const tsr__pull *p);

/* Whether an operand's part is asked for. */
bool tsr__wants(const tsr__pull *p, int i);
/* Gives operand `i` a part: summed over the dims along which the operand was repeated. */
void tsr__give(const tsr__pull *p, int i, tsr_array *part);
/* The same of a part that has what all places of an axis give. */
void tsr__give_of_all(const tsr__pull *p, int i, tsr_array *part, const tsr__axis_attr *axis);

/* Arithmetic as rules write it. */
static inline tsr_array *tsr__times(const tsr__pull *p, tsr_array *a, tsr_array *b)
{
  return tsr_mul_at(a, tsr_operand_array(b), p->site);
}

static inline tsr_array *tsr__over(const tsr__pull *p, tsr_array *a, tsr_array *b)
{
  return tsr_div_at(a, tsr_operand_array(b), p->site);
}

static inline tsr_array *tsr__scaled(const tsr__pull *p, tsr_array *a, double by)
{
  return tsr_mul_at(a, tsr_operand_float(by), p->site);
}

static inline tsr_array *tsr__more(const tsr__pull *p, tsr_array *a, double by)
{
  return tsr_add_at(a, tsr_operand_float(by), p->site);
}

/* `a` where a bool array is true, else 0. */
static inline tsr_array *tsr__only(const tsr__pull *p, tsr_array *where, tsr_array *a)
{
  return tsr_where_at(where, tsr_operand_array(a), tsr_operand_int(0), p->site);
}

/* step - 1 zeros between the elements of a dim. */
tsr_array *tsr__spaced(const tsr__pull *p, tsr_array *a, int dim, int64_t step);
/* The part that a slice shows of what is due, where that is a product of windows: only those are
 * made. NULL: it is another, or the slice is not of windows alone, in steps of 1. */
tsr_array *tsr__windows_part(const tsr__pull *p, const tsr__slice_attr *inner);
/* Zeros like `like`, and what is due added at places along a dim, line by line. */
tsr_array *tsr__put_along(const tsr__pull *p, tsr_array *like, tsr_array *at, int dim);

/* ---- residuals (residuals.c) ----------------------------------------------------------------- */

/* A node with regions of a replay, on operands. After its results it has carries that the steps of
 * a scan took, stacked, and the values that checkpoints in it keep. */
tsr_array *tsr__replay_keeping(const tsr__replay *replay, int n, tsr__operands in);
/* Which stacked result of a region is carry `i` as a step takes it; -1: none. */
int tsr__kept_carry(const tsr__region *region, int carries, int i);
/* The values that the node keeps. False: out of memory. */
bool tsr__pull_kept(const tsr__pull *p, tsr__operands *kept);
/* A region of the node to go back through: its arguments by number, and all that the node keeps. */
typedef struct tsr__into {
  const tsr__pull *pull;
  int region;
  tsr__operands in, kept;
} tsr__into;
/* Opens the way back through it in a scope. False: the error is recorded, or memory is out. */
bool tsr__backward_into(tsr__backward *back, const tsr__into *into, tsr_scope *scope);

/* A name of a value as a call gives it. */
tsr_status tsr__name_read(const char *call, const char *name, tsr__name_attr *out,
                          tsr__error *error);
/* Whether each of some names is that of a value that is kept by it. False: the error says which is
 * not, as the end of a sentence, or memory is out. */
bool tsr__names_known(const tsr__replay *replay, const tsr__name_attr *keep, int count,
                      tsr__error *error);

/* The results of a node of several as they are taken out: the array and what is due to it, by
 * result; NULL where nobody took it, where nothing came. False: out of memory. */
typedef struct tsr__results {
  tsr_array **out, **due;
} tsr__results;
bool tsr__pull_results(const tsr__pull *p, tsr__results *results);

/* What stands for going back through a while where all that goes back is 0. */
void tsr__forward_while(const tsr__pull *p);

/* Gives operand 0 what going back through a function of it gives it. */
void tsr__give_through(const tsr__pull *p, tsr_body_fn *body, void *user);

/* Whether a row has a "rule", is "zero", or why it has none; NULL: nobody said. */
const char *tsr__gradient_kind(int op);

/* By family: the names in the column GRADIENT of ops.def. */
tsr__grad_fn tsr__grad_zero, tsr__grad_cast, tsr__grad_full, tsr__grad_result, tsr__grad_place;
tsr__grad_fn tsr__grad_neg, tsr__grad_abs, tsr__grad_sqrt, tsr__grad_cbrt, tsr__grad_exp,
    tsr__grad_exp2, tsr__grad_expm1, tsr__grad_log, tsr__grad_log1p, tsr__grad_log2,
    tsr__grad_log10, tsr__grad_tanh, tsr__grad_asinh, tsr__grad_acosh, tsr__grad_atanh,
    tsr__grad_sin, tsr__grad_cos, tsr__grad_tan, tsr__grad_asin, tsr__grad_acos, tsr__grad_atan,
    tsr__grad_sinh, tsr__grad_cosh, tsr__grad_erf, tsr__grad_erfc, tsr__grad_erfinv,
    tsr__grad_sigmoid, tsr__grad_gelu;
tsr__grad_fn tsr__grad_add, tsr__grad_sub, tsr__grad_mul, tsr__grad_div, tsr__grad_mod,
    tsr__grad_fmod, tsr__grad_pow, tsr__grad_extreme_of_two, tsr__grad_copysign, tsr__grad_atan2,
    tsr__grad_hypot, tsr__grad_logaddexp, tsr__grad_fma, tsr__grad_where;
tsr__grad_fn tsr__grad_slice, tsr__grad_transpose, tsr__grad_broadcast, tsr__grad_pad,
    tsr__grad_reshape, tsr__grad_roll, tsr__grad_pick, tsr__grad_diagonal, tsr__grad_concat;
tsr__grad_fn tsr__grad_sum, tsr__grad_mean, tsr__grad_var, tsr__grad_std, tsr__grad_extreme,
    tsr__grad_prod;
tsr__grad_fn tsr__grad_cumsum, tsr__grad_sort, tsr__grad_top_k, tsr__grad_scatter, tsr__grad_take,
    tsr__grad_take_along, tsr__grad_fetch, tsr__grad_dynamic_slice, tsr__grad_dynamic_update;
tsr__grad_fn tsr__grad_cumprod, tsr__grad_cummax, tsr__grad_cummin;
tsr__grad_fn tsr__grad_dot, tsr__grad_sum_to;
tsr__grad_fn tsr__grad_scan, tsr__grad_switch;
tsr__grad_fn tsr__grad_lgamma, tsr__grad_custom;
tsr__grad_fn tsr__grad_axis_all, tsr__grad_axis_own, tsr__grad_axis_meet;

#endif
