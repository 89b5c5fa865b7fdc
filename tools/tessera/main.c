/* tessera: questions about tables, from the shell. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

#define EXIT_TEXT "exit status: 0 success, 1 failure (error on stderr), 2 wrong command line"

const tool_command tool_commands[] = {
  { "query", "FILE... [OPTIONS]", "filter, join, derive, aggregate and sort the rows of files",
    "Several files are read as one table. The name of a file says whether it is CSV or JSON "
    "(lines, or one array); gzip and zstd are detected. A pattern in quotes stands for many files, "
    "- for standard input. The steps run in this order: each --join, with each --rename between "
    "them; then --where, --with and the other --rename in the order of the command line, so that a "
    "--where can use columns of a --with before it; then --select, --by and --agg, --distinct, "
    "--sort, and last one of --limit, --tail and --sample. Sums are exact, so no result or sample "
    "depends on the number of devices. 'tessera help expressions' lists the functions and "
    "operators of expressions.",
    "  tessera query weather.csv --limit 5\n"
    "  tessera query weather.csv --where 'temp > 90' --agg 'count(), max(temp)' --by origin\n"
    "  tessera query 'orders-*.csv' --join customers.csv --on 'customer = id' --sort 'total desc'\n"
    "  tessera query orders.csv --join codes.csv --on \"id = cast(code, 'i64')\" --sample 10\n"
    "  tessera query flights.csv --join airports.csv --on 'origin = faa' --suffix _origin --join "
    "airports.csv --on 'dest = faa' --suffix _dest\n"
    "  tessera query weather.csv --distinct 'origin, month' --sort month --tail 3\n"
    "  tessera query weather.csv --with 'celsius = (temp - 32) * 5 / 9' --out warm.jsonl.gz\n",
    tool_query },
  { "convert", "FILE... OUT [OPTIONS]", "convert files of one format to one file of another",
    "OUT's name gives the format: .csv, .tsv, .json (one array), .jsonl or .md, also .gz or .zst. "
    "The tool writes a temporary file in the same folder and renames it, so that no reader sees "
    "half of OUT.",
    "  tessera convert old.csv new.jsonl.zst\n"
    "  tessera convert 'part-*.csv' all.tsv\n",
    tool_convert },
  { "schema", "FILE... [OPTIONS]", "show columns of files: types, nulls, distinct values, extremes",
    "The command reads all rows; with --quick it reads a sample and prints names and types only.",
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
    "TSR_* variables give each process its index, the number of processes, the coordinator's "
    "address and a secret; tsr_initialize reads them. Each line of output begins with the index of "
    "its process. Process 0 reads the standard input unless that is a terminal. Signals are passed "
    "on to all processes. When a process fails, the tool ends the others and names it last; the "
    "exit status is the exit code of that process, or 128 and its signal.",
    "  tessera run -n 4 ./train --epochs 3\n"
    "  tessera run -n 2 --coordinator 127.0.0.1:7000 ./train\n",
    tool_run },
  { "function", "FILE [OPTIONS]", "show the arguments, results and cost of a saved function",
    "FILE is written by tsr_function_save. The command shows the types and specs of arguments and "
    "results, the number of operations, and the constants with their bytes. Nothing is run. The "
    "file is text, and may be packed.",
    "  tessera function step.tsr\n"
    "  tessera function step.tsr.gz --compile\n",
    tool_function },
  { "bench", "collectives [OPTIONS]", "measure the collectives between devices",
    "The devices are those of one process, or under 'tessera run' of several processes. Each line "
    "shows the bytes on one device, the number of elements, their type, the reduction, the time of "
    "a call, size by time in GB/s (algbw), the bandwidth of a bus between two devices (busbw: "
    "algbw times 2 (n - 1) / n for an all_reduce, else times (n - 1) / n), and the speed as a "
    "share "
    "of copying as many bytes as all devices read and write.",
    "  tessera bench collectives --devices cpu:4 --max 64M\n"
    "  tessera run -n 4 tessera bench collectives --only all_reduce --json\n",
    tool_bench },
  { "ckpt", "ls|verify PATH [--json]", "list a checkpoint or verify its checksums",
    "PATH is the folder of a step, or a folder of steps, of which the newest is opened. ls lists "
    "arrays with types, specs and meshes, and blobs, without reading data. verify reads all data "
    "and compares the checksums; it names the first that differs and exits with status 1.",
    "  tessera ckpt ls ckpt\n"
    "  tessera ckpt verify ckpt/step_12\n",
    tool_ckpt },
  { "pipeline", "FILE... [OPTIONS]", "show the fields of record files and measure their reading",
    "Files are .npz, .npy, .safetensors, .tfrecord, .bin (records of fixed size), .txt (lines), "
    ".tar (WebDataset samples), folders with one folder a class, .csv, .tsv or .jsonl; several "
    "files are read as one source. A pattern in quotes stands for many files. The command shows "
    "the fields of a record with their types and a sample record, the number of records, and the "
    "time to read all of them once in batches, as training steps would. CSV and JSON files are "
    "read whole when they are opened, other formats during the measurement. The command lists "
    "records that cannot be read, reads the others, and then exits with status 1.",
    "  tessera pipeline train.npz --batch-size 128 --devices cpu:8\n"
    "  tessera pipeline 'data_batch_*.bin' --layout 'label u8, image u8[3,32,32]' --shuffle\n"
    "  tessera pipeline 'train-*.tfrecord' --layout 'image u8[784], label i64' --json\n",
    tool_pipeline },
  { "info", "[--devices cpu:N]", "show the version, instruction set and devices", "", "",
    tool_info },
  { "version", "", "show the version and the plugins, found or missing",
    "A plugin is built if its Debian packages are installed. The library looks for plugins in the "
    "folders of TSR_PLUGIN_PATH, else in its own folder. tessera --version prints the version "
    "only.",
    "  tessera version\n", tool_version },
  { "completion", "bash|zsh|fish", "print a completion script for a shell",
    "The shell can source the script.", "  source <(tessera completion bash)\n", tool_completion },
  { "man", "", "print the manual page, as mdoc", "", "  tessera man | mandoc -l\n", tool_man },
};
const int tool_command_count = (int)(sizeof tool_commands / sizeof *tool_commands);

/* ---- help ---- */

/* Prints text in lines of 78 characters, the first from `column` on, the others from `indent`. */
static void print_wrapped(const char *text, int column, int indent, FILE *out)
{
  for (bool first = true; *text; first = false) {
    int word = (int)strcspn(text, " ");
    /* A word longer than a line gets a line of its own. */
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
  fprintf(out, "\ntessera COMMAND --help shows the options of a command, with examples.\n"
               "tessera help expressions lists the functions and operators of expressions.\n");
}

/* ---- runtimes ---- */

tsr_runtime *tool_open(const tool_args *args)
{
  const char *devices = tool_value(args, OPT_DEVICES);
  tsr_runtime_opts opts = { .size = sizeof opts, .progress = tool_progress };
  /* With TSR_LOG the library prints all its lines unchanged. */
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

/* Flushes the result: one that cannot be written, as on a full disk, is a failure. */
static int finish(int code)
{
  /* The progress line is wiped first, or it would stand in the result. */
  tool_progress_end();
  if (code != TOOL_OK) tool_interrupted_end();
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

/* Prints that there is no such command, with the nearest one. Returns TOOL_USAGE. */
static int unknown(const char *name)
{
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
  /* "expr", "expression" and misspelled words count too. */
  else if (tool_nearest(topic, "expressions", &(const char *){ NULL }))
    tool_print_expressions(stdout);
  else return unknown(topic);
  return TOOL_OK;
}

int main(int argc, char **argv)
{
  const char *name = argc > 1 ? argv[1] : "";
  /* First of all: signal handlers need the state of the progress line. */
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
