/* The parts of a run that must be alike in all processes beside its plan: its numbers, and
 * which arrays it takes over.
 *
 *    x * 3      x on a mesh of all       3 must be the same on all
 *    y * 3      y on no mesh             each process's own, and so is 3
 *
 * A number counts where something that lies on a mesh of all is made of its node. */
#include "execute/engine.h"

bool tsr__lies_with_all(const tsr_sharding *sharding)
{
  const tsr_mesh *mesh = sharding->mesh;
  return mesh && !mesh->abstract && !mesh->own;
}

static bool node_with_all(const tsr__program *program, const tsr__gnode *node)
{
  bool all = tsr__lies_with_all(&program->shardings[node->sharding]);
  for (int i = 0; i < node->result_count && !all; i++) {
    int sharding = program->results[node->first_result + i].sharding;
    all = tsr__lies_with_all(&program->shardings[sharding]);
  }
  return all;
}

/* From the last node to the first: users stand behind their operands. */
tsr_status tsr__plan_alike(tsr_runtime *rt, tsr__plan *plan, tsr__error *error)
{
  const tsr__program *program = &plan->parts.program;
  plan->alike = tsr__new(&rt->heap, (size_t)program->node_count + 1);
  if (!plan->alike) return tsr__error_set(error, TSR_ENOMEM, "no memory for a plan");
  for (int n = program->node_count - 1; n >= 0; n--) {
    const tsr__gnode *node = &program->nodes[n];
    plan->alike[n] = plan->alike[n] || node_with_all(program, node);
    TSR_FOR_OPERANDS (program, node, i, o) plan->alike[o] = plan->alike[o] || plan->alike[n];
  }
  return TSR_OK;
}

uint64_t tsr__exec_print(const tsr__exec *exec)
{
  const tsr__program *program = exec->program;
  uint64_t hash = tsr__hash(&exec->given_up, sizeof exec->given_up, exec->plan->hash);
  for (int n = 0; n < program->node_count && program->param_count; n++) {
    const tsr__gnode *node = &program->nodes[n];
    if (node->param_count && exec->plan->alike[n])
      hash = tsr__hash(&program->params[node->param],
                       (size_t)node->param_count * sizeof *program->params, hash);
  }
  return hash;
}

/* What is taken over stands behind the program: the lines before name its arrays. */
void tsr__exec_lines(const void *user, tsr__text *out)
{
  const tsr__exec *exec = user;
  tsr__program_lines(exec->program, out);
  tsr__text_add(out, "a program that reuses the memory of %d donated arrays\t%s\n",
                exec->given_up_count, tsr__site_file(exec->given_up_at));
}
