/* Equal nodes share answers: programs are long, but few of their nodes differ in the properties
 * that planning reads.
 *
 *   type       dtype and shape              the weight of a move, the size of a node
 *   terms      operation and types          which dims share a factor
 *   question   terms and operands' places   the way to do it
 *
 * Types are interned; the terms and ways used last are kept, in tables that forget. Nodes of many
 * operands, of several results or with regions share no answers. */
#include "partition/flow.h"

#define MANY ((int64_t)1 << 40) /* stands for a size known at run time */
enum { TERMS = 32, WAYS = 256, TYPES = 32 };

/* A node's operation and types, the key of its terms. Keys are compared as bytes, so the struct has
 * no gaps. */
typedef struct like {
  const tsr__terms *terms;
  uint32_t attr;
  uint16_t op, in_count;
  int32_t type, in[TSR__FEW];
} like;

/* A question packed into few words, which are made and compared in registers: a large read of
 * fields that were just written in small parts would stall. */
typedef struct key {
  const tsr__terms *terms;
  uint64_t types, others, places, rest;
} key;

typedef struct answer {
  key of;
  const tsr__way *way;
} answer;

/* Two of the tables forget and one does not: a type has to keep its number for a whole flow, since
 * moves are known by it; terms and ways that were forgotten are found again by asking. */
struct tsr__memo {
  int32_t *types;    /* by hash: type + 1; 0: none */
  int32_t *examples; /* by type: a node of it */
  int64_t *elements; /* by type */
  int type_count, type_room;
  like terms[TERMS];
  tsr__terms *different; /* distinct terms, the newest first */
  answer *ways;
};

typedef struct tsr__memo memo;

static const tsr__gnode *typed_node(const tsr__flow *flow, int n)
{
  return &flow->program->nodes[n];
}

bool tsr__memo_start(tsr__flow *flow)
{
  size_t nodes = (size_t)flow->program->node_count + 1;
  memo *m = tsr__arena_new(flow->arena, sizeof *m);
  flow->memo = m;
  if (!m) return false;
  for (m->type_room = TYPES; m->type_room < (int)nodes && m->type_room < 1 << 16;)
    m->type_room *= 2;
  m->types = tsr__arena_new(flow->arena, (size_t)m->type_room * sizeof *m->types);
  m->examples = tsr__arena_new(flow->arena, nodes * sizeof *m->examples);
  m->elements = tsr__arena_new(flow->arena, nodes * sizeof *m->elements);
  return m->types && m->examples && m->elements;
}

/* ---- types ---- */

static int64_t count_elements(const tsr__gnode *node)
{
  int64_t count = 1;
  for (int d = 0; d < node->rank; d++) {
    int64_t size = node->dims[d] < 0 ? MANY : node->dims[d];
    if (size > 0 && count > INT64_MAX / size) return INT64_MAX;
    count *= size;
  }
  return count;
}

static bool same_node_type(const tsr__gnode *a, const tsr__gnode *b)
{
  return a->dtype == b->dtype && a->rank == b->rank &&
         !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof a->dims[0]);
}

static unsigned hash_type(const tsr__gnode *node)
{
  unsigned hash = node->dtype + 31u * node->rank;
  for (int d = 0; d < node->rank; d++) hash = (hash + (unsigned)node->dims[d]) * 0x9e3779b1u;
  return hash ^ hash >> 15;
}

/* Gives a node the number of its type. If the table is full of other types, each node gets a new
 * type. Extra types cost time only: they decide whether an answer may be used again, never the
 * answer itself. Most nodes have the type of the node before, so the search begins there. */
void tsr__memo_type(tsr__flow *flow, int n)
{
  enum { LOOKS = 16 };
  memo *m = flow->memo;
  const tsr__gnode *node = typed_node(flow, n);
  if (n && same_node_type(node, node - 1)) {
    flow->type[n] = flow->type[n - 1];
    return;
  }
  unsigned mask = (unsigned)m->type_room - 1, at = hash_type(node) & mask;
  int looks = 0;
  for (; m->types[at] && looks < LOOKS; at = (at + 1) & mask, looks++) {
    flow->type[n] = m->types[at] - 1;
    if (same_node_type(node, typed_node(flow, m->examples[m->types[at] - 1]))) return;
  }
  flow->type[n] = m->type_count;
  m->examples[m->type_count] = n;
  m->elements[m->type_count++] = count_elements(node);
  if (looks < LOOKS) m->types[at] = m->type_count;
}

int64_t tsr__memo_elements(const tsr__flow *flow, int n)
{
  return flow->memo->elements[flow->type[n]];
}

/* ---- terms ---- */

/* Whether the types of a node give all of its shape, so that its terms and ways are kept. */
static bool is_plain_node(const tsr__flow *flow, int n)
{
  const tsr__gnode *node = typed_node(flow, n);
  bool plain = node->in_count <= TSR__FEW && !node->result_count && !node->region_count;
  TSR_FOR_OPERANDS (flow->program, node, i, o) plain = plain && !typed_node(flow, o)->result_count;
  return plain;
}

/* Returns equal terms made before, if there are some; so operations of one kind share their
 * ways. */
static const tsr__terms *share_terms(memo *m, tsr__terms *terms)
{
  enum { LOOKS = 8 };
  size_t bytes = (size_t)terms->operands * sizeof *terms->in;
  const tsr__terms *other = m->different;
  for (int looks = 0; other && looks < LOOKS; other = other->next, looks++)
    if (other->operands == terms->operands && other->count == terms->count &&
        !memcmp(other->kind, terms->kind, sizeof terms->kind) &&
        !memcmp(other->out, terms->out, sizeof terms->out) &&
        !memcmp(other->further, terms->further, sizeof terms->further) &&
        !memcmp(other->further_in, terms->further_in, sizeof terms->further_in) &&
        !memcmp(other->in, terms->in, bytes))
      return other;
  terms->next = m->different;
  return m->different = terms;
}

/* Whether a node is a view of a node made anywhere; the view is made anywhere too, without an
 * exchange. */
static bool is_made_view(const tsr__flow *flow, int n)
{
  return flow->free[n] && tsr__is_view(typed_node(flow, n)->op);
}

static const tsr__terms *make_terms(tsr__flow *flow, int n)
{
  const tsr__gnode *node = typed_node(flow, n);
  tsr__factors factors;
  tsr__terms *terms =
      tsr__arena_new(flow->arena, sizeof *terms + (size_t)node->in_count * sizeof *terms->in);
  flow->failed |= !terms;
  if (!terms) return NULL;
  tsr__factors_of(flow->program, n, &factors);
  terms->count = (uint8_t)factors.count;
  memcpy(terms->kind, factors.kind, sizeof terms->kind);
  for (int f = 0; f < factors.count && is_made_view(flow, n); f++)
    if (terms->kind[f] == TSR__FACTOR_PERMUTE) terms->kind[f] = TSR__FACTOR_REPLICATE;
  memcpy(terms->out, factors.out, sizeof terms->out);
  memcpy(terms->further, factors.further, sizeof terms->further);
  memcpy(terms->further_in, factors.further_in, sizeof terms->further_in);
  for (int i = 0; i < node->in_count; i++) tsr__factors_in(&factors, i, terms->in[i]);
  terms->operands = node->in_count;
  terms->plain = is_plain_node(flow, n);
  return terms->plain ? share_terms(flow->memo, terms) : terms;
}

/* The table has one entry a hash and no chains: the last terms stay. A node that is not plain has
 * terms of its own. */
const tsr__terms *tsr__memo_terms(tsr__flow *flow, int n)
{
  const tsr__gnode *node = typed_node(flow, n);
  if (flow->terms[n]) return flow->terms[n];
  if (!is_plain_node(flow, n) || is_made_view(flow, n)) return flow->terms[n] = make_terms(flow, n);
  like mine = { .attr = node->attr,
                .op = node->op,
                .in_count = (uint16_t)node->in_count,
                .type = flow->type[n],
                .in = { -1, -1, -1 } };
  TSR_FOR_OPERANDS (flow->program, node, i, o) mine.in[i] = flow->type[o];
  unsigned hash = node->op * 7u + (unsigned)mine.type * 3u + (unsigned)mine.in[0] + node->attr;
  like *kept = &flow->memo->terms[hash % TERMS];
  mine.terms = kept->terms;
  if (!kept->terms || memcmp(kept, &mine, sizeof mine) != 0) {
    mine.terms = make_terms(flow, n);
    *kept = mine;
  }
  return flow->terms[n] = mine.terms;
}

/* ---- ways ---- */

void tsr__memo_question(tsr__flow *flow, int n, tsr__question *out)
{
  const tsr__gnode *node = typed_node(flow, n);
  *out = (tsr__question){ .terms = tsr__memo_terms(flow, n) };
  if (!out->terms || !out->terms->plain) return;
  uint8_t consts = 0, free = 0;
  out->type = flow->type[n];
  /* The operation is part of the question only if its row matters beyond its factors; otherwise
   * equal terms are enough, so that an addition and a product share their ways. */
  bool differs = tsr__is_reduction(node->op) || tsr__is_view(node->op) || tsr__ops[node->op].scales;
  out->reduces = differs ? node->op : 0;
  TSR_FOR_OPERANDS (flow->program, node, i, o) {
    consts |= (uint8_t)((flow->carry[o] == TSR__CARRY_NONE) << i);
    free |= (uint8_t)(flow->free[o] << i);
    out->first[i] = flow->ways[o]->at;
    out->types[i] = flow->type[o];
  }
  out->consts = consts;
  out->free = free;
}

/* A place that uses all axes of its mesh and whose cut dims all have factors leaves nothing that
 * first places of operands could add; they are cleared, so that such questions are equal however
 * operands lie. */
bool tsr__question_set_place(const tsr__flow *flow, tsr__question *q, const int8_t *map, int place)
{
  const tsr_sharding *at = &flow->places[place];
  q->place = (uint16_t)place;
  if (!flow->full[place]) return false;
  for (int d = 0; at->first[d] < at->first[TSR_MAX_RANK]; d++)
    if (at->first[d] < at->first[d + 1] &&
        (map[d] < 0 || q->terms->kind[map[d]] == TSR__FACTOR_REPLICATE))
      return false;
  memset(q->first, 0, sizeof q->first);
  return true;
}

/* Packs a question of a node with few operands; the lead is the number of an operand or of a
 * dim. */
static inline key question_key(const tsr__question *q)
{
  return (key){ .terms = q->terms,
                .types = (uint64_t)(uint32_t)q->type << 32 | (uint32_t)q->types[0],
                .others = (uint64_t)(uint32_t)q->types[1] << 32 | (uint32_t)q->types[2],
                .places = (uint64_t)q->first[0] << 48 | (uint64_t)q->first[1] << 32 |
                          (uint64_t)q->first[2] << 16 | q->place,
                .rest = (uint64_t)q->free << 48 | (uint64_t)q->consts << 40 |
                        (uint64_t)q->how << 32 | (uint64_t)q->reduces << 16 | (uint16_t)q->lead };
}

static inline bool same_question_key(key a, key b)
{
  return a.terms == b.terms && a.places == b.places && a.rest == b.rest && a.types == b.types &&
         a.others == b.others;
}

/* The top 8 bits of the product: one of WAYS. The addresses of terms decide which answers replace
 * each other, not the answers themselves: a plan is the same wherever its arena was. */
static inline answer *answer_of(const memo *m, key k)
{
  uint64_t hash = (uint64_t)(uintptr_t)k.terms + k.types * UINT64_C(0xbf58476d1ce4e5b9) +
                  k.others * UINT64_C(0x94d049bb133111eb) +
                  k.places * UINT64_C(0x9e3779b97f4a7c15) + k.rest * UINT64_C(0xd6e8feb86659fd93);
  return &m->ways[(hash ^ hash >> 29) * UINT64_C(0x9e3779b97f4a7c15) >> 56];
}

const tsr__way *tsr__memo_find_way(tsr__flow *flow, const tsr__question *q)
{
  memo *m = flow->memo;
  if (!q->terms->plain || flow->claims) return NULL; /* equal nodes may differ in their claims */
  if (!m->ways) m->ways = tsr__arena_new(flow->arena, WAYS * sizeof *m->ways);
  flow->failed |= !m->ways;
  if (!m->ways) return NULL;
  key k = question_key(q);
  const answer *kept = answer_of(m, k);
  return same_question_key(kept->of, k) ? kept->way : NULL;
}

/* Keeps a copy of a way. A way whose partials meet is weighed here, once for all equal nodes; other
 * ways are weighed when they are fresh. */
void tsr__memo_keep_way(tsr__flow *flow, int n, const tsr__question *q, const tsr__way *way)
{
  size_t bytes = sizeof *way + (size_t)typed_node(flow, n)->in_count * sizeof *way->need;
  bool keeps = !flow->failed && q->terms->plain && !flow->claims;
  tsr__way *copy = keeps ? tsr__arena_raw(flow->arena, bytes) : NULL;
  if (!copy) return;
  memcpy(copy, way, bytes);
  if (way->meet) copy->own = tsr__flow_own_bytes(flow, n, way);
  key k = question_key(q);
  *answer_of(flow->memo, k) = (answer){ k, copy };
}
