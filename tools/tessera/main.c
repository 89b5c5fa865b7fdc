/* tessera: questions about tables, from the shell. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

#define EXIT_TEXT "exit status: 0 done, 1 failed (the message is on stderr), 2 wrong command line"

const tool_command tool_commands[] = {
  { "query", "FILE... [OPTIONS]", "filter, join, derive, aggregate and sort the rows of files",
    "Several files are one table. A file is CSV or JSON (lines, or one array) by its name, gzip "
    "and zstd are "
    "seen; a pattern in quotes stands for many, - for standard input. The steps are: each --join, "
    "--rename where it stands between them, "
    "then --where, --with and other --rename in the order in which they stand on the command line, "
    "so "
    "that --where sees what a --with before it made; then, wherever they stand, --select, --by "
    "and --agg, --distinct, --sort, and last one of --limit, --tail and --sample. "
    "Sums are exact: the "
    "result does not depend on the number of devices, nor does a sample. "
    "'tessera help expressions' lists what expressions are made of.",
    "  tessera query weather.csv --limit 5\n"
    "  tessera query weather.csv --where 'temp > 90' --agg 'count(), max(temp)' --by origin\n"
    "  tessera query 'orders-*.csv' --join customers.csv --on 'customer = id' --sort 'total desc'\n"
    "  tessera query orders.csv --join codes.csv --on \"id = cast(code, 'i64')\" --sample 10\n"
    "  tessera query flights.csv --join airports.csv --on 'origin = faa' --suffix _origin --join "
    "airports.csv --on 'dest = faa' --suffix _dest\n"
    "  tessera query weather.csv --distinct 'origin, month' --sort month --tail 3\n"
    "  tessera query weather.csv --with 'celsius = (temp - 32) * 5 / 9' --out warm.jsonl.gz\n",
    tool_query },
  { "convert", "FILE... OUT [OPTIONS]", "write files of one format as one file of another",
    "OUT's name says the format: .csv, .tsv, .json (one array), .jsonl or .md, also .gz or .zst. "
    "It is written beside "
    "its place and then renamed, so that nobody sees half of it.",
    "  tessera convert old.csv new.jsonl.zst\n"
    "  tessera convert 'part-*.csv' all.tsv\n",
    tool_convert },
  { "schema", "FILE... [OPTIONS]", "the columns of files: types, nulls, distinct values, extremes",
    "Reads all rows; --quick looks at a sample of them and prints names and types only.",
    "  tessera schema weather.csv\n", tool_schema },
  { "shard", "TYPE MESH [OPTIONS]", "draw which device holds which part of an array",
    "TYPE is an element type, a shape and a spec: an axis, several joined by '+', or '-' for each "
    "dim. MESH names axes with their sizes. Nothing is allocated: any number of devices can be "
    "drawn. With --svg an SVG document is printed, without the lines of sizes.",
    "  tessera shard 'f32[8192,1024]@(data,model)' data=4,model=2\n"
    "  tessera shard 'bf16[33,512]@(-,x+y)' x=2,y=4 --width 60\n"
    "  tessera shard 'f32[8,8]@(x,y)' x=4,y=2 --svg > blocks.svg\n",
    tool_shard },
  { "run", "-n N [OPTIONS] PROGRAM [ARGUMENTS]", "start several processes of one program",
    "Each is told its number, how many there are, where to meet and a secret, by TSR_* variables "
    "that tsr_initialize reads. What they print has their number in front; process 0 gets the "
    "standard input unless that is a terminal. Signals are passed on. When one fails the others "
    "are ended, and it is named last; its exit code is that of the command, or 128 and its signal.",
    "  tessera run -n 4 ./train --epochs 3\n"
    "  tessera run -n 2 --coordinator 127.0.0.1:7000 ./train\n",
    tool_run },
  { "function", "FILE [OPTIONS]", "what a saved function takes, gives and costs",
    "FILE is one of tsr_function_save. Shown are the types and specs of arguments and results, how "
    "many operations there are, and what it took from outside with its bytes. Nothing is run. "
    "The file itself is text, which may be packed.",
    "  tessera function step.tsr\n"
    "  tessera function step.tsr.gz --compile\n",
    tool_function },
  { "bench", "collectives [OPTIONS]", "what collectives take between devices",
    "Devices are those of one process, or of several under 'tessera run'. Each line has a size in "
    "bytes at one place, its elements, their type, what is reduced, the time of a call, size by "
    "time in GB/s (algbw), what of that a bus between two places would carry (busbw: 2 (n - 1) / n "
    "of it for an all_reduce, else (n - 1) / n), and the share of the speed of copying as many "
    "bytes as all places read and write.",
    "  tessera bench collectives --devices cpu:4 --max 64M\n"
    "  tessera run -n 4 tessera bench collectives --only all_reduce --json\n",
    tool_bench },
  { "ckpt", "ls|verify PATH [--json]", "what a checkpoint has; whether it is as it was saved",
    "PATH is a folder of steps, of which the newest is taken, or the folder of a step. ls lists "
    "its "
    "arrays with types, specs and meshes, and other bytes; no data is read. verify reads all of it "
    "and compares the checksums; the first that differs is named, and the exit status is 1.",
    "  tessera ckpt ls ckpt\n"
    "  tessera ckpt verify ckpt/step_12\n",
    tool_ckpt },
  { "pipeline", "FILE... [OPTIONS]", "what records files have, and how fast they are read",
    "Files are .npz, .npy, .safetensors, .tfrecord, .bin (records of fixed size), .txt (lines), "
    ".tar (samples as "
    "of WebDataset), folders whose folders are classes, .csv, .tsv or .jsonl; several "
    "are one. A pattern in quotes stands for many. Shown are the fields of a record with their "
    "types and a record, how many there are, and what it took to read all of them in batches once, "
    "as a step of training would get them: the CSV and JSON formats are read whole when they are "
    "opened, others while it is measured. Records that cannot be read are told, the others "
    "still are read; the exit status is 1 then.",
    "  tessera pipeline train.npz --batch-size 128 --devices cpu:8\n"
    "  tessera pipeline 'data_batch_*.bin' --layout 'label u8, image u8[3,32,32]' --shuffle\n"
    "  tessera pipeline 'train-*.tfrecord' --layout 'image u8[784], label i64' --json\n",
    tool_pipeline },
  { "info", "[--devices cpu:N]", "the version, instruction set and devices", "", "", tool_info },
  { "version", "", "the version and the plugins, found or missing",
    "A plugin is built where its Debian packages are installed. It is looked for in the folders of "
    "TSR_PLUGIN_PATH, else beside the library. tessera --version prints the version alone.",
    "  tessera version\n", tool_version },
  { "completion", "bash|zsh|fish", "a completion script for a shell",
    "Prints a script that the shell can source.", "  source <(tessera completion bash)\n",
    tool_completion },
  { "man", "", "the manual page, as mdoc", "", "  tessera man | mandoc -l\n", tool_man },
};
const int tool_command_count = (int)(sizeof tool_commands / sizeof *tool_commands);

/* ---- help ---- */

/* Prints text in lines of 78 characters, from `column` on, the further ones from `indent` on. */
static void print_wrapped(const char *text, int column, int indent, FILE *out)
{
  for (bool first = true; *text; first = false) {
    int word = (int)strcspn(text, " ");
    /* A word longer than a line stands alone on one. */
    if (first) {
      column += fprintf(out, "%.*s", word, text);
    } else if (column + 1 + word > 78) {
      /* fprintf counts the newline, which takes no column. */
      column = fprintf(out, "\n%*s%.*s", indent, "", word, text) - 1;
    } else {
      column += fprintf(out, " %.*s", word, text);
    }
    text += word + (text[word] == ' ');
  }
  fputc('\n', out);
}

static void print_help(const tool_command *c, FILE *out)
{
  fprintf(out, "usage: tessera %s%s%s\n\n%c%s.\n\n", c->name, *c->usage ? " " : "", c->usage,
          (char)(c->summary[0] - 'a' + 'A'), c->summary + 1);
  for (int i = 0; i < OPT_COUNT; i++) {
    const tool_option *o = &tool_options[i];
    char left[64], right[300];
    if (!tool_takes(c->name, (tool_opt)i)) continue;
    snprintf(left, sizeof left, "%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
    snprintf(right, sizeof right, "%s%s", o->help, o->repeated ? " (may be repeated)" : "");
    print_wrapped(right, fprintf(out, "  %-20s ", left), 23, out);
    if (o->choices) print_wrapped(o->choices, fprintf(out, "  %-20s one of: ", ""), 23, out);
  }
  if (*c->text) fputc('\n', out);
  if (*c->text) print_wrapped(c->text, 0, 0, out);
  if (*c->examples) fprintf(out, "\nexamples:\n%s", c->examples);
  fprintf(out, "\n%s\n", EXIT_TEXT);
}

static void print_general(FILE *out)
{
  fprintf(out, "usage: tessera COMMAND [ARGUMENTS]\n\n");
  for (int i = 0; i < tool_command_count; i++)
    fprintf(out, "  %-12s %s\n", tool_commands[i].name, tool_commands[i].summary);
  fprintf(out, "\ntessera COMMAND --help tells more, with examples.\n"
               "tessera help expressions lists the functions and signs of expressions.\n");
}

/* ---- runtimes ---- */

tsr_runtime *tool_open(const tool_args *args)
{
  const char *devices = tool_value(args, OPT_DEVICES);
  tsr_runtime_opts opts = { .size = sizeof opts, .progress = tool_progress };
  /* Who sets it wants to see all lines as they are. */
  if (!getenv("TSR_LOG")) opts.log = tool_log;
  tsr_runtime *rt = tsr_runtime_open_with(devices ? devices : "cpu:1", &opts);
  if (tsr_runtime_status(rt) == TSR_OK) return rt;
  const char *message = tsr_runtime_message(rt), *end = strstr(message, ": ");
  /* The option is named instead of the call. */
  fputs("tessera: --devices: ", stderr);
  tool_put_words(stderr, strncmp(message, "tsr_", 4) == 0 && end ? end + 2 : message);
  fputc('\n', stderr);
  tsr_runtime_close(rt);
  return NULL;
}

/* ---- main ---- */

/* What was asked for is lost if it cannot be written: a full disk is a failure. */
static int finish(int code)
{
  /* The line of progress before the result, or it would stand in it. */
  tool_progress_end();
  if (code != TOOL_OK) tool_interrupted_end();
  /* stdout is only sure to be written when it was flushed; until then nothing has failed. */
  if (fflush(stdout) == 0 && !ferror(stdout)) return code;
  perror("tessera: writing the result");
  return TOOL_FAILED;
}

static int run(const tool_command *c, int argc, char **argv)
{
  tool_args args;
  if (!tool_parse(c->name, argc, argv, &args)) return TOOL_USAGE;
  if (args.count[OPT_HELP]) {
    print_help(c, stdout);
    return TOOL_OK;
  }
  return c->run(&args);
}

static const tool_command *find_command(const char *name)
{
  for (int i = 0; i < tool_command_count; i++)
    if (strcmp(name, tool_commands[i].name) == 0) return &tool_commands[i];
  return NULL;
}

static int unknown(const char *name)
{
  /* A command that is nearly right is named before the list of all. */
  const char *best = NULL;
  for (int i = 0; i < tool_command_count; i++) tool_nearest(name, tool_commands[i].name, &best);
  if (*name)
    fprintf(stderr, "tessera: there is no command '%s'%s%s%s\n", name,
            best ? "; did you mean '" : "", best ? best : "", best ? "'?" : "");
  print_general(stderr);
  return TOOL_USAGE;
}

static int help(const char *topic)
{
  const tool_command *c = find_command(topic);
  if (c) print_help(c, stdout);
  else if (!*topic) print_general(stdout);
  /* "expression", "expr" and typing errors, too. */
  else if (tool_nearest(topic, "expressions", &(const char *){ NULL }))
    tool_print_expressions(stdout);
  else return unknown(topic);
  return TOOL_OK;
}

int main(int argc, char **argv)
{
  const char *name = argc > 1 ? argv[1] : "";
  /* Before anything else: signals are to find the line's state set up. */
  tool_progress_open();
  if (strcmp(name, "--version") == 0) {
    printf("tessera %s\n", tsr_version());
    return finish(TOOL_OK);
  }
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
    return finish(help(argc > 2 ? argv[2] : ""));
  const tool_command *c = find_command(name);
  return c ? finish(run(c, argc - 2, argv + 2)) : unknown(name);
}
