/* Trees are walked depth first, in the order of their parts.
 *
 *   tree ── w            leaves   w, x, y
 *        └─ b ── x
 *             └─ y */
#include "graph/leaves.h"

int tsr__leaf_count(const tsr_array *tree)
{
  int count = 0;
  if (!tsr__is_tree(tree)) return tree ? 1 : 0;
  for (int i = 0; i < tree->in_count; i++) count += tsr__leaf_count(tree->in[i]);
  return count;
}

int tsr__leaves_write(tsr_array *tree, tsr_array **out, int room)
{
  int count = 0;
  if (!tsr__is_tree(tree)) {
    if (tree && room > 0) out[0] = tree;
    return tree ? 1 : 0;
  }
  for (int i = 0; i < tree->in_count; i++) {
    int at = count < room ? count : room;
    count += tsr__leaves_write(tree->in[i], out + at, room - at);
  }
  return count;
}

bool tsr__leaves_of(tsr__arena *arena, tsr_array *tree, tsr__leaves *out)
{
  if (tree && !tsr__is_tree(tree) && out->count < out->room) {
    out->at[out->count++] = tree;
    return true;
  }
  int more = tsr__leaf_count(tree), need = out->count + more;
  if (need > out->room) {
    int room = need < 2 * out->room ? 2 * out->room : need;
    tsr_array **grown = tsr__arena_new(arena, (size_t)room * sizeof *grown);
    if (!grown) return false;
    if (out->count) memcpy(grown, out->at, (size_t)out->count * sizeof *grown);
    out->at = grown;
    out->room = room;
  }
  tsr__leaves_write(tree, out->at + out->count, more);
  out->count = need;
  return true;
}
