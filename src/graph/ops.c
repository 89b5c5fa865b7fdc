/* The table of operations as data: ops.def, one row an operation. */
#include "graph/accums.h"
#include "graph/infer_inner.h"
#include "graph/whys.h"

/* Each is what its fields add up to: a hole would be bytes that nobody sets, and equal
 * attributes would differ by chance. */
_Static_assert(sizeof(tsr__reduce_attr) == 4 + 2 + 2 + 8 + 8 && sizeof(tsr__dim_attr) == 8 &&
                   sizeof(tsr__index_attr) == 8 && sizeof(tsr__place_attr) == 8 &&
                   sizeof(tsr__scan_attr) == 16 && sizeof(tsr__sort_attr) == 24 &&
                   sizeof(tsr__result) == 8 + 8 * TSR_MAX_RANK,
               "no padding: attributes are compared as bytes");

_Static_assert(sizeof(tsr__slice_attr) == 24 * TSR_MAX_RANK &&
                   sizeof(tsr__order_attr) == TSR_MAX_RANK &&
                   sizeof(tsr__pad_attr) == 16 * TSR_MAX_RANK && sizeof(tsr__pick_attr) == 8 &&
                   sizeof(tsr__diagonal_attr) == 16,
               "nor in those of views");
_Static_assert(sizeof(tsr__dot_attr) == 28 * TSR_MAX_RANK + 24 &&
                   sizeof(tsr__blocks_attr) == 32 * TSR_MAX_RANK,
               "nor in those of products");

_Static_assert(sizeof(tsr__span_attr) == 24 && sizeof(tsr__scatter_attr) == 40 &&
                   sizeof(tsr__within_attr) == 24 &&
                   sizeof(tsr__axis_attr) == TSR__AXIS_NAME + 16 && sizeof(tsr__tap_attr) == 48 &&
                   sizeof(tsr__custom_attr) == 24 && sizeof(tsr__name_attr) == TSR__NAME &&
                   TSR__NAME % 8 == 0,
               "nor in those of indexing");

/* Zeros of each family, for nodes that were given no attribute: reading one needs no look at
 * whether it is there. */
static const tsr__reduce_attr no_reduce;
static const tsr__dim_attr no_dim;
static const tsr__scan_attr no_scan;
static const tsr__sort_attr no_sort;
static const tsr__roll_attr no_roll;
static const tsr__pick_attr no_pick;
static const tsr__diagonal_attr no_diagonal;
static const tsr__tie_attr no_tie;
static const tsr__index_attr no_index;
static const tsr__place_attr no_place;
static const tsr__slice_attr no_slice;
static const tsr__order_attr no_order;
static const tsr__pad_attr no_pad;
static const tsr__span_attr no_span;
static const tsr__scatter_attr no_scatter;
static const tsr__within_attr no_within;
static const tsr__dot_attr no_dot;
static const tsr__blocks_attr no_blocks;
static const tsr__axis_attr no_axis;
static const tsr__tap_attr no_tap;
static const tsr__loop_attr no_loop;
static const tsr__custom_attr no_custom;
static const tsr__name_attr no_name;

const tsr__attr_info tsr__attrs[TSR__ATTR_FAMILIES] = {
  [TSR__ATTR_NONE] = { 0, 0, NULL },
  [TSR__ATTR_REDUCE] = { sizeof no_reduce, 0, &no_reduce },
  [TSR__ATTR_DIM] = { sizeof no_dim, 0, &no_dim },
  [TSR__ATTR_SCAN] = { sizeof no_scan, 0, &no_scan },
  [TSR__ATTR_SORT] = { sizeof no_sort, 0, &no_sort },
  [TSR__ATTR_ROLL] = { sizeof no_roll, 0, &no_roll },
  [TSR__ATTR_PICK] = { sizeof no_pick, sizeof no_pick.picks[0], &no_pick },
  [TSR__ATTR_DIAGONAL] = { sizeof no_diagonal, 0, &no_diagonal },
  [TSR__ATTR_TIE] = { sizeof no_tie, 0, &no_tie },
  [TSR__ATTR_INDEX] = { sizeof no_index, 0, &no_index },
  [TSR__ATTR_PLACE] = { sizeof no_place, 0, &no_place },
  [TSR__ATTR_SLICE] = { sizeof no_slice, 0, &no_slice },
  [TSR__ATTR_ORDER] = { sizeof no_order, 0, &no_order },
  [TSR__ATTR_PAD] = { sizeof no_pad, 0, &no_pad },
  [TSR__ATTR_SPAN] = { sizeof no_span, 0, &no_span },
  [TSR__ATTR_SCATTER] = { sizeof no_scatter, 0, &no_scatter },
  [TSR__ATTR_WITHIN] = { sizeof no_within, 0, &no_within },
  [TSR__ATTR_DOT] = { sizeof no_dot, 0, &no_dot },
  [TSR__ATTR_BLOCKS] = { sizeof no_blocks, 0, &no_blocks },
  [TSR__ATTR_AXIS] = { sizeof no_axis, 0, &no_axis },
  [TSR__ATTR_TAP] = { sizeof no_tap, 0, &no_tap },
  [TSR__ATTR_LOOP] = { sizeof no_loop, 0, &no_loop },
  [TSR__ATTR_CUSTOM] = { sizeof no_custom, sizeof no_custom.keep[0], &no_custom },
  [TSR__ATTR_NAME] = { sizeof no_name, 0, &no_name },
};

const tsr__why_words tsr__whys[TSR__WHYS] = {
#define WHY(enumerator, who, what) [TSR__WHY_##enumerator] = { who, what },
#include "graph/whys.def"
#undef WHY
};

/* Columns of a row. Each becomes an initialiser of a field, so a row may have them in any order,
 * and one that it leaves out is zero. Columns of other rooms (kernels, weights, batching,
 * gradients) are tables there. */
#define MANY TSR__MANY
#define OPERANDS(low, high) .least = low, .most = high,
#define RESULTS(many) .results = many,
#define REGIONS(nested) .regions = nested,
#define WANTS(what) .wants = TSR__WANT_##what,
#define DTYPE(rule) .dtype_rule = TSR__DT_##rule,
#define SHAPE(function) .shape = tsr__shape_##function,
#define FACTORS(rule) .factors = rule,
#define ATTRIBUTES(family) .attr = TSR__ATTR_##family,
#define NUMBERS(count) .numbers = count,
#define NEEDS_ONE() .needs_one = true,
#define SCALES() .scales = true,
#define READS_PARTS() .reads_parts = true,
#define ALIGNED() .aligned = true,
#define SOURCE() .source = true,
#define LOOKS_UP() .looks_up = true,
#define INSERTS_DIMS() .inserts_dims = true,
#define EACH_LINE() .each_line = true,
#define AT_START() .at_start = true,
#define CONTRACTS() .contracts = true,
#define PERMUTES() .permutes = true,
#define RESHAPES() .reshapes = true,
#define REPEATS() .repeats = true,
#define RAGGED() .ragged = true,
#define EVEN() .even = true,
#define MOVES() .moves = true,
#define FOLLOWS() .follows = true,
#define LOOPS() .loops = true,
#define KEEPS_FIRST() .keeps_first = true,
#define BY_LINES() .by_lines = true,
#define FETCHES() .fetches = true,
#define FLOPS(function) .flops = tsr__flops_##function,
#define PREFIX(floats, others) .prefix = { floats, others },
#define LONG(size) .least_cut = size,
#define BOOLS(logic, side) .on_bools = TSR__OP_##logic, .negated = TSR__##side,
#define JOINS(operation) .joins = TSR__OP_##operation,
#define SQUARE(operation) .square = TSR__OP_##operation,
#define SIGN(text) .sign = text,
/* What can be known here of a row's kernel. */
#define TILE(instruction) .lowering = TSR__LOW_TILE
#define EMIT(writer) .lowering = TSR__LOW_TILE
#define VIEW(function) .lowering = TSR__LOW_VIEW, .view = tsr__view_##function
#define FORMULA(function) .lowering = TSR__LOW_FORMULA
#define REDUCE(accumulator, read) \
  .lowering = TSR__LOW_REDUCE, .acc = TSR__ACC_##accumulator, .finish = TSR__FINISH_##read
#define STEP(kind) .lowering = TSR__LOW_STEP
#define ROUTINE(function) .lowering = TSR__LOW_ROUTINE
#define PART() .lowering = TSR__LOW_PART
#define LEAF() .lowering = TSR__LOW_LEAF
#define NAMED() .lowering = TSR__LOW_NAMED
#define REGION() .lowering = TSR__LOW_REGION
#define LABEL() .lowering = TSR__LOW_LABEL

#define OP(id, text, ...) [TSR__OP_##id] = { .name = text, __VA_ARGS__ },
const tsr__opinfo tsr__ops[TSR__OPS] = {
#include "graph/ops.def"
};
