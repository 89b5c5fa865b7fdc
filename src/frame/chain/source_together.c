/* Files that several processes read together: each opens the same file by itself, and what one
 * finds wrong all are told.
 *
 *   process 0   opens  x.csv   4 columns, 812 bytes  |  the same everywhere, or an error that names
 *   process 1   opens  x.csv   4 columns, 812 bytes  |  who has what
 *
 * Invariant: a file is opened, counted and read by all processes or by none. */
#include "frame/chain/chain.h"

bool tsr__source_apart(const tsr_frame *df, const tsr_sharding *sharding)
{
  return tsr__rel_apart(df->node.scope->rt, sharding);
}

/* The version is part of what is entered with: a process that retyped a column and one that did not
 * are told apart at once; and so are those that read a file by other options. */
tsr_status tsr__source_enter(const tsr_frame *df, tsr__error *error)
{
  uint64_t hash = tsr__hash(df->what, strlen(df->what), (uint64_t)df->version + df->asked);
  const tsr__peers_work work = { .fingerprint = hash, .what = df->what, .site = df->node.site };
  return tsr__peers_enter(tsr__peers_of(df->node.scope->rt), &work, error);
}

tsr_status tsr__source_leave(const tsr_frame *df, tsr_status status, tsr__error *error)
{
  return tsr__peers_leave(tsr__peers_of(df->node.scope->rt), status, error);
}

/* ---- terminals ------------------------------------------------------------------------------- */

/* A run of its own, of no more than its end: whatever a terminal does later, one that cannot begin
 * it is known to all here, and is waited for nowhere else. */
tsr_status tsr__frame_meet(tsr_frame *df, const char *what, const char *site, tsr_status own,
                           tsr__error *error)
{
  tsr_scope *scope = df->node.scope;
  tsr__peers *peers = df->shared && scope ? tsr__peers_of(scope->rt) : NULL;
  if (!peers) return own;
  const tsr__peers_work work = { .fingerprint = own ? 0 : tsr__hash(what, strlen(what), 0),
                                 .what = what,
                                 .site = site };
  tsr_status status = tsr__peers_enter(peers, &work, error);
  return status ? status : tsr__peers_leave(peers, own, error);
}

tsr_status tsr__frame_refuse(tsr_frame *df, const char *what, const char *site, tsr_status own)
{
  tsr__error error = { .status = TSR_OK };
  if (!own || !df->node.scope) return own;
  tsr__error_set(&error, own, "%s", tsr_message(tsr__frame_home(df)));
  (void)tsr__frame_meet(df, what, site, own, &error);
  return own;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* What is told of an open file. A fingerprint of the bytes would need a whole reading; files that
 * are alike in this are taken to be one. */
typedef struct identity {
  int64_t columns, rows, bytes;
  uint64_t schema; /* names and types */
} identity;

static identity identity_of(const tsr__reader *reader, int64_t rows)
{
  const tsr__read_column *column;
  identity out = { .rows = rows };
  out.columns = reader->ops->columns(reader->file, &column);
  out.bytes = reader->ops->size ? reader->ops->size(reader->file) : 0;
  for (int64_t i = 0; i < out.columns; i++) {
    out.schema = tsr__hash(column[i].name, strlen(column[i].name), out.schema);
    out.schema = tsr__hash(&column[i].type, sizeof column[i].type, out.schema);
  }
  return out;
}

/* All processes compare all with the first, and so say the same. */
static tsr_status differs(const tsr_frame *df, const tsr__reader *reader, const identity of[2],
                          int process, tsr__error *error)
{
  const identity *first = &of[0], *other = &of[1];
  const char *path = reader->ops->path(reader->file);
  const struct {
    const char *what;
    int64_t first, other;
  } told[] = { { "columns", first->columns, other->columns },
               { "bytes", first->bytes, other->bytes },
               { "rows", first->rows, other->rows } };
  for (int i = 0; i < 3; i++)
    if (told[i].first != told[i].other)
      return tsr__error_set(
          error, TSR_EPEER,
          "%s: %.200s is not the same in all processes: the file has %lld %s in process 0 and %lld "
          "in process %d; all processes must read the same file",
          df->what, path, (long long)told[i].first, told[i].what, (long long)told[i].other,
          process);
  if (first->schema == other->schema) return TSR_OK;
  return tsr__error_set(
      error, TSR_EPEER,
      "%s: %.200s is not the same in all processes: the columns have other names or types in "
      "process %d than in process 0; all processes must read the same file",
      df->what, path, process);
}

tsr_status tsr__source_same(const tsr_frame *df, const tsr__reader *reader, int64_t rows,
                            tsr__error *error)
{
  tsr_runtime *rt = df->node.scope->rt;
  tsr__peers *peers = tsr__peers_of(rt);
  int count = tsr__peers_count(peers);
  size_t bytes = (size_t)count * sizeof(tsr__peers_note);
  tsr__peers_note *all = tsr__new(&rt->heap, bytes);
  if (!all) return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", df->what);
  identity mine = identity_of(reader, rows), of[2];
  tsr__error unused = { .status = TSR_OK };
  tsr_status status = tsr__peers_gather(peers, &mine, sizeof mine, all, error);
  if (!status) memcpy(&of[0], all[0].data, sizeof of[0]);
  bool told = !status;
  for (int p = 1; p < count && !status; p++) {
    memcpy(&of[1], all[p].data, sizeof of[1]);
    status = differs(df, reader, of, p, error);
  }
  /* Nobody fails before all have read what was told. */
  if (told && status) (void)tsr__peers_part(peers, &unused);
  tsr__del(&rt->heap, all, bytes);
  return status;
}
